"""Someone with the account's password can run nothing with the rights of an administrator who runs Sluice's SQL."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice import config, sql_files
from sluice.capture import resources
from sluice.cli import sides
from sluice.cli.sides import Side
from sluice.control.checkpoint import CheckpointStore
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import connect, quoted

pytestmark = pytest.mark.releases

PREFIX, SCHEMA = Prefix("DEMO_"), "sluice"
BY_ADMINISTRATORS = ("role", "grants", "slave_grants", "event_triggers", "event_triggers_remove")
"""Files that their heads ask an administrator to run."""
BY_THE_ACCOUNT = ("resources_v1", "guard_release", "uninstall", "slave_uninstall")
"""Files that a person may run by hand, as the account."""
OVERLOADS = (
    "format(text, text)",
    "format(text, text, text)",
    "format(text, text, text, text, text)",
    "quote_ident(name)",
)
"""Of functions of PostgreSQL's own: they fit calls better."""
OPERATORS = ("=(text[], text[])", "<>(text[], text[])", "=(name, text)", "<>(name, text)", "||(text, name)")


@dataclass
class Held:
    """A database whose account is compromised, and an administrator's session that detects what runs as which role."""

    account: ConnectionInfo
    administrator: psycopg.Connection[Any]
    login: ConnectionInfo
    heard: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.administrator.add_notice_handler(lambda notice: self.heard.append(notice.message_primary or ""))
        self.account_session = psycopg.connect(
            host=self.account.host, port=self.account.port, dbname=self.account.database, user=self.account.user,
            password=self.account.password, autocommit=True,
        )  # fmt: skip

    def plant(self, *statements: str) -> None:
        """Creates objects as the account; those that PostgreSQL refuses are left out."""
        for statement in statements:
            try:
                self.account_session.execute(statement.encode())
            except psycopg.Error:
                continue

    def gained(self) -> list[str]:
        """The calls by roles other than the account."""
        return [text for text in self.heard if text.startswith("canary: ") and not text.endswith(self.account.user)]

    def run(self, file: str) -> None:
        """Runs a file in one transaction, as psql does."""
        names = {"role": quoted(self.account.user), "tables": "public", "owner": quoted(self.account.user)}
        text = (sql_files.folder() / "postgres" / f"{file}.sql").read_text()
        used = {name: value for name, value in names.items() if f"${{{name}}}" in text}
        if "${slave}" in text:
            used["slave"] = "'dr1'"
        with self.administrator.transaction():
            self.administrator.execute(
                sql_files.render("postgres", file, prefix=PREFIX.lower, schema=SCHEMA, **used).encode()
            )


@pytest.fixture
def held(database: Callable[..., ConnectionInfo], postgres: PostgresServer) -> Iterator[Held]:
    """The account may create in the schema public, and is installed as on a master and as on a slave."""
    account = database(role=True)
    with connect(account, application="test") as connection:
        resources.install(connection, PREFIX, SCHEMA)
        CheckpointStore(connection, PREFIX, SCHEMA, "dr1").ensure()
        connection.commit()
    with postgres.connect(account.database) as administrator:
        administrator.execute(f"GRANT CREATE, USAGE ON SCHEMA public TO {quoted(account.user)}".encode())
        made = Held(account, administrator, postgres.info(account.database))
        yield made
        made.account_session.close()
        administrator.execute(f"DROP OWNED BY {quoted(account.user)} CASCADE".encode())


def planted(files: tuple[str, ...]) -> Iterator[str]:
    """Functions and operators in public with the names of those of PostgreSQL that the files use, and with better
    matching types."""
    words = set(re.findall(r"\w+", "".join(_text(file) for file in files)))
    say = "BEGIN RAISE WARNING 'canary: % ran as %', {0}, current_user; RETURN NULL; END"
    yield (
        "DO $do$ DECLARE f record; BEGIN FOR f IN SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS args, "
        "format_type(p.prorettype, NULL) AS result FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace "
        f"AND p.prokind = 'f' AND NOT p.proretset AND p.proname = ANY ('{{{','.join(sorted(words))}}}') LOOP "
        "BEGIN EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', f.proname, f.args, "
        "f.result, format('BEGIN RAISE WARNING ''canary: %% ran as %%'', %L, current_user; RETURN NULL; END', "
        "f.proname)); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $do$"
    )
    for signature in OVERLOADS:
        body = say.format(repr(signature))
        yield f"CREATE FUNCTION public.{signature} RETURNS text LANGUAGE plpgsql AS $$ {body} $$"
    for number, signature in enumerate(OPERATORS):
        name, _, kinds = signature.partition("(")
        left, right = kinds.rstrip(")").split(", ")
        result = "text" if name == "||" else "boolean"
        body = say.format(repr(signature))
        yield f"CREATE FUNCTION public.op{number}({kinds} RETURNS {result} LANGUAGE plpgsql AS $$ {body} $$"
        yield f"CREATE OPERATOR public.{name} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.op{number})"


def _text(file: str) -> str:
    return (sql_files.folder() / "postgres" / f"{file}.sql").read_text()


@pytest.mark.parametrize("search_path", ["DEFAULT", "public, sluice, pg_catalog"])
def test_statements_of_an_administrator_call_nothing_of_the_account(held: Held, search_path: str) -> None:
    held.plant(
        *planted(BY_ADMINISTRATORS),
        "CREATE OR REPLACE FUNCTION sluice.demo_own(name text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE WARNING 'canary: own ran as %', current_user; RETURN 'sluice.demo_' || name; END $$",
    )
    count = "SELECT count(*) FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'public'::regnamespace"
    assert held.administrator.execute(count).fetchone() > (20,)  # type: ignore[operator]
    held.administrator.execute(f"SET search_path = {search_path}".encode())
    for file in BY_ADMINISTRATORS:
        held.run(file)
    assert held.gained() == []


@pytest.mark.parametrize("file", BY_THE_ACCOUNT)
def test_files_that_would_fire_triggers_of_the_account_refuse_an_administrator(held: Held, file: str) -> None:
    body = "BEGIN RAISE WARNING 'canary: a trigger ran as %', current_user; RETURN NULL; END"
    tables = ("info", "tables", "items", "captures", "checkpoint", "blocks", "rejects", "throttle", "failover")
    held.plant(
        f"CREATE FUNCTION public.boom() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$",
        *(
            f"CREATE TRIGGER boom BEFORE INSERT OR UPDATE OR DELETE ON sluice.demo_{table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION public.boom()"
            for table in tables
        ),
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=f"Run this as {held.account.user}"):
        held.run(file)
    assert held.gained() == []


def test_finding_out_what_the_account_lacks_runs_nothing_of_it_as_an_administrator(held: Held, tmp_path: Path) -> None:
    escape = (
        "BEGIN EXECUTE 'RESET ROLE'; IF current_user <> {account} THEN PERFORM nextval('public.gained'); "
        "EXECUTE 'SET ROLE ' || {account}; END IF; RETURN true; END"
    ).format(account=f"'{held.account.user}'")
    held.plant(
        "CREATE SEQUENCE public.gained",
        f"CREATE FUNCTION public.escape() RETURNS boolean LANGUAGE plpgsql AS $$ {escape} $$",
        "CREATE OR REPLACE FUNCTION sluice.demo_has_event_triggers() RETURNS boolean LANGUAGE plpgsql "
        f"AS $$ {escape} $$",
        *(
            statement
            for table in ("info", "captures", "checkpoint", "tables")
            for statement in (
                f"ALTER TABLE sluice.demo_{table} ENABLE ROW LEVEL SECURITY",
                f"ALTER TABLE sluice.demo_{table} FORCE ROW LEVEL SECURITY",
                f"CREATE POLICY p ON sluice.demo_{table} USING (public.escape())",
            )
        ),
    )
    (tmp_path / "DEMO.yaml").write_text(
        "prefix: DEMO_\nmaster: {conn_id: m}\nslaves: {dr1: {conn_id: s}}\ntables: {public.*: {}}\n"
    )
    (replication,) = config.survey(tmp_path).replications
    sides.planned(
        replication,
        Side("master", "m", held.account, held.login),
        [Side("dr1", "s", held.account, held.login)],
    )
    assert held.administrator.execute("SELECT is_called FROM public.gained").fetchone() == (False,)
