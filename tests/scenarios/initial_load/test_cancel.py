"""An initial update that is canceled in the middle of a step, its process killed as by Airflow: no session continues.

Every step waits for a lock on one of the databases at that moment, since such a session outlives its client.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sluice.coordination.gate import Gate
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.load_ownership import LoadEnded
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.exporter import export_worker
from sluice.load.update import Update
from sluice.model.blocks import BlockState
from sluice.model.location import Location, S3Access
from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_load.step_process import Errand
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
OURS = "SELECT pid, wait_event_type FROM pg_stat_activity WHERE application_name LIKE 'sluice %' AND datname = {}"


@pytest.fixture
def shop(pair_of: MakePair, tmp_path: Path) -> Rig:
    (tmp_path / "files").mkdir()
    pair = pair_of(block_rows=100, seconds=0.02)
    for link in (pair.master, pair.slave):
        link.execute("CREATE TABLE public.a (id int PRIMARY KEY, t text)")
        link.execute("CREATE INDEX a_t ON public.a (t)")
    pair.master.execute("INSERT INTO public.a SELECT g, 'row ' || g FROM generate_series(1, 1000) g")
    pair.slave.execute("INSERT INTO public.a VALUES (-1, 'former')")
    pair.capture()
    return pair


def sessions(link: psycopg.Connection[Any], database: str) -> list[Any]:
    """Our sessions in the database, each with what it waits for."""
    return link.execute(OURS.format(f"'{database}'").encode()).fetchall()


def left(pair: Rig) -> list[Any]:
    return sessions(pair.master, pair.master_info.database) + sessions(pair.slave, pair.slave_info.database)


@contextmanager
def locked(info: Any, statement: str) -> Iterator[None]:
    """In the block a transaction of another client has the locks that `statement` takes."""
    with connect(info, application="somebody") as link:
        link.execute(statement.encode())
        yield
        link.rollback()


def begun(pair: Rig, update: Update, redis_url: str, where: Path, step: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.scenarios.initial_load.step_process"],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'plugins'}:{ROOT}"},
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(Errand(step, update, redis_url, str(where))))
    process.stdin.close()
    return process


def waits(link: psycopg.Connection[Any], database: str) -> Callable[[], bool]:
    return lambda: any(waiting == "Lock" for _, waiting in sessions(link, database))


CHECKPOINT = "SELECT FROM public.demo_checkpoint WHERE slave = 'dr1' FOR UPDATE"
BEFORE: dict[str, tuple[str, str]] = {
    "begin": ("slave", CHECKPOINT),
    "create_tables": ("slave", "SELECT FROM public.a"),
    "plan": ("slave", CHECKPOINT),
    "load": ("slave", "LOCK TABLE public.a IN SHARE MODE"),
    "export": ("master", "LOCK TABLE public.a"),
    "import": ("slave", "LOCK TABLE public.a IN SHARE MODE"),
}
"""For each step where it is held up, and by which lock."""


def reach(pair: Rig, update: Update, step: str, files: Path) -> None:
    """Runs all steps before it."""
    if step == "begin":
        earlier = pair.update("earlier")
        steps.begin(earlier, pair.store)
        steps.cancel(earlier, pair.store)
        return
    steps.begin(update, pair.store)
    if step == "create_tables":
        return
    steps.create_tables(update)
    if step == "plan":
        return
    by_files = step in ("export", "import")
    steps.plan(update, pair.store, transfer_steps.QUEUEING if by_files else "")
    if step == "import":
        carried = transfer_steps.folder_of(update, Location.parse(str(files)), S3Access(), None)
        with LoadJob(update) as job:
            export_worker(update, job.loader(1), carried)
        transfer_steps.seal(update, carried)
        steps.open_gate(update, pair.store)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("step", BEFORE)
def test_canceled_in_the_middle_of_a_step_nothing_runs_on(shop: Rig, redis_url: str, tmp_path: Path, step: str) -> None:
    files = tmp_path / "files"
    update = shop.update("first")
    reach(shop, update, step, files)
    where, statement = BEFORE[step]
    info, link = (shop.slave_info, shop.slave) if where == "slave" else (shop.master_info, shop.master)
    with ExitStack() as held:
        held.enter_context(locked(info, statement))
        process = begun(shop, update, redis_url, files, step)
        try:
            until(lambda: waits(link, info.database)() or process.poll() is not None)
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if statement is CHECKPOINT:
            # To cancel needs that row as well.
            until(lambda: left(shop) == [])
            held.close()
        canceled = steps.cancel(update, shop.store)
        assert canceled is (step != "begin"), "a step that had not begun has nothing to cancel"
        steps.end_sessions(update)
        until(lambda: left(shop) == [])
    found = shop.checkpoints.read()
    assert found is not None
    assert (found.state, found.message) == (SlaveState.INCONSISTENT, "Initial Update interrupted by the ADMIN")
    assert not any(block.state is BlockState.BEGUN for block in shop.blocks())
    assert Gate(shop.store, update.prefix, "dr1").closures() == []
    if step in ("begin", "create_tables"):
        assert shop.slave.execute("SELECT id FROM public.a").fetchall() == [(-1,)], "what waited was not done later"
    if canceled:
        with pytest.raises(LoadEnded, match="interrupted by the ADMIN"):
            steps.create_tables(update)
    again = shop.update("again")
    shop.prepare(again)
    shop.load(again)
    shop.assert_equal()
    shop.declare_normal()
    steps.finish(again)


def test_sessions_of_another_update_are_left_alone(shop: Rig) -> None:
    update = shop.update("first")
    steps.begin(update, shop.store)
    with update.connect_master(update.loader_application) as master, update.connect_slave() as slave:
        assert steps.end_sessions(shop.update("second")) == 0
        assert (master.execute("SELECT 1").fetchone(), slave.execute("SELECT 1").fetchone()) == ((1,), (1,))
        assert steps.end_sessions(update) == 2
        for link in (master, slave):
            with pytest.raises(psycopg.OperationalError):
                link.execute("SELECT 1")


@pytest.mark.long
def test_a_step_that_dies_alone_leaves_no_session_that_waits_for_ever(
    shop: Rig, redis_url: str, tmp_path: Path
) -> None:
    """Nobody cancels: a session killed while it creates an index ends by itself, and the step may be run again."""
    update = shop.update()
    shop.prepare(update)
    shop.load(update)
    shop.declare_normal()
    with locked(shop.slave_info, "LOCK TABLE public.a IN ROW EXCLUSIVE MODE"):
        process = begun(shop, update, redis_url, tmp_path / "files", "finish")
        until(waits(shop.slave, shop.slave_info.database))
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: left(shop) == [])
    assert shop.state() is SlaveState.NORMAL, "the data are whole; what lacks are indexes"
    assert not steps.cancel(update, shop.store)
    assert steps.finish(update).made


def test_an_update_that_never_began_leaves_no_warning_about_its_sessions(
    shop: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    shop.slave.execute("DROP TABLE IF EXISTS public.demo_checkpoint")
    assert steps.end_sessions(shop.update()) == 0
    assert "may be left" not in caplog.text
