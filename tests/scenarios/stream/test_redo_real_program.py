"""What the real OpenLogReplicator 1.9.0 reports as left out of a real log, and how it continues from there."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.redo import checkpoints
from tests.scenarios.stream.test_redo_supervisor import Capture
from tests.unit import redo_vectors
from tests.waiting import until

THREAD = "1224959854_1"
GROUP = 579 * 512
"""Where in the first log the group of redo records is that has the one transaction: its begin, insert and commit."""
BEGIN, COMMIT = bytes.fromhex("050223001700ffff"), bytes.fromhex("050423001700ffff")
"""How their change vectors begin."""
UNKNOWN = 0x63
"""No change vector that anybody reads."""


def without(log: bytes, *vectors: bytes) -> bytes:
    """The log with such change vectors made unknown, and with valid checksums."""
    made = bytearray(log)
    for vector in vectors:
        at = made.index(vector, GROUP) + 1
        change = made[at] ^ UNKNOWN
        made[at] ^= change
        made[at // 512 * 512 + 14 + at % 2] ^= change
    return bytes(made)


@pytest.fixture
def real(tmp_path: Path, redis_url: str) -> Iterator[Capture]:
    """`SLUICE_TEST_OLR` names OpenLogReplicator 1.9.0."""
    program = os.environ.get("SLUICE_TEST_OLR")
    if not program:
        pytest.skip("SLUICE_TEST_OLR names no OpenLogReplicator 1.9.0")
    made = Capture(tmp_path, redis_url, threads="1")
    made.program = Path(program)
    shutil.copy(redo_vectors.required() / "redo" / "TEST-chkpt-2266634.json", made.root / "TEST-chkpt-60.json")
    yield made
    for process in made.running:
        process.terminate()
    for process in made.running:
        process.wait(60)


def bring(made: Capture, sequence: int, change: Callable[[bytes], bytes] = bytes) -> None:
    """Copies a real log into the master's folder, changed."""
    logs = made.location / "logs" / THREAD / "day"
    logs.mkdir(parents=True, exist_ok=True)
    whole = (redo_vectors.required() / "redo" / f"arch1_{sequence}_1224959854.dbf").read_bytes()
    hidden = logs / f".{sequence}"
    hidden.write_bytes(change(whole))
    hidden.rename(logs / f"1_{sequence}_1224959854.arc")


def read_on(made: Capture, scn: int) -> Callable[[], bool]:
    return lambda: bool((status := made.thread(1)) and status.scn >= scn)


def test_a_transaction_whose_beginning_was_not_read_is_left_out_and_told(real: Capture) -> None:
    bring(real, 15, lambda log: without(log, BEGIN))
    real.start()
    until(read_on(real, 2_267_714))
    until(lambda: bool((thread := real.thread(1)) and "left out 1 transaction" in thread.left_out))
    kept = json.loads((real.location / "threads" / THREAD / "left_out.json").read_text())
    assert (kept["transactions"], kept["scn"], kept["certain"], kept["xid"]) == (1, 2_267_707, 2_267_707, "10.12.572")
    assert real.keys() == []


def test_a_whole_log_has_nothing_that_is_left_out(real: Capture) -> None:
    """When capture began in it, no transaction of the tables ran."""
    bring(real, 15)
    bring(real, 16)
    real.start()
    until(read_on(real, 2_267_720))
    until(lambda: real.keys() == ["1"])
    assert (real.thread(1) or pytest.fail("no status")).left_out == ""


def test_a_program_goes_on_where_a_transaction_is_open_whose_beginning_was_not_read(real: Capture) -> None:
    """The program has no place for it; the supervisor knows which log was the first."""
    bring(real, 15, lambda log: without(log, BEGIN, COMMIT))
    first = real.start()
    until(read_on(real, 2_267_714))
    first.terminate()
    assert first.wait(60) == 0
    state = real.root / "work" / THREAD / "state"

    def open_since() -> set[int]:
        found = checkpoints.read_folder(state).values()
        return {int(values["min-tran"]["seq"]) for values in found if "min-tran" in values}

    assert open_since() == {0}
    real.start()
    bring(real, 16)
    until(read_on(real, 2_267_720))
    assert 15 in open_since()
    assert real.keys() == []

    def stored() -> list[int]:
        found = map(json.loads, real.state.stored(THREAD).values())
        return [values["min-tran"]["seq"] for values in found if "min-tran" in values]

    until(lambda: stored() == [15])  # Also on another machine.
