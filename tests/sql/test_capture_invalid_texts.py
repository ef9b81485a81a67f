"""A value whose text is not valid in the server's encoding fails no statement; it is captured, or its row is not kept.

PostgreSQL 14 writes a "char" above 127 as that byte, also within other types and as a text. On any release the name of
a role is in the encoding of the database that created it.
"""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model.connection import ConnectionInfo
from tests.sql.master import Master

pytestmark = pytest.mark.releases
NOT_KEPT = "<not-kept/>"
OTHERS = (
    "CREATE FUNCTION public.others() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF pg_trigger_depth() = 1 THEN UPDATE public.odd SET n = n + 1 WHERE id = 0; END IF; RETURN NULL; END $$",
    "CREATE TRIGGER others AFTER INSERT OR UPDATE OR DELETE ON public.odd "
    "FOR EACH ROW EXECUTE FUNCTION public.others()",
)
"""A trigger for which the table is captured row by row, and a changed row looked at again."""


@pytest.fixture(params=[(), pytest.param(OTHERS, marks=pytest.mark.long)], ids=["by statement", "by row"])
def master(request: pytest.FixtureRequest, database: Callable[..., ConnectionInfo], postgres: PostgresServer) -> Master:
    made = Master(database())
    made.sql(
        'CREATE DOMAIN public.flag AS "char"',
        'CREATE TYPE public.pair AS (c "char", t text)',
        'CREATE TYPE public.flags AS RANGE (subtype = "char")',
        'CREATE TABLE public.odd (id int PRIMARY KEY, n int DEFAULT 0, c "char", d public.flag)',
        'CREATE TABLE public.within (id int PRIMARY KEY, a "char"[], p public.pair, r public.flags, ps public.pair[])',
        "CREATE TABLE public.texts (id int PRIMARY KEY, t text)",
        'CREATE TABLE public.keyed (c "char" PRIMARY KEY, n int)',
        "CREATE TABLE public.granted (id int PRIMARY KEY, who aclitem)",
        "INSERT INTO public.odd (id) VALUES (0)",
        *request.param,
    )
    made.install()
    made.register("odd", "within", "texts", "keyed", "granted")
    if not request.param:  # and by the code that is made on the spot
        with postgres.connect(made.info.database) as administrator:
            administrator.execute(
                sql_files.render("postgres", "event_triggers_remove", prefix="demo_", schema="public").encode()
            )
        made.sql("SELECT public.demo_check_structure()")
    return made


def test_all_bytes_of_a_char_are_captured_alike_on_all_releases(master: Master) -> None:
    every = [(number, f"{number - 256 if number > 127 else number}") for number in range(256)]
    after = master.last_key()
    master.sql(
        *(
            f'INSERT INTO odd (id, c, d) VALUES ({number + 1}, ({n})::"char", ({n})::"char")'
            for number, n in every[::5]
        ),
        "INSERT INTO odd (id, c, d) SELECT g + 1000, c, c FROM generate_series(0, 255) g, "
        'LATERAL (SELECT (g - 128)::"char") x (c)',
        'UPDATE odd SET c = (-128)::"char" WHERE id BETWEEN 1000 AND 1040',
        'UPDATE odd SET c = (-1)::"char" WHERE id = 1041',
        "DELETE FROM odd WHERE id BETWEEN 1100 AND 1110",
        'INSERT INTO keyed SELECT (g - 128)::"char", g FROM generate_series(0, 255) g',
        'UPDATE keyed SET n = n + 1 WHERE c = (-61)::"char"',
    )
    items = master.items(after)
    inserted = {int(item.guid or 0): item.new for item in items if item.table.name == "odd" and item.action == "INSERT"}
    for number, n in every[::5]:
        assert inserted[number + 1]["c"] == inserted[number + 1]["d"] == shown(int(n))
    for number in range(256):
        assert inserted[1000 + number]["c"] == shown(number - 128)
    updated = [item for item in items if item.table.name == "odd" and item.action == "UPDATE" and item.guid != "0"]
    assert {item.new["c"] for item in updated} == {"\\200", "\\377"}
    assert {item.old["c"] for item in items if item.action == "DELETE"} == {shown(n - 128) for n in range(100, 111)}
    keyed = [item for item in items if item.table.name == "keyed"]
    assert [item.guid for item in keyed] == [*(shown(number - 128) for number in range(256)), "\\303"]


def shown(number: int) -> str:
    """What PostgreSQL 15 and later write of a "char"."""
    return "" if not number else chr(number) if number > 0 else f"\\{number + 256:o}"


def test_a_row_with_a_text_that_is_not_valid_is_not_kept_and_others_are(master: Master) -> None:
    statements = [
        "INSERT INTO within VALUES (1, ARRAY['a'::\"char\", '\\'], ROW('b'::\"char\", 'é')::pair, '[a,b]', "
        "ARRAY[ROW('c', '<')::pair])",
        *(
            f"INSERT INTO within (id, {column}) VALUES ({number}, {value})"
            for number, (column, value) in enumerate(
                (
                    ("a", "ARRAY[(-128)::\"char\", 'a']"),
                    ("p", "ROW((-61)::\"char\", 'x')::pair"),
                    ("r", 'flags((-100)::"char", (-61)::"char", \'[]\')'),
                    ("ps", "ARRAY[ROW((-2)::\"char\", '<')::pair]"),
                ),
                start=10,
            )
        ),
        'INSERT INTO within SELECT g + 100, ARRAY[(g - 128)::"char"] FROM generate_series(0, 255) g',
        "UPDATE within SET p = ROW((-128)::\"char\", 'x')::pair WHERE id = 1",
        "UPDATE within SET p = NULL WHERE id = 1",
        "DELETE FROM within WHERE id >= 10",
    ]
    after = master.last_key()
    master.sql(*statements)
    items = [item for item in master.items(after) if item.table.name == "within"]
    assert len(items) == 1 + 4 + 256 + 1 + 1 + 4 + 256
    assert items[0].new["a"] == '{a,"\\\\"}' and items[0].new["p"] == "(b,é)"
    old = master.connection.info.server_version < 150000
    kept = {item.guid for item in items if NOT_KEPT not in (item.content, item.oldcontent)}
    assert {str(100 + n) for n in range(128, 256)} <= kept
    assert ({"10", "11", "12", "13", "100", "227"} & kept == set()) is old


def test_a_text_that_is_not_valid_fails_no_statement(master: Master) -> None:
    master.sql(
        'INSERT INTO texts SELECT g, (-g)::"char"::text FROM generate_series(1, 128) g',
        'INSERT INTO texts VALUES (1000, (-128)::"char"::text)',
        "UPDATE texts SET t = t || E'\\n'",
        "DELETE FROM texts WHERE id = 1000",
    )
    assert master.value("SELECT count(*) FROM demo_items WHERE tablename = 'texts' AND guid <> ''") == 128 + 1 + 129 + 1


@pytest.fixture
def foreign_role(postgres: PostgresServer) -> Iterator[str]:
    """The OID of a role with a name in another encoding."""
    with postgres.connect() as administrator:
        administrator.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
        try:
            with postgres.connect("latin") as latin:
                latin.execute("DO $$ BEGIN EXECUTE format('CREATE ROLE %I', 'sluice ' || chr(233)); END $$")
                (oid,) = latin.execute("SELECT max(oid)::text FROM pg_roles").fetchone()  # type: ignore[misc]
                yield oid
                latin.execute("DO $$ BEGIN EXECUTE format('DROP ROLE %I', 'sluice ' || chr(233)); END $$")
        finally:
            administrator.execute("DROP DATABASE latin WITH (FORCE)")


def test_a_name_of_a_role_in_another_encoding_fails_no_statement(master: Master, foreign_role: str) -> None:
    after = master.last_key()
    made = f"makeaclitem({foreign_role}, 10, 'SELECT', false)"
    master.sql(
        f"INSERT INTO granted VALUES (1, {made}), (2, makeaclitem(10, 10, 'SELECT', false))",
        f"UPDATE granted SET who = {made}",
    )
    items = master.items(after)
    assert [item.content == NOT_KEPT for item in items] == [True, False, True, True]
    with pytest.raises(psycopg.Error):
        master.rows("SELECT convert_to(who::text, 'UTF8') FROM granted")
