"""An initial update whose rows come from an Oracle master as of the SCNs of its redo, and changes from that redo."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sluice import config
from sluice.apply.apply_loop import NotConfigured
from sluice.coordination import redis_store
from sluice.database.registry import redo_stream
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.loader import load_worker
from sluice.load.update import Update
from sluice.model.blocks import BlockState
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.vendors.postgres.connection import connect
from sluice.vendors.stream.redo.errors import OtherIncarnation
from sluice.vendors.stream.redo.merger import Merger
from tests.oracle.ivorysql import SNAPSHOTS
from tests.oracle.live.master_rig import OracleMasterRig
from tests.rig.redo_master import RedoMaster
from tests.rig.rig import Rig

ABLE = ["ivorysql"]
"""An Oracle server numbers its transactions itself, and its redo would have to be read."""
TABLES = (
    "CREATE TABLE T (ID NUMBER PRIMARY KEY, NAME VARCHAR2(400), NOTE VARCHAR2(400))",
    "CREATE TABLE PAIRS (A NUMBER, B VARCHAR2(400), V VARCHAR2(400), PRIMARY KEY (B, A))",
    "CREATE TABLE BAG (N NUMBER, V VARCHAR2(400))",
)
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
    """The slave, and the master whose redo it follows."""

    redo: RedoMaster
    stream: Path

    @contextmanager
    def merging(self) -> Iterator[None]:
        """As the supervisor keeps it running."""
        stop = threading.Event()
        merger = Merger(self.redo.root, self.stream, Prefix("DEMO_"), exact_names=True, group=5)
        thread = threading.Thread(target=merger.run, args=[stop])
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def rows_of(self, table: str) -> list[tuple[Any, ...]]:
        return self.slave.execute(f'SELECT * FROM "PUBLIC"."{table}"'.encode()).fetchall()

    def await_same(self) -> None:
        """The apply has come to the end of the redo."""
        end = self.redo.scn - 1

        def there() -> bool:
            found = self.checkpoint
            return found.state is SlaveState.NORMAL and not found.catching_up and scn_of(self, found.position) >= end

        self.await_that(there)
        self.redo.assert_same(self.rows_of)


def scn_of(rig: Loaded, position: Position | None) -> int:
    """Up to which a slave at `position` has all; 0 where the stream goes on behind it."""
    moment = redo_stream(rig.stream).moment(1)
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
        for statement in TABLES:
            session.run(statement)

        def hold(scn: int) -> None:
            held.append(session._connected())  # type: ignore[attr-defined]
            held[-1].execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            row = held[-1].execute("SELECT pg_catalog.pg_export_snapshot()::pg_catalog.text").fetchone()
            assert row is not None
            SNAPSHOTS[infos["m"].database, scn] = str(row[0])

        def run(statement: str) -> None:
            psycopg.ClientCursor(driver).execute(statement.encode())

        redo = RedoMaster(tmp_path / "threads", resetlogs, run, driver.commit, hold)
        values = {"location": tmp_path, "read": read}
        (tmp_path / "DEMO.yaml").write_text(CONFIG.format(**values))
        pair = Pair.of(config.load("DEMO_"), "dr1", infos)
        slave = connect(infos["s"], application="test", autocommit=True)
        made = Loaded(pair, redis_url, redis_store.connect(redis_url), driver, slave)
        made.redo, made.stream = redo, tmp_path / "stream"
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
    """Loaders and applies end half-way; keys change, updates say no more than what changed."""
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


def _after(blocks: int) -> Callable[[], bool]:
    """Says that a loader is to end, after so many blocks."""
    asked = iter(range(1_000))
    return lambda: next(asked) >= blocks


def test_a_part_is_loaded_again_while_the_rest_goes_on(loaded: Callable[..., Loaded]) -> None:
    rig = loaded()
    rig.redo.transactions(15)
    with rig.merging():
        rig.await_that(lambda: list(rig.stream.glob("*.jsonl")))
        with pytest.raises(NotConfigured), rig.apply():
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
    Merger(rig.redo.root, rig.stream, Prefix("DEMO_"), exact_names=True).merge_once()
    with pytest.raises(OtherIncarnation):
        begin(rig)
