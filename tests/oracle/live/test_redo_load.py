"""An initial update with rows from an Oracle master as of SCNs of its redo, and with changes from that redo."""

import json
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sluice import config
from sluice.coordination import redis_store
from sluice.database.recorder import MergeOptions
from sluice.database.registry import master_of, recorded_source
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.loader import load_worker
from sluice.load.update import Update
from sluice.model.blocks import BlockState
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import Severity
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.vendors.postgres.connection import connect
from sluice.vendors.stream.redo.merger import Limits, Merger
from sluice.vendors.stream.redo.redo_stream import COMPLETE_FILE
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Kind, Outcome
from sluice.verify.resync import Action, TableResult, resync
from tests.errors import raises_code
from tests.oracle.live.master_rig import OracleMasterRig
from tests.rig.redo_master import RedoMaster
from tests.rig.rig import Rig

ABLE = ["ivorysql"]
"""An Oracle server numbers its transactions itself, and its redo would have to be read."""
ALL = [TableName("PUBLIC", name) for name in ("T", "PAIRS", "BAG")]
TABLES = (
    "CREATE TABLE T (ID NUMBER PRIMARY KEY, NAME VARCHAR2(400), NOTE VARCHAR2(400))",
    "CREATE TABLE PAIRS (A NUMBER, B VARCHAR2(400), V VARCHAR2(400), PRIMARY KEY (B, A))",
    "CREATE TABLE BAG (N NUMBER, V VARCHAR2(400))",
)
LATER_THAN_THE_REDO = "SELECT pg_catalog.setval('scn', 61) FROM DUAL"
"""Its first SCN is 60; those of the master's transactions come behind 100."""
CONFIG = """
prefix: DEMO_
master: {{capture: redo, location: {location}, conn_id: m}}
slaves:
  dr1: {{conn_id: s, on_drop: drop}}
tables: {{PUBLIC.T: {{}}, PUBLIC.PAIRS: {{}}, PUBLIC.BAG: {{}}}}
apply: {{lease: 2.0, checkpoint_interval: 0.1}}
initial: {{block_rows: 7, parallel: 2, read: {read}}}
redo: {{program: /none, schema: /none, exact_names: true}}
"""


class Loaded(Rig):
    """A slave, and the master whose redo it follows."""

    redo: RedoMaster
    stream: Path
    held: list[psycopg.Connection[Any]]
    """The SCNs that undo reaches back to."""

    @contextmanager
    def merging(self, ends_at: Collection[int] = ()) -> Iterator[None]:
        """The merge, kept running as by the supervisor."""
        stop = threading.Event()
        options = MergeOptions(exact_names=True, ends_at=ends_at)
        merger = Merger(self.redo.root, self.stream, Prefix("DEMO_"), options, Limits(group=5))
        thread = threading.Thread(target=merger.run, args=[stop])
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def forget_undo(self) -> None:
        for each in self.held:
            each.close()
        self.held.clear()

    def rows_of(self, table: str) -> list[tuple[Any, ...]]:
        return self.slave.execute(f'SELECT * FROM "PUBLIC"."{table}"'.encode()).fetchall()

    def await_same(self) -> None:
        """Waits until the apply has reached the end of the redo."""
        end = self.redo.scn - 1

        def there() -> bool:
            found = self.checkpoint
            return found.state is SlaveState.NORMAL and not found.catching_up and scn_of(self, found.position) >= end

        self.await_that(there)
        self.redo.assert_same(self.rows_of)


def scn_of(rig: Loaded, position: Position | None) -> int:
    """The SCN up to which a slave at `position` has everything; 0 if the slave is not at the end of the stream."""
    moment = recorded_source().redo_stream(rig.stream).moment(1)
    return moment.scn if position == moment.position else 0


@pytest.fixture
def loaded(
    database: Callable[..., ConnectionInfo],
    oracle_database: Callable[[], ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Loaded]]:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    held: list[psycopg.Connection[Any]] = []

    def make(*, read: str = "committed", resetlogs: int = 1) -> Loaded:
        infos = {"m": oracle_database(), "s": database()}
        session = OracleMasterRig.connect_master(infos["m"])
        driver = session.driver  # type: ignore[attr-defined]
        for statement in (*TABLES, LATER_THAN_THE_REDO):
            session.run(statement)

        def hold(scn: int) -> None:
            held.append(session.hold(scn))  # type: ignore[attr-defined]

        def run(statement: str) -> None:
            psycopg.ClientCursor(driver).execute(statement.encode())

        redo = RedoMaster(tmp_path / "threads", resetlogs, run, driver.commit, hold)
        values = {"location": tmp_path, "read": read}
        (tmp_path / "DEMO.yaml").write_text(CONFIG.format(**values))
        pair = Pair.of(config.load("DEMO_"), "dr1", infos)
        slave = connect(infos["s"], application="test", autocommit=True)
        made = Loaded(pair, redis_url, redis_store.connect(redis_url), driver, slave)
        made.redo, made.stream, made.held = redo, tmp_path / "stream", held
        return made

    yield make
    for each in held:
        each.close()


def begin(rig: Loaded) -> Update:
    update = rig.update()
    steps.begin(update, rig.store)
    steps.create_tables(update)
    steps.plan(update, rig.store, steps.IN_ONE_SNAPSHOT if update.options.read == "snapshot" else "")
    return update


@pytest.mark.parametrize("read", ["committed", "snapshot"])
def test_a_slave_is_loaded_while_redo_goes_on_and_becomes_the_master(loaded: Callable[..., Loaded], read: str) -> None:
    """Loaders and applies are ended half-way; keys change; updates contain only changed columns."""
    rig = loaded(read=read)
    rig.redo.transactions(25)
    with rig.merging():
        rig.await_that(lambda: list(rig.stream.glob("*.jsonl")))
        update = begin(rig)
        with rig.apply():
            rig.redo.transactions(4)
            with LoadJob(update) as job:
                load_worker(update, job.loader(1), _after(2))
            rig.redo.transactions(4)
    with rig.merging(), rig.apply():
        rig.redo.transactions(4)
        writer = threading.Thread(target=rig.redo.transactions, args=[10])
        writer.start()
        rig.load(update)
        writer.join()
        rig.await_same()
        assert {block.state for block in rig.blocks()} <= {BlockState.STORED}
        assert steps.finish(update).left_out == []
        rig.redo.transactions(5)
        rig.await_same()
    assert len(rig.redo.rows) > 20


def test_a_slave_is_compared_with_the_master_while_redo_goes_on_and_fixed(loaded: Callable[..., Loaded]) -> None:
    rig = loaded()
    rig.redo.transactions(30)
    with rig.merging():
        rig.await_that(lambda: list(rig.stream.glob("*.jsonl")))
        update = begin(rig)
        with rig.apply():
            rig.load(update)
            rig.await_same()
            steps.finish(update)
            writer = threading.Thread(target=rig.redo.transactions, args=[30])
            writer.start()
            for table in ALL:
                assert resynced(rig, table).outcome is Outcome.IDENTICAL, table
            writer.join()
            rig.await_same()
            missing, other = sorted(rig.redo.rows)[:2]
            rig.slave.execute(f'DELETE FROM "PUBLIC"."T" WHERE "ID" = {missing}')
            rig.slave.execute(f"""UPDATE "PUBLIC"."T" SET "NOTE" = 'another' WHERE "ID" = {other}""")
            rig.slave.execute("""INSERT INTO "PUBLIC"."T" VALUES (-1, 'extra', NULL)""")
            rig.slave.execute('DELETE FROM "PUBLIC"."BAG"')
            found = resynced(rig, ALL[0]).finding
            assert [len(found.found[kind].keys) for kind in (Kind.MISSING, Kind.DIFFERENT, Kind.EXTRA)] == [1, 1, 1]
            assert found.position == rig.checkpoint.position.text()  # type: ignore[union-attr]
            for table in ALL:
                fixed = resynced(rig, table, Action.REPAIR)
                assert fixed.outcome is Outcome.IDENTICAL, fixed
            assert resynced(rig, ALL[0]).finding.faults == 0
            rig.await_same()
            # Undo does not reach back.
            rig.forget_undo()
            result = resynced(rig, ALL[0]).finding
            assert (result.outcome, "ORA-01555" in result.reason) == (Outcome.COULD_NOT_COMPARE, True), result.reason
            rig.redo.transactions(3)
            rig.await_same()
            assert resynced(rig, ALL[0]).outcome is Outcome.IDENTICAL, "the next one works"
    stopped = resynced(rig, ALL[0]).finding
    assert stopped.outcome is Outcome.COULD_NOT_COMPARE
    assert "Start the DAG cdc_apply" in stopped.reason


def resynced(rig: Loaded, table: TableName, action: Action = Action.VERIFY) -> TableResult:
    return resync(rig.pair, rig.store, table, CompareOptions(), action, None)


def _after(blocks: int) -> Callable[[], bool]:
    """A check that ends a loader after so many blocks."""
    asked = iter(range(1_000))
    return lambda: next(asked) >= blocks


def test_rows_are_read_when_no_transaction_runs_that_began_before_the_redo(loaded: Callable[..., Loaded]) -> None:
    rig = loaded()
    update = rig.update()
    session = OracleMasterRig.connect_master(update.master_info)
    hold: Callable[[int], psycopg.Connection[Any]] = session.hold  # type: ignore[attr-defined]
    rig.held.append(hold(50))
    older = OracleMasterRig.connect_master(update.master_info).driver  # type: ignore[attr-defined]
    older.execute(b"INSERT INTO T VALUES (-7, 'older', NULL)")
    rig.redo.transactions(15)
    complete = rig.stream.parent / COMPLETE_FILE
    with rig.merging():
        rig.await_that(lambda: list(rig.stream.glob("*.jsonl")))
        steps.begin(update, rig.store)
        steps.create_tables(update)
        with raises_code(
            "older-transactions", match=r"of SCN 50, runs since .* \(ALTER SYSTEM KILL SESSION '\d+,7,@1'"
        ):
            steps.plan(update, rig.store)
        assert not complete.exists()
        # It commits, and its row is in no redo that is read; the stream is not there yet.
        session.run("SELECT pg_catalog.setval('scn', 500) FROM DUAL")
        older.commit()
        rig.redo.rows[-7] = ("older", None)
        with raises_code("stream-behind", match=r"had ended by SCN 5\d\d, and the stream has come to SCN 114"):
            steps.plan(update, rig.store)
        # From here on others may begin: those are in the redo.
        before = json.loads(complete.read_text())
        complete.write_text('{"stream": "another one", "scn": 1}')
        older.execute(b"INSERT INTO BAG VALUES (1, 'younger')")
        with raises_code("stream-behind"):
            steps.plan(update, rig.store)
        kept = json.loads(complete.read_text())
        assert (kept["stream"], kept["scn"] > before["scn"]) == (before["stream"], True)
        older.rollback()
        rig.redo.scn = kept["scn"] + 1
        rig.redo.transactions(5)
        rig.await_that(lambda: recorded_source().redo_stream(rig.stream).moment(1).scn >= kept["scn"])
        assert steps.plan(update, rig.store) == 3
    with rig.merging(), rig.apply():
        rig.load(update)
        rig.await_same()
    session.close()
    older.close()


def test_missing_privileges_beside_redo_are_reported_with_the_grant(loaded: Callable[..., Loaded]) -> None:
    update = loaded().update()
    with update.connect_master() as master:
        preflight = master_of(master.vendor).preflight
        assert [issue for issue in preflight.of_master(master, update.replication) if "$" in issue.what] == []
        OracleMasterRig.connect_master(update.master_info).run("DROP VIEW gv$session")
        (issue,) = [issue for issue in preflight.of_master(master, update.replication) if "$" in issue.what]
    assert (issue.what, issue.statement) == ("SELECT on GV$SESSION", 'GRANT SELECT ON SYS.GV_$SESSION TO "postgres"')


def test_a_master_that_may_leave_changes_out_of_its_redo_is_reported(loaded: Callable[..., Loaded]) -> None:
    update = loaded().update()
    other = OracleMasterRig.connect_master(update.master_info)
    other.run("CREATE OR REPLACE VIEW v$database AS SELECT 4021 AS dbid, 'PRIMARY' AS database_role, "
              "'READ WRITE' AS open_mode, 'NO' AS force_logging FROM DUAL")  # fmt: skip
    with update.connect_master() as master:
        preflight = master_of(master.vendor).preflight
        (issue,) = [each for each in preflight.of_master(master, update.replication) if "LOGGING" in each.what]
    assert (issue.statement, issue.severity) == ("ALTER DATABASE FORCE LOGGING", Severity.WARNING)


def test_no_rows_are_read_while_an_instance_is_open_whose_redo_nobody_reads(loaded: Callable[..., Loaded]) -> None:
    rig = loaded()
    rig.redo.transactions(3)
    with rig.merging():
        rig.await_that(lambda: list(rig.stream.glob("*.jsonl")))
    other = OracleMasterRig.connect_master(rig.update().master_info)
    other.run(
        "CREATE OR REPLACE VIEW v$thread AS SELECT 1 AS thread#, 'OPEN' AS status FROM DUAL "
        "UNION ALL SELECT 5, 'OPEN' FROM DUAL"
    )
    with raises_code("threads-unread", match=r"not in the stream: 5\b"):
        begin(rig)


def test_a_part_is_loaded_again_while_the_rest_goes_on(loaded: Callable[..., Loaded]) -> None:
    rig = loaded()
    rig.redo.transactions(15)
    with rig.merging():
        rig.await_that(lambda: list(rig.stream.glob("*.jsonl")))
        with raises_code("no-checkpoint"), rig.apply():
            rig.await_that(lambda: False)
        update = begin(rig)
    with rig.merging(), rig.apply():
        rig.load(update)
        rig.await_same()
        rig.slave.execute('DELETE FROM "PUBLIC"."PAIRS"')
        part = rig.update(tables="PUBLIC.PAIRS")
        steps.begin(part, rig.store)
        steps.create_tables(part)
        steps.plan(part, rig.store)
        rig.redo.transactions(5)
        rig.load(part)
        rig.redo.transactions(5)
        rig.await_that(lambda: not rig.checkpoint.tables)
        rig.await_same()


def test_rows_of_another_incarnation_are_refused(loaded: Callable[..., Loaded]) -> None:
    rig = loaded(resetlogs=7)
    rig.redo.transactions(2)
    Merger(rig.redo.root, rig.stream, Prefix("DEMO_"), MergeOptions(exact_names=True)).merge_once()
    with raises_code("other-incarnation"):
        begin(rig)
