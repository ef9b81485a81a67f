"""Tables and rows of a slave (`sluice.database.rows.RowSource`)."""

from collections.abc import Sequence

from sluice import sql_files
from sluice.database import digests
from sluice.database.digests import ComparedTable, Texts
from sluice.database.rows import Estimate, SnapshotGone, TableChanged
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.vendors.common.checkpoints import COLUMNS, digest
from sluice.vendors.mysql import catalog, names
from sluice.vendors.mysql.catalog import shape, shapes  # noqa: F401
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import native, quoted
from sluice.vendors.mysql.digester import Digest
from sluice.vendors.mysql.key_order import key_order  # noqa: F401

shared_snapshots = False


def tables(connection: Session) -> list[TableName]:
    """Every table of the connection's database, Sluice's own too."""
    session = native(connection)
    statement = sql_files.render("mysql", "relations", names="table_schema = %(here)s AND table_type = 'BASE TABLE'")
    rows = session.read_schema(statement, {"here": session.info.database}).fetchall()
    return sorted(names.table_of(session, database, name) for database, name, _ in rows)


def estimates(connection: Session, tables: Sequence[TableName]) -> dict[TableName, Estimate]:
    session = native(connection)
    if not tables:
        return {}
    condition, values = catalog.among(session, tables)
    rows = session.read_schema(sql_files.render("mysql", "estimates", tables=condition), values).fetchall()
    return {
        names.table_of(session, database, name): Estimate(None if count is None else int(count), int(size))
        for database, name, count, size in rows
    }


def begin_snapshot(connection: Session, exported: str | None = None) -> None:
    """A transaction that sees one moment; with `exported` it must be a moment at which CHECKPOINT says the same."""
    session = native(connection)
    session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    session.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    if exported is not None and export_snapshot(connection) != exported:
        raise SnapshotGone(f"{session.place}: the apply went on before the snapshot was taken over")


def export_snapshot(connection: Session) -> str:
    """The digest of CHECKPOINT in this transaction."""
    session = native(connection)
    tables_found = session.read_schema(sql_files.render("mysql", "checkpoints"), {"here": session.info.database})
    checkpoints = [name for (name,) in tables_found]
    return digest(checkpoints, lambda name: session.run(f"SELECT {COLUMNS} FROM {quoted(name)}").fetchall())


def rows_under(
    connection: Session, of: ComparedTable, keys: Sequence[Texts], *, alike: bool = False
) -> list[Texts | None]:
    """For each of `keys`, the row with exactly these texts, None without one; `alike`: with an equal key."""
    session = native(connection)
    present = shape(connection, of.table)
    if present is None or {column.name for column in present.key} != set(of.key):
        raise TableChanged(session.place, of.table)
    try:
        about = Digest(present, of.columns, of.key)
        rows = about.rows_of_keys(connection, [tuple(text or "" for text in texts) for texts in keys])
    except KeyError as error:
        raise TableChanged(session.place, of.table) from error
    return digests.rows_under(rows, of, alike=alike)


def copies(connection: Session, of: ComparedTable, rows: Sequence[Texts]) -> list[int]:
    """How often a table without a key has each of these rows."""
    session = native(connection)
    present = shape(connection, of.table)
    if present is None:
        raise TableChanged(session.place, of.table)
    try:
        own = [ColumnTexts(column.name, present.column(column.name).type) for column in of.columns]
    except KeyError as error:
        raise TableChanged(session.place, of.table) from error
    match = " AND ".join(f"t.{column.quoted} <=> {column.value(f'%(v{place})s')}" for place, column in enumerate(own))
    query = f"SELECT COUNT(*) FROM {names.place(of.table)} t WHERE {match}"
    counts = []
    for row in rows:
        values = {f"v{place}": text for place, text in enumerate(row)}
        (count,) = session.run(query, values).fetchone() or (0,)
        counts.append(int(count))
    return counts


def whole(connection: Session, table: TableName) -> bool:
    """A table that was altered or emptied since is an error of the statement that reads it."""
    return True
