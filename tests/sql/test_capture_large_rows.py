"""A row that is too large for a text of PostgreSQL is captured without its contents: no statement fails for it."""

from collections.abc import Callable

import pytest

from devstack.postgres import PostgresServer
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.connection import connect
from tests.sql.master import Master

NOT_KEPT = "<not-kept/>"
MB = 1 << 20

OTHERS = (
    "CREATE FUNCTION public.others() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF pg_trigger_depth() = 1 THEN UPDATE public.large SET n = n + 1 WHERE id = 0; END IF; RETURN NULL; END $$",
    "CREATE TRIGGER others AFTER INSERT OR UPDATE OR DELETE ON public.large "
    "FOR EACH ROW EXECUTE FUNCTION public.others()",
)
"""A trigger for which the table is captured row by row, and a changed row looked at again."""
MODES = {"statement": (), "row": OTHERS}


@pytest.fixture(params=MODES)
def master(request: pytest.FixtureRequest, database: Callable[..., ConnectionInfo], postgres: PostgresServer) -> Master:
    del postgres
    made = Master(database())
    made.sql(
        "CREATE DOMAIN public.picture AS bytea",
        "CREATE TABLE public.large (id int PRIMARY KEY, n int DEFAULT 0, a text, b text, c public.picture, j jsonb, "
        "d text[])",
        "INSERT INTO public.large VALUES (0)",
        *MODES[request.param],
    )
    made.install()
    made.register("large")
    return made


def changes(master: Master, after: int) -> list[tuple[str, str | None, bool]]:
    """Action, GUID, and whether all contents are kept, of all rows but that of `others`."""
    return master.rows(  # type: ignore[return-value]
        "SELECT db_action, guid, content IS DISTINCT FROM %s AND oldcontent IS DISTINCT FROM %s "
        f"FROM {master.name('items')} WHERE repl_key > %s AND guid IS DISTINCT FROM '0' ORDER BY repl_key",
        [NOT_KEPT, NOT_KEPT, after],
    )


KINDS: dict[str, tuple[str, ...]] = {
    "a text of 300 MB, which no expression searches": (f"a = repeat('x', {300 * MB})",),
    "bytes whose text is above 1 GB": (f"c = convert_to(repeat('x', {600 * MB}), 'UTF8')",),
    "a row above 1 GB": (f"a = repeat('x', {600 * MB})", f"c = convert_to(repeat('y', {600 * MB}), 'UTF8')"),
    "json whose text is above 1 GB": (f"j = to_jsonb(repeat(chr(1), {200 * MB}))",),
    "columns that come to 300 MB": (
        f"a = repeat('x', {100 * MB})", f"b = repeat('<', {100 * MB})", f"d = ARRAY[repeat('x', {100 * MB})]",
    ),
}  # fmt: skip
"""Name → assignments, one an UPDATE, of which the last one makes the row too large."""


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_no_statement_fails_for_a_row_that_is_too_large(master: Master, kind: str) -> None:
    session = connect(master.info, application="test", autocommit=True)
    session.execute("INSERT INTO public.large (id) VALUES (1), (2)")
    after = master.last_key()
    for assignment in KINDS[kind]:
        session.execute(f"UPDATE public.large SET {assignment} WHERE id = 1".encode())
    session.execute("UPDATE public.large SET n = n + 1 WHERE id IN (1, 2)")
    session.execute("INSERT INTO public.large SELECT 3, n, a, b, c, j, d FROM public.large WHERE id = 1")
    session.execute("DELETE FROM public.large WHERE id = 3")
    session.execute("UPDATE public.large SET a = '', b = '', c = '', j = NULL, d = NULL WHERE id = 1")
    session.execute("UPDATE public.large SET n = n + 1 WHERE id IN (1, 2)")
    session.execute("DELETE FROM public.large WHERE id = 1")
    found = changes(master, after)
    assert found[-8:] == [
        ("UPDATE", "1", False), ("UPDATE", "2", True), ("INSERT", "3", False), ("DELETE", "3", False),
        ("UPDATE", "1", False), ("UPDATE", "1", True), ("UPDATE", "2", True), ("DELETE", "1", True),
    ]  # fmt: skip
    session.close()


def test_rows_of_some_megabytes_are_kept_and_columns_of_few_bytes_are_not_measured(master: Master) -> None:
    master.sql(f"INSERT INTO public.large (id, a, b, j) VALUES (1, repeat('x<', {MB}), 'b', '[1, 2]')")
    master.sql(f"UPDATE public.large SET b = repeat(md5('x'), {MB // 8}) WHERE id = 1")
    kept = [item for item in master.items() if item.guid == "1"]
    assert [len(item.new["a"] or "") for item in kept] == [2 * MB, 2 * MB]
    assert kept[-1].new["b"] == "9dd4e461268c8034f5c8564e155c67a6" * (MB // 8)
    assert kept[-1].old["b"] == "b"
    master.sql(
        "CREATE TABLE public.plain (id bigint PRIMARY KEY, b boolean, n numeric(10,2), m numeric, v varchar(20), "
        "c char(5), t timestamptz(3), u uuid, i interval day, d date, f float8, a inet)"
    )
    master.register("plain")
    codes = master.rows("SELECT prosrc FROM pg_proc WHERE proname LIKE 'demo_capture_plain%'")
    assert codes and not any("pg_column_size" in code for (code,) in codes)
