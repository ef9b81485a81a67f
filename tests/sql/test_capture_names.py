"""Tables, columns, schemas and prefixes of any legal name; tables of one column and of as many as there can be."""

import pytest

from sluice.model.names import Prefix, TableName
from tests.sql.master import Master, Model

ODD = [
    "select",
    "MiXed Case",
    "with.dot",
    'with "quotes"',
    "it's",
    "back\\slash",
    "$1 ${prefix} $sluice$ %s %I %",
    "]]></col>",
    '<a href="x">&amp;',
    "new",
    "n",
    "o",
    "x",
    "sluice_row",
    "tab\tand\nnewline",
    "漢字🐘",
    "y" * 63,
    "é" * 31,
    " ",
    "c1",
    "old_rows",
    "taken",
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ODD)
def test_tables_and_columns_of_odd_names_travel(master: Master, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    schema = quoted if name not in ("new",) else '"new"'
    master.sql(
        f"CREATE SCHEMA {schema}",
        f'CREATE TABLE {schema}.{quoted} ({quoted} int PRIMARY KEY, v text, "V" text NOT NULL)',
    )
    table = TableName(name, name)
    master.register(table)
    master.sql(
        f"INSERT INTO {schema}.{quoted} SELECT g, 'v' || g, '<' FROM generate_series(1, 4) g",
        f"UPDATE {schema}.{quoted} SET v = {quoted} || 'x' WHERE {quoted} = 1",
        f"UPDATE {schema}.{quoted} SET {quoted} = {quoted} + 10, \"V\" = E'\\n'",
        f"DELETE FROM {schema}.{quoted} WHERE {quoted} = 12",
    )
    assert {item.table for item in master.items()} == {table}
    assert Model().replay(master.items()).contents(table) == master.contents(table)
    assert name in master.items()[0].new
    create = master.items(ddl=True)[0]
    assert create.action == "CREATE"
    assert master.connection.execute("SELECT * FROM demo_capture_faults()").fetchall() == []


def test_two_long_names_with_one_beginning_do_not_collide(master: Master) -> None:
    names = ["x" * 62 + end for end in "ab"]
    for name in names:
        master.sql(f"CREATE TABLE {name} (id int PRIMARY KEY)")
    master.register(*names)
    for name in names:
        master.sql(f"INSERT INTO {name} VALUES (1)")
    assert [item.table.name for item in master.items()] == names


def test_tables_of_one_name_in_two_schemas_do_not_collide(master: Master) -> None:
    master.sql(
        "CREATE SCHEMA a",
        "CREATE SCHEMA b",
        "CREATE TABLE a.t (id int PRIMARY KEY)",
        "CREATE TABLE b.t (id int PRIMARY KEY)",
    )
    master.register(TableName("a", "t"), TableName("b", "t"))
    master.sql("INSERT INTO a.t VALUES (1)", "INSERT INTO b.t VALUES (2)")
    assert [(item.table.schema, item.guid) for item in master.items()] == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize("columns", [1, 49, 97, 800, 801, 1600])
def test_tables_of_any_width_travel(master: Master, columns: int) -> None:
    names = [f"c{number}" for number in range(columns)]
    kinds = ["int", "text"] * columns
    # NULLs and short values: a row of 1,600 columns must fit into one page.
    master.sql(f"CREATE TABLE wide ({', '.join(f'{name} {kind}' for name, kind in zip(names, kinds, strict=False))})")
    master.register("wide")
    master.sql(
        f"INSERT INTO wide ({names[0]}) SELECT g FROM generate_series(1, 3) g",
        f"INSERT INTO wide SELECT {', '.join(str(number % 10) for number in range(columns))}",
        f"UPDATE wide SET {names[columns // 2]} = '7' WHERE {names[0]} <> 3",
        f"UPDATE wide SET {names[-1]} = '5' WHERE {names[0]} = 7 OR {names[0]} = 1",
        f"DELETE FROM wide WHERE {names[0]} = 2",
    )
    assert Model().replay(master.items()).contents("wide") == master.contents("wide")


def test_a_table_without_columns_travels(master: Master) -> None:
    master.sql("CREATE TABLE nothing ()")
    master.register("nothing")
    master.sql("INSERT INTO nothing DEFAULT VALUES", "INSERT INTO nothing DEFAULT VALUES", "DELETE FROM nothing")
    assert [(item.action, item.content, item.oldcontent) for item in master.items()] == [
        ("INSERT", "", None),
        ("INSERT", "", None),
        ("DELETE", None, ""),
        ("DELETE", None, ""),
    ]


def test_a_key_of_many_columns_travels(master: Master) -> None:
    names = [f"k{number}" for number in range(32)]
    master.sql(
        f"CREATE TABLE t ({', '.join(f'{name} int' for name in names)}, v int, PRIMARY KEY ({', '.join(names)}))"
    )
    master.register("t")
    master.sql(
        f"INSERT INTO t VALUES ({', '.join(str(number) for number in range(32))}, 1)",
        "UPDATE t SET v = 2",
        "UPDATE t SET k5 = 99",
    )
    guids = [item.guid for item in master.items()]
    assert guids[0] == guids[1] == "".join(f"{len(str(number))}:{number}" for number in range(32))
    assert guids[2] is None


def test_resources_live_in_a_schema_of_any_name(database) -> None:  # type: ignore[no-untyped-def]
    info = database()
    master = Master(info, Prefix("R2_D2_"), 'Odd "schema".x\'y')
    master.sql('CREATE SCHEMA "Odd ""schema"".x\'y"', "CREATE TABLE t (id int PRIMARY KEY, v text)")
    master.install()
    master.register("t")
    master.sql("INSERT INTO t VALUES (1, 'x')", "UPDATE t SET v = '<'", "ALTER TABLE t ADD w int", "DELETE FROM t")
    assert [item.action for item in master.items(ddl=True)] == [
        "CREATE", "CREATE", "INSERT", "UPDATE", "ALTER", "DELETE",
    ], "the second one says that all rows follow"  # fmt: skip


def test_identity_and_serial_columns_travel(master: Master) -> None:
    master.sql("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, s serial, v text DEFAULT 'd')")
    master.register("t")
    master.sql("INSERT INTO t DEFAULT VALUES", "INSERT INTO t (v) VALUES ('x')")
    assert [list(item.new.values()) for item in master.items()] == [["1", "1", "d"], ["2", "2", "x"]]
