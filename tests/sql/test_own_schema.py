"""An attacker who may create objects in Sluice's schema, or owns it, cannot make Sluice use them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice import config
from sluice.capture import resources as installing
from sluice.capture.reconcile import reconcile
from sluice.capture.uninstall import uninstall
from sluice.configuration.model import Replication
from sluice.control.checkpoint import CheckpointStore
from sluice.control.own_tables import ThrottleStore
from sluice.control.rejects import RejectStore
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import errors
from sluice.model.names import Prefix
from sluice.preflight import checks
from sluice.vendors.postgres import own_schema
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.postgres.failover import FailoverStore
from sluice.vendors.postgres.own_schema import InstalledElsewhere, NotOwned, OwnSchema, SchemaUnsafe
from sluice.vendors.postgres.source.resources import PostgresCapture

Connection = psycopg.Connection[Any]

PREFIX = Prefix("DEMO_")
SCHEMA = 'Its "own" $s$ $sluice$'
PLACE = quoted(SCHEMA)
ATTACKER, GROUP, MEMBER = quoted('At"tacker'), quoted("A Group"), quoted("A Member")
ROLES = (ATTACKER, GROUP, MEMBER)

CANARY = """
CREATE SCHEMA IF NOT EXISTS canary AUTHORIZATION {attacker};
GRANT USAGE ON SCHEMA canary TO PUBLIC;
SET ROLE {attacker};
CREATE TABLE canary.ran (as_role name);
GRANT INSERT ON canary.ran TO PUBLIC;
CREATE FUNCTION canary.boom() RETURNS text LANGUAGE plpgsql VOLATILE AS
    $$ BEGIN INSERT INTO canary.ran VALUES (current_user); RETURN '0'; END $$;
CREATE FUNCTION canary.boom_row() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO canary.ran VALUES (current_user); RETURN NEW; END $$;
RESET ROLE;
"""


@dataclass
class Ground:
    """A database with the schema, the account that is to use it, and an attacker who may create objects there."""

    info: ConnectionInfo
    admin: psycopg.Connection[tuple[object, ...]]

    @property
    def account(self) -> str:
        return self.info.user  # needs no quotes

    def attack(self, *statements: str) -> None:
        """Runs statements as the attacker, who has CREATE only meanwhile."""
        self.admin.execute(f"GRANT USAGE, CREATE ON SCHEMA {PLACE} TO {ATTACKER}; SET ROLE {ATTACKER}".encode())
        for statement in statements:
            self.admin.execute(statement.encode())
        self.admin.execute(f"RESET ROLE; REVOKE ALL ON SCHEMA {PLACE} FROM {ATTACKER}".encode())

    def install(self) -> installing.InstallReport:
        with connect(self.info, application="test") as connection:
            return installing.install(connection, PREFIX, SCHEMA)

    def configure(self) -> None:
        """Does what an initial update does first on a slave."""
        with connect(self.info, application="test") as connection:
            CheckpointStore(connection, PREFIX, SCHEMA, "dr1").ensure()
            FailoverStore(connection, PREFIX, SCHEMA, "dr1").ensure()
            connection.commit()

    def refused(self) -> SchemaUnsafe:
        with pytest.raises(SchemaUnsafe) as caught:
            self.install()
        return caught.value

    def own_objects(self) -> list[tuple[object, ...]]:
        """The account's objects in the schema."""
        return self.admin.execute(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND pg_get_userbyid(c.relowner) = %s",
            [SCHEMA, self.info.user],
        ).fetchall()

    def ran_as(self) -> list[tuple[object, ...]]:
        """The accounts as which the attacker's code ran."""
        return self.admin.execute("SELECT DISTINCT as_role FROM canary.ran").fetchall()


@pytest.fixture(params=["account", "superuser"])
def ground(
    request: pytest.FixtureRequest, postgres: PostgresServer, database: Callable[..., ConnectionInfo]
) -> Iterator[Ground]:
    """An account without any other privilege, or a superuser."""
    place = database()
    info = database(role=True) if request.param == "account" else place
    with postgres.connect(place.database) as admin:
        for role in ROLES:
            admin.execute(f"CREATE ROLE {role} LOGIN".encode())
        admin.execute(f"CREATE SCHEMA {PLACE} AUTHORIZATION {quoted(info.user)}".encode())
        admin.execute(CANARY.format(attacker=ATTACKER).encode())
        yield Ground(postgres.info(place.database, info.user), admin)
        admin.execute(f"RESET ROLE; ALTER DATABASE {quoted(place.database)} OWNER TO postgres".encode())
        admin.execute(f"DROP OWNED BY {', '.join(ROLES)} CASCADE".encode())
        if request.param == "account":
            admin.execute(f"DROP OWNED BY {quoted(info.user)} CASCADE".encode())
        admin.execute(f"DROP ROLE {', '.join(ROLES)}".encode())


def test_tables_that_an_attacker_made_first_are_not_adopted(ground: Ground) -> None:
    ground.attack(
        f"CREATE TABLE {PLACE}.demo_info (name text PRIMARY KEY, value text NOT NULL)",
        f"INSERT INTO {PLACE}.demo_info VALUES ('version', '0')",
        f"CREATE TABLE {PLACE}.demo_items (repl_key bigint, content text)",
        f"GRANT ALL ON {PLACE}.demo_info, {PLACE}.demo_items TO PUBLIC",
        *(
            f"CREATE TRIGGER t BEFORE INSERT ON {PLACE}.{name} FOR EACH ROW EXECUTE FUNCTION canary.boom_row()"
            for name in ("demo_info", "demo_items")
        ),
    )
    error = ground.refused()
    for part in (f"{PLACE}.demo_info", f"{PLACE}.demo_items", ATTACKER, "drop them"):
        assert part in str(error)
    # To own them would not make them harmless.
    assert [issue.statement for issue in error.issues] == [None]
    assert ground.own_objects() == [] and ground.ran_as() == []


OBJECTS = [
    ("TABLE", "demo_items", "(x int) PARTITION BY RANGE (x)"),
    ("VIEW", "demo_tables", "AS SELECT canary.boom()"),
    ("MATERIALIZED VIEW", "demo_captures", "AS SELECT 1"),
    ("SEQUENCE", "demo_seq", ""),
    ("TYPE", "demo_cols_view", "AS (x int)"),
    ("DOMAIN", "demo_items", "AS text"),
    ("FUNCTION", "demo_debug(text)", "RETURNS void LANGUAGE sql AS ''"),
    ("FUNCTION", "demo_describe(name, name)", "RETURNS text LANGUAGE sql AS 'SELECT canary.boom()'"),
    ("PROCEDURE", "demo_forget(text)", "LANGUAGE sql AS ''"),
    ("AGGREGATE", "demo_origins(text)", "(SFUNC = textcat, STYPE = text)"),
    ("FUNCTION", "demo_capture_orders_0_x(canary.ran)", "RETURNS text LANGUAGE sql AS 'SELECT canary.boom()'"),
]


def test_other_objects_with_one_of_the_names_are_refused(ground: Ground) -> None:
    for kind, name, rest in OBJECTS:
        ground.attack(f"CREATE {kind} {PLACE}.{name} {rest}")
        assert f"{PLACE}.{name.partition('(')[0]}" in str(ground.refused())
        assert ground.own_objects() == [] and ground.ran_as() == [], name
        ground.admin.execute(f"DROP {kind} {PLACE}.{name}".encode())
    ground.attack(f"CREATE TABLE {PLACE}.x (y int)", f"CREATE INDEX demo_items ON {PLACE}.x (y)")
    assert f"{PLACE}.demo_items" in str(ground.refused())
    ground.admin.execute(f"DROP TABLE {PLACE}.x".encode())
    assert ground.install().changed


def test_a_function_beside_an_installation_refuses_its_upgrade(ground: Ground) -> None:
    ground.install()
    ground.attack(f"CREATE FUNCTION {PLACE}.demo_debug(name) RETURNS void LANGUAGE sql AS ''")
    assert f"{PLACE}.demo_debug(name)" in str(ground.refused())
    with connect(ground.info, application="test") as connection, pytest.raises(SchemaUnsafe, match="demo_debug"):
        uninstall(connection, PREFIX, SCHEMA)


def test_names_that_only_begin_as_sluices_do_are_left_alone(ground: Ground) -> None:
    ground.attack(
        f"CREATE TABLE {PLACE}.demo_customers (id int)", f"CREATE TABLE {PLACE}.other_items (id int)",
        f"CREATE FUNCTION {PLACE}.demo_total() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )  # fmt: skip
    assert ground.install().changed
    ground.configure()


@pytest.mark.parametrize("kind", ["table", "view"])
def test_foreign_tables_on_a_slave_are_neither_adopted_nor_read(ground: Ground, kind: str) -> None:
    for name in ("checkpoint", "blocks", "rejects", "throttle", "failover"):
        _not_adopted(ground, kind, name)
        ground.admin.execute(f"DROP {kind} {PLACE}.demo_{name}".encode())


def _not_adopted(ground: Ground, kind: str, name: str) -> None:
    statement = f"CREATE VIEW {PLACE}.demo_{name} AS SELECT canary.boom() AS slave, 'NORMAL' AS state, '' AS message"
    if kind == "table":
        statement = (
            f"CREATE TABLE {PLACE}.demo_{name} (slave text PRIMARY KEY, state text, tables text, retry_at text);"
            f"INSERT INTO {PLACE}.demo_{name} VALUES ('dr1');"
            f"ALTER TABLE {PLACE}.demo_{name} ENABLE ROW LEVEL SECURITY;"
            f"CREATE POLICY p ON {PLACE}.demo_{name} USING (canary.boom() = '0')"
        )
    ground.attack(*statement.split(";"), f"GRANT ALL ON {PLACE}.demo_{name} TO PUBLIC")
    with pytest.raises(SchemaUnsafe, match=f"demo_{name}"):
        ground.configure()
    reads = {
        "checkpoint": lambda session: CheckpointStore(session, PREFIX, SCHEMA, "dr1").read(),
        "failover": lambda session: FailoverStore(session, PREFIX, SCHEMA, "dr1").read(),
        "throttle": lambda session: ThrottleStore(session, PREFIX, SCHEMA, "dr1").exists(),
        "rejects": lambda session: RejectStore(session, PREFIX, SCHEMA, "dr1").ready(),
    }
    if name in reads:
        with connect(ground.info, application="test") as connection, pytest.raises(NotOwned, match=f"demo_{name}"):
            reads[name](connection)
    assert ground.own_objects() == [] and ground.ran_as() == []


def test_an_apply_that_starts_uses_no_table_that_was_put_in_place_of_its_own(ground: Ground) -> None:
    ground.configure()
    ground.admin.execute(f"DROP TABLE {PLACE}.demo_rejects".encode())
    ground.attack(f"CREATE TABLE {PLACE}.demo_rejects (slave text, status text)")
    with connect(ground.info, application="test") as connection, pytest.raises(SchemaUnsafe, match="demo_rejects"):
        CheckpointStore(connection, PREFIX, SCHEMA, "dr1").upgrade()


@dataclass(frozen=True)
class Opening:
    """A way for others to create objects in the schema."""

    how: str
    """Placeholders: the schema, the account, the roles, the database."""
    named: str
    """Whom the message names, in the same placeholders."""


OPENINGS = [
    Opening("GRANT CREATE ON SCHEMA {place} TO PUBLIC", "PUBLIC may"),
    Opening("GRANT CREATE ON SCHEMA {place} TO {attacker}", "{attacker} may"),
    Opening("GRANT CREATE ON SCHEMA {place} TO {group}; GRANT {group} TO {attacker}", "{group} may"),
    Opening("GRANT CREATE ON SCHEMA {place} TO {group}; GRANT {group} TO {account}", "{group} may"),
    Opening(
        "ALTER SCHEMA {place} OWNER TO {attacker}; GRANT ALL ON SCHEMA {place} TO {account}",
        "{attacker}, its owner, may",
    ),
    Opening(
        "ALTER DATABASE {database} OWNER TO {attacker}; GRANT CREATE ON SCHEMA {place} TO pg_database_owner",
        "pg_database_owner may",
    ),
    Opening(
        "GRANT CREATE ON SCHEMA {place} TO {attacker} WITH GRANT OPTION; SET ROLE {attacker};"
        "GRANT CREATE ON SCHEMA {place} TO {member}; RESET ROLE",
        "{member}, {attacker} may",
    ),
]  # fmt: skip


@pytest.mark.one_in(2)
def test_a_schema_in_which_others_may_create_is_refused_and_the_statement_closes_it(ground: Ground) -> None:
    names = {
        "place": PLACE, "account": ground.account, "attacker": ATTACKER, "group": GROUP, "member": MEMBER,
        "database": quoted(ground.info.database),
    }  # fmt: skip
    ground.admin.execute(f"GRANT CREATE ON SCHEMA {PLACE} TO {ground.account}".encode())
    for opening in OPENINGS:
        ground.admin.execute(opening.how.format(**names).encode())
        error = ground.refused()
        assert opening.named.format(**names) in str(error)
        with pytest.raises(SchemaUnsafe):
            ground.configure()
        assert ground.own_objects() == []
        (issue,) = error.issues
        assert issue.statement
        ground.admin.execute(issue.statement.encode())
        with connect(ground.info, application="test") as connection:
            assert own_schema.issues(connection, PostgresCapture(connection, PREFIX, SCHEMA).own) == [], opening
    assert ground.install().changed
    ground.configure()


def test_roles_with_all_rights_of_the_account_are_no_lack(ground: Ground, postgres: PostgresServer) -> None:
    if ground.info.user != "postgres":
        ground.admin.execute(f"GRANT {ground.account} TO {MEMBER}".encode())
        ground.admin.execute(f"GRANT CREATE ON SCHEMA {PLACE} TO {MEMBER}".encode())
    ground.admin.execute(f"ALTER SCHEMA {PLACE} OWNER TO postgres".encode())
    ground.admin.execute(f"GRANT USAGE, CREATE ON SCHEMA {PLACE} TO {ground.account}, pg_database_owner".encode())
    assert ground.install().changed
    ground.configure()


def test_a_schema_with_objects_of_others_gets_a_remedy_without_a_statement(ground: Ground) -> None:
    ground.attack(f"CREATE TABLE {PLACE}.of_the_application (id int)")
    ground.admin.execute(f"GRANT CREATE ON SCHEMA {PLACE} TO PUBLIC".encode())
    (issue,) = ground.refused().issues
    assert issue.statement is None
    assert f"REVOKE CREATE ON SCHEMA {PLACE} FROM PUBLIC" in issue.remedy and "schema:" in issue.remedy


def test_the_schema_is_made_where_the_account_may_and_asked_for_where_not(ground: Ground) -> None:
    ground.admin.execute(f"DROP SCHEMA {PLACE}".encode())
    ground.admin.execute("ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO PUBLIC")
    if ground.info.user != "postgres":
        (issue,) = ground.refused().issues
        assert issue.statement == f"CREATE SCHEMA {PLACE} AUTHORIZATION {ground.account}"
        ground.admin.execute(f"GRANT CREATE ON DATABASE {quoted(ground.info.database)} TO {ground.account}".encode())
    ground.install()
    row = ground.admin.execute(
        "SELECT pg_get_userbyid(nspowner), has_schema_privilege('public', oid, 'USAGE, CREATE') FROM pg_namespace "
        "WHERE nspname = %s",
        [SCHEMA],
    ).fetchone()
    assert row == (ground.info.user, False)
    with connect(ground.info, application="test") as connection:
        assert own_schema.issues(connection, PostgresCapture(connection, PREFIX, SCHEMA).own) == []
        assert own_schema.issues(connection, OwnSchema.of_slave(PREFIX, SCHEMA, "dr1")) == []


OLD = """
prefix: DEMO_
master: {conn_id: m}
slaves: {dr1: {conn_id: s}}
tables: {'public.*': {}}
"""


@pytest.fixture
def former(database: Callable[..., ConnectionInfo], tmp_path: Path) -> Iterator[tuple[Replication, Connection]]:
    """A configuration without schemas, and a database that is master and slave since the default was public."""
    (tmp_path / "DEMO.yaml").write_text(OLD)
    (replication,) = config.survey(tmp_path).replications
    with connect(database(role=True), application="test", autocommit=True) as session:
        installing.install(session, PREFIX, "public")
        CheckpointStore(session, PREFIX, "public", "dr1").ensure()
        yield replication, session


def test_an_installation_in_the_former_default_is_not_repeated(former: tuple[Replication, Connection]) -> None:
    replication, session = former
    master, slave = replication.master, replication.slaves["dr1"]
    assert (master.schema, slave.schema) == ("sluice", "sluice")
    store = CheckpointStore(session, PREFIX, slave.schema, "dr1")
    refused: list[Callable[[], object]] = [
        lambda: installing.install(session, PREFIX, master.schema),
        lambda: reconcile(session, PREFIX, master.schema, []),
        lambda: uninstall(session, PREFIX, master.schema),
        store.read,
        store.upgrade,
        store.ensure,
    ]
    for call in refused:
        with pytest.raises(InstalledElsewhere, match=r"in the schema public; .*Nothing is lost.* write schema: public"):
            call()
    issues = checks.of_master(session, replication) + checks.of_slave(session, replication, slave, master=session)
    assert [issue.side for issue in errors(issues) if "write schema: public" in str(issue)] == ["master", "slave dr1"]
    assert session.execute("SELECT to_regnamespace('sluice')").fetchone() == (None,)
    # What the message says helps: the line, and nothing else.
    assert not installing.install(session, PREFIX, "public").changed
    assert CheckpointStore(session, PREFIX, "public", "dr1").read() is not None
    # Another slave was never there.
    other = CheckpointStore(session, PREFIX, slave.schema, "dr2")
    assert other.read() is None
    other.ensure()


def test_nobody_else_can_pretend_an_installation(
    former: tuple[Replication, Connection], postgres: PostgresServer
) -> None:
    _, session = former
    with postgres.connect(session.info.dbname) as admin:
        admin.execute("CREATE ROLE pretender; CREATE SCHEMA elsewhere AUTHORIZATION pretender; SET ROLE pretender")
        for name in ("items", "tables", "current_tables"):
            admin.execute(f"CREATE TABLE elsewhere.other_{name} (x int); GRANT ALL ON elsewhere.other_{name} TO PUBLIC")
        admin.execute("GRANT USAGE ON SCHEMA elsewhere TO PUBLIC; RESET ROLE")
        try:
            assert installing.install(session, Prefix("OTHER_"), "sluice").changed
        finally:
            admin.execute("DROP OWNED BY pretender CASCADE; DROP ROLE pretender")
