"""Rows that DDL rewrites are queued again, although the definition may be as it was."""

import pytest

from tests.sql.master import Master

UNTRACED = {
    "the same type": ("BEGIN", "ALTER TABLE {t} ALTER n TYPE int USING n * 2", "COMMIT"),
    "there and back": ("BEGIN", "ALTER TABLE {t} ALTER n TYPE text",
                       "ALTER TABLE {t} ALTER n TYPE int USING 7", "COMMIT"),
    "a savepoint": ("BEGIN", "SAVEPOINT s", "ALTER TABLE {t} ALTER v TYPE text USING v || v", "RELEASE s", "COMMIT"),
    "with rows before and after": (
        "BEGIN", "UPDATE {t} SET n = n + 1 WHERE id < 4", "ALTER TABLE {t} ALTER n TYPE int USING n * 2",
        "DELETE FROM {t} WHERE id = 2", "INSERT INTO {t} (id) VALUES (77)", "COMMIT"),
    "a default that is gone": (
        "BEGIN", "ALTER TABLE {t} ADD r float8 DEFAULT random()", "ALTER TABLE {t} ALTER r DROP DEFAULT", "COMMIT"),
    "a sequence that is gone": (
        "BEGIN", "ALTER TABLE {t} ADD i serial", "ALTER TABLE {t} ALTER i DROP DEFAULT", "COMMIT"),
    "a column that the same transaction has added and filled": (
        "BEGIN", "ALTER TABLE {t} ADD r int", "UPDATE {t} SET r = id", "ALTER TABLE {t} ALTER r TYPE int USING r * 100",
        "COMMIT"),
    "and of another type": (
        "BEGIN", "ALTER TABLE {t} ADD r int", "UPDATE {t} SET r = id",
        "ALTER TABLE {t} ALTER r TYPE text USING 'r' || r", "UPDATE {t} SET r = r || 'x' WHERE id = 4", "COMMIT"),
    "new files once more": ("ALTER TABLE {t} ALTER n TYPE int USING n * 2", "VACUUM FULL {t}"),
    "an older TRUNCATE": (
        "TRUNCATE {t}", "INSERT INTO {t} (id, v, n) SELECT g, 'z', g FROM generate_series(1, 5) g",
        "SELECT demo_check_structure()", "ALTER TABLE {t} ALTER n TYPE int USING n * 2"),
    "keys": ("ALTER TABLE {t} ALTER n TYPE int USING n * 2, ALTER v TYPE text USING v || '!'",),
    "another change": ("ALTER TABLE {t} ALTER n TYPE int USING n * 2", "ALTER TABLE {t} RENAME v TO w"),
}  # fmt: skip
"""Statements that give the rows of a table other values, and leave little or no trace in its definition."""


@pytest.mark.releases
@pytest.mark.one_in(8)
@pytest.mark.parametrize("table", ["orders", "parts"])
@pytest.mark.parametrize("untraced", UNTRACED)
def test_rows_that_are_rewritten_without_a_trace_are_queued_again(
    any_master: Master, untraced: str, table: str
) -> None:
    any_master.sql(
        "CREATE TABLE parts (id int PRIMARY KEY, v text, n int) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (5)",
        "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (5) TO (100)",
    )
    any_master.register("orders", "parts")
    any_master.sql(f"INSERT INTO {table} SELECT g, 'x', g FROM generate_series(2, 20) g")
    any_master.sql(*(statement.format(t=table) for statement in UNTRACED[untraced]))
    any_master.sql("SELECT demo_check_structure()")
    last: dict[str | None, tuple[str | None, ...]] = {}
    for item in any_master.items():
        if item.table.name == table and item.action == "TRUNCATE":
            last.clear()
        elif item.table.name == table and item.action == "DELETE":
            del last[item.guid]
        elif item.table.name == table:
            last[item.guid] = tuple(item.new.values())
    assert set(last.values()) == {tuple(value for _, value in row) for row in any_master.contents(table)}
    assert any_master.value("SELECT demo_check_structure()") == 0


def test_rows_of_a_table_that_is_rewritten_and_renamed_are_queued_again(any_master: Master) -> None:
    with any_master.connection.transaction():
        any_master.sql("ALTER TABLE orders ALTER n TYPE int USING n * 2", "ALTER TABLE orders RENAME TO bills")
    any_master.sql("SELECT demo_check_structure()", "SELECT demo_check_structure()")
    assert any_master.items()[-1].new == {"id": "1", "v": "a", "n": "20"}
    assert any_master.value("SELECT demo_check_structure()") == 0
