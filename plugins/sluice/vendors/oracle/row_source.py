"""Tables and rows, of a master and of a slave (`sluice.database.rows.RowSource`)."""

from collections.abc import Mapping, Sequence

from sluice import sql_files
from sluice.database import digests
from sluice.database.digests import ComparedTable, Texts
from sluice.database.rows import RowFormat, SnapshotGone, TableChanged
from sluice.database.session import Session
from sluice.model.logical_type import ColumnType, Special
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.common.checkpoints import COLUMNS, digest
from sluice.vendors.oracle import names
from sluice.vendors.oracle.catalog import estimates, shape, shapes  # noqa: F401
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.digester import Digest
from sluice.vendors.oracle.key_order import key_order  # noqa: F401
from sluice.vendors.oracle.session import native, quoted
from sluice.vendors.oracle.source import blocks
from sluice.vendors.oracle.source.blocks import reading_exported  # noqa: F401
from sluice.vendors.oracle.source.row_stream import RowStream as stream  # noqa: N813, F401

formats = frozenset({RowFormat.CSV})
shared_snapshots = False


def tables(connection: Session) -> list[TableName]:
    """Every table that the account has a privilege on, Sluice's own too, by its owner; none of Oracle's own."""
    rows = native(connection).run(sql_files.render("oracle", "tables"))
    return [TableName(owner, name) for owner, name in rows]


def begin_snapshot(connection: Session, exported: str | None = None) -> None:
    """A master's snapshot is an SCN. A slave's is a transaction; with `exported` CHECKPOINT must say the same in it."""
    session = native(connection)
    if exported is not None and blocks.enter(session, exported):
        return
    session.begin_read_only()
    if exported is not None and export_snapshot(connection) != exported:
        raise SnapshotGone(f"{session.place}: the apply went on before the snapshot was taken over")


def export_snapshot(connection: Session) -> str:
    """For a master its SCN; for a slave the digest of CHECKPOINT."""
    session = native(connection)
    if named := blocks.exported(session):
        return named
    names_of = session.run(sql_files.render("oracle", "checkpoints"), {"owner": session.schema})
    checkpoints = [name for (name,) in names_of]
    return digest(checkpoints, lambda name: session.run(f"SELECT {COLUMNS} FROM {quoted(name)}").fetchall())


def rows_under(
    connection: Session, of: ComparedTable, keys: Sequence[Texts], *, alike: bool = False
) -> list[Texts | None]:
    """For each of `keys`, the row with exactly these texts, None without one; `alike`: with an equal key."""
    session = native(connection)
    present = shape(connection, of.table)
    if present is None or {column.name for column in present.key} != set(of.key):
        raise TableChanged(session.place, of.table)
    about = Digest(present, of.columns, of.key)
    try:
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
    match = " AND ".join(column.same("t", f":v{place}") for place, column in enumerate(own))
    query = f"SELECT COUNT(*) FROM {names.place(of.table)} t WHERE {match}"
    counts = []
    for row in rows:
        values = {f"v{place}": column.bind(text) for place, (column, text) in enumerate(zip(own, row, strict=True))}
        (count,) = session.run(query, values).fetchone() or (0,)
        counts.append(int(count))
    return counts


def special(
    connection: Session, table: TableShape, wanted: Mapping[str, ColumnType]
) -> tuple[str, Special, dict[str, str | None]] | None:
    """A row in which one of the columns `wanted` has a value that its `ColumnType` excludes. Reads the table once."""
    session = native(connection)
    checks = [
        (name, special, condition)
        for name, made in wanted.items()
        for special in sorted(made.excluded)
        if (condition := ColumnTexts(name, table.column(name).type).is_special("t", special, made.length or 0))
    ]
    if not checks:
        return None
    keys = [ColumnTexts(column.name, column.type) for column in table.key]
    which = ", ".join(f"CASE WHEN {condition} THEN 1 ELSE 0 END" for _, _, condition in checks)
    texts = "".join(f", {column.text('t')}" for column in keys)
    either = " OR ".join(condition for _, _, condition in checks)
    row = session.run(
        f"SELECT {which}{texts} FROM {names.place(table.table)} t WHERE ({either}) AND ROWNUM <= 1"
    ).fetchone()
    if row is None:
        return None
    first = next(place for place, holds in enumerate(row) if holds)
    key = {column.name: ColumnTexts.shown(text) for column, text in zip(keys, row[len(checks) :], strict=True)}
    return (*checks[first][:2], key)


def whole(connection: Session, table: TableName) -> bool:
    """A table that was altered since is an error of the statement that reads it (ORA-01466)."""
    return True
