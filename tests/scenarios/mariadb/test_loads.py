"""Initial updates into MariaDB: refused, in part, into existing tables, with hostile names and values."""

from collections.abc import Callable

import pytest

from sluice.database.conflicts import ValueUnfit
from sluice.model.compatibility import TablesDiffer
from tests.scenarios.mariadb.rig import Rig

HOSTILE = 'CREATE TABLE public."{name}" ("{column}" varchar(30) PRIMARY KEY, "select" text, "`tick`" bytea)'


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("CREATE TABLE public.t (id int PRIMARY KEY, tags text[])", "tags would be longtext.*lossy_columns"),
        ("CREATE TABLE public.t (id int PRIMARY KEY, n numeric)", "n would be longtext.*lossy_columns"),
        ("CREATE TABLE public.t (id int PRIMARY KEY, f float8); INSERT INTO public.t VALUES (7, 'NaN')",
         "one is NaN .row id = '7'."),
        ("CREATE TABLE public.t (id int PRIMARY KEY, at timestamptz); INSERT INTO public.t VALUES (8, 'infinity')",
         "one is infinity .row id = '8'."),
        ("CREATE TABLE public.t (id int PRIMARY KEY, d date); INSERT INTO public.t VALUES (9, '0044-03-15 BC')",
         "one is before the year 1 .row id = '9'."),
    ],
)  # fmt: skip
def test_lossy_columns_are_refused_before_anything_is_loaded(rig: Callable[..., Rig], table: str, why: str) -> None:
    pair = rig(table)
    with pytest.raises(TablesDiffer, match=why):
        pair.load()
    assert pair.slave.run("SHOW TABLES LIKE 't'").fetchall() == []


def test_no_table_of_the_servers_own_is_written_to(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE SCHEMA mysql; CREATE TABLE mysql.plugin (name text PRIMARY KEY)", lines="  mysql.*: {}\n")
    with pytest.raises(TablesDiffer, match=r"mysql.plugin is in mysql, a database of the server's own, on the slave"):
        pair.load()


@pytest.mark.long
def test_a_value_that_came_since_is_refused_by_the_apply_and_no_row_is_cut(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.t (id int PRIMARY KEY, at timestamptz)")
    pair.load()
    with pytest.raises(ValueUnfit, match=r"column 'at': the value .infinity."), pair.apply():
        pair.await_current()
        pair.master.execute("INSERT INTO public.t VALUES (1, 'infinity')")
        pair.await_current()
    assert pair.slave.run("SELECT * FROM t").fetchall() == []


@pytest.mark.long
def test_texts_that_a_servers_own_collation_takes_for_one_stay_different(rig: Callable[..., Rig]) -> None:
    keys = ["a", "A", "á", "a ", "a\u0001", "😀", "😁", "", " ", "ß", "ss"]
    pair = rig("CREATE TABLE public.t (k varchar(20) PRIMARY KEY, u text UNIQUE)")
    for key in keys:
        pair.master.execute("INSERT INTO public.t VALUES (%s, %s)", (key, key))
    update = pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        pair.master.execute("UPDATE public.t SET u = u || '.' WHERE k IN ('a', 'A', 'a ')")
        pair.master.execute("DELETE FROM public.t WHERE k IN ('á', 'ss')")
        pair.await_current()
        pair.finish(update)
        assert pair.differences() == {}


@pytest.mark.long
def test_names_and_values_of_any_kind_travel(rig: Callable[..., Rig]) -> None:
    names = ["select", 'q"uo`te', "x" * 63, "Mixed Case", "percent%s", "semi;colon", "back\\slash", "dollar$`"]
    pair = rig("CREATE SCHEMA other")
    for number, name in enumerate(names):
        ddl = HOSTILE.format(name=name.replace('"', '""'), column=f"c{number}" if number % 2 else "rank of % \\ 'x'")
        pair.master.execute(ddl.encode())
    pair.capture()
    values = ["", " ", "NULL", "\\N", "\\", '"', "'", "]]>", "\r\n", "\t,", "\u0001\u007f", "é😀", "%s", "`", "a" * 30]

    def fill(extra: str) -> None:
        for name in names:
            place = name.replace('"', '""').replace("%", "%%")
            for value in values:
                key = (value + extra)[-30:] or "-"
                pair.master.execute(
                    f'INSERT INTO public."{place}" VALUES (%s, %s, %s) ON CONFLICT DO NOTHING'.encode(),
                    (key, value * 3, value.encode() + b"\x00\xff"),
                )

    fill("")
    pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        assert pair.differences() == {}
        fill("2")
        for name in names:
            place = name.replace('"', '""')
            pair.master.execute(f'UPDATE public."{place}" SET "select" = "select" || \'!\', "`tick`" = NULL'.encode())
            pair.master.execute(f'DELETE FROM public."{place}" WHERE "select" = \'!\''.encode())
        pair.await_current()
        assert pair.differences() == {}


@pytest.mark.long
def test_tables_whose_names_differ_by_case_alone_are_two(rig: Callable[..., Rig]) -> None:
    pair = rig(
        'CREATE TABLE public."Items" (id int PRIMARY KEY, v text UNIQUE); '
        'CREATE TABLE public."ITEMS" (id int PRIMARY KEY, n int UNIQUE)'
    )
    pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        for table in ("Items", "ITEMS"):
            pair.master.execute(f'INSERT INTO public."{table}" VALUES (1, 1)'.encode())
            pair.await_current()
        assert pair.differences() == {}


@pytest.mark.long
def test_a_load_goes_on_while_the_master_is_written_to_and_again_in_part(rig: Callable[..., Rig]) -> None:
    pair = rig(
        "CREATE TABLE public.t (id int PRIMARY KEY, v text); CREATE TABLE public.o (id int PRIMARY KEY, v text); "
        "INSERT INTO public.t SELECT n, 'v' FROM generate_series(1, 4000) AS n; INSERT INTO public.o VALUES (1, 'o')",
        block_rows=500,
    )
    update = pair.begin_load()
    with pair.apply():
        pair.master.execute("UPDATE public.t SET v = 'changed' WHERE id % 3 = 0")
        pair.load(update)
        pair.master.execute("DELETE FROM public.t WHERE id % 7 = 0")
        pair.await_current()
        assert pair.differences() == {}
        pair.slave.run("UPDATE t SET v = 'mine' WHERE id BETWEEN 1000 AND 1010")
        pair.slave.run("DELETE FROM t WHERE id = 1011")
        pair.slave.run("INSERT INTO t VALUES (1001 * 7, 'mine') ON DUPLICATE KEY UPDATE v = 'mine'")
        part = pair.begin_load(tables=["public.t"])
        pair.load(part)
        pair.await_current()
        assert pair.differences() == {}


def test_a_table_that_is_there_with_another_collation_is_refused_with_the_reason(rig: Callable[..., Rig]) -> None:
    pair = rig("CREATE TABLE public.t (k varchar(20) PRIMARY KEY)")
    pair.slave.run("CREATE TABLE t (k varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY)")
    with pytest.raises(TablesDiffer, match=r"utf8mb4_general_ci.*utf8mb4_nopad_bin"):
        pair.load()
