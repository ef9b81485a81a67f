"""Tables, columns, schemas and prefixes of any legal name; tables of one column and of as many as there can be."""

import re
from collections.abc import Iterable

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


RESERVED = re.findall(
    r"\w+",
    """all begin by case declare else end execute for foreach from if in into loop not null or strict then to
    using when while""",
)
"""Words that PL/pgSQL reserves; SQL leaves most of them free."""
FREE = re.findall(
    r"\w+",
    """absolute alias and array assert backward call chain close collate column column_name commit constant
    constraint constraint_name continue current cursor datatype debug default detail diagnostics do dump elsif elseif
    errcode error exception exit fetch first forward get hint import info insert is last log merge message
    message_text move next no notice open option perform pg_context pg_datatype_name pg_exception_context
    pg_exception_detail pg_exception_hint pg_routine_oid print_strict_params prior query raise relative return
    returned_sqlstate reverse rollback row_count rowtype schema schema_name scroll slice sqlstate stacked table
    table_name type use_column use_variable variable_conflict warning""",
)
"""Its other words."""
OURS = re.findall(
    r"\w+",
    """sluice sluice_new sluice_old sluice_row sluice_row1 key taken old_rows new_rows protected former_path reason
    deleted r q c n o x f1 c1 n1 o1 new old found sqlerrm tg_op tg_relid tg_name tg_table_name tg_argv base""",
)
"""Names in the generated code, and in any trigger function."""
FORMS = """
    CREATE TABLE plain (id int PRIMARY KEY, {columns});
    CREATE TABLE parted (id int PRIMARY KEY, {columns}) PARTITION BY RANGE (id);
    CREATE TABLE part PARTITION OF parted DEFAULT;
    CREATE TABLE written (id int PRIMARY KEY, {columns});
    CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN UPDATE written SET id = -NEW.id WHERE id = NEW.id AND id > 100; RETURN NULL; END $$;
    CREATE TRIGGER mark AFTER INSERT ON written FOR EACH ROW EXECUTE FUNCTION mark()"""
"""A table with statement triggers, one with row triggers, and one whose rows a trigger of its own changes again."""
TABLES = ("plain", "parted", "written")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def write_all(master: Master, table: str, columns: Iterable[str], first: int) -> None:
    """Texts that need no protection and texts that do, alone and many at once."""
    names = [quoted(column) for column in columns]
    values = ", ".join(f"'{number % 10}'" for number in range(len(names)))
    listed = f"id, {', '.join(names)}"
    odd = ", ".join(r"E'<\n'" for _ in names)
    master.sql(
        f"INSERT INTO {table} ({listed}) VALUES ({first}, {values})",
        f"INSERT INTO {table} ({listed}) VALUES ({first + 1}, {odd})",
        f"INSERT INTO {table} ({listed}) SELECT {first + 2} + g, {values} FROM generate_series(1, 12) g",
        f"INSERT INTO {table} ({listed}) VALUES ({first + 101}, {odd})",
        f"UPDATE {table} SET {', '.join(f'{name} = {name} || chr(60)' for name in names[::2])}",
        f"UPDATE {table} SET {names[-1]} = NULL WHERE id = {first}",
        f"UPDATE {table} SET id = id + 1000, {names[0]} = 'moved' WHERE id = {first + 1}",
        f"DELETE FROM {table} WHERE id = {first + 3}",
    )


@pytest.mark.one_in(6)
@pytest.mark.parametrize("table", TABLES)
def test_every_keyword_and_every_name_of_the_generated_code_is_a_column(any_master: Master, table: str) -> None:
    keywords = [word for (word,) in any_master.rows("SELECT word FROM pg_get_keywords()")]
    columns = sorted({*keywords, *RESERVED, *FREE, *OURS, *(word.upper() for word in RESERVED)})
    assert len(columns) > 500
    any_master.sql(FORMS.format(columns=", ".join(f"{quoted(column)} text" for column in columns)))
    any_master.register("orders", table)
    write_all(any_master, table, columns, 1)
    replayed = Model().replay(item for item in any_master.items() if item.table.name == table)
    assert replayed.contents(table) == any_master.contents(table)


@pytest.mark.one_in(56)
@pytest.mark.parametrize("name", [*RESERVED, "sluice_row1", "key", "MiXed $1 é'\"\\"])
def test_a_live_table_takes_any_name_for_a_column_and_for_itself(any_master: Master, name: str) -> None:
    any_master.sql(
        FORMS.format(columns="start text, t public.pair").replace("\n", "CREATE TYPE public.pair AS (a int);", 1)
    )
    any_master.register("orders", *TABLES)
    for table in TABLES:
        any_master.sql(f"ALTER TABLE {table} RENAME start TO {quoted(name)}")
        write_all(any_master, table, [name], 1)
        assert any_master.value("SELECT demo_check_structure()") in (0, 1)
        write_all(any_master, table, [name], 2000)
        replayed = Model().replay(item for item in any_master.items() if item.table.name == table)
        assert replayed.contents(table) == any_master.contents(table), table
    any_master.sql("DROP TABLE orders", f"ALTER TABLE plain RENAME TO {quoted(name)}")
    with any_master.captured() as items:
        write_all(any_master, quoted(name), [name], 4000)
    assert any_master.value("SELECT demo_check_structure()") in (0, 1)
    assert {item.table.name for item in items} == {name}


@pytest.mark.long
def test_words_of_plpgsql_name_schemas_tables_types_constraints_indexes_and_triggers(master: Master) -> None:
    words = [*RESERVED[::2], *OURS[:4]]
    for word in words:
        name = quoted(word)
        master.sql(
            f"CREATE SCHEMA {name}",
            f"CREATE TYPE public.{name} AS ENUM ('<', 'x')",
            f"CREATE TABLE {name}.{name} ({name} int NOT NULL, v public.{name}, "
            f"t text CONSTRAINT {name} CHECK (t <> ''))",
            f"CREATE UNIQUE INDEX {quoted(word + ' ')} ON {name}.{name} ({name})",
            f"CREATE FUNCTION {name}.{name}() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM 1; RETURN NEW; END $$",
            f"CREATE TRIGGER {name} BEFORE INSERT ON {name}.{name} FOR EACH ROW EXECUTE FUNCTION {name}.{name}()",
        )
    master.register(*(TableName(word, word) for word in words))
    for word in words:
        name = quoted(word)
        master.sql(
            f"INSERT INTO {name}.{name} VALUES (1, '<', 'a'), (2, 'x', '<&')",
            f"UPDATE {name}.{name} SET t = t || '<', {name} = {name} + 10",
            f"DELETE FROM {name}.{name} WHERE v = '<'",
        )
        table = TableName(word, word)
        replayed = Model().replay(item for item in master.items() if item.table == table)
        assert replayed.contents(table) == master.contents(table), word
    assert master.rows("SELECT * FROM demo_capture_faults()") == []


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", ODD)
def test_tables_and_columns_of_odd_names_travel(master: Master, name: str) -> None:
    schema = relation = quoted(name)
    master.sql(
        f"CREATE SCHEMA {schema}",
        f'CREATE TABLE {schema}.{relation} ({relation} int PRIMARY KEY, v text, "V" text NOT NULL)',
    )
    table = TableName(name, name)
    master.register(table)
    master.sql(
        f"INSERT INTO {schema}.{relation} SELECT g, 'v' || g, '<' FROM generate_series(1, 4) g",
        f"UPDATE {schema}.{relation} SET v = {relation} || 'x' WHERE {relation} = 1",
        f"UPDATE {schema}.{relation} SET {relation} = {relation} + 10, \"V\" = E'\\n'",
        f"DELETE FROM {schema}.{relation} WHERE {relation} = 12",
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


@pytest.mark.one_in(6)
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
