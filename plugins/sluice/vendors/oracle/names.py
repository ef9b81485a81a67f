"""The names of a master's tables on an Oracle slave: names are used exactly, in double quotes.

Tables of the master's schema `public` are in the schema of the connection's account, those of any other schema in a
schema of that name. Sluice's own tables are in the account's schema.
"""

from sluice.model.names import TableName
from sluice.vendors.oracle.session import OracleSession, quoted

HERE = "public"
LONGEST = 128
"""Bytes of a name, from Oracle 12.2 on."""


def qualified(table: TableName) -> str:
    """The table's quoted name in a statement."""
    return quoted(table.name) if table.schema == HERE else quoted(table.schema, table.name)


def owner_of(session: OracleSession, table: TableName) -> str:
    """The schema in which the table is."""
    return session.schema if table.schema == HERE else table.schema


def column_fault(name: str) -> str | None:
    """Why no column can have this name; None if one can."""
    if '"' in name or "\0" in name:
        return "no column has a name with a double quote"
    if name == "ROWID":
        return "no column has this name, which every row's address has"
    if len(name.encode()) > LONGEST:
        return f"no column has a name of more than {LONGEST} bytes"
    return None


def fault(table: TableName) -> str | None:
    """Why the table cannot have its name here, for `the table is … on the slave`; None if it can."""
    for part in (table.schema, table.name):
        if len(part.encode()) > LONGEST:
            return f"a name of more than {LONGEST} bytes, which no table has"
        if '"' in part or "\0" in part:
            return "a name with a double quote, which no table has"
    return None
