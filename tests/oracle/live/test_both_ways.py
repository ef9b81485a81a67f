"""An Oracle database that is slave and master: it captures what an apply writes only if that is configured."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice import config
from sluice.capture import resources
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.pair import Pair
from sluice.vendors.postgres.connection import connect
from tests.oracle.live.master_rig import OracleMasterRig
from tests.oracle.live.rig import OracleRig

TABLE = "CREATE TABLE T (ID NUMBER(10) PRIMARY KEY, V VARCHAR2(20 CHAR));\nINSERT INTO T VALUES (1, 'a')"
CONFIG = """
prefix: {prefix}
master: {{conn_id: p, schema: public}}
slaves:
  dr1: {{conn_id: m, vendor: oracle, existing_tables: {existing}}}
tables: {{{schema}.*: {{}}}}
apply: {{lease: 2.0, checkpoint_interval: 0.1}}
"""

Into = Callable[[OracleMasterRig, Prefix, ConnectionInfo, str], OracleRig]


@pytest.fixture
def into(redis_url: str, tmp_path: Path) -> Iterator[Into]:
    """Another replication, from a PostgreSQL to the Oracle database, which is a master already."""
    made: list[OracleRig] = []

    def make(there: OracleMasterRig, prefix: Prefix, master: ConnectionInfo, existing: str) -> OracleRig:
        schema = there.master.schema
        (tmp_path / f"{prefix}.yaml").write_text(CONFIG.format(prefix=prefix, schema=schema, existing=existing))
        infos = {"p": master, "m": there.pair.master_info}
        pair = Pair.of(config.load(str(prefix)), "dr1", infos)
        session = connect(master, application="test", autocommit=True)
        made.append(OracleRig(pair, redis_url, session, OracleRig.connect_slave(infos["m"])))
        return made[-1]

    yield make
    for each in made:
        each.close()


def captured(rig: OracleMasterRig) -> list[tuple[int, str]]:
    """The row changes that the Oracle master has queued, with their origin."""
    found = rig.master.run("SELECT i.GUID, i.DBID FROM DEMO_ITEMS i WHERE i.GUID IS NOT NULL ORDER BY i.REPL_KEY")
    return [(int(guid), str(by)) for guid, by in found]


def test_two_databases_that_replicate_to_each_other_do_not_loop(
    master_rig: Callable[..., OracleMasterRig], into: Into
) -> None:
    there = master_rig(TABLE)
    there.load()
    table = f'"{there.master.schema}"."T"'
    with there.apply():
        there.await_current()
        back = into(there, Prefix("BACK_"), there.pair.slave_info, "current")
        back.capture()
        back.load()
        with back.apply() as running:
            back.await_current()
            running.await_normal_mode()
            before = len(captured(there))
            there.change("INSERT INTO T VALUES (2, 'of Oracle')", "UPDATE T SET V = 'b' WHERE ID = 1")
            there.await_current()
            back.master.execute(f"INSERT INTO {table} VALUES (3, 'of PostgreSQL')".encode())
            back.master.execute(f'UPDATE {table} SET "V" = \'c\' WHERE "ID" = 2'.encode())
            back.await_current()
            there.change("DELETE FROM T WHERE ID = 3")
            there.await_current()
            back.await_current()
            assert there.rows("T", "ID") == [(1, "b"), (2, "c")]
            assert there.master.run("SELECT T.ID, T.V FROM T ORDER BY T.ID").fetchall() == [(1, "b"), (2, "c")]
            assert [key for key, _ in captured(there)[before:]] == [2, 1, 3]
            items = (
                "SELECT guid FROM public.back_items WHERE db_action IN ('INSERT', 'UPDATE', 'DELETE') ORDER BY repl_key"
            )
            assert back.master.execute(items).fetchall() == [("3",), ("2",)]


def test_changes_of_an_apply_are_passed_on_if_configured(
    master_rig: Callable[..., OracleMasterRig], into: Into, database: Callable[..., ConnectionInfo]
) -> None:
    there = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY, V VARCHAR2(20 CHAR))")
    prefix = there.pair.prefix
    assert not resources.install(there.master, prefix, "", [Prefix("AB_")]).changed
    there.load()
    first = into(there, Prefix("AB_"), database(), "empty")
    schema = there.master.schema
    first.master.execute(f'CREATE SCHEMA "{schema}"'.encode())
    first.master.execute(f'CREATE TABLE "{schema}"."T" ("ID" numeric(10,0) PRIMARY KEY, "V" varchar(20))'.encode())
    first.master.execute(f'INSERT INTO "{schema}"."T" VALUES (1, \'loaded\')'.encode())
    first.capture()
    with there.apply():
        there.await_current()
        first.load()
        with first.apply():
            first.await_current()
            first.master.execute(f'INSERT INTO "{schema}"."T" VALUES (2, \'of the first\')'.encode())
            first.await_current()
            there.change("INSERT INTO T VALUES (3, 'its own')")
            there.await_current()
            assert there.rows("T", "ID") == [(1, "loaded"), (2, "of the first"), (3, "its own")]
            assert {key: by == "AB_" for key, by in captured(there)} == {1: True, 2: True, 3: False}
            resources.install(there.master, prefix, "")
            first.master.execute(f'DELETE FROM "{schema}"."T" WHERE "ID" = 1'.encode())
            first.await_current()
            there.change("DELETE FROM T WHERE ID = 2")
            there.await_current()
            assert [key for key, _ in there.rows("T", "ID")] == [1, 3]
