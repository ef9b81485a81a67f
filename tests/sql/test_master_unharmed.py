"""Every statement of the application gives the same rows, results and errors with Sluice as without."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import application_definitions
import application_partitions
import application_rows
import psycopg
import pytest
from psycopg import sql

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model.names import TableName
from tests.sql.application import ADMINISTRATOR, ROLES, SCHEMA, TABLES, Scenario
from tests.sql.master import Master

ACCOUNT = "sluice account"
"""Has what grants.sql gives, and owns nothing."""

SCENARIOS = {
    **application_rows.SCENARIOS,
    **application_partitions.SCENARIOS,
    **application_definitions.SCENARIOS,
}

GUARD = """
CREATE FUNCTION public.forbid() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
    IF session_user <> 'postgres' THEN
        RAISE insufficient_privilege USING MESSAGE = format('%s is not allowed', tg_tag);
    END IF;
END $$;
CREATE EVENT TRIGGER forbid ON ddl_command_end
    WHEN TAG IN ('CREATE FUNCTION', 'ALTER FUNCTION', 'CREATE TRIGGER', 'GRANT', 'REVOKE')
    EXECUTE FUNCTION public.forbid();
CREATE EVENT TRIGGER forbid_drop ON sql_drop WHEN TAG IN ('DROP FUNCTION') EXECUTE FUNCTION public.forbid();
"""

_copies = count(1)


@dataclass(frozen=True)
class Templates:
    """Databases with the schema of the application, to be copied."""

    pristine: str
    captured: str
    told: str
    """Captured, with event triggers."""
    guarded: str = "unharmed guarded"
    """As `pristine`, with event triggers of an administrator that allow the application's roles no function."""
    both: str = "unharmed guarded told"
    """As `told`, with these as well."""


@pytest.fixture(scope="module")
def templates(postgres: PostgresServer) -> Iterator[Templates]:
    names = Templates("unharmed pristine", "unharmed captured", "unharmed told")
    for role in ROLES:
        postgres.create_role(role)
    postgres.create_role(ACCOUNT)
    postgres.create_database(names.pristine)
    with postgres.connect(names.pristine) as administrator:
        for role, statement in SCHEMA:
            _become(administrator, role)
            administrator.execute(statement)  # type: ignore[call-overload]
    _copy(postgres, names.pristine, names.captured)
    with postgres.connect(names.captured) as administrator:
        administrator.execute("CREATE SCHEMA sluice")
        account = f'"{ACCOUNT}"'
        administrator.execute(
            sql_files.render("postgres", "grants", role=account, schema="sluice", tables="app", owner='"Shop Owner"')
        )
    master = Master(postgres.info(names.captured, ACCOUNT), schema="sluice")
    master.install()
    master.register(*(TableName("app", name) for name in TABLES))
    master.connection.close()
    _copy(postgres, names.captured, names.told)
    with postgres.connect(names.told) as administrator:
        administrator.execute(sql_files.render("postgres", "event_triggers", prefix="demo_", schema="sluice"))
    Master(postgres.info(names.told, ACCOUNT), schema="sluice").register(*(TableName("app", name) for name in TABLES))
    for template, guarded in ((names.pristine, names.guarded), (names.told, names.both)):
        _copy(postgres, template, guarded)
        with postgres.connect(guarded) as administrator:
            administrator.execute(GUARD)
    yield names
    for name in (names.pristine, names.captured, names.told, names.guarded, names.both):
        _drop(postgres, name)
    with postgres.connect() as connection:
        for role in (*ROLES, ACCOUNT):
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


Outcome = tuple[str, tuple[str, ...]]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("compared", [False, True], ids=["never compared", "compared after each statement"])
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_by_comparison_every_statement_ends_as_without_capture(
    postgres: PostgresServer, templates: Templates, scenario: str, compared: bool
) -> None:
    differences = _differences(postgres, templates.pristine, templates.captured, scenario, compared=compared)
    assert not differences, "\n".join(differences)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_with_event_triggers_every_statement_ends_as_without_capture(
    postgres: PostgresServer, templates: Templates, scenario: str
) -> None:
    differences = _differences(postgres, templates.pristine, templates.told, scenario)
    assert not differences, "\n".join(differences)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_event_triggers_that_forbid_functions_to_the_application_let_every_statement_pass(
    postgres: PostgresServer, templates: Templates, scenario: str
) -> None:
    differences = _differences(postgres, templates.guarded, templates.both, scenario)
    assert not differences, "\n".join(differences)


def _differences(
    postgres: PostgresServer, pristine: str, captured: str, scenario: str, *, compared: bool = False
) -> list[str]:
    """The statements with another result in a copy of `captured` than in one of `pristine`, with both results."""
    expected = _outcomes(postgres, pristine, SCENARIOS[scenario], compared=False)
    found = _outcomes(postgres, captured, SCENARIOS[scenario], compared=compared)
    return [
        f"{statement}: {with_us} instead of {without}"
        for (statement, without), (_, with_us) in zip(expected, found, strict=True)
        if with_us != without
    ]


def _outcomes(postgres: PostgresServer, template: str, scenario: Scenario, *, compared: bool) -> list[Outcome]:
    """The result of each statement of the scenario on a copy of the template: with its text, in order."""
    name = f"unharmed {next(_copies)}"
    _copy(postgres, template, name)
    sessions: dict[str, psycopg.Connection[Any]] = {}
    outcomes = []
    try:
        for role, statement in scenario:
            if role not in sessions:
                sessions[role] = postgres.connect(name)
                _become(sessions[role], role)
            outcome = _outcome(sessions[role], statement)
            outcomes.append((statement, tuple(str(part).replace(name, "this database") for part in outcome)))
            if compared and all(session.info.transaction_status == 0 for session in sessions.values()):
                with postgres.connect(name, ACCOUNT) as account:
                    account.execute("SELECT sluice.demo_check_structure()")
        return outcomes
    finally:
        for session in sessions.values():
            session.close()
        with postgres.connect(name) as administrator:
            for (gid,) in administrator.execute(
                "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
            ).fetchall():
                administrator.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
        _drop(postgres, name)


def _outcome(session: psycopg.Connection[Any], statement: str) -> tuple[Any, Any]:
    text, _, rows = statement.partition("\n") if "FROM STDIN" in statement else (statement, "", "")
    cursor = session.cursor()
    try:
        if rows:
            with cursor.copy(text) as copy:  # type: ignore[call-overload]
                copy.write(rows)
        else:
            cursor.execute(text)  # type: ignore[call-overload]
    except psycopg.Error as error:
        return error.sqlstate, (error.diag.message_primary, error.diag.message_detail)
    # Where no order is asked for, none is promised.
    return cursor.statusmessage, sorted(cursor.fetchall(), key=repr) if cursor.description else None


def _become(session: psycopg.Connection[Any], role: str) -> None:
    if role != ADMINISTRATOR:
        session.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))
    else:
        session.execute("RESET SESSION AUTHORIZATION")


def _copy(postgres: PostgresServer, template: str, name: str) -> None:
    with postgres.connect() as connection:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))


def _drop(postgres: PostgresServer, name: str) -> None:
    with postgres.connect() as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
