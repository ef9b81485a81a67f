"""Statements of include/sql/oracle on H2 in its Oracle mode, with its tables and views; those that it does not accept
are listed here."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from sluice.database.errors import DatabaseError
from sluice.model.connection import ConnectionInfo
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.session import Value, binds_of
from tests.oracle import h2 as on_h2
from tests.oracle import sql_units
from tests.oracle.h2 import H2Session

_DICTIONARY = "views of a running server, for which nothing stands in"
_PACKAGES = "it has no packages"
_GRANTS = "a script of privileges that only Oracle has"
NOT_TAKEN = {
    "archived_logs": _DICTIONARY,
    "archived_logs_place": _DICTIONARY,
    "asm_files": "CONNECT BY is not known",
    "blob_hex": "no function comes with a query",
    "captured": _PACKAGES,
    "compile_errors": _DICTIONARY,
    "foreign_keys_acting": "SYS_CONTEXT is not known",
    "grants": _GRANTS,
    "grants_redo": _GRANTS,
    "grants_redo_rows": _GRANTS,
    "grants_slave": _GRANTS,
    "longs_fill": _PACKAGES,
    "policies": _DICTIONARY,
    "position_incarnation": _DICTIONARY,
    "position_listed": _DICTIONARY,
    "position_prepared": _DICTIONARY,
    "position_scns": _DICTIONARY,
    "position_threads": _DICTIONARY,
    "position_visible": "neither AS OF SCN nor JSON_TABLE is known",
    "redo_logging": _DICTIONARY,
    "redo_running": _DICTIONARY,
    "tables": _DICTIONARY,
    "throttle_read": "dates that are subtracted make no number",
}
"""Files with a statement that it does not take, and why. The list may only get shorter: what is taken must not stand
here. Blocks and packages are not asked of it: it has no PL/SQL."""
FIRST = ("slave_resources", "resources_v1")
"""They make the tables that the others read."""
_BLOCK = re.compile(r"(CREATE OR REPLACE (PACKAGE|TRIGGER)|DECLARE|BEGIN)\b")
VALUES: dict[str, Value] = {"p_planned_at": datetime(2024, 2, 29, tzinfo=UTC)}
"""Of the parameters that take no text with a number in it."""
TABLES = {"indexes": "c.TABLE_OWNER", "estimates": "t.OWNER", "table_kinds": "t.OWNER", "triggers": "t.TABLE_OWNER"}
"""Where the owner of the tables stands that a statement is asked for."""


def statements(name: str) -> list[str]:
    """The statements of a file, and those inside its blocks, without the blocks themselves."""
    found = []
    for text in sql_units.units(name).values():
        if owner := TABLES.get(name):
            text = text.replace("(c.OWNER, c.", f"({owner}, {owner[0]}.")
        bare = re.sub(r"^--.*\n", "", text, flags=re.MULTILINE).strip()
        if not _BLOCK.match(bare):
            found += [part.strip().rstrip(";") for part in re.split(r";\n", bare) if part.strip()]
    return found


@pytest.fixture
def session(h2: Callable[[], ConnectionInfo]) -> Iterator[H2Session]:
    with on_h2.connect(h2(), application="statements") as session:
        session.run('CREATE SCHEMA "SLUICE"')
        session.run('SET SCHEMA "SLUICE"')
        session.run("SET SCHEMA_SEARCH_PATH SLUICE, PUBLIC")
        yield session


def test_each_statement_runs_or_is_named(session: H2Session) -> None:
    refused: dict[str, str] = {}
    names = [name for name in sql_units.names() if name not in FIRST]
    for name in (*FIRST, *names):
        for statement in sorted(statements(name), key=lambda text: not text.startswith("CREATE")):
            try:
                session.run(statement, {bind: VALUES.get(bind, "1") for bind in binds_of(statement)})
            except DatabaseError as error:
                refused[name] = error.reason
    assert sorted(refused) == sorted(NOT_TAKEN), refused


@pytest.mark.parametrize("broken", ["SELECT 1 FORM DUAL", "SELECT NAME FROM DEMO_INFO i WHERE i.NAMES = 'x'"])
def test_a_broken_statement_is_noticed(session: H2Session, broken: str) -> None:
    for statement in statements("resources_v1"):
        if statement.startswith("CREATE"):
            session.run(statement)
    with pytest.raises(DatabaseError):
        session.run(broken)


@pytest.mark.parametrize("text", ["0", "0.5", "-0.05", "12345678901234567890.25", f"1{'0' * 100}", f"-0.{'0' * 80}15"])
def test_a_number_without_a_scale_has_the_text_that_other_servers_give_it(session: H2Session, text: str) -> None:
    """The server itself writes .5 and 1.5E+70."""
    own = ColumnTexts("N", "NUMBER")
    query = f"SELECT {own.text('t')} FROM (SELECT {own.value(':n')} AS N FROM DUAL) t"
    assert session.run(query, {"n": own.bind(text)}).fetchall() == [(text,)]
