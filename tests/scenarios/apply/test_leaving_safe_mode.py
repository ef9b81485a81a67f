"""The end of safe mode: first the exit point is deleted, durably; status and log report it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack.postgres import PostgresServer
from sluice.model.checkpoint import Checkpoint
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import connect
from tests.rig.rig import Rig
from tests.standby import servers

TABLE = "CREATE TABLE public.t (id int PRIMARY KEY, v text)"
OFF = "safe mode is off, changes must match the slave's rows from now on"
LOCK = 7_001


@pytest.fixture
def slave() -> Iterator[PostgresServer]:
    """A server on which commits of the apply's account are flushed as late as PostgreSQL can."""
    with servers() as make:
        server = make("slave")
        server.start(die_with_parent=True)
        with server.connect() as admin:
            admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
            admin.execute("ALTER SYSTEM SET wal_writer_flush_after = '1GB'")
            admin.execute("SELECT pg_reload_conf()")
            admin.execute("ALTER ROLE postgres SET synchronous_commit = off")
        yield server


@pytest.fixture(params=["slave", "redis"])
def careless(
    request: pytest.FixtureRequest,
    slave: PostgresServer,
    database: Callable[..., ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Rig]:
    """A pair on that server, with an exit point that is passed already."""
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    places = iter([database(), slave.info()])
    pair = Rig.normal(lambda **_: next(places), redis_url, tmp_path, TABLE, kept=request.param)
    leave_exit_point(pair)
    pair.slave.execute("CHECKPOINT")
    yield pair
    pair.close()


def leave_exit_point(pair: Rig) -> None:
    pair.checkpoints.note(pair.checkpoint, "drift", pair.checkpoint.position)
    assert pair.checkpoint.safemode_exit is not None


@pytest.mark.one_in(4)
@pytest.mark.parametrize("what", ["claim", "clear_exit"])
def test_a_crash_right_after_it_keeps_the_epoch_and_the_end_of_safe_mode(
    careless: Rig, slave: PostgresServer, what: str
) -> None:
    written: list[Checkpoint] = []
    applying = careless.apply()
    real = getattr(applying.loop.checkpoints, what)

    def then_crash(*arguments: Any) -> Checkpoint:
        written.append(real(*arguments))
        slave.kill()
        applying.stop.set()
        return written[0]

    setattr(applying.loop.checkpoints, what, then_crash)
    with applying:
        applying.thread.join(timeout=30)
    slave.start(die_with_parent=True)
    careless.slave.close()
    careless.slave = connect(slave.info(), application="test", autocommit=True)
    (mine,) = written
    assert mine.epoch == 1
    assert careless.checkpoint.epoch == mine.epoch
    assert careless.checkpoint.safemode_exit == mine.safemode_exit
    assert (mine.safemode_exit is None) == (what == "clear_exit")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kept", ["slave", "redis"])
def test_the_mode_is_on_while_the_exit_point_goes(
    rig: Callable[..., Rig], kept: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The deletion of the exit point waits for a lock, its session is killed; then the lock is released."""
    caplog.set_level("INFO", "sluice.apply")
    pair = rig(TABLE, kept=kept)
    leave_exit_point(pair)
    pair.slave.execute(
        f"""
        CREATE FUNCTION public.hold_up() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_advisory_xact_lock({LOCK}); RETURN NEW; END $$;
        CREATE TRIGGER hold_up BEFORE UPDATE ON public.demo_checkpoint FOR EACH ROW
        WHEN (OLD.safemode_exit IS NOT NULL AND NEW.safemode_exit IS NULL) EXECUTE FUNCTION public.hold_up();
        ALTER TABLE public.demo_checkpoint ENABLE ALWAYS TRIGGER hold_up
        """.encode()
    )
    pair.slave.execute("SELECT pg_advisory_lock(%s)", [LOCK])
    with pair.apply() as running:
        for epoch in (1, 2):
            pair.await_that(lambda: bool(held_up(pair)))
            assert pair.checkpoint.epoch == epoch
            assert running.loop.mode.on
            assert OFF not in caplog.text
            assert pair.checkpoint.safemode_exit is not None
            if epoch == 1:
                pair.slave.execute("SELECT pg_terminate_backend(%s)", held_up(pair))
                pair.await_that(lambda: pair.checkpoint.epoch == 2)
        pair.slave.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
        pair.await_that(lambda: running.in_normal_mode)
        assert pair.checkpoint.safemode_exit is None
        pair.await_that(lambda: OFF in caplog.text)


def held_up(pair: Rig) -> list[int]:
    """The session that waits to delete the exit point."""
    rows = pair.slave.execute(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        [LOCK],
    )
    return [pid for (pid,) in rows]


class Killed(BaseException):
    pass


def test_killed_between_clearing_the_exit_point_and_leaving(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLE, interval=60.0)
    leave_exit_point(pair)
    applying = pair.apply()
    loop = applying.loop
    real = loop.checkpoints.clear_exit

    def then_die(before: Checkpoint) -> Checkpoint:
        real(before)
        raise Killed

    loop.checkpoints.clear_exit = then_die  # type: ignore[method-assign]
    with applying, pytest.raises(Killed):
        pair.await_that(lambda: False)
    assert loop.mode.reason == "exit point"
    assert pair.checkpoint.safemode_exit is None
    pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
    pair.slave.execute("INSERT INTO public.t VALUES (1, 'applied before')")
    with pair.apply() as running:
        pair.await_current()
        assert running.loop.mode.reason == "started"
        assert pair.differences() == {}


def test_log_and_status_show_reason_and_end_of_safe_mode(
    rig: Callable[..., Rig], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sluice.apply")
    pair = rig(TABLE, interval=1.0)
    with pair.apply() as running:
        said: list[str] = []

        def says(words: str) -> bool:
            said.append(str(running.loop.report.status.read().get("safe_mode")))
            return said[-1].startswith(words)

        pair.await_that(lambda: says("on after the start, for "))
        assert "s more and until everything up to 20" in said[-1]
        assert "safe mode on after the start, for 2 s more and until everything up to 20" in caplog.text
        assert OFF not in caplog.text
        pair.await_that(lambda: says("off"))
        assert OFF in caplog.text
