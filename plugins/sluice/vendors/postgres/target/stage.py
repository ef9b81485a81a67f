"""Sends rows to the slave: as arrays within a statement, through a stage table, or by COPY.

A source is what a statement can select from. `Arrays` sends the values as parameters: no table and one round trip, for
small windows. `Relation` is one or more stage tables with the slave's column types: a temporary one of this session, or
unlogged ones that several writers fill.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.apply import Staged
from sluice.database.conflicts import ValueUnfit
from sluice.database.net_changes import KINDS, NetChanges
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import native, quoted
from sluice.vendors.postgres.errors import reason as server_reason
from sluice.vendors.postgres.target.slave_tables import SlaveColumn, SlaveTable

_COPY_ROWS = 100_000
_COPY_BYTES = 16 << 20
"""The size of the pieces that a COPY is written in, about."""
_TEXT = pa.large_string()
_CONTEXT = re.compile(r"COPY .*?, \S+ (\d+)(?:, \S+ (.*))?", re.DOTALL)


@dataclass(frozen=True)
class Arrays:
    """Rows as `$1`, `$2`, … of a statement, an array of texts a column."""

    sql: str
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class Relation:
    """Rows in stage tables."""

    sql: str
    parameters: tuple[str, ...] = ()


Source = Arrays | Relation


@dataclass(frozen=True)
class Rows:
    """One set of rows to apply: as Arrow in this process, or in a stage table."""

    names: tuple[str, ...]
    count: int
    """How many rows of the slave they are, copies counted."""
    arrow: pa.Table | None = None
    relation: str | None = None

    def only(self, letters: str) -> "Rows":
        """Only the columns with these letters."""
        names = tuple(name for name in self.names if name[0] in letters)
        return Rows(names, self.count, None if self.arrow is None else self.arrow.select(names), self.relation)

    def named(self, sources: Mapping[str, str]) -> "Rows":
        """Only the columns in `sources`: new name → present name."""
        names = tuple(sources)
        if names == self.names and names == tuple(sources.values()):
            return self
        if self.arrow is not None:
            return Rows(names, self.count, pa.table({name: self.arrow.column(old) for name, old in sources.items()}))
        chosen = ", ".join(f"{old} AS {name}" for name, old in sources.items())
        return Rows(names, self.count, relation=f"(SELECT {chosen} FROM {self.relation} r)")

    def deleted(self, key: Sequence[str], images: Sequence[str]) -> "Rows":
        """The rows as deletes: `key` names the columns for k1, …; `images` the `b` columns to keep."""
        sources = {f"k{number}": name for number, name in enumerate(key, start=1)}
        return self.named({**sources, **{name: self.image(name) for name in images}})

    def image(self, name: str) -> str:
        """The column with the former value `name` (`b3`): where it does not differ, that of the new value."""
        return name if name in self.names else f"c{name[1:]}"


@dataclass(frozen=True)
class PostgresStaged(Staged):
    """Net changes in unlogged stage tables of the slave."""

    relations: dict[str, Rows] = field(default_factory=dict)
    """The stage table of each kind of `KINDS` that has rows."""


def sets(changes: NetChanges | Staged) -> dict[str, list[Rows]]:
    """The rows of each kind, staged or not."""
    if isinstance(changes, Staged):
        assert isinstance(changes, PostgresStaged), "staged on another vendor's slave"
        return {kind: [changes.relations[kind]] if kind in changes.relations else [] for kind in KINDS}
    return {
        kind: [Rows(tuple(table.column_names), expected(table), arrow=table)] if table.num_rows else []
        for kind, table in changes.by_kind.items()
    }


def joined(sets: Sequence[Rows]) -> list[Rows]:
    """The rows of one kind in at most two sets: one in this process, one in stage tables."""
    names = tuple(dict.fromkeys(name for rows in sets for name in rows.names))
    alike = [rows.named({name: rows.image(name) if name[0] == "b" else name for name in names}) for rows in sets]
    local = [rows for rows in alike if rows.relation is None]
    staged = [rows for rows in alike if rows.relation is not None]
    result = []
    if local:
        table = local[0].arrow if len(local) == 1 else pa.concat_tables([rows.arrow for rows in local])
        result.append(Rows(names, sum(rows.count for rows in local), arrow=table))
    if staged:
        union = " UNION ALL ".join(f"SELECT {', '.join(names)} FROM {rows.relation} r" for rows in staged)
        result.append(Rows(names, sum(rows.count for rows in staged), relation=f"({union})"))
    return result


def labels(
    target: SlaveTable, columns: Sequence[str], key: Sequence[str], names: Sequence[str]
) -> list[SlaveColumn | None]:
    """The slave's column behind each of `names` (`c1`, `k2`, `b3`); None for `copies`. Raises `ColumnMissing`."""
    return [
        None if name == "copies" else target.column((key if name[0] == "k" else columns)[int(name[1:]) - 1])
        for name in names
    ]


def arrays(rows: pa.Table, typed: Sequence[SlaveColumn | None]) -> Arrays:
    """`rows` as parameters, cast to the slave's types without lengths, which the assignment checks."""
    names = rows.column_names
    casts = ", ".join(
        f"u.{name}::{'bigint' if column is None else column.plain} AS {name}"
        for name, column in zip(names, typed, strict=True)
    )
    parameters = ", ".join(f"${number}::text[]" for number in range(1, len(names) + 1))
    sql = f"(SELECT {casts} FROM unnest({parameters}) AS u ({', '.join(names)}))"
    return Arrays(sql, tuple(_array(column) for column in rows.itercolumns()))


def temporary(
    connection: Session, name: str, rows: pa.Table, target: SlaveTable, typed: Sequence[SlaveColumn | None]
) -> Relation:
    """Puts `rows` into a temporary table that ends with the transaction. Raises `ValueUnfit`."""
    relation = f"pg_temp.{quoted(name)}"
    connection.execute(f"CREATE TEMPORARY TABLE {quoted(name)} ({_definition(rows, typed)}) ON COMMIT DROP")
    copy(connection, relation, rows, target, typed)
    return Relation(relation)


def stage_name(prefix: Prefix, epoch: int, number: str) -> str:
    """The name of stage tables, without the kind of their rows.

    `number` names the share and the table (letters, digits, underscores).
    """
    return f"{prefix.lower}stage_{epoch}_{number}"


def put(connection: Session, changes: NetChanges, target: SlaveTable, schema: str, name: str) -> PostgresStaged:
    """Writes net changes to unlogged tables of `schema`, replacing them; `name`: as of `stage_name`.

    The connection must be in autocommit, so that each table is committed before rows come: after the rollback of a
    transaction that created an unlogged table, PostgreSQL (up to 18) may not start again after a crash, because the
    table's empty file is left and its "init" file is restored. Raises `ValueUnfit`, `ColumnMissing`.
    """
    relations: dict[str, Rows] = {}
    for kind, rows in changes.by_kind.items():
        if not rows.num_rows:
            continue
        typed = labels(target, changes.columns, changes.key, rows.column_names)
        relation = quoted(schema, f"{name}_{kind}")
        connection.execute(
            f"DROP TABLE IF EXISTS {relation};"
            f"CREATE UNLOGGED TABLE {relation} ({_definition(rows, typed)}) WITH (autovacuum_enabled = off)"
        )
        copy(connection, relation, rows, target, typed)
        relations[kind] = Rows(tuple(rows.column_names), expected(rows), relation=relation)
    return PostgresStaged(changes.table, changes.columns, changes.key, changes.changes, changes.compared, relations)


def drop(connection: Session, prefix: Prefix, schema: str, *, below: int) -> int:
    """Drops a prefix's stage tables of epochs under `below`. Returns how many. The caller commits."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relkind = 'r' AND c.relpersistence = 'u' AND starts_with(c.relname, %s)",
        [schema, f"{prefix.lower}stage_"],
    ).fetchall()
    pattern = re.compile(re.escape(f"{prefix.lower}stage_") + r"(\d+)_")
    names = [name for (name,) in rows if (m := pattern.match(name)) and int(m[1]) < below]
    for name in names:
        connection.execute(f"DROP TABLE IF EXISTS {quoted(schema, name)}")
    return len(names)


def expected(rows: pa.Table) -> int:
    """How many rows of the slave these are, copies counted."""
    return int(pc.sum(rows.column("copies")).as_py() or 0) if "copies" in rows.column_names else int(rows.num_rows)


def copy(
    connection: Session,
    relation: str,
    rows: pa.Table,
    target: SlaveTable,
    typed: Sequence[SlaveColumn | None],
    columns: str = "",
) -> int:
    """Copies `rows` into `relation` (quoted; `columns` in parentheses where not all). Returns how many.

    Raises `ValueUnfit` for a value that the type refuses, otherwise psycopg's errors.
    """
    cursor = native(connection).cursor()
    try:
        for index, column in enumerate(typed):
            if column is not None and column.misread:
                column.expect_readable(rows.column(index).to_pylist())
        with cursor.copy(f"COPY {relation} {columns} FROM STDIN") as stream:
            size = max(1, min(_COPY_ROWS, rows.num_rows * _COPY_BYTES // max(rows.nbytes, 1)))
            for at in range(0, rows.num_rows, size):
                stream.write(copy_text(rows.slice(at, size)))
    except psycopg.errors.DataError as error:
        raise unfit(error, target, rows, typed) from error
    return cursor.rowcount


def copy_text(rows: pa.Table) -> memoryview:
    r"""Rows in COPY's text format, in which NULL is distinct (`\\N`) and no data can end the stream, as in CSV."""
    columns = [_escaped(column) for column in rows.itercolumns()]
    if len(columns) == 1:
        lines = columns[0].fill_null("\\N")
    else:
        lines = pc.binary_join_element_wise(
            *columns, pa.scalar("\t", _TEXT), null_handling="replace", null_replacement="\\N"
        )
    lines = pc.binary_join_element_wise(lines, pa.scalar("", _TEXT), pa.scalar("\n", _TEXT))
    whole = pa.concat_arrays(lines.chunks) if isinstance(lines, pa.ChunkedArray) else lines
    return _data(whole)


def unfit(error: psycopg.Error, target: SlaveTable, rows: pa.Table, typed: Sequence[SlaveColumn | None]) -> ValueUnfit:
    """The value that a COPY failed at: the server's error names line and column."""
    reason = server_reason(error, hidden=bool(target.hidden))
    match = _CONTEXT.search(error.diag.context or "")
    if match is None:
        return ValueUnfit(target.table, reason, column=error.diag.column_name)
    # In any language of the server: the line's number, the column's name, a colon or comma.
    rest = match[2] or ""
    names = [(label, number) for number, label in enumerate(rows.column_names)]
    names += [(column.name, number) for number, column in enumerate(typed) if column]
    found = [(len(name), number) for name, number in names if rest.startswith((f"{name}:", f"{name},"))]
    if not found:
        return ValueUnfit(target.table, reason, column=error.diag.column_name)
    index = max(found)[1]
    column = typed[index]
    value = rows.column(index)[int(match[1]) - 1].as_py() if int(match[1]) <= rows.num_rows else None
    shown = None if column is None or column.name in target.hidden else value
    return ValueUnfit(target.table, reason, column=column.name if column else None, value=shown)


def _definition(rows: pa.Table, typed: Sequence[SlaveColumn | None]) -> str:
    # An old image is only compared, so it gets a type without the checks of a domain or a length.
    return ", ".join(
        f"{name} {'bigint' if column is None else column.plain if name[0] == 'b' else column.type}"
        for name, column in zip(rows.column_names, typed, strict=True)
    )


def _array(column: pa.ChunkedArray) -> str:
    """A text[] literal. For up to some thousand values Python is faster than Arrow's kernels."""
    texts = ["NULL" if value is None else f'"{value}"' for value in column.to_pylist()]
    literal = ",".join(texts)
    if "\\" in literal or literal.count('"') > 2 * (len(column) - column.null_count):
        literal = ",".join([text if text == "NULL" else f'"{_protected(text[1:-1])}"' for text in texts])
    return f"{{{literal}}}"


def _protected(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _escaped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = column.cast(_TEXT)
    # Search all texts at once, which is some fifty times faster than one after the other.
    data = [bytes(_data(chunk)) for chunk in (texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts])]
    for plain, coded in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        if any(plain.encode() in each for each in data):
            texts = pc.replace_substring(texts, plain, coded)
    return texts


def _data(texts: pa.Array) -> memoryview:
    """The bytes of all texts of an array, including what NULLs may have."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return memoryview(b"")
    bounds = np.frombuffer(offsets, dtype=np.int64, count=texts.offset + len(texts) + 1)
    return memoryview(data)[int(bounds[texts.offset]) : int(bounds[-1])]
