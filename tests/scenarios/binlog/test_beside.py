"""A slave of a MariaDB master is loaded while the master is written, follows its log, and is compared and repaired."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from sluice.database.change_log import Span
from sluice.database.registry import master_of
from sluice.load import steps
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.mysql.master.tables import LoggedTables
from sluice.verify.findings import Outcome
from tests.rig.loaders import Background
from tests.scenarios.binlog.beside import Beside, writing
from tests.scenarios.binlog.master import Master
from tests.scenarios.binlog.normal import normal
from tests.scenarios.binlog.test_values import COLUMNS, made

pytestmark = pytest.mark.long

TABLES = (
    "CREATE TABLE t (id bigint unsigned primary key, a int, b varchar(200), c decimal(20,4), d datetime(6), e double, "
    "g enum('x','it''s'), h tinyint(1), UNIQUE (a))",
    "CREATE TABLE pairs (x int, y date, v varchar(50), PRIMARY KEY (y, x))",
    "CREATE TABLE words (w varchar(40) CHARACTER SET latin1 PRIMARY KEY, n int)",
    "CREATE TABLE bag (a int, b double)",
)
NAMES = {"t": "id, a, b, c, d, e, g, h", "pairs": "x, y, v", "words": "w, n", "bag": "a, b"}
ROWS = 400


@pytest.fixture
def rig(
    master: Master, slave: tuple[str, ConnectionInfo], redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Beside:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    fill(master)
    return Beside(master, *slave, redis_url)


def fill(master: Master) -> None:
    """Tables with rows."""
    master.run(
        "SET time_zone = '+00:00'",
        *TABLES,
        f"INSERT INTO t SELECT seq, seq, concat('é', seq), seq / 3, '2026-01-02' + INTERVAL seq SECOND, seq / 7, "
        f"1 + seq MOD 2, seq MOD 3 FROM seq_1_to_{ROWS}",
        f"INSERT INTO pairs SELECT seq, '2026-01-01' + INTERVAL seq MOD 9 DAY, seq FROM seq_1_to_{ROWS}",
        "INSERT INTO words SELECT concat(if(seq MOD 2, 'A', 'é'), seq), seq FROM seq_1_to_90",
        "INSERT INTO bag SELECT seq MOD 5, 0.5 FROM seq_1_to_40",
    )


def transaction(connection: "pymysql.Connection[Any]", chance: random.Random) -> None:
    """One that changes, moves, swaps and deletes rows, or changes nothing."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        for _ in range(chance.randint(1, 5)):
            key, other = chance.randint(1, ROWS), chance.randint(1, ROWS)
            statements = [
                f"REPLACE INTO t (id, a, b) VALUES ({key}, NULL, 'new {other}')",
                f"UPDATE IGNORE t SET a = {other}, b = concat(b, '!') WHERE id = {key} AND length(b) < 150",
                f"UPDATE IGNORE t SET id = {other} + {ROWS} WHERE id = {key}",
                f"UPDATE IGNORE t SET id = {key} WHERE id = {other} + {ROWS}",
                f"DELETE FROM t WHERE id = {key}",
                f"REPLACE INTO pairs (x, y, v) VALUES ({key}, '2026-01-0{1 + other % 9}', '{other}')",
                f"DELETE FROM pairs WHERE x = {key}",
                f"UPDATE IGNORE words SET w = concat('a', {other}) WHERE n = {key % 90}",
            ]
            cursor.execute(chance.choice(statements))
        if chance.random() < 0.05:
            cursor.execute(f"INSERT INTO bag (a, b) VALUES ({chance.randint(0, 5)}, 1)")
        cursor.execute("ROLLBACK" if chance.random() < 0.2 else "COMMIT")


def expect_equal(rig: Beside) -> None:
    for table, names in NAMES.items():
        of_master = normal(rig.master.run(f"SELECT {names} FROM {table}"))
        assert normal(rig.rows(table, names)) == of_master, table


def test_every_type_is_loaded_followed_and_compared_alike(rig: Beside) -> None:
    master = rig.master
    master.run(*made(master, COLUMNS), "CREATE TABLE f (id int primary key, f float)")
    master.run("INSERT INTO f VALUES (0, 0.1), (1, -3.4028234e38), (2, 16777216), (3, 0.333333343), (4, 1e-20), (5, 0)")
    with rig.recording():
        update = rig.begin()
        with rig.apply():
            rig.load(update)
            rig.await_current()
            expect_alike(rig, "t", "f")
            master.run("UPDATE t SET id = id + 10", "UPDATE f SET id = id + 10")
            rig.await_current()
            expect_alike(rig, "t", "f")


def expect_alike(rig: Beside, *tables: str) -> None:
    for table in tables:
        for sample in (0, 100):
            finding = rig.resync(table, sample=sample).finding
            assert finding.outcome is Outcome.IDENTICAL, (table, finding.reason, finding.columns, finding.found)


def test_a_slave_is_loaded_follows_and_is_compared_while_the_master_is_written(rig: Beside) -> None:
    with rig.recording(), writing(rig.master, transaction):
        update = rig.begin()
        with rig.apply():
            rig.load_a_part(update, 3)
        # Loader, apply and recorder are gone; all of them continue.
    with rig.recording(), writing(rig.master, transaction), rig.apply():
        rig.load(update)
        rig.await_that(lambda: (found := rig.checkpoint) and found.state == "NORMAL")
        assert steps.finish(update).left_out == []
        expect_alike(rig, "t", "pairs", "words")
    with rig.recording(), rig.apply():
        rig.await_current()
        expect_equal(rig)


def test_definitions_that_change_while_blocks_are_read_are_followed(rig: Beside) -> None:
    """Columns come, and tables are emptied; later a table is swapped, as by tools that migrate online."""
    master = rig.master
    kinds = [
        ["ALTER TABLE pairs ADD COLUMN {0} int NOT NULL DEFAULT 7"],
        ["ALTER TABLE words ADD COLUMN {0} varchar(20) DEFAULT 'é'", "UPDATE words SET n = n + 1"],
        ["TRUNCATE words", "INSERT INTO words (w, n) SELECT concat('w', seq), 1 FROM seq_1_to_60"],
    ]

    def define() -> None:
        connection = master.connect()
        for number in range(9):
            for statement in kinds[number % 3]:
                master.run(statement.format(f"c{number}"), on=connection)
        connection.close()

    with rig.recording():
        update = rig.begin()
        with rig.apply():
            rig.load_a_part(update, 2)
            with writing(master, transaction, 1):
                definer = Background(define)
                rig.load(update)
                assert definer.end() is None
                rig.await_that(lambda: (found := rig.checkpoint) and found.state == "NORMAL")
            master.run(
                "CREATE TABLE _t_new LIKE t", "ALTER TABLE _t_new ADD COLUMN later int DEFAULT 5",
                "INSERT INTO _t_new SELECT t.*, 5 FROM t", "RENAME TABLE t TO _t_old, _t_new TO t",
                "DROP TABLE _t_old", "UPDATE t SET b = 'swapped' WHERE id % 7 = 0",
            )  # fmt: skip
            rig.await_current()
            assert rig.checkpoint is not None
            assert not rig.checkpoint.tables.reasons
            expect_equal(rig)
            expect_alike(rig, *NAMES)


def test_tables_that_change_their_names_while_a_slave_is_loaded_are_left_out_alone(rig: Beside) -> None:
    """Their blocks are of other names: the load waited for them, and the apply for rows that were not there."""
    with rig.recording():
        update = rig.begin()
        with rig.apply():
            rig.load_a_part(update, 2)
            rig.master.run(
                "RENAME TABLE pairs TO moved", "UPDATE moved SET v = 'x'", "RENAME TABLE bag TO b, words TO bag",
                "DELETE FROM bag WHERE n < 9", "ALTER TABLE bag RENAME TO words",
            )  # fmt: skip
            rig.load(update)
            rig.await_that(lambda: (found := rig.checkpoint) and found.state == "NORMAL")
            rig.await_current()
            assert rig.checkpoint is not None
            reasons = {table.name: reason for table, reason in rig.checkpoint.tables.reasons.items()}
            assert "moved" in reasons
            assert all("renamed" in reason for reason in reasons.values())
            expect_alike(rig, *({"t", "b", "words"} - reasons.keys()))


def test_a_snapshot_in_whose_beginning_a_definition_changes_is_begun_again(
    rig: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ALTER of the stream was read as a row there, and the load ended."""
    begin, spans = LoggedTables.begin, list[Span]()
    master, vendor, recorder = rig.master, master_of("mysql"), rig.master.recorder()
    recorder.record_once()
    last = recorder.place.offset if recorder.place is not None else 0

    def began(rows: LoggedTables, table: TableName | None = None) -> Span:
        span = begin(rows, table)
        spans.append(span if spans else replace(span, shown=lambda place: place.offset <= last))
        return spans[-1]

    with vendor.sessions.connect(rig.pair.place_of_rows(), application="test", autocommit=True) as session:
        queue = vendor.queue(session, rig.pair.prefix, "")
        shape = vendor.rows.shape(session, TableName("public", "t"))
        assert shape is not None
        master.run("ALTER TABLE t ADD COLUMN later int DEFAULT 7")
        master.record()
        monkeypatch.setattr(LoggedTables, "begin", began)
        with queue.reading(shape) as block:
            assert "later" in {column.name for column in block.shape.columns}
    assert len(spans) == 2
