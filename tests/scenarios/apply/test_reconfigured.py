"""The configuration file changes while its apply runs."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sluice.apply import apply_loop
from sluice.apply.apply_loop import ApplyLoop, keep_applying
from sluice.coordination import redis_store
from sluice.coordination.lease import LeaseHeld
from sluice.coordination.records import Status
from sluice.executor import ThreadExecutor
from sluice.model.checkpoint import Fenced
from tests.rig.rig import Rig
from tests.waiting import until

TABLE = "CREATE TABLE public.t (id int PRIMARY KEY, a text)"


@contextmanager
def applying(pair: Rig) -> Iterator[threading.Thread]:
    """Runs the apply as the job does, with this rig's connections."""
    stop = threading.Event()
    connections = {"m": pair.pair.master_info, "s": pair.pair.slave_info}

    def run() -> None:
        try:
            keep_applying(pair.pair, connections, redis_store.connect(pair.redis_url), ThreadExecutor(2), stop)
        except BaseException as error:
            pair.failure = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive(), "the apply did not stop"


def edit(pair: Rig, old: str, new: str) -> None:
    source = pair.pair.replication.source
    text = source.read_text()
    assert old in text
    source.write_text(text.replace(old, new))


def status(pair: Rig) -> Status:
    return Status(redis_store.connect(pair.redis_url), pair.pair.prefix, "dr1")


def strict(pair: Rig, epoch: int) -> bool:
    """Whether an apply of a later epoch is in normal mode. Between two applies there is no status."""
    said = status(pair).read()
    return said.get("epoch", 0) > epoch and str(said["safe_mode"]).startswith("off")  # type: ignore[operator]


def test_a_new_policy_is_in_force_without_a_restart(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE, policy="stop")
    pair.master.execute("INSERT INTO public.t SELECT g, 'a' FROM generate_series(1, 3) g")
    with applying(pair):
        pair.await_current()
        epoch = pair.checkpoint.epoch
        edit(pair, "on_conflict: stop", "on_conflict: reject")
        pair.await_that(lambda: strict(pair, epoch))
        pair.slave.execute("UPDATE public.t SET a = 'mine' WHERE id = 1")
        pair.master.execute("UPDATE public.t SET a = 'b'")
        pair.await_current()
    assert pair.rows(pair.slave, pair.tables(pair.slave)[0]) == ["(1,mine)", "(2,b)", "(3,b)"]
    assert pair.slave.execute("SELECT count(*) FROM public.demo_rejects").fetchone() == (1,)


@pytest.mark.long
def test_nothing_is_lost_while_the_file_changes_again_and_again(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE)
    with applying(pair):
        pair.await_current()
        for turn in range(3):
            epoch, former = pair.checkpoint.epoch, f"lease: {2.0 + turn}"
            edit(pair, former, f"lease: {3.0 + turn}")
            row = 0
            while pair.checkpoint.epoch == epoch:  # traffic until the new one has taken over
                row += 1
                pair.master.execute("INSERT INTO public.t VALUES (%s, 'x')", [turn * 100_000 + row])
                pair.await_that(lambda: True)
        pair.await_current()
    assert pair.differences() == {}


@pytest.mark.long
def test_unrelated_changes_of_the_file_do_not_restart_the_apply(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE)
    with applying(pair):
        pair.await_current()
        epoch = pair.checkpoint.epoch
        source = pair.pair.replication.source
        source.write_text(f"{source.read_text()}\nverify: {{schedule: weekly}}\n")
        edit(pair, "schedule: weekly", "schedules: weekly")  # the mistake shows that the file was read
        pair.await_that(lambda: "schedules" in str(status(pair).read().get("configuration")))
        edit(pair, "schedules: weekly", "schedule: never")
        pair.await_that(lambda: status(pair).read().get("configuration") == "")
        assert pair.checkpoint.epoch == epoch


@pytest.mark.long
def test_a_broken_file_changes_nothing_and_is_reported(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE)
    with applying(pair):
        pair.await_current()
        epoch = pair.checkpoint.epoch
        edit(pair, "on_conflict: stop", "on_conflict: stopp")
        pair.await_that(lambda: "DEMO.yaml" in str(status(pair).read().get("configuration")))
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
        pair.await_current()
        assert (pair.checkpoint.epoch, pair.differences()) == (epoch, {})
        edit(pair, "on_conflict: stopp", "on_conflict: reject")
        pair.await_that(lambda: pair.checkpoint.epoch > epoch)
        pair.await_that(lambda: status(pair).read().get("configuration") == "")


def test_another_connection_ends_the_job_so_that_it_starts_again_with_it(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE)
    with applying(pair) as thread:
        pair.await_current()
        edit(pair, "conn_id: s\n", "conn_id: elsewhere\n")
        pair.await_that(lambda: not thread.is_alive())
    assert pair.failure is None


KEYLESS = f"{TABLE}; CREATE TABLE public.counted (n int)"
"""A change of the second that is applied twice, or not at all, is seen."""


def edited_again_and_again(pair: Rig, turns: int, running: Callable[[], bool]) -> None:
    """Changes the file again and again under traffic, each time until a new apply has taken over."""
    for turn in range(turns):
        epoch, row = pair.checkpoint.epoch, 0
        edit(pair, f"lease: {2.0 + turn}", f"lease: {3.0 + turn}")
        while pair.checkpoint.epoch == epoch:
            row += 1
            pair.master.execute("INSERT INTO public.t VALUES (%s, 'x')", [turn * 100_000 + row])
            pair.master.execute("INSERT INTO public.counted VALUES (%s), (%s)", [turn, turn])
            pair.master.execute("DELETE FROM public.counted WHERE ctid = (SELECT min(ctid) FROM public.counted)")
            assert running()


@pytest.mark.long
def test_only_one_of_two_applies_works_when_the_file_changes(rig: Callable[..., Rig]) -> None:
    pair = rig(KEYLESS)
    with applying(pair) as one:
        pair.await_current()
        with applying(pair) as other:
            edited_again_and_again(pair, 4, lambda: one.is_alive() or other.is_alive())
            until(lambda: not (one.is_alive() and other.is_alive()))
            until(lambda: not pair.differences())
            assert one.is_alive() or other.is_alive()
    assert isinstance(pair.failure, LeaseHeld | Fenced)
    assert pair.differences() == {}


@pytest.mark.long
def test_an_apply_that_waited_takes_over_while_the_other_begins_anew(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = rig(KEYLESS)
    made: list[ApplyLoop] = []
    taken = threading.Event()

    def second_in_line(*arguments: Any, **options: Any) -> ApplyLoop:
        made.append(ApplyLoop(*arguments, **options))
        if len(made) == 2:  # its lease is given back
            assert taken.wait(60)
        return made[-1]

    monkeypatch.setattr(apply_loop, "ApplyLoop", second_in_line)
    with applying(pair) as one:
        pair.await_current()
        epoch = pair.checkpoint.epoch
        waiting = pair.apply()
        waiting.loop._reread_at = math.inf
        with waiting:
            edit(pair, "lease: 2.0", "lease: 3.0")
            pair.master.execute("INSERT INTO public.counted SELECT generate_series(1, 100)")
            until(lambda: pair.checkpoint.epoch > epoch)
            taken.set()
            until(lambda: not one.is_alive())
            assert isinstance(pair.failure, LeaseHeld)
            pair.failure = None
            pair.master.execute("DELETE FROM public.counted WHERE n > 50")
            pair.await_current()
            assert pair.checkpoint.epoch == epoch + 1
    assert pair.differences() == {}
