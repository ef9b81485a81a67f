"""Which tables of a PostgreSQL master are captured."""

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.names import Prefix, TableName
from sluice.vendors.postgres.connection import quoted


def read(connection: Session, prefix: Prefix, schema: str) -> dict[TableName, str | None]:
    """Each registered table, with what is plainly wrong with its capture, None when nothing is.

    One statement whatever the number of tables. Raises psycopg's errors.
    """
    rows = connection.execute(
        sql_files.render("postgres", "captured", prefix=prefix.lower, schema=quoted(schema))
    ).fetchall()
    return {TableName(table_schema, name): fault for table_schema, name, fault in rows}
