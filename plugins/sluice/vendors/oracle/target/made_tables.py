"""Creates tables on an Oracle slave."""

import hashlib

from sluice.database.errors import StatementFailed
from sluice.database.schema import TableDefinition
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.column_types import OLD
from sluice.vendors.oracle.session import OracleSession, quoted

_NO_SUCH_USER = "ORA-1918"
_NAME_USED = "ORA-955"


def create_table(session: OracleSession, definition: TableDefinition) -> None:
    """Makes an absent table with its key. DDL commits by itself. Nothing of the master's expressions is run: replicated
    values need no defaults."""
    table = definition.table
    if catalog.shape(session, table) is not None:
        return
    lines = [column_clause(column) for column in definition.shape.columns]
    if definition.shape.key:
        lines.append(f"PRIMARY KEY ({', '.join(quoted(column.name) for column in definition.shape.key)})")
    body = ",\n    ".join(lines)
    try:
        session.run(f"CREATE TABLE {names.place(table)} (\n    {body}\n)")
    except StatementFailed as error:
        if error.code != _NO_SUCH_USER:
            raise
        raise type(error)(
            f"{session.place}: there is no schema {table.schema!r} for {table}. As an administrator: CREATE USER "
            f"{quoted(table.schema)} NO AUTHENTICATION, with a quota, and let this account create tables there"
        ) from error


def create_scratch(session: OracleSession, like: TableShape) -> TableName:
    """Makes a temporary table with these columns, where no session did before: its definition is everybody's, and
    stays; its rows are each session's own, and end with it."""
    columns = ", ".join(f"{quoted(column.name)} {column.type}" for column in like.columns)
    name = hashlib.sha256(columns.encode()).hexdigest()[:16].upper()
    scratch = TableName(names.HERE, f"SLUICE_SCRATCH_{name}")
    if catalog.shape(session, scratch) is None:
        try:
            session.run(f"CREATE GLOBAL TEMPORARY TABLE {names.place(scratch)} ({columns}) ON COMMIT PRESERVE ROWS")
        except StatementFailed as error:
            if error.code != _NAME_USED:  # another session was faster
                raise
    return scratch


def column_clause(column: Column, *, default: str = "") -> str:
    """A column of a created table. A text that is NOT NULL on the master may be NULL here, where '' is NULL, except
    in a LOB."""
    own = OLD.get(column.type, column.type)
    clause = f"{quoted(column.name)} {own}"
    if default:
        clause += f" DEFAULT {default}"
    return clause if (column.nullable or own.startswith("VARCHAR2")) and not column.key else f"{clause} NOT NULL"
