"""Redo that cannot be read any more, because logs or places are lost: it is reported, and the slave becomes
INCONSISTENT."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice import config
from sluice.database.redo_files import ArchivedLogs, LogCopy
from sluice.database.registry import recorded_source
from sluice.model.slave_state import SlaveState
from sluice.redo.supervisor import Supervisor
from sluice.vendors.stream.errors import ChangesLost
from tests.scenarios.stream.rig import Replay
from tests.scenarios.stream.test_redo_supervisor import PREFIX, Capture, supervised
from tests.unit.redo_output import ONE, RESETLOGS, checkpoint, insert, schema, transaction
from tests.waiting import until

TABLES = "CREATE TABLE public.t (id numeric PRIMARY KEY, name text, note text);"


class Archive:
    """The state of the master's logs in its control file."""

    def __init__(self) -> None:
        self.copies: list[LogCopy] = []

    def add(self, sequence: int, *, there: bool, backups: int = 0) -> None:
        name = f"/u01/arch/1_{sequence}_{RESETLOGS}.arc" if there else ""
        kept = [copy for copy in self.copies if copy.sequence != sequence]
        made = LogCopy(RESETLOGS, 1, sequence, 100 * sequence, 100 * sequence + 100, name, backups=backups)
        self.copies = [*kept, made]

    def said(self) -> ArchivedLogs:
        return ArchivedLogs(RESETLOGS, tuple(self.copies))


def lines(sequence: int) -> list[str]:
    """The lines of a log with one row."""
    scn, row = 100 * sequence, insert(0, sequence, of=schema(owner="PUBLIC"))
    return [*transaction(scn, f"1.{sequence}.1", [row]), checkpoint(scn + 50)]


@pytest.mark.long
def test_a_capture_that_begins_anew_with_a_later_schema_checkpoint_makes_the_slave_inconsistent(
    tmp_path: Path, redis_url: str, replay: Callable[..., Replay]
) -> None:
    made = Capture(tmp_path, redis_url, threads="1", keys={("PUBLIC", "T"): ["ID"]})
    shutil.copy(made.configure() / "ORA.yaml", os.environ["SLUICE_REPLICATIONS"])
    seed = tmp_path / "TEST-chkpt-60.json"

    def lose_checkpoints() -> None:
        shutil.rmtree(tmp_path / "work")
        made.state.client.flushall()

    made.log(1, 1, lines(1))
    with supervised(made):
        until(lambda: made.keys() == ["1"])
    slave = replay(made.location / "stream", SimpleNamespace(master=None), tables=TABLES)

    def rows() -> list[int]:
        return [int(key) for (key,) in slave.slave.execute("SELECT id FROM public.t ORDER BY id").fetchall()]

    # With the same schema checkpoint all comes again, and is known.
    lose_checkpoints()
    made.log(1, 2, lines(2))
    with supervised(made), slave.apply():
        slave.await_that(lambda: rows() == [1, 2])
    # With a later one what ran then would be missing.
    lose_checkpoints()
    first = seed.read_text()
    seed.write_text(json.dumps({**json.loads(first), "scn": 260}))
    made.log(1, 3, lines(3))
    with supervised(made), slave.apply(), pytest.raises(ChangesLost):
        slave.await_that(lambda: False)
    assert slave.checkpoint.state is SlaveState.INCONSISTENT
    assert "would begin with SCN 260" in slave.checkpoint.message
    assert "The stream needs the redo from SCN 60 on" in slave.checkpoint.message
    assert rows() == [1, 2]
    # As it was: the stream continues, for slaves that had not come to its end.
    seed.write_text(first)
    (made.location / "threads" / str(ONE) / "lost").unlink()
    with supervised(made):
        until(lambda: made.keys() == ["1", "2", "3"])


@pytest.mark.long
def test_a_log_that_is_deleted_before_it_is_read_makes_the_slave_inconsistent(
    tmp_path: Path, redis_url: str, replay: Callable[..., Replay]
) -> None:
    made = Capture(tmp_path, redis_url, threads="1", keys={("PUBLIC", "T"): ["ID"]})
    archive, stop = Archive(), threading.Event()
    shutil.copy(made.configure() / "ORA.yaml", os.environ["SLUICE_REPLICATIONS"])
    with (Path(os.environ["SLUICE_REPLICATIONS"]) / "ORA.yaml").open("a") as opened:
        opened.write("  lost_minutes: 0\n")
    made.log(1, 1, lines(1))
    archive.add(1, there=True)
    supervisor = Supervisor(config.load(str(PREFIX)), made.state.client, archive.said, watch_seconds=0.2)
    running = threading.Thread(target=supervisor.run, args=(stop,))
    running.start()
    try:
        until(lambda: made.keys() == ["1"])
        slave = replay(made.location / "stream", SimpleNamespace(master=None), tables=TABLES)

        def rows() -> list[int]:
            return [int(key) for (key,) in slave.slave.execute("SELECT id FROM public.t ORDER BY id").fetchall()]

        def told() -> str:
            thread = made.thread(1)
            return thread.logs if thread else ""

        with slave.apply():
            slave.await_that(lambda: rows() == [1])
            # The master has deleted log 2 and has a backup: it is told how it comes back, and waited for.
            made.log(1, 3, lines(3))
            archive.add(2, there=False, backups=1)
            archive.add(3, there=True)
            until(lambda: "RESTORE ARCHIVELOG SEQUENCE 2 THREAD 1" in told())
            made.log(1, 2, lines(2))
            slave.await_that(lambda: rows() == [1, 2, 3])
            until(lambda: told() == "")
            # Log 4 is gone for good.
            made.log(1, 5, lines(5))
            archive.add(4, there=False)
            archive.add(5, there=True)
            until(lambda: "log 4 of thread 1 is deleted on the master, which knows of no backup" in told())
            with pytest.raises(ChangesLost):
                slave.await_that(lambda: False)
        assert slave.checkpoint.state is SlaveState.INCONSISTENT
        assert "log 4 of thread 1 is deleted" in slave.checkpoint.message
        assert rows() == [1, 2, 3], "nothing of what follows the loss was applied"
        until(lambda: "Its changes are given up" in told())
    finally:
        stop.set()
        running.join(60)


@pytest.mark.long
def test_a_transaction_that_is_left_out_is_reported_and_a_loss_where_rows_were_read_before(
    tmp_path: Path, redis_url: str, replay: Callable[..., Replay]
) -> None:
    """Where the stream begins it is as it must be; what is committed behind the rows that were read is missing."""
    made = Capture(tmp_path, redis_url, threads="1", keys={("PUBLIC", "T"): ["ID"]})
    shutil.copy(made.configure() / "ORA.yaml", os.environ["SLUICE_REPLICATIONS"])
    stream, kept = made.location / "stream", made.location / "threads" / str(ONE) / "left_out.json"

    def without_beginning(sequence: int) -> list[str]:
        return lines(sequence)[1:]

    def told() -> str:
        thread = made.thread(1)
        return thread.left_out if thread else ""

    made.log(1, 1, [*without_beginning(1), *lines(2)], first_scn=50)
    with supervised(made):
        until(lambda: made.keys() == ["2"])
        until(lambda: "left out 1 transaction" in told() and "committed at SCN 100" in told())
    assert kept.exists(), "the next one knows it as well"
    slave = replay(stream, SimpleNamespace(master=None), tables=TABLES)
    # Rows are read once it has ended.
    recorded_source().redo_stream(stream).keep_complete_from(150)
    with supervised(made), slave.apply():
        slave.await_that(lambda: slave.slave.execute("SELECT id FROM public.t").fetchall() == [(2,)])
        until(lambda: bool(made.thread(1)) and told() == "")
    # Another one, of which the rows have nothing. The program that reads it begins again: it has no checkpoint.
    shutil.rmtree(tmp_path / "work")
    made.state.client.flushall()
    made.log(1, 2, [*without_beginning(3), *lines(4)])
    with supervised(made), slave.apply(), pytest.raises(ChangesLost):
        slave.await_that(lambda: False)
    assert slave.checkpoint.state is SlaveState.INCONSISTENT
    assert "committed at SCN 300" in slave.checkpoint.message
    # Also to a supervisor that did not hear it.
    (made.location / "threads" / str(ONE) / "lost").unlink()
    with supervised(made):
        until(lambda: (made.location / "threads" / str(ONE) / "lost").exists())
