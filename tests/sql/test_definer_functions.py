"""Functions that run with the rights of the account look up no name in schemas of their caller; few may be called."""

from collections.abc import Callable

import pytest

from devstack.postgres import PostgresServer
from sluice.control.checkpoint import CheckpointStore
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.vendors.postgres.connection import connect
from tests.sql.intruder import Intruder, intruding

pytestmark = pytest.mark.releases

SHADOWS = (
    """DO $do$
    DECLARE f record;
    BEGIN
        FOR f IN SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS args,
                     format_type(p.prorettype, NULL) AS result
                 FROM pg_catalog.pg_proc p
                 WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND NOT p.proretset
                   AND p.prorettype <> ALL ('{internal,cstring,trigger,event_trigger}'::regtype[])
                   AND NOT p.proargtypes::oid[] && '{internal,cstring}'::regtype[]::oid[]
        LOOP
            BEGIN
                EXECUTE format('CREATE FUNCTION app.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
                    f.proname, f.args, f.result, format(
                    'BEGIN RAISE WARNING ''canary: %% ran as %%'', %L, current_user; RETURN NULL; END', f.proname));
            EXCEPTION WHEN OTHERS THEN NULL;
            END;
        END LOOP;
    END $do$""",
    """DO $do$
    DECLARE o record;
    BEGIN
        FOR o IN SELECT p.oid::int AS number, p.oprname, l.typname AS l, r.typname AS r,
                     format_type(p.oprresult, NULL) AS result
                 FROM pg_catalog.pg_operator p
                 LEFT JOIN pg_catalog.pg_type l ON l.oid = p.oprleft JOIN pg_catalog.pg_type r ON r.oid = p.oprright
        LOOP
            BEGIN
                EXECUTE format(
                    'CREATE FUNCTION app.op%s(pg_catalog.%I, pg_catalog.%I) RETURNS %s LANGUAGE plpgsql AS %L',
                    o.number, o.l, o.r, o.result, format(
                    'BEGIN RAISE WARNING ''canary: %% ran as %%'', %L, current_user; RETURN NULL; END', o.oprname));
                EXECUTE format('CREATE OPERATOR app.%s (LEFTARG = pg_catalog.%I, RIGHTARG = pg_catalog.%I, '
                    'FUNCTION = app.op%s)', o.oprname, o.l, o.r, o.number);
            EXCEPTION WHEN OTHERS THEN NULL;
            END;
        END LOOP;
    END $do$""",
)
"""A function and an operator in schema app for each of PostgreSQL's own, with the same types."""
COLUMNS = (
    "flag bool, v text, w varchar(9), x char(4), n int, b bigint, m numeric(9,2), f float8, d date, t timestamptz, "
    'i interval, y bytea, u uuid, ip inet, c cidr, j jsonb, a int[], s text[], r int4range, k regclass, z "char"'
)
ROWS = (
    "INSERT INTO {0} (id, flag, v, w, x, n, b, m, f, d, t, i, y, u, ip, c, j, a, s, r, k, z) SELECT g, true, "
    "'<&' || pg_catalog.chr(1), 'w', 'x ', 1, 2, 3.5, 0.1, '2024-02-29', '2024-02-29 12:00', '1 day', 'abc', "
    "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '::1', '10.0.0.0/8', '{{\"a\": 1}}', '{{1,2}}', '{{a,b}}', '[1,2)', "
    "'pg_catalog.pg_class', 'z' FROM pg_catalog.generate_series({1}, {2}) g"
)
SHAPES = {
    "plain": (f"CREATE TABLE app.mine (id int PRIMARY KEY, {COLUMNS})",),
    "keyless": (f"CREATE TABLE app.mine (id int, {COLUMNS})",),
    "row": (
        f"CREATE TABLE app.mine (id int PRIMARY KEY, {COLUMNS})",
        "CREATE FUNCTION app.others() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN "
        "IF pg_trigger_depth() = 1 THEN UPDATE app.mine SET m = m + 1 WHERE id = 3; END IF; RETURN NULL; END $$",
        "CREATE TRIGGER others AFTER INSERT OR UPDATE OR DELETE ON app.mine FOR EACH ROW EXECUTE FUNCTION app.others()",
    ),
    "parted": (
        f"CREATE TABLE app.mine (id int PRIMARY KEY, {COLUMNS}) PARTITION BY RANGE (id)",
        "CREATE TABLE app.mine_1 PARTITION OF app.mine FOR VALUES FROM (0) TO (1000)",
    ),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("event_triggers", [True, False], ids=["event triggers", "comparison"])
def test_no_name_is_looked_up_in_the_schemas_of_the_caller(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer, event_triggers: bool, shape: str
) -> None:
    with intruding(database, postgres, event_triggers=event_triggers) as intruder:
        intruder.run(*SHAPES[shape])
        intruder.master.register(TableName("app", "mine"))
        intruder.run(*SHADOWS)
        made = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'app'::regnamespace"
        assert intruder.administrator.value(made) > 2000
        for path in ("app, pg_catalog", "app, public, pg_catalog, sluice"):
            intruder.connection = intruder.session()
            intruder.run("SET search_path = " + path)
            _write(intruder)
        assert intruder.gained() == []
        assert {item.action for item in intruder.master.items(ddl=True)} >= {"INSERT", "UPDATE", "DELETE", "ALTER"}


def _write(intruder: Intruder) -> None:
    table = "app.mine"
    intruder.run(
        ROWS.format(table, 1, 5), ROWS.format(table, 10, 40),
        "UPDATE app.mine SET v = 'y', d = NULL WHERE id OPERATOR(pg_catalog.=) 1",
        "UPDATE app.mine SET n = 7", "UPDATE app.mine SET id = id OPERATOR(pg_catalog.+) 100",
        "ALTER TABLE app.mine ADD later uuid DEFAULT pg_catalog.gen_random_uuid()",
        "BEGIN", "ALTER TABLE app.mine RENAME n TO o", "UPDATE app.mine SET o = 9",
        "ALTER TABLE app.mine RENAME o TO n", "COMMIT",
        "ALTER TABLE app.mine ALTER b TYPE text USING NULL", "DELETE FROM app.mine WHERE id OPERATOR(pg_catalog.<) 110",
        "ALTER TABLE app.mine ALTER b TYPE bigint USING NULL", "ALTER TABLE app.mine DROP later", "TRUNCATE app.mine",
    )  # fmt: skip


def test_they_have_a_fixed_search_path_and_nobody_else_may_call_them(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    """But for those that partitions inherit, which look at the table that calls them."""
    with intruding(database, postgres, event_triggers=True) as intruder:
        intruder.run(*SHAPES["parted"], *(text.replace("mine", "other") for text in SHAPES["row"]))
        intruder.master.register(TableName("app", "mine"), TableName("app", "other"))
        with connect(intruder.master.info, application="test") as connection:
            CheckpointStore(connection, Prefix("DEMO_"), "sluice", "dr1").ensure()
            connection.commit()
        functions = intruder.administrator.rows(
            "SELECT p.proname::text, p.prorettype::regtype::text, "
            "coalesce(array_to_string(p.proconfig, ' '), '') ~ 'search_path=', "
            "has_function_privilege('public', p.oid, 'EXECUTE'), EXISTS (SELECT FROM pg_trigger g "
            "WHERE g.tgfoid = p.oid AND g.tgrelid = 'app.mine'::regclass AND g.tgtype & 1 = 1) "
            "FROM pg_proc p WHERE p.prosecdef AND p.pronamespace = 'sluice'::regnamespace"
        )
        assert len(functions) > 10
        for name, result, fixed, public, of_partitions in functions:
            generated = name.startswith("demo_capture_") and result == "trigger"
            assert fixed or generated, f"{name}: only names that are written out, as the test above shows"
            assert not public or of_partitions or (name, result) == ("demo_key_base", "bigint"), name
        assert not intruder.administrator.value(f"SELECT has_schema_privilege('{intruder.name}', 'sluice', 'USAGE')")
