"""The names of a master's tables on a MySQL or MariaDB slave, which has databases and no schemas.

Tables of the master's schema `public` are in the database of the connection; those of any other schema are in a
database of that name. Sluice's own tables are in the connection's database.
"""

from sluice.model.names import TableName
from sluice.vendors.mysql.connection import MySQLSession, quoted

HERE = "public"
LONGEST = 64
"""Characters of a name."""
LONGEST_FILE = 251
"""Bytes of a file's name without its ending: a table has a file of its name, a database a folder."""
OF_SERVER = frozenset({"information_schema", "mysql", "performance_schema", "sys"})
"""Databases in which the server keeps its own."""


def place(table: TableName) -> str:
    """The table's quoted name in a statement."""
    return quoted(table.name) if table.schema == HERE else quoted(table.schema, table.name)


def database_of(session: MySQLSession, schema: str) -> str:
    """The database that holds the tables of a master's schema."""
    return session.info.database if schema == HERE else schema


def table_of(session: MySQLSession, database: str, name: str) -> TableName:
    """A table's name on the master."""
    return TableName(HERE if database == session.info.database else database, name)


def fault(session: MySQLSession, table: TableName) -> str | None:
    """Why the table cannot have its name here, for `the table is … on the slave`; None if it can."""
    if table.schema == session.info.database and table.schema != HERE:
        return f"in the database {table.schema}, as the schema {HERE} is: let the connection name another,"
    if table.schema.lower() in OF_SERVER:
        return f"in {table.schema}, a database of the server's own,"
    for part in (table.schema, table.name):
        if len(part) > LONGEST:
            return f"a name of more than {LONGEST} characters, which no table has"
        if part.endswith(" ") or any(ord(letter) > 0xFFFF or letter == "\0" for letter in part):
            return "a name that ends with a blank, or has a character beyond U+FFFF, which no table has"
        if session.folds_names and part != part.lower():
            return "a name with capital letters, which a server with lower_case_table_names does not keep,"
        if _file_bytes(part) > LONGEST_FILE:
            return "a name with so many signs that the server's file of that name would have too long a name,"
    return None


def in_dictionary(name: str) -> str:
    """The name with which information_schema is asked for this one: it compares its names, of which none has a
    character beyond U+FFFF, with no text that has."""
    return "".join(letter if ord(letter) <= 0xFFFF else "\ufffd" for letter in name)


def _file_bytes(name: str) -> int:
    """The length of the server's file of that name: signs and most letters are `@` and four hexadecimal digits there,
    letters of European scripts `@` and two signs."""
    plain = sum(letter.isascii() and (letter.isalnum() or letter == "_") for letter in name)
    european = sum("\u00c0" <= letter <= "\u0587" or "\u1e00" <= letter <= "\u1fff" for letter in name)
    return plain + 3 * european + 5 * (len(name) - plain - european)
