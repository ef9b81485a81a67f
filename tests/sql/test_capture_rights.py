"""The owner of a captured table can run nothing with the rights of the capture's account; no setting hides a change."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from tests.sql.intruder import Intruder, intruding

pytestmark = pytest.mark.releases

MINE = TableName("app", "mine")
TABLE = "CREATE TABLE app.mine (id int PRIMARY KEY, flag bool, v text, ip inet, n int)"
EVIL = (
    "INSERT INTO app.mine (id, {0}) VALUES ({1}, ROW(1)::app.evil)",
    "UPDATE app.mine SET n = 5",
    "DELETE FROM app.mine",
)
WRITES_AGAIN = (
    "CREATE TABLE app.audit (what text)",
    "CREATE FUNCTION app.audit() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO app.audit VALUES (TG_OP); RETURN NULL; END $$",
    "CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON app.mine FOR EACH ROW EXECUTE FUNCTION app.audit()",
)
"""A trigger that may change rows of the table again: ours are row triggers then."""


@pytest.fixture(params=["event triggers", "comparison"])
def intruder(
    request: pytest.FixtureRequest, database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> Iterator[Intruder]:
    with intruding(database, postgres, event_triggers=request.param == "event triggers") as made:
        yield made


def texts(intruder: Intruder, column: str) -> list[str | None]:
    rows = (item.new for item in intruder.master.items() if item.action in ("INSERT", "UPDATE"))
    return [row[column] for row in rows if column in row]


@pytest.mark.one_in(32)
@pytest.mark.parametrize("silent", ["SET sluice.capturing = 'demo_'", "SELECT 1"], ids=["capturing", "plain"])
@pytest.mark.parametrize("column", ["flag", "v", "ip", "n"])
@pytest.mark.parametrize("shape", ["statement", "row"])
def test_a_column_that_became_of_another_type_is_written_by_its_output_function(
    intruder: Intruder, shape: str, column: str, silent: str
) -> None:
    intruder.run(TABLE, *(WRITES_AGAIN if shape == "row" else ()))
    intruder.master.register(MINE)
    intruder.run("INSERT INTO app.mine VALUES (1, true, 'v', '::2', 3)", "UPDATE app.mine SET flag = false")
    intruder.run("BEGIN", silent, f"ALTER TABLE app.mine ALTER {column} TYPE app.evil USING NULL")
    intruder.run(*(text.format(column, 2).replace("n = 5", f"{column} = ROW(2)::app.evil") for text in EVIL), "COMMIT")
    assert intruder.gained() == []
    written = texts(intruder, column)
    assert "(1)" in written and "(2)" in written


@pytest.mark.one_in(4)
@pytest.mark.parametrize("swap", ["renamed", "dropped", "added again"])
def test_a_column_that_is_gone_is_not_taken_for_a_function_of_that_name(intruder: Intruder, swap: str) -> None:
    intruder.run(TABLE)
    intruder.master.register(MINE)
    intruder.run("INSERT INTO app.mine VALUES (1, true, 'v', '::2', 3)", "BEGIN", "SET sluice.capturing = 'demo_'")
    intruder.run(
        *{
            "renamed": ("ALTER TABLE app.mine RENAME flag TO other",),
            "dropped": ("ALTER TABLE app.mine DROP flag",),
            "added again": ("ALTER TABLE app.mine DROP flag", "ALTER TABLE app.mine ADD flag app.evil"),
        }[swap]
    )
    intruder.run(
        "INSERT INTO app.mine (id, v) VALUES (2, 'w')", "UPDATE app.mine SET n = 5", "DELETE FROM app.mine", "COMMIT"
    )
    assert intruder.gained() == []
    assert [item.guid for item in intruder.master.items()] == ["1", "2", "1", "2", "1", "2"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_transaction_that_began_before_a_change_of_type_runs_nothing(intruder: Intruder, isolation: str) -> None:
    intruder.run(TABLE)
    intruder.master.register(MINE)
    intruder.run("INSERT INTO app.mine VALUES (1, true, 'v', '::2', 3)")
    older = intruder.session()
    older.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
    older.execute("SELECT count(*) FROM pg_class")
    intruder.run(
        "BEGIN", "SET sluice.capturing = 'demo_'", "ALTER TABLE app.mine ALTER flag TYPE app.evil USING NULL", "COMMIT"
    )
    try:
        older.execute("INSERT INTO app.mine (id, flag) VALUES (2, ROW(1)::app.evil)")
        older.execute("COMMIT")
    except psycopg.errors.SerializationFailure:
        assert isolation == "REPEATABLE READ"
    older.close()
    assert intruder.gained() == []


PARTED = (
    "CREATE TABLE app.mine (id int PRIMARY KEY, flag bool, v text, n int) PARTITION BY RANGE (id)",
    "CREATE TABLE app.mine_1 PARTITION OF app.mine FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE app.mine_2 PARTITION OF app.mine FOR VALUES FROM (100) TO (200)",
)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("guard", ["enabled", "disabled", "renamed"])
def test_a_write_to_a_partition_itself_runs_nothing_and_is_captured(intruder: Intruder, guard: str) -> None:
    intruder.run(*PARTED)
    intruder.master.register(MINE)
    intruder.run("INSERT INTO app.mine VALUES (1, true, 'v', 3), (101, false, 'w', 4)")
    ours = [
        name for (name,) in intruder.administrator.rows(
            "SELECT tgname FROM pg_trigger WHERE tgrelid = 'app.mine'::regclass AND tgname LIKE '!%\\_g'")
    ]  # fmt: skip
    for name in ours:
        if guard == "disabled":
            intruder.run(f'ALTER TABLE app.mine DISABLE TRIGGER "{name}"')
        elif guard == "renamed":
            intruder.run(f'ALTER TRIGGER "{name}" ON app.mine RENAME TO zzz')
    intruder.run("BEGIN", "SET sluice.capturing = 'demo_'", "ALTER TABLE app.mine ALTER flag TYPE app.evil USING NULL")
    intruder.run(
        "INSERT INTO app.mine_1 (id, flag) VALUES (2, ROW(1)::app.evil)",
        "UPDATE app.mine_1 SET flag = ROW(2)::app.evil WHERE id = 2",
        "INSERT INTO app.mine (id, flag) VALUES (102, ROW(3)::app.evil)",
        "DELETE FROM app.mine_1 WHERE id = 2",
        "COMMIT",
    )
    assert intruder.gained() == []
    assert {"(1)", "(2)", "(3)"} <= set(texts(intruder, "flag"))


def test_a_partition_that_left_runs_nothing_though_it_calls_our_function(intruder: Intruder) -> None:
    intruder.run(*PARTED)
    intruder.master.register(MINE)
    intruder.run("INSERT INTO app.mine VALUES (1, true, 'v', 3), (101, false, 'w', 4)")
    ((function,),) = intruder.administrator.rows(
        "SELECT tgfoid::regproc::text FROM pg_trigger WHERE tgrelid = 'app.mine'::regclass AND tgname LIKE '!%\\_i'"
    )
    intruder.administrator.sql(f'GRANT USAGE ON SCHEMA sluice TO "{intruder.name}"')
    intruder.run(
        "BEGIN", "SET sluice.capturing = 'demo_'", "ALTER TABLE app.mine DETACH PARTITION app.mine_1",
        "ALTER TABLE app.mine_1 ALTER flag TYPE app.evil USING NULL",
        f"CREATE TRIGGER again AFTER INSERT ON app.mine_1 FOR EACH ROW EXECUTE FUNCTION {function}()",
        "INSERT INTO app.mine_1 (id, flag) VALUES (2, ROW(1)::app.evil)",
        "COMMIT",
    )  # fmt: skip
    assert intruder.gained() == []
    assert "(1)" not in texts(intruder, "flag"), "it is no partition any more"


def test_trigger_names_that_changed_leave_no_stale_code_in_force(intruder: Intruder) -> None:
    intruder.run(TABLE)
    intruder.master.register(MINE)
    intruder.run("INSERT INTO app.mine VALUES (1, true, 'v', '::2', 3)")
    # Ours must come before it, under other names, which no statement of the application can give them.
    intruder.run(
        "BEGIN", "SET sluice.capturing = 'demo_'",
        "CREATE FUNCTION app.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
        'CREATE TRIGGER "A" AFTER UPDATE ON app.mine FOR EACH ROW EXECUTE FUNCTION app.nothing()',
        "ALTER TABLE app.mine ALTER flag TYPE app.evil USING NULL",
        "INSERT INTO app.mine (id, flag) VALUES (2, ROW(1)::app.evil)",
        "COMMIT",
    )  # fmt: skip
    assert intruder.gained() == []
    assert "(1)" in texts(intruder, "flag")


POLICY = (
    "ALTER TABLE app.mine ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY mine ON app.mine USING (app.boom())",
)


def test_a_policy_does_not_run_when_rows_are_queued_again_and_a_person_is_reported(intruder: Intruder) -> None:
    intruder.run(TABLE, "INSERT INTO app.mine VALUES (1, true, 'v', '::2', 3)")
    intruder.master.register(MINE)
    intruder.run(*POLICY)
    intruder.run("ALTER TABLE app.mine ALTER n TYPE bigint USING n * 2")
    intruder.compare()
    intruder.compare()
    assert intruder.gained() == []
    differ = [item.content for item in intruder.master.items() if item.action == "DIFFER"]
    assert len(differ) == 1 and "row level security" in (differ[0] or "")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("setting", ["SET sluice.nested = 'yes'", "SELECT 1"])
def test_a_policy_does_not_run_when_a_trigger_changed_a_row_meanwhile(intruder: Intruder, setting: str) -> None:
    intruder.run(
        TABLE,
        "CREATE FUNCTION app.others() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF pg_trigger_depth() = 1 THEN "
        "UPDATE app.mine SET n = n + 10 WHERE id <> NEW.id; END IF; RETURN NULL; END $$",
        "CREATE TRIGGER others AFTER UPDATE ON app.mine FOR EACH ROW EXECUTE FUNCTION app.others()",
        "INSERT INTO app.mine (id, n) VALUES (1, 1), (2, 2)",
    )
    intruder.master.register(MINE)
    intruder.run(
        *POLICY,
        setting,
        "UPDATE app.mine SET n = n + 1",
        "INSERT INTO app.mine (id, n) VALUES (3, 3)",
        "DELETE FROM app.mine",
    )
    assert intruder.gained() == []
    assert [item.action for item in intruder.master.items()].count("DIFFER") >= 1


def test_rows_that_triggers_changed_meanwhile_are_captured_correctly(intruder: Intruder) -> None:
    intruder.run(
        TABLE,
        "CREATE FUNCTION app.others() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF pg_trigger_depth() = 1 THEN "
        "SET sluice.nested = ''; UPDATE app.mine SET n = n + 10 WHERE id <> coalesce(NEW.id, OLD.id); "
        "DELETE FROM app.mine WHERE n > 100; "
        "IF TG_OP = 'DELETE' THEN INSERT INTO app.mine (id, n) VALUES (OLD.id, 50) ON CONFLICT DO NOTHING; END IF; "
        "END IF; RETURN NULL; END $$",
        "CREATE TRIGGER others AFTER INSERT OR UPDATE OR DELETE ON app.mine FOR EACH ROW EXECUTE FUNCTION app.others()",
    )
    intruder.master.register(MINE)
    intruder.run(
        "INSERT INTO app.mine (id, n) VALUES (1, 1), (2, 2), (3, 3)", "UPDATE app.mine SET n = n + 1, v = 'x'",
        "DELETE FROM app.mine WHERE id < 3", "UPDATE app.mine SET n = n * 2",
    )  # fmt: skip
    rows = [item for item in intruder.master.items() if item.table == MINE]
    last: dict[str, str | None] = {}
    for item in rows:
        key = item.guid or ""
        last[key] = None if item.action == "DELETE" else item.new["n"]
    now = {str(key): str(n) for key, n in intruder.administrator.rows("SELECT id, n FROM app.mine")}
    assert {key: n for key, n in last.items() if n is not None} == now


@pytest.mark.one_in(10)
@pytest.mark.parametrize("how", ["index", "partition", "statistics"])
def test_functions_that_planning_would_call_are_not_called(intruder: Intruder, how: str) -> None:
    intruder.run(TABLE if how != "partition" else PARTED[0])
    if how == "partition":
        intruder.run(PARTED[1])
    intruder.run("INSERT INTO app.mine (id, n) VALUES (1, 3)")
    intruder.master.register(MINE)
    intruder.run({
        "index": "CREATE INDEX planned ON app.mine ((n + app.constant(1)))",
        "statistics": "CREATE STATISTICS app.planned ON (n + app.constant(1)), id FROM app.mine",
        "partition": "CREATE INDEX planned ON app.mine_1 ((n + app.constant(1)))",
    }[how])  # fmt: skip
    intruder.heard.clear()
    intruder.run(
        "ALTER TABLE app.mine ALTER n TYPE bigint USING n * 2"
        if how != "index"
        else "ALTER TABLE app.mine ADD g uuid DEFAULT gen_random_uuid()"
    )
    intruder.connection = intruder.session()
    intruder.run("TRUNCATE app.mine_1" if how == "partition" else "UPDATE app.mine SET v = 'x'")
    intruder.compare()
    assert intruder.gained() == []


def test_the_bound_of_a_partition_calls_no_function_of_the_application(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=False) as intruder:
        intruder.run(
            "CREATE FUNCTION app.bucket(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
            "$$ BEGIN PERFORM app.say('bucket'); RETURN n / 100; END $$",
            "CREATE TABLE app.mine (id int, v text) PARTITION BY RANGE (app.bucket(id))",
            "CREATE TABLE app.mine_1 PARTITION OF app.mine FOR VALUES FROM (0) TO (1)",
            "CREATE TABLE app.mine_2 PARTITION OF app.mine FOR VALUES FROM (1) TO (2)",
            "INSERT INTO app.mine VALUES (1, 'a'), (101, 'b')",
        )
        intruder.master.register(MINE)
        intruder.run("INSERT INTO app.mine VALUES (2, 'a'), (102, 'b')", "DROP TABLE app.mine_1")
        intruder.compare()
        intruder.compare()
        assert intruder.gained() == []
        assert [item.action for item in intruder.master.items()][-1] == "DIFFER"


def test_a_function_of_the_same_name_in_a_schema_that_all_may_write_to_is_not_called(
    database: Callable[..., ConnectionInfo], postgres: PostgresServer
) -> None:
    with intruding(database, postgres, event_triggers=False, schema="shared") as intruder:
        intruder.administrator.sql("GRANT USAGE, CREATE ON SCHEMA shared TO PUBLIC")
        intruder.run(TABLE, *WRITES_AGAIN)
        intruder.master.register(MINE)
        ((stem,),) = intruder.administrator.rows("SELECT stem FROM shared.demo_captures")
        ours = {
            f"{stem}_x(app.mine)": "text",
            f"{stem}_s(app.mine, boolean)": "void",
            "late_code(int, oid, text, boolean)": "text",
            "col2xml(name, text)": "text",
            "col2xml(varchar, text)": "text",
            "note(varchar)": "void",
            "fitting(oid[], oid, text[], oid[], oid[])": "oid[]",
        }
        intruder.run(
            *(
                f"CREATE FUNCTION shared.demo_{name} RETURNS {result} LANGUAGE plpgsql AS "
                f"$$ BEGIN PERFORM app.say('{name}'); RETURN{'' if result == 'void' else ' NULL'}; END $$"
                for name, result in ours.items()
            ),
            "INSERT INTO app.mine VALUES (1, true, '<&' || chr(1), '::2', 3)",
            "UPDATE app.mine SET v = '<b', n = 4", "ALTER TABLE app.mine ADD w text",
            "INSERT INTO app.mine VALUES (2, true, '<&' || chr(1), '::2', 3)", "DELETE FROM app.mine",
        )  # fmt: skip
        assert intruder.gained() == []
        assert [item.action for item in intruder.master.items()] == ["INSERT", "UPDATE", "INSERT", "DELETE", "DELETE"]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "setting", ["sluice.origin = 'OTHER_'", "sluice.truncating = '{}'", "sluice.capturing = 'demo_'"]
)
def test_no_setting_of_a_writer_hides_a_change(intruder: Intruder, setting: str) -> None:
    intruder.run(*PARTED, "CREATE TABLE app.plain (id int PRIMARY KEY, v text)")
    plain = TableName("app", "plain")
    intruder.master.register(MINE, plain)
    clerk = f"clerk of {intruder.name}"[:60]
    intruder.administrator.sql(f'CREATE ROLE "{clerk}"', f'GRANT ALL ON ALL TABLES IN SCHEMA app TO "{clerk}"')
    relid = intruder.administrator.value("SELECT 'app.mine'::regclass::oid")
    try:
        for role in (clerk, intruder.name):
            after = intruder.master.last_key()
            session = intruder.administrator.session()
            session.execute(f'SET SESSION AUTHORIZATION "{role}"'.encode())
            for statement in (
                "SET " + setting.format(relid), "INSERT INTO app.plain VALUES (1, 'a')", "UPDATE app.plain SET v = 'b'",
                "DELETE FROM app.plain", "INSERT INTO app.mine VALUES (1, true, 'v', 1)", "TRUNCATE app.mine_1",
                "TRUNCATE app.mine", "TRUNCATE app.plain",
            ):  # fmt: skip
                session.execute(statement.encode())
            session.close()
            found = [item.action for item in intruder.master.items(after)]
            assert found == ["INSERT", "UPDATE", "DELETE", "INSERT", "DELETE", "TRUNCATE", "TRUNCATE"]
        after = intruder.master.last_key()
        intruder.run("SET " + setting.format(relid), "ALTER TABLE app.plain ADD w int", "SELECT 1")
        intruder.compare()
        assert [item.action for item in intruder.master.items(after, ddl=True)] == ["ALTER"]
    finally:
        intruder.administrator.sql(f'DROP OWNED BY "{clerk}"', f'DROP ROLE "{clerk}"')


def test_a_member_of_the_account_names_an_origin(intruder: Intruder) -> None:
    intruder.run(TABLE)
    intruder.master.register(MINE)
    apply = intruder.master.session(**{"sluice.origin": "OTHER_"})
    intruder.run(f'GRANT ALL ON app.mine TO "{intruder.master.info.user}"')
    apply.execute("INSERT INTO app.mine (id) VALUES (1)")
    assert intruder.master.items() == []
    apply.execute("SET sluice.origin = ''")
    apply.execute("INSERT INTO app.mine (id) VALUES (2)")
    assert [item.guid for item in intruder.master.items()] == ["2"]
    apply.close()
