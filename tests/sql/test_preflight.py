"""The preflight names all issues of an account, and its statements fix them; on real servers, with hostile names."""

import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice import config, sql_files
from sluice.capture import reconcile, resources
from sluice.configuration.model import Replication
from sluice.model.connection import ConnectionInfo
from sluice.model.issue import Issue, Severity, errors, script
from sluice.preflight import checks
from sluice.preflight.checks import NotReady
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect, quoted

pytestmark = pytest.mark.releases

ACCOUNT, OWNER = quoted('Sluice\'s "Account"'), quoted('Table "Owner"')
SILENCE = "SET on the parameter session_replication_role"
THIRDS = 3
"""Parts of the cases, of which the quick tier runs one."""
SCHEMA, RESOURCES = quoted('Odd "Schema'), quoted("select")
PERSON, ORDER, EVENTS, PART = f'{SCHEMA}."Per son"', 'public."order"', f"{SCHEMA}.events", f'{SCHEMA}."events 1"'
CALLS = f'{SCHEMA}."Calls"'
BETWEEN = f'{SCHEMA}."Events, between"'

CONFIG = """
prefix: PRE_
master: {conn_id: m, vendor: postgres, schema: select}
slaves:
  dr1: {conn_id: s, vendor: postgres, schema: select}
tables:
  '"Odd ""Schema".*': {}
  public.order: {}
"""

TABLES = f"""
CREATE TYPE {SCHEMA}."Mood" AS ENUM ('sad', 'it''s "fine"');
CREATE TABLE {PERSON} (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "user" text, m {SCHEMA}."Mood");
CREATE TABLE {ORDER} (id serial PRIMARY KEY, person int REFERENCES {PERSON});
"""


def plain(quoted_name: str) -> str:
    return quoted_name[1:-1].replace('""', '"')


@dataclass
class Ends:
    """A master with tables of an owner, a slave, an account, and a superuser on both."""

    replication: Replication
    master: ConnectionInfo
    slave: ConnectionInfo
    master_admin: psycopg.Connection[Any]
    slave_admin: psycopg.Connection[Any]

    def issues(self) -> list[Issue]:
        """The issues on both sides, as the account sees them, without notes."""
        with connect(self.master, application="test", autocommit=True) as master:
            found = checks.of_master(master, self.replication)
            with connect(self.slave, application="test", autocommit=True) as slave:
                found += checks.of_slave(slave, self.replication, self.replication.slave("dr1"), master=master)
        return [issue for issue in found if issue.severity is not Severity.NOTE]

    def fix(self, issues: list[Issue]) -> None:
        self.master_admin.execute(script(issue for issue in issues if issue.side == "master").encode())
        self.slave_admin.execute(script(issue for issue in issues if issue.side == "slave dr1").encode())

    def install(self) -> None:
        with connect(self.master, application="test") as master:
            resources.install(master, self.replication.prefix, plain(RESOURCES))
            tables = self.replication.resolve(catalog.tables(master))
            master.rollback()
            reconcile.reconcile(master, self.replication.prefix, plain(RESOURCES), tables)


@pytest.fixture
def ends(postgres: PostgresServer, database: Callable[..., ConnectionInfo], tmp_path: Path) -> Iterator[Ends]:
    """An account without any privilege, not even those that everybody has by default."""
    master, slave = database(name='Shop "of" x').database, database(name="dr1's copy").database
    postgres.create_role(plain(ACCOUNT))
    postgres.create_role(plain(OWNER))
    (tmp_path / "PRE.yaml").write_text(CONFIG)
    with mock.patch.dict(os.environ, SLUICE_REPLICATIONS=str(tmp_path)):
        replication = config.load("PRE_")
    with postgres.connect(master) as there, postgres.connect(slave) as here:
        for admin in (there, here):
            admin.execute(
                f"REVOKE ALL ON SCHEMA public FROM PUBLIC; REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC;"
                f"REVOKE ALL ON DATABASE {quoted(admin.info.dbname)} FROM PUBLIC;"
                f"GRANT CONNECT ON DATABASE {quoted(admin.info.dbname)} TO {ACCOUNT};"
                f"REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC".encode()
            )
        there.execute(
            f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {OWNER}; GRANT ALL ON SCHEMA public TO {OWNER};"
            f"SET ROLE {OWNER}; {TABLES} CREATE SEQUENCE {CALLS};"
            f"CREATE TABLE {EVENTS} (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);"
            f"CREATE TABLE {BETWEEN} PARTITION OF {EVENTS} FOR VALUES FROM (0) TO (1000) PARTITION BY RANGE (id);"
            f"CREATE TABLE {PART} PARTITION OF {BETWEEN} FOR VALUES FROM (0) TO (1000); RESET ROLE".encode()
        )
        yield Ends(
            replication, postgres.info(master, plain(ACCOUNT)), postgres.info(slave, plain(ACCOUNT)), there, here
        )
        for admin in (there, here):
            admin.execute(f"DROP OWNED BY {ACCOUNT}, {OWNER} CASCADE".encode())
        there.execute(f"DROP ROLE {ACCOUNT}, {OWNER}".encode())


@pytest.fixture
def granted(ends: Ends) -> Ends:
    """An account with exactly the necessary privileges; it owns two tables that are on the slave already."""
    ends.fix(ends.issues())
    ends.slave_admin.execute(
        f"CREATE SCHEMA {SCHEMA}; GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {ACCOUNT}; SET ROLE {ACCOUNT}; {TABLES}"
        f"ALTER TABLE {ORDER} DROP CONSTRAINT order_person_fkey; RESET ROLE".encode()
    )
    ends.install()
    assert ends.issues() == []
    return ends


@pytest.mark.long
def test_the_statements_of_all_lacks_leave_none(ends: Ends) -> None:
    found = ends.issues()
    with pytest.raises(NotReady) as caught:
        checks.require_ready("PRE_", found)
    assert caught.value.issues == tuple(errors(found))
    for issue in errors(found):
        assert f"- {issue}" in str(caught.value)
        assert f"    {issue.statement.splitlines()[0]}" in str(caught.value) if issue.statement else issue.remedy
    ends.fix(found)
    assert ends.issues() == []
    checks.require_ready("PRE_", ends.issues())
    ends.install()
    assert ends.issues() == []


@dataclass(frozen=True)
class Case:
    """A privilege that is withdrawn, and the only lack that results."""

    side: str
    withdraw: str
    what: str
    severity: Severity = Severity.ERROR
    after: str = "SELECT"
    """Run when it was fixed: what the statement does not take back."""

    def __str__(self) -> str:
        return f"{self.side}: {self.withdraw}"


WARNING = Severity.WARNING
MASTER = [
    (f"REVOKE USAGE ON SCHEMA {SCHEMA} FROM {ACCOUNT}", f"USAGE on the schema {SCHEMA}"),
    (f"REVOKE CREATE ON SCHEMA {RESOURCES} FROM {ACCOUNT}", f"CREATE on the schema {RESOURCES}"),
    (f"REVOKE USAGE ON SCHEMA {RESOURCES} FROM {ACCOUNT}", f"USAGE on the schema {RESOURCES}"),
    (f"REVOKE SELECT ON {PERSON} FROM {ACCOUNT}", f"SELECT on {PERSON}"),
    (f"REVOKE TRIGGER ON {ORDER} FROM {ACCOUNT}", f"TRIGGER on {ORDER}"),
    (f"REVOKE SELECT, TRIGGER ON {PART} FROM {ACCOUNT}", f"SELECT, TRIGGER on {PART}"),
    (f"REVOKE TRIGGER ON {EVENTS} FROM {ACCOUNT}", f"TRIGGER on {EVENTS}"),
    (f"REVOKE TRIGGER ON {BETWEEN} FROM {ACCOUNT}", f"TRIGGER on {BETWEEN}"),
    (f"REVOKE SELECT ON public.order_id_seq FROM {ACCOUNT}", "SELECT on the sequence", WARNING),
    (f"REVOKE SELECT ON {CALLS} FROM {ACCOUNT}", f"SELECT on the sequence {CALLS}", WARNING),
    (
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {OWNER} IN SCHEMA {SCHEMA} REVOKE TRIGGER ON TABLES FROM {ACCOUNT}",
        f"default privileges on tables that {OWNER}",
        WARNING,
    ),
    (
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {OWNER} IN SCHEMA {SCHEMA} REVOKE SELECT ON SEQUENCES FROM {ACCOUNT}",
        f"default privileges on sequences that {OWNER}",
        WARNING,
    ),
    (f"ALTER TABLE {PERSON} ENABLE ROW LEVEL SECURITY; ALTER ROLE {ACCOUNT} NOBYPASSRLS", f"BYPASSRLS for {ACCOUNT}",
     Severity.ERROR, f"ALTER TABLE {PERSON} DISABLE ROW LEVEL SECURITY"),
    (f"REVOKE EXECUTE ON FUNCTION pg_control_system() FROM {ACCOUNT}", "EXECUTE on pg_catalog.pg_control_system()"),
    (f"REVOKE USAGE ON LANGUAGE plpgsql FROM {ACCOUNT}", "USAGE on the language plpgsql"),
    (f"ALTER ROLE {OWNER} SET temp_file_limit = '2MB'", f"ROLE {OWNER} without the setting temp_file_limit", WARNING),
    (f"ALTER ROLE {OWNER} SET session_replication_role = replica", f"ROLE {OWNER} without the setting", WARNING),
    (f"""DO $$ DECLARE f text; BEGIN
        FOR f IN SELECT p.oid::regprocedure FROM pg_proc p WHERE starts_with(p.proname, 'pre_capture_events_') LOOP
            EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC, {OWNER}', f);
        END LOOP; END $$""", f"EXECUTE on {RESOURCES}.pre_capture_events_", WARNING),
    (f"GRANT CREATE ON SCHEMA {RESOURCES} TO PUBLIC, {OWNER}", f"a schema {RESOURCES} in which nobody else may CREATE"),
    (f"ALTER TABLE {RESOURCES}.pre_items OWNER TO postgres", f"the ownership of {RESOURCES}.pre_items"),
    (f"ALTER FUNCTION {RESOURCES}.pre_position() OWNER TO postgres", f"the ownership of {RESOURCES}.pre_position("),
]  # fmt: skip
SLAVE = [
    (f"REVOKE TEMPORARY ON DATABASE {quoted('dr1' + chr(39) + 's copy')} FROM {ACCOUNT}", "TEMPORARY on the database"),
    (f"REVOKE CREATE ON SCHEMA {RESOURCES} FROM {ACCOUNT}", f"CREATE on the schema {RESOURCES}"),
    (f"REVOKE USAGE ON SCHEMA {SCHEMA} FROM {ACCOUNT}", f"USAGE on the schema {SCHEMA}"),
    (f"REVOKE CREATE ON SCHEMA public FROM {ACCOUNT}", "CREATE on the schema public"),
    (f"REVOKE INSERT, DELETE ON {PERSON} FROM {ACCOUNT}", f"INSERT, DELETE on {PERSON}"),
    (f"REVOKE TRUNCATE ON {PERSON} FROM {ACCOUNT}", f"TRUNCATE on {PERSON}", WARNING),
    (f"ALTER TABLE {PERSON} OWNER TO postgres; GRANT ALL ON {PERSON} TO {ACCOUNT}",
     f"the ownership of {PERSON}", WARNING),
    (f"ALTER TABLE {PERSON} FORCE ROW LEVEL SECURITY; ALTER TABLE {PERSON} ENABLE ROW LEVEL SECURITY;"
     f"ALTER ROLE {ACCOUNT} NOBYPASSRLS", f"BYPASSRLS for {ACCOUNT}"),
    (f"REVOKE UPDATE ON SEQUENCE public.order_id_seq FROM {ACCOUNT}", "SELECT, UPDATE on the sequence", WARNING),
    (f"REVOKE SET ON PARAMETER session_replication_role FROM {ACCOUNT}", SILENCE, WARNING),
    (f"REVOKE EXECUTE ON FUNCTION pg_control_system() FROM {ACCOUNT}", "EXECUTE on pg_catalog.pg_control_system()"),
    (f"ALTER TABLE {ORDER} DROP CONSTRAINT order_pkey; CREATE UNIQUE INDEX again ON {ORDER} (id);"
     "CREATE PUBLICATION p FOR ALL TABLES", f"a replica identity of {ORDER}"),
    (f"GRANT CREATE ON SCHEMA {RESOURCES} TO PUBLIC, {OWNER}", f"a schema {RESOURCES} in which nobody else may CREATE"),
    (f"CREATE TABLE {RESOURCES}.pre_throttle ()", f"the ownership of {RESOURCES}.pre_throttle"),
    (f"ALTER TABLE {PERSON} DROP m; DROP TYPE {SCHEMA}.\"Mood\"; CREATE TYPE {SCHEMA}.\"Mood\" AS ENUM ('sad');"
     f"ALTER TABLE {PERSON} ADD m {SCHEMA}.\"Mood\"",
     "types as on the master"),
]  # fmt: skip
CASES = [*(Case("master", *case) for case in MASTER), *(Case("slave dr1", *case) for case in SLAVE)]


def cases_of(ends: Ends) -> list[Case]:
    """The cases of a release. On PostgreSQL 14 the setting belongs to the account, and cannot be granted."""
    if ends.slave_admin.info.server_version >= 150000:
        return CASES
    reset = f"ALTER ROLE {ACCOUNT} IN DATABASE {quoted(ends.slave.database)} RESET session_replication_role"
    return [replace(case, withdraw=reset) if case.what == SILENCE else case for case in CASES]


@pytest.mark.one_in(2)
@pytest.mark.one_in(THIRDS)
@pytest.mark.parametrize("third", range(THIRDS))
def test_each_thing_that_is_withdrawn_is_named_alone_and_its_statement_mends_it(granted: Ends, third: int) -> None:
    for case in cases_of(granted)[third::THIRDS]:
        admin = granted.master_admin if case.side == "master" else granted.slave_admin
        admin.execute(case.withdraw.encode())
        found = granted.issues()
        assert [(issue.side, issue.severity) for issue in found] == [(case.side, case.severity)], f"{case}: {found}"
        assert found[0].what.startswith(case.what), case
        assert found[0].statement, case
        granted.fix(found)
        assert granted.issues() == [], case
        admin.execute(case.after.encode())


@pytest.mark.long
def test_any_of_them_together_are_mended_by_what_the_preflight_says(
    granted: Ends, request: pytest.FixtureRequest
) -> None:
    chosen = random.Random(request.config.option.run_number)
    for _ in range(4):
        cases = [case for case in cases_of(granted) if re.match("REVOKE|ALTER DEFAULT", case.withdraw)]
        cases = chosen.sample(cases, chosen.randint(2, len(cases)))
        for case in cases:
            admin = granted.master_admin if case.side == "master" else granted.slave_admin
            admin.execute(case.withdraw.encode())
        found = granted.issues()
        assert {issue.side for issue in found} == {case.side for case in cases}
        granted.fix(found)
        assert granted.issues() == [], cases


@pytest.mark.long
def test_lacks_without_a_statement_have_a_remedy(granted: Ends) -> None:
    granted.slave_admin.execute(
        f'ALTER TABLE {PERSON} DROP "user", ALTER id DROP IDENTITY, ALTER id TYPE smallint'.encode()
    )
    granted.slave_admin.execute(f"CREATE VIEW {EVENTS} AS SELECT 1 AS id".encode())
    granted.master_admin.execute(f"ALTER ROLE {ACCOUNT} CONNECTION LIMIT 5".encode())
    found = granted.issues()
    assert all(issue.statement is None and issue.remedy.endswith(".") for issue in found), found
    assert sorted((issue.side, issue.what) for issue in found) == [
        ("master", "10 free connections"),
        ("slave dr1", "10 free connections"),
        ("slave dr1", "a table like the master's"),
        ("slave dr1", "a table like the master's"),
        ("slave dr1", 'the name "Odd ""Schema".events'),
    ]


@pytest.mark.long
def test_an_extension_that_only_indexes_need_is_named_with_its_statement(granted: Ends) -> None:
    granted.master_admin.execute(
        f"CREATE SCHEMA words; CREATE EXTENSION btree_gist SCHEMA words;"
        f"CREATE INDEX ON {PERSON} USING gist (id words.gist_int4_ops)".encode()
    )
    (issue,) = granted.issues()
    assert (issue.side, issue.what, issue.severity) == ("slave dr1", "the extension btree_gist", Severity.WARNING)
    granted.fix([issue])
    assert granted.issues() == []


@pytest.mark.long
def test_a_slave_that_is_the_masters_own_database_is_refused(granted: Ends) -> None:
    """Whatever the address: an initial update would empty the master's tables."""
    found = replace(granted, slave=granted.master, slave_admin=granted.master_admin).issues()
    (same,) = [issue for issue in found if issue.what == "a separate database"]
    assert (same.side, same.severity) == ("slave dr1", Severity.ERROR)
    assert str(same).endswith("Let the connection s name another database.")


@pytest.mark.long
def test_columns_with_numbers_of_large_objects_are_named_unless_the_file_accepts_it(granted: Ends) -> None:
    """By type (`lo`, the domain of the extension of that name), or because the database has large objects."""
    granted.master_admin.execute("CREATE DOMAIN public.lo AS oid")
    granted.master_admin.execute(f"ALTER TABLE {PERSON} ADD photo oid, ADD pages oid[], ADD n int".encode())
    granted.slave_admin.execute(f"ALTER TABLE {PERSON} ADD photo oid, ADD pages oid[], ADD n int".encode())
    assert granted.issues() == []
    granted.master_admin.execute(f"ALTER TABLE {ORDER} ADD scan public.lo".encode())
    granted.slave_admin.execute(f"CREATE DOMAIN public.lo AS oid; ALTER TABLE {ORDER} ADD scan public.lo".encode())
    (issue,) = granted.issues()
    assert issue.severity is Severity.ERROR
    assert issue.why.startswith("public.order.scan hold")
    number = granted.master_admin.execute("SELECT lo_from_bytea(0, 'x')").fetchone()[0]  # type: ignore[index]
    try:
        (issue,) = granted.issues()
        columns = ["public.order.scan", f"{plain(SCHEMA)}.Per son.photo", f"{plain(SCHEMA)}.Per son.pages"]
        assert all(column in issue.why for column in columns)
        assert not any(name in issue.why for name in (".n,", ".id"))
        accepted = replace(granted.replication.slave("dr1"), lossy_columns=("public.order.scan", "*.Per son.p*"))
        granted.replication = replace(granted.replication, slaves={"dr1": accepted})
        assert granted.issues() == []
    finally:
        granted.master_admin.execute("SELECT lo_unlink(%s)", [number])


def test_an_administrator_learns_it_for_an_account_that_cannot_connect(ends: Ends) -> None:
    ends.master_admin.execute(f"REVOKE CONNECT ON DATABASE {quoted(ends.master.database)} FROM {ACCOUNT}".encode())
    ends.master_admin.execute(f"SET search_path = pg_catalog, pg_temp; SET ROLE {ACCOUNT}".encode())
    found = checks.of_master(ends.master_admin, ends.replication)
    ends.master_admin.execute("RESET ROLE; RESET search_path")
    assert f"GRANT CONNECT ON DATABASE {quoted(ends.master.database)} TO {ACCOUNT}" in [
        issue.statement for issue in found
    ]
    ends.fix(found)
    ends.fix(ends.issues())
    assert ends.issues() == []


def test_a_superuser_lacks_nothing_but_being_none_on_either_side(ends: Ends) -> None:
    def found(replication: Replication) -> list[tuple[str, Severity]]:
        issues = checks.of_master(ends.master_admin, replication)
        issues += checks.of_slave(ends.slave_admin, replication, replication.slave("dr1"), master=ends.master_admin)
        return [(issue.side, issue.severity) for issue in issues if issue.what == "an account that is no superuser"]

    slave = ends.replication.slave("dr1")
    assert found(ends.replication) == [("master", Severity.ERROR), ("slave dr1", Severity.ERROR)]
    allowed = replace(
        ends.replication,
        master=replace(ends.replication.master, allow_superuser=True),
        slaves={"dr1": replace(slave, allow_superuser=True)},
    )
    assert found(allowed) == [("master", Severity.NOTE), ("slave dr1", Severity.NOTE)]
    everything = checks.of_master(ends.master_admin, allowed)
    assert [issue.what for issue in everything if "schema" not in issue.what] == ["an account that is no superuser"]


def test_an_account_that_may_become_a_superuser_or_run_programs_counts_as_one(ends: Ends) -> None:
    for power in ("postgres", "pg_execute_server_program"):
        ends.master_admin.execute(f"GRANT {power} TO {ACCOUNT}".encode())
        issues = [issue for issue in ends.issues() if issue.what == "an account that is no superuser"]
        assert [(issue.side, issue.severity) for issue in issues] == [
            ("master", Severity.ERROR),
            ("slave dr1", Severity.ERROR),
        ]
        assert all(f"may become {power}" in issue.why for issue in issues)
        ends.master_admin.execute(f"REVOKE {power} FROM {ACCOUNT}".encode())


def test_the_files_that_a_database_administrator_runs_grant_all_of_it(ends: Ends) -> None:
    """With PUBLIC's default privileges."""
    for admin in (ends.master_admin, ends.slave_admin):
        admin.execute(
            "GRANT USAGE ON LANGUAGE plpgsql TO PUBLIC; GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC"
        )
        admin.execute(sql_files.render("postgres", "role", role=ACCOUNT))
    ends.master_admin.execute(f"CREATE SCHEMA {RESOURCES}".encode())
    for tables in (SCHEMA, "public"):
        names = {"role": ACCOUNT, "schema": RESOURCES, "tables": tables}
        ends.master_admin.execute(sql_files.render("postgres", "grants", owner=OWNER, **names))
        ends.slave_admin.execute(sql_files.render("postgres", "slave_grants", **names))
    assert ends.issues() == []
    ends.install()
    assert ends.issues() == []


@pytest.mark.long
def test_functions_of_owners_that_planning_could_run_are_refused_unless_owners_are_trusted(granted: Ends) -> None:
    granted.master_admin.execute(
        f"SET ROLE {OWNER}; CREATE FUNCTION {SCHEMA}.code(n int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'; "
        f"CREATE INDEX planned ON {PART} ({SCHEMA}.code(id)); RESET ROLE".encode()
    )
    (issue,) = granted.issues()
    assert issue.severity is Severity.ERROR and issue.statement is None
    assert EVENTS in issue.what and "code(integer)" in issue.what and "allow_owner_code: true" in issue.remedy
    master = replace(granted.replication.master, allow_owner_code=True)
    trusting = replace(granted, replication=replace(granted.replication, master=master))
    assert trusting.issues() == []
    granted.master_admin.execute(f"ALTER FUNCTION {SCHEMA}.code(int) OWNER TO CURRENT_USER".encode())
    assert granted.issues() == []
