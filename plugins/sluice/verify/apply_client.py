"""Sends requests to the apply of a slave (`sluice.apply.request_handler`), and explains why it does not answer."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from redis import Redis

from sluice.control.checkpoint import CheckpointStore
from sluice.coordination import lease
from sluice.coordination.gate import ERROR, Gate
from sluice.coordination.requests import Requests
from sluice.database.registry import reach
from sluice.errors import SluiceError, Transient
from sluice.model.requests import Refused, Request, T, parse_answer
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair

WAIT_SECONDS = 60.0
"""How long to wait for an answer."""
GATE_SECONDS = 5.0
"""After so long without an answer a closed gate ends the wait: nothing is answered until somebody opens it."""
LOOK_SECONDS = 0.01


@contextmanager
def ask_apply(
    pair: Pair, store: "Redis", request: Request, read: Callable[[Mapping[str, object]], T]
) -> Iterator[T | Refused]:
    """The apply's answer to a request, parsed by `read`. The apply keeps exported snapshots until the block ends.

    Raises `apply-does-not-answer`, `unknown-request`, `StoreUnreachable`, and errors of connecting.
    """
    requests, gate = Requests(store, pair.prefix, pair.slave.name), Gate(store, pair.prefix, pair.slave.name)
    name = requests.ask(request, WAIT_SECONDS)
    try:
        begun = looked = time.monotonic()
        while (answer := requests.answered(name)) is None:
            now, closed = time.monotonic(), False
            if now > looked + GATE_SECONDS:
                closed, looked = bool(gate.closures()), now
            if closed or now > begun + WAIT_SECONDS:
                raise Transient(
                    f"{pair}: the apply did not answer within {now - begun:.0f} s: {why_silent(pair, store)}",
                    code="apply-does-not-answer",
                )
            time.sleep(LOOK_SECONDS)
        yield parse_answer(answer, read)
    finally:
        with suppress(SluiceError):  # otherwise it expires
            requests.withdraw(name)


def why_silent(pair: Pair, store: "Redis") -> str:
    """Explains why the apply does not answer."""
    prefix, slave, info = pair.prefix, pair.slave, pair.slave_info
    closures = Gate(store, prefix, slave.name).closures()
    stopped = [closure.with_remedy for closure in closures if closure.name == ERROR]
    if stopped:
        return f"it has stopped: {stopped[0]} When it applies again and safe mode is off, start the DAG resync."
    if closures:
        return "the gate is closed: " + "; ".join(map(str, closures)) + ". When it is open again, start the DAG resync."
    with reach(info, f"{pair.application} verify") as session:
        checkpoint = CheckpointStore.of(pair, session).read()
    if checkpoint is None:
        return f"the slave is {SlaveState.UNCONFIGURED}. Start an initial update."
    if checkpoint.state is not SlaveState.NORMAL:
        return f"the slave is {checkpoint.state}: {checkpoint.message or 'await its end'}"
    if lease.holder(store, lease.key(prefix, slave.name)) is None:
        return "it is not running. Start the DAG cdc_apply."
    if checkpoint.catching_up:
        return "the slave is CATCHING_UP with a large window."
    return "it is busy with a large window, or in safe mode after a crash."
