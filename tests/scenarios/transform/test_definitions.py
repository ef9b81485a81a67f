"""Definitions change on the master while a slave has transformed tables; all ways compute the same for every type."""

import pytest

from sluice.apply.pair_sessions import ColumnRenamed
from sluice.coordination import redis_store
from sluice.load import steps
from sluice.model.compatibility import TablesDiffer
from sluice.model.names import TableName
from sluice.model.table_state import TableState
from sluice.preflight import checks
from sluice.transform.table_transform import RowNotTransformed, TransformationInvalid
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import compare_table
from tests.errors import raises_code
from tests.rig.rig import Rig
from tests.scenarios.transform.conftest import MakeShop


def unlike(here: Rig, *, part: bool) -> list[str]:
    """The issues that the task `check` reports for tables that differ from the master's."""
    replication, slave = here.pair.replication, here.pair.slave
    covers = (lambda table: True) if part else None
    found = checks.of_slave(here.slave, replication, slave, master=here.master, covers=covers)
    return [issue.why for issue in found if issue.what == "a table like the master's"]


DDL = """
CREATE TABLE public.t (id int PRIMARY KEY, a text, secret text, n int);
INSERT INTO public.t SELECT g, 'a' || g, 'hunter' || g, g FROM generate_series(1, 20) g;
"""
TABLES = {
    "public.t": {"where": "n > 5", "columns": {"a": {"rename": "b"}, "secret": {"exclude": "true"}}},
    "public.mad*": {"where": "n > 5", "columns": {"secret": {"exclude": "true"}, "twice": {"expression": "n * 2"}}},
    "public.*": {},
}


def loaded(here: Rig) -> None:
    here.prepare(update := here.update())
    with here.apply():
        here.load_to_normal(update)


def on_slave(here: Rig, table: str = "t") -> list[tuple[object, ...]]:
    return here.slave.execute(f"SELECT * FROM public.{table} ORDER BY 1".encode()).fetchall()


def names(here: Rig, table: str = "t") -> list[str]:
    cursor = here.slave.execute(f"SELECT * FROM public.{table} LIMIT 0".encode(), prepare=False)
    return [column.name for column in cursor.description or ()]


@pytest.mark.long
def test_changes_of_a_definition_follow_as_far_as_the_slave_has_the_columns(shop: MakeShop) -> None:
    here = shop(DDL, TABLES)
    loaded(here)
    with here.apply():
        for statement in (
            "ALTER TABLE public.t ADD COLUMN more text DEFAULT 'x'; UPDATE public.t SET n = n + 1",
            "ALTER TABLE public.t ALTER COLUMN secret TYPE varchar(50); UPDATE public.t SET secret = 'hunter0'",
            "ALTER TABLE public.t RENAME COLUMN more TO less; UPDATE public.t SET less = 'y' WHERE n > 10",
            "ALTER TABLE public.t DROP COLUMN secret; INSERT INTO public.t VALUES (30, 'new', 30, 'z')",
            "ALTER TABLE public.t ALTER COLUMN n TYPE bigint; UPDATE public.t SET n = n + 5000000000 WHERE id = 30",
        ):
            for part in statement.split(";"):
                here.master.execute(part.encode())
            here.await_current()
            assert "secret" not in names(here)
            mine = here.slave.execute(b"SELECT id, b, n FROM public.t ORDER BY 1").fetchall()
            theirs = here.master.execute(b"SELECT id, a, n FROM public.t WHERE n > 5 ORDER BY 1").fetchall()
            assert mine == theirs
        assert names(here) == ["id", "b", "n", "less"]


@pytest.mark.long
def test_an_excluded_column_under_a_new_name_stops_the_apply_and_both_names_let_it_go_on(shop: MakeShop) -> None:
    here = shop(DDL, TABLES)
    loaded(here)
    with pytest.raises(ColumnRenamed, match="secret is token now"), here.apply():
        here.master.execute("UPDATE public.t SET n = n + 1 WHERE id = 10")
        here.master.execute("ALTER TABLE public.t RENAME COLUMN secret TO token")
        here.master.execute("INSERT INTO public.t VALUES (40, 'new', 'hunter40', 40)")
        here.await_current()
    assert "hunter" not in str(on_slave(here))
    columns = {**TABLES["public.t"]["columns"], "token": {"exclude": "true"}}  # type: ignore[dict-item]
    fixed = shop("SELECT", {**TABLES, "public.t": {**TABLES["public.t"], "columns": columns}},
                  master=here.master_info, slave=here.slave_info)  # fmt: skip
    with fixed.apply():
        fixed.await_current()
    assert (10, "a10", 11) in on_slave(here) and (40, "new", 40) in on_slave(here)
    assert names(here) == ["id", "b", "n"]


@pytest.mark.long
def test_columns_under_new_names_leave_out_their_table_alone_and_one_load_mends_it(shop: MakeShop) -> None:
    isolate = {"on_error": "isolate"}
    here = shop(f"{DDL} CREATE TABLE public.other (id int PRIMARY KEY);", TABLES, slave_options=isolate)
    loaded(here)
    with here.apply():
        here.master.execute("ALTER TABLE public.t RENAME COLUMN secret TO token")
        here.master.execute("ALTER TABLE public.t RENAME COLUMN a TO c")
        here.master.execute(
            "INSERT INTO public.t VALUES (40, 'new', 'hunter40', 40); INSERT INTO public.other VALUES (1)"
        )
        here.await_current()
        table = TableName("public", "t")
        assert list(here.checkpoint.tables) == [table] and on_slave(here, "other") == [(1,)]
        why = here.checkpoint.tables.explain(table)
        assert "secret is token now" in why and why.endswith("write the new name there, then load the table")
        with pytest.raises(TablesDiffer, match=r"public\.t\.secret: the master's table has no such column"):
            here.prepare(here.update(tables=["public.t"]))
        assert "hunter" not in str(on_slave(here))
    columns = {"c": {"rename": "b"}, "token": {"exclude": "true"}}
    fixed = shop("SELECT", {**TABLES, "public.t": {"where": "n > 5", "columns": columns}}, slave_options=isolate,
                  master=here.master_info, slave=here.slave_info)  # fmt: skip
    with fixed.apply():
        fixed.prepare(update := fixed.update(tables=["public.t"]))
        fixed.load_to_normal(update)
        fixed.await_current()
        fixed.master.execute("UPDATE public.t SET c = 'newer', token = 'hunter41' WHERE id = 40")
        fixed.await_current()
        assert not fixed.checkpoint.tables.not_ready
        assert (40, "newer", 40) in on_slave(here) and names(here) == ["id", "b", "n"]
        assert "hunter" not in str(on_slave(here))


@pytest.mark.long
def test_a_table_under_a_new_name_stops_the_apply_and_the_same_line_lets_it_go_on(shop: MakeShop) -> None:
    here = shop(DDL, TABLES)
    loaded(here)
    with (
        raises_code("transformed-table-renamed", match=r"on the master it is public.u now.*tables.public.t says"),
        here.apply(),
    ):
        here.master.execute("ALTER TABLE public.t RENAME TO u; INSERT INTO public.u VALUES (40, 'new', 'hunter40', 40)")
        here.await_current()
    assert names(here) == ["id", "b", "n"]
    fixed = shop("SELECT", {**TABLES, "public.u": TABLES["public.t"]}, master=here.master_info, slave=here.slave_info)
    with fixed.apply():
        fixed.await_current()
    assert (40, "new", 40) in on_slave(here, "u") and names(here, "u") == ["id", "b", "n"]


@pytest.mark.long
def test_the_apply_names_a_dropped_column_that_an_expression_uses(shop: MakeShop) -> None:
    here = shop(DDL, TABLES)
    loaded(here)
    with pytest.raises(TransformationInvalid, match="where `n > 5` uses n, which is no column"), here.apply():
        here.master.execute("ALTER TABLE public.t DROP COLUMN n")
        here.master.execute("INSERT INTO public.t VALUES (40, 'new', 'hunter40')")
        here.await_current()
    assert "hunter" not in str(on_slave(here))


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        pytest.param("DROP COLUMN n", "where `n > 5` uses n, which is no column", marks=pytest.mark.long),
        ("ALTER COLUMN n TYPE text", "where `n > 5` cannot be computed"),
    ],
)
def test_an_expression_that_does_not_fit_any_more_leaves_out_its_table_alone(
    shop: MakeShop, statement: str, reason: str
) -> None:
    more = "CREATE TABLE public.other (id int PRIMARY KEY);"
    here = shop(DDL + more, TABLES, slave_options={"on_error": "isolate"})
    loaded(here)
    table = TableName("public", "t")
    with here.apply():
        here.master.execute(f"ALTER TABLE public.t {statement}".encode())
        here.master.execute(
            "INSERT INTO public.t (id, secret) VALUES (40, 'hunter'); INSERT INTO public.other VALUES (1)"
        )
        here.await_current()
        assert reason in here.checkpoint.tables.explain(table)
        assert on_slave(here, "other") == [(1,)] and "hunter" not in str(on_slave(here))
    with here.apply():
        here.master.execute("UPDATE public.t SET secret = 'hunter2'; INSERT INTO public.other VALUES (2)")
        here.await_current()
        assert list(here.checkpoint.tables) == [table] and len(on_slave(here, "other")) == 2


@pytest.mark.long
def test_a_table_made_on_the_master_is_made_as_the_slave_is_to_have_it(shop: MakeShop) -> None:
    here = shop(DDL + "CREATE TABLE public.made (id int PRIMARY KEY, secret text, n int)", TABLES)
    loaded(here)
    with here.apply():
        here.master.execute("INSERT INTO public.made VALUES (1, 'hunter', 1), (2, 'hunter', 9)")
        here.await_current()
    assert on_slave(here, "made") == [(2, 9, 18)] and names(here, "made") == ["id", "n", "twice"]


@pytest.mark.long
def test_a_row_that_cannot_be_computed_stops_the_apply_and_nothing_is_lost(shop: MakeShop) -> None:
    tables = {"public.t": {"columns": {"a": {"expression": "CAST(CAST(a AS INTEGER) AS VARCHAR)"}}}}
    here = shop(DDL.replace("'a' || g", "g"), tables)
    loaded(here)
    with pytest.raises(RowNotTransformed, match="id = '7'") as raised, here.apply():
        here.master.execute("UPDATE public.t SET n = 100 WHERE id = 6")
        here.master.execute("UPDATE public.t SET a = 'hunter' WHERE id = 7")
        here.await_current()
    assert "hunter" not in str(raised.value)
    fixed = {"public.t": {"columns": {"a": {"expression": "CAST(TRY_CAST(a AS INTEGER) AS VARCHAR)"}}}}
    again = shop("SELECT", fixed, master=here.master_info, slave=here.slave_info)
    with again.apply():
        again.await_current()
    assert on_slave(here)[5:7] == [(6, "6", "hunter6", 100), (7, None, "hunter7", 7)]


VALUES = {
    "boolean": "true", "char(5)": "'ab'", "varchar(9)": "' x '", "inet": "'1.2.3.4'", "cidr": "'10.0.0.0/8'",
    "interval": "'1 year -2 days 03:04:05.5'", "int4range": "'[1,5)'", "text[]": "'{a,\"b c\",NULL}'",
    "numeric": "12345678901234567890.123456789012345678901234567890", "numeric(12,2)": "-0.50", "real": "0.1",
    "double precision": "1e-300", "bytea": "'\\x00ff'", "date": "'0044-03-15 BC'", "timestamp": "'infinity'",
    "timestamptz": "'2020-02-29 12:00:00.000001+05'", "time": "'24:00:00'", "timetz": "'10:00:00+02'",
    "uuid": "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "json": "'{\"b\": 1,  \"a\":2}'",
    "jsonb": "'{\"b\": 1, \"a\":2}'", "bit(3)": "B'101'",
    "point": "'(1,2)'", "macaddr": "'08:00:2b:01:02:03'", "money": "12.5",
}  # fmt: skip


@pytest.mark.long
def test_a_value_of_each_type_is_computed_alike_by_a_load_by_the_apply_and_by_a_comparison(shop: MakeShop) -> None:
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(VALUES))
    row = ", ".join(f"{value}::{kind}" for kind, value in VALUES.items())
    computed = {f"t{place}": {"expression": f"CAST(c{place} AS VARCHAR) || '!'"} for place in range(len(VALUES))}
    ddl = f"CREATE TABLE public.zoo (id int PRIMARY KEY, {columns}); INSERT INTO public.zoo SELECT 1, {row}"
    here = shop(ddl, {"public.zoo": {"columns": {**computed, "id": {"rename": "nr"}}}})
    loaded(here)
    with here.apply() as running:
        here.await_normal_mode(running)
        here.master.execute(f"INSERT INTO public.zoo SELECT 2, {row}".encode())
        here.await_current()
        as_texts = ", ".join(f'"{name}"::text' for name in names(here, "zoo"))
        query = f"SELECT {as_texts} FROM public.zoo ORDER BY nr".encode()
        (one, *loaded_row), (two, *applied_row) = here.slave.execute(query).fetchall()
        assert (one, two) == ("1", "2") and loaded_row == applied_row
        assert len(loaded_row) == 2 * len(VALUES) and all(value is not None for value in loaded_row)
        found = compare_table(
            here.pair, redis_store.connect(here.redis_url), TableName("public", "zoo"), CompareOptions()
        )
        assert found.outcome is Outcome.IDENTICAL, found.reason
        here.master.execute("UPDATE public.zoo SET c0 = NOT c0; DELETE FROM public.zoo WHERE id = 1")
        here.await_current()
        assert here.slave.execute(b"SELECT nr, c0, t0 FROM public.zoo").fetchall() == [(2, False, "false!")]


@pytest.mark.long
def test_columns_that_are_configured_later_leave_out_their_table_alone_until_a_load_makes_it_anew(
    shop: MakeShop,
) -> None:
    more = (
        "CREATE TABLE public.parent (id int PRIMARY KEY, v text); INSERT INTO public.parent SELECT g, 'old' "
        "FROM generate_series(1, 20) g; ALTER TABLE public.t ADD FOREIGN KEY (id) REFERENCES public.parent; "
        "ALTER TABLE public.t ALTER secret SET NOT NULL; CREATE TABLE public.quiet AS TABLE public.t; "
        "ALTER TABLE public.quiet ADD PRIMARY KEY (id)"
    )
    before = shop(DDL + more, {"public.*": {}})
    loaded(before)
    lines = {"columns": {"a": {"rename": "b"}, "secret": {"exclude": "true"}, "twice": {"expression": "n * 2"}}}
    here = shop("SELECT", {"public.*": {}, "public.t": lines, "public.quiet": lines},
                master=before.master_info, slave=before.slave_info)  # fmt: skip
    with here.apply():
        here.master.execute("UPDATE public.t SET n = n + 1; UPDATE public.parent SET v = 'new'")
        here.await_current()
        states = here.checkpoint.tables
        assert {str(table): states.state(table) for table in states} == {"public.t": TableState.INCONSISTENT}
        assert "lacks column b text" in states.explain(TableName("public", "t"))
        assert here.slave.execute(b"SELECT DISTINCT v FROM public.parent").fetchall() == [("new",)]
        assert not unlike(here, part=True), "the load makes it again"
        # One of the two has had no change since: it is ready until its load begins.
        here.prepare(update := here.update(tables=["public.t", "public.quiet"]))
        here.master.execute("UPDATE public.quiet SET n = n + 1 WHERE id > 10")
        here.load_to_normal(update)
        here.await_that(lambda: not here.checkpoint.tables.not_ready)
        here.await_current()
    steps.finish(update)
    for table in ("t", "quiet"):
        mine = here.slave.execute(f"SELECT id, b, n, twice FROM public.{table} ORDER BY 1".encode()).fetchall()
        theirs = here.master.execute(f"SELECT id, a, n, n * 2 FROM public.{table} ORDER BY 1".encode()).fetchall()
        assert mine == theirs and sorted(names(here, table)) == ["b", "id", "n", "twice"]
    assert not unlike(here, part=False), "it is as the configuration says"


def test_a_part_loads_no_ready_table_that_the_slave_has_otherwise_and_says_so_before_it_begins(shop: MakeShop) -> None:
    here = shop(DDL, {"public.*": {}})
    loaded(here)
    here.slave.execute("ALTER TABLE public.t RENAME COLUMN a TO z")
    with here.apply(), pytest.raises(TablesDiffer, match=r"public\.t lacks column a text"):
        here.prepare(here.update(tables=["public.t"]))
    assert not here.checkpoint.tables.not_ready
