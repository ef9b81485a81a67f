"""What the log has for each kind of transaction, and what the stream has of it: facts that were measured on 10.11."""

from itertools import pairwise
from typing import Any

import pytest

from sluice.database.change_log import LogUnreadable
from sluice.errors import DataLost
from tests.scenarios.binlog.master import Master, short

TABLES = (
    "CREATE TABLE t (id int primary key, v varchar(300))",
    "CREATE TABLE u (id int primary key, v varchar(300))",
)


@pytest.fixture
def recorded(master: Master) -> Master:
    """A master with two empty tables, whose recording has begun."""
    master.run(*TABLES)
    master.record()
    return master


def shorts(master: Master) -> list[tuple[Any, ...]]:
    return [short(change) for change in master.record()]


def commits(master: Master) -> list[int]:
    """The positions of the transactions that have changes."""
    found = [line["commit"] for line in master.lines() if "commit" in line]
    return [after for before, after in pairwise(found) if after > before]


def test_each_transaction_comes_once_and_whole(recorded: Master) -> None:
    recorded.run(
        "BEGIN", "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "UPDATE t SET v = 'c' WHERE id = 1",
        "DELETE FROM t WHERE id = 2", "INSERT INTO u VALUES (1, NULL)", "COMMIT",
        "UPDATE t SET v = 'c' WHERE id = 1", "INSERT INTO u VALUES (2, 'x')",
    )  # fmt: skip
    assert shorts(recorded) == [
        ("insert", "t", "1", "a"), ("insert", "t", "2", "b"), ("update", "t", "1", "c"), ("delete", "t", "2", "b"),
        ("insert", "u", "1", None), ("insert", "u", "2", "x"),
    ]  # fmt: skip
    assert commits(recorded) == [5, 6], "a statement that changes nothing is in no log"
    assert recorded.record() == []


def test_what_was_rolled_back_never_comes(recorded: Master) -> None:
    recorded.run("BEGIN", "INSERT INTO t VALUES (1, 'r')", "ROLLBACK")
    recorded.run(
        "BEGIN", "INSERT INTO t VALUES (2, 'x')", "SAVEPOINT s", "INSERT INTO t VALUES (3, 'y')", "ROLLBACK TO s",
        "INSERT INTO t VALUES (4, 'z')", "COMMIT",
    )  # fmt: skip
    recorded.run("INSERT INTO t VALUES (9, 'n')")
    recorded.refused("INSERT INTO t VALUES (8, 'first'), (9, 'again')")
    assert shorts(recorded) == [("insert", "t", "2", "x"), ("insert", "t", "4", "z"), ("insert", "t", "9", "n")]


def test_rows_that_are_logged_and_then_undone_never_come(recorded: Master) -> None:
    """The log has them before a ROLLBACK, because something else of their transaction stays."""
    recorded.run("CREATE TABLE m (id int primary key) ENGINE = MyISAM")
    recorded.run("BEGIN", "INSERT INTO t VALUES (22, 'r')", "CREATE TEMPORARY TABLE x (a int)", "ROLLBACK")
    recorded.run("DROP TEMPORARY TABLE IF EXISTS x")
    recorded.run(
        "BEGIN", "INSERT INTO t VALUES (13, 'x')", "SAVEPOINT `S 1`", "INSERT INTO t VALUES (14, 'y')",
        "INSERT INTO m VALUES (1)", "ROLLBACK TO `S 1`", "INSERT INTO t VALUES (15, 'z')", "COMMIT",
    )  # fmt: skip
    recorded.run("BEGIN", "INSERT INTO t VALUES (20, 'r')", "INSERT INTO m VALUES (2)", "ROLLBACK")
    changes = recorded.record()
    assert [short(change) for change in changes if change["table"][1] == "t"] == [
        ("insert", "t", "13", "x"),
        ("insert", "t", "15", "z"),
    ]
    told = [change["reason"] for change in changes if change["table"][1] == "m"]
    assert told
    assert all("MyISAM" in reason for reason in told), "such a table is told to differ, not followed wrongly"


def test_xa_rows_come_when_and_only_if_they_are_committed(recorded: Master) -> None:
    for name, row in (("g1", 50), ("g2", 51)):
        with recorded.connect() as other:
            recorded.run(f"XA START '{name}','b'", f"INSERT INTO t VALUES ({row}, 'xa')", on=other)
            recorded.run(f"XA END '{name}','b'", f"XA PREPARE '{name}','b'", on=other)
    recorded.run("INSERT INTO u VALUES (1, 'between')")
    assert shorts(recorded) == [("insert", "u", "1", "between")]
    recorded.run("INSERT INTO u VALUES (2, 'later')", "XA COMMIT 'g1','b'", "XA ROLLBACK 'g2','b'")
    recorded.run("XA START 'g3'", "INSERT INTO t VALUES (52, 'one')", "XA END 'g3'", "XA COMMIT 'g3' ONE PHASE")
    assert shorts(recorded) == [
        ("insert", "u", "2", "later"),
        ("insert", "t", "50", "xa"),
        ("insert", "t", "52", "one"),
    ]
    assert recorded.record() == []


def test_statements_that_change_rows_in_many_ways_come_as_rows(recorded: Master) -> None:
    recorded.run("INSERT INTO t VALUES (1, 'a')", "INSERT INTO u SELECT * FROM t")
    recorded.run("REPLACE INTO t VALUES (1, 'rep')", "INSERT INTO t VALUES (1, 'x') ON DUPLICATE KEY UPDATE v = 'dup'")
    recorded.run("UPDATE t JOIN u USING (id) SET t.v = 'j', u.v = 'k'", "UPDATE t SET id = 7")
    recorded.run("CREATE TRIGGER tr AFTER DELETE ON t FOR EACH ROW INSERT INTO u VALUES (OLD.id, 'by trigger')")
    recorded.run("DELETE FROM t")
    assert shorts(recorded) == [
        ("insert", "t", "1", "a"), ("insert", "u", "1", "a"), ("update", "t", "1", "rep"), ("update", "t", "1", "dup"),
        ("update", "t", "1", "j"), ("update", "u", "1", "k"), ("update", "t", "7", "j"), ("delete", "t", "7", "j"),
        ("insert", "u", "7", "by trigger"),
    ]  # fmt: skip


def test_temporary_tables_sequences_and_what_is_not_logged_leave_no_trace(recorded: Master) -> None:
    recorded.run("CREATE TEMPORARY TABLE x (a int)", "INSERT INTO x VALUES (1)", "DROP TEMPORARY TABLE x")
    recorded.run("CREATE SEQUENCE s", "SELECT NEXT VALUE FOR s", "DROP SEQUENCE s")
    recorded.run("SET sql_log_bin = 0", "INSERT INTO t VALUES (3, 'unseen')", "SET sql_log_bin = 1")
    recorded.run("ANALYZE TABLE t", "OPTIMIZE TABLE t", "FLUSH BINARY LOGS")
    recorded.run("CREATE USER IF NOT EXISTS x@localhost IDENTIFIED BY 'secretpw'", "DROP USER x@localhost")
    assert recorded.record() == []
    assert "secretpw" not in "".join(file.read_text() for file in recorded.folder.glob("*.jsonl"))


def test_transactions_of_several_domains_come_in_the_order_of_the_log(recorded: Master) -> None:
    recorded.run("SET SESSION gtid_domain_id = 7", "INSERT INTO t VALUES (90, 'dom')", "SET SESSION gtid_domain_id = 0")
    recorded.run("INSERT INTO t VALUES (91, 'l')")
    assert shorts(recorded) == [("insert", "t", "90", "dom"), ("insert", "t", "91", "l")]
    recorded.run(
        "SET SESSION gtid_domain_id = 7", "UPDATE t SET v = 'm' WHERE id = 90", "SET SESSION gtid_domain_id = 0"
    )
    assert shorts(recorded) == [("update", "t", "90", "m")]


def test_a_create_from_a_select_comes_with_its_rows_in_one_transaction(recorded: Master) -> None:
    recorded.run(
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')", "CREATE TABLE c (k int primary key) SELECT id AS k, v FROM t"
    )
    recorded.run("CREATE OR REPLACE TABLE c AS SELECT 5 AS only")
    changes = recorded.record()
    assert [each["change"] for each in changes] == ["insert"] * 2 + ["create"] + ["insert"] * 2 + [
        "drop",
        "create",
        "insert",
    ]
    assert changes[2]["complete"] is True
    assert [column["name"] for column in changes[2]["definition"]["columns"]] == ["k", "v"]
    assert short(changes[-1]) == ("insert", "c", "5")
    assert commits(recorded) == [2, 5, 8]


def test_a_table_without_a_key_comes_with_whole_old_rows(recorded: Master) -> None:
    recorded.run(
        "CREATE TABLE nk (a int, b float)", "INSERT INTO nk VALUES (1, 0.1), (1, 0.1)", "DELETE FROM nk LIMIT 1"
    )
    recorded.run("UPDATE nk SET b = 2")
    (_, *changes) = recorded.record()
    assert changes[-2]["old"] == {"a": "1", "b": "0.1"}
    assert changes[-1]["old"] == {"a": "1", "b": "0.1"}
    assert changes[-1]["new"] == {"a": "1", "b": "2"}


def test_rows_without_some_columns_make_the_table_differ(recorded: Master) -> None:
    recorded.run("INSERT INTO t VALUES (1, 'a')", "SET SESSION binlog_row_image = MINIMAL")
    recorded.run(
        "UPDATE t SET v = 'm' WHERE id = 1", "SET SESSION binlog_row_image = FULL", "INSERT INTO u VALUES (1, 'b')"
    )
    _, told, last = recorded.record()
    assert (told["change"], told["table"]) == ("differ", ["public", "t"])
    assert "binlog_row_image" in told["reason"]
    assert short(last) == ("insert", "u", "1", "b")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET v = 's'",
        "INSERT INTO t VALUES (5, rand())",
        "DELETE FROM t WHERE id = 1",
        "REPLACE INTO t VALUES (1, @x)",
    ],
)
def test_a_change_that_is_logged_as_a_statement_ends_the_stream_as_lost(recorded: Master, statement: str) -> None:
    recorded.run("INSERT INTO t VALUES (1, 'a')", "SET SESSION binlog_format = STATEMENT", "SET @x = 'secretpw'")
    recorded.run(statement, "SET SESSION binlog_format = ROW", "INSERT INTO t VALUES (2, 'later')")
    with pytest.raises(LogUnreadable, match="binlog_format = ROW"):
        recorded.record()
    assert [short(change) for change in recorded.changes()] == [("insert", "t", "1", "a")]
    last = recorded.lines()[-1]
    assert "binlog_format" in last["lost"]
    assert "secretpw" not in last["lost"]
    with pytest.raises(DataLost, match="new stream"):
        recorded.record()


def test_a_table_whose_rows_a_foreign_key_changes_is_told_to_differ(recorded: Master) -> None:
    recorded.run("CREATE TABLE child (id int primary key, t int, FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE)")
    recorded.run("INSERT INTO t VALUES (1, 'p')", "INSERT INTO child VALUES (1, 1)", "DELETE FROM t")
    told = [change for change in recorded.record() if change["change"] == "differ"]
    assert {change["table"][1] for change in told} == {"child"}
    assert "CASCADE" in told[0]["reason"]


def test_a_transaction_of_a_million_bytes_is_kept_on_disk_until_it_is_decided(recorded: Master) -> None:
    from sluice.vendors.mysql.binlog import groups

    large = "INSERT INTO t SELECT seq, repeat('x', 300) FROM seq_{}_to_{}"
    kept, groups.MEMORY_BYTES = groups.MEMORY_BYTES, 100_000
    try:
        recorded.run(
            "BEGIN", large.format(1, 1000), "SAVEPOINT s", large.format(2001, 3000), "INSERT INTO u VALUES (1, 'u')"
        )
        recorded.run("CREATE TEMPORARY TABLE x (a int)", "ROLLBACK TO s", large.format(5001, 5100), "COMMIT")
        ids = [int(change["new"]["id"]) for change in recorded.record()]
    finally:
        groups.MEMORY_BYTES = kept
    assert ids == [*range(1, 1001), *range(5001, 5101)]


def test_a_table_that_is_altered_is_described_without_a_row(master: Master) -> None:
    """As where nobody writes to it: a load waits for the slave's column otherwise."""
    master.run("CREATE TABLE t (id int primary key)", "INSERT INTO t VALUES (1)")
    master.record()
    master.run("ALTER TABLE t ADD COLUMN a int DEFAULT 7, ADD COLUMN b varchar(9)")
    (altered,) = master.record()
    assert altered["change"] == "alter"
    named = {column["name"]: column.get("missing") for column in altered["definition"]["columns"]}
    assert named == {"id": None, "a": "7", "b": None}
    master.run("INSERT INTO t VALUES (2, 3, 'x')")
    assert [change["change"] for change in master.record()] == ["insert"]
