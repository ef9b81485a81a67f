"""Definitions of tables from the messages: how they change, and what DDL means for a slave.

OpenLogReplicator describes the columns of a table with each change, and has the text of DDL. A change of a definition
is noticed at the table's next change. If it is unknown what happened to the rows, the table differs from there on, with
the reason; all others continue.
"""

import hashlib
import json
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.model.change import Action
from sluice.model.names import Naming, TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from sluice.vendors.stream.lines import Change, RowChange, Values
from sluice.vendors.stream.redo.errors import Unfit
from sluice.vendors.stream.redo.messages import Payload
from sluice.vendors.stream.redo.messages import Values as Given
from sluice.vendors.stream.redo.types import IMPRECISE, LARGE, Convert, converter, slave_type

# Translates messages of one table under one description to changes of a recorded stream.

_FULL_IMAGES = "run ALTER TABLE … ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS on the master"
Row = dict[str, str | None]


class TableReader:
    """Reads the messages of a table with the columns of a schema message."""

    def __init__(self, schema: Mapping[str, Any], key: Collection[str], naming: Naming, unit: str):
        """`key`: by the master's names of its columns. Raises `Unfit` for a column that cannot be replicated."""
        self.table = TableName(naming(schema["owner"]), naming(schema["table"]))
        self._names = self.table.schema, self.table.name
        columns = schema.get("columns")
        if not columns:
            raise Unfit("has no columns: format.schema must be 7 for OpenLogReplicator")
        self._columns: dict[str, tuple[str, Convert | None]] = {}
        """For each name on the master: the slave's name, and the conversion of its values."""
        self._large: set[str] = set()
        self.imprecise = [column["name"] for column in columns if column["type"] in IMPRECISE]
        made = []
        ordered = [column["name"] for column in columns if column["name"] in key]
        for position, column in enumerate(columns, start=1):
            name = column["name"]
            target = naming(name)
            self._columns[name] = target, converter(column["type"], unit)
            if column["type"] in LARGE:
                self._large.add(target)
            number = ordered.index(name) + 1 if name in ordered else 0
            nullable = bool(column.get("nullable", True)) and not number
            made.append(Column(target, slave_type(column), position, nullable, number))
        if len(ordered) != len(set(key)):
            raise Unfit(f"lacks {', '.join(sorted(set(key) - set(ordered)))}, of the primary key")
        self.definition = TableDefinition(TableShape(self.table, tuple(made)))
        self._all = [column.name for column in made]
        self._key = [self._columns[name][0] for name in ordered]

    def change(self, payload: Payload) -> RowChange | None:
        """The change of a message; None if it changes nothing. Raises `Unfit`."""
        match payload.op:
            case "c":
                row = self._row(payload.after)
                if len(row) < len(self._all):
                    # A NULL at the end of a row is in no redo.
                    row = {name: row.get(name) for name in self._all}
                return RowChange("insert", self._names, row)
            case "d":
                return self._delete(self._row(payload.before))
        return self._update(self._row(payload.before), self._row(payload.after))

    def _delete(self, old: Row) -> RowChange:
        partial = len(old) < len(self._all)
        if partial:
            self._named(old)
        return RowChange("delete", self._names, old=old, partial=partial)

    def _update(self, before: Row, after: Row) -> RowChange | None:
        if lost := [name for name in before if name not in after and name not in self._large]:
            raise Unfit(
                f"an update says what {', '.join(lost)} was, and not what it is: OpenLogReplicator could not read it"
            )
        if not after:
            return None
        new = {**before, **after}
        partial = len(new) < len(self._all) or (bool(before) and len(before) < len(new))
        if partial:
            self._named(new)
        return RowChange("update", self._names, new, before or None, partial)

    def _named(self, row: Values) -> None:
        if not self._key:
            raise Unfit(
                f"a change leaves columns out, and the table has no primary key that names the row; {_FULL_IMAGES}"
            )
        if missing := [name for name in self._key if row.get(name) is None]:
            raise Unfit(f"a change leaves {', '.join(missing)} out, of the primary key; {_FULL_IMAGES}")

    def _row(self, values: Given) -> Row:
        columns = self._columns
        row: Row = {}
        try:
            for name, value in values.items():
                target, convert = columns[name]
                if value is not None:
                    if convert is not None:
                        value = convert(value)
                    elif type(value) is int:
                        value = str(value)
                row[target] = value
        except KeyError as unknown:
            raise Unfit(f"column {unknown.args[0]} is not in the schema message") from None
        return row


log = logging.getLogger("sluice.redo")

_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_TRUNCATE = re.compile(r"\s*TRUNCATE\s+TABLE\b", re.IGNORECASE)
_DROP = re.compile(r"\s*DROP\s+TABLE\b", re.IGNORECASE)
_RENAME = re.compile(r"\s*(?:RENAME\b|ALTER\s+TABLE\b.*?\bRENAME\s+TO\b)", re.IGNORECASE | re.DOTALL)
_ALTER = re.compile(r"\s*ALTER\s+TABLE\b", re.IGNORECASE)
_CREATE = re.compile(r"\s*CREATE\b(?:\s+\w+)*?\s+TABLE\b", re.IGNORECASE)
_ROWS_GO = re.compile(r"\b(?:DROP|TRUNCATE|EXCHANGE)\s+(?:SUB)?PARTITIONS?\b", re.IGNORECASE)
_COLUMNS = re.compile(
    r"\bADD\b(?!\s*\(?\s*(?:CONSTRAINT|PRIMARY|UNIQUE|FOREIGN|CHECK|SUPPLEMENTAL|(?:SUB)?PARTITION|REF|SCOPE|PERIOD|LOGICAL"
    r"|HASH|OVERFLOW|VALUES)\b)|\bDROP\s*(?:COLUMN\b|UNUSED\b|\()|\bSET\s+UNUSED\b",
    re.IGNORECASE,
)
"""Columns were added or dropped, so that rows are read differently."""
_DEFAULT = re.compile(r"\bDEFAULT\b", re.IGNORECASE)
_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)

MISREAD = (
    "rows of it were read with the columns that it had before DDL of another redo thread, and are lost: load it again"
)


@dataclass
class DdlSeen:
    """DDL of tables whose next change has not come yet; stored with the stream."""

    altered: dict[str, str] = field(default_factory=dict)
    """For each table, the texts of ALTER TABLE since its last change."""
    created: dict[str, bool] = field(default_factory=dict)
    """For each table that was created, or created again: whether it was empty then."""
    left: dict[str, list[str]] = field(default_factory=dict)
    """For each table, digests of its former definitions."""
    by: dict[str, str] = field(default_factory=dict)
    """For each table, the thread that ran the statements in `altered`; empty if several did."""

    def text(self) -> dict[str, dict[str, str] | dict[str, bool] | dict[str, list[str]]]:
        return {
            "altered": dict(self.altered),
            "created": dict(self.created),
            "left": dict(self.left),
            "by": dict(self.by),
        }


class Definitions:
    """The tables of the stream at the merge's position."""

    def __init__(
        self,
        tables: Mapping[TableName, TableDefinition],
        keys: Mapping[tuple[str, str], Iterable[str]],
        naming: Naming,
        ddl: DdlSeen | None = None,
    ):
        self.tables = dict(tables)
        self.keys = {table: tuple(key) for table, key in keys.items()}
        self.naming = naming
        self.ddl = ddl or DdlSeen()
        self._readers: dict[tuple[bytes, str], TableReader | str] = {}
        """By schema message and unit: the reader of its rows, or why there is none."""
        self._last: dict[TableName, TableReader] = {}
        self._differing: set[tuple[TableName, str]] = set()

    def changes(self, messages: Iterable[Payload], unit: str, thread: str) -> Iterator[Change | RowChange]:
        """The changes of the stream for the messages of a transaction. Raises `Unfit` if a message cannot be
        translated."""
        misread = set[TableName]()
        for payload in messages:
            schema = bytes(payload.schema)
            if payload.op == "ddl":
                yield from self._ddl(self._name(_parsed(schema)), payload.sql, thread)
                continue
            reader = self._reader(schema, unit)
            if isinstance(reader, str):
                yield from self._differs(self._name(_parsed(schema)), reader)
                continue
            table = reader.table
            if (self.ddl.altered or self._last.get(table) is not reader) and self._misread(table, reader, thread):
                if table not in misread:  # Repeated with each transaction: it may have been loaded since.
                    misread.add(table)
                    log.warning("%s: %s", table, MISREAD)
                    yield Change(Action.DIFFER, table, reason=MISREAD)
                continue
            if self._last.get(table) is not reader:
                yield from self._describe(table, reader)
            try:
                change = reader.change(payload)
            except Unfit as reason:
                yield from self._differs(table, str(reason))
                continue
            if change is not None:
                yield change

    def new_tables(self, schemas: Iterable[bytes], unit: str) -> list[TableDefinition]:
        """The schema messages of tables that the stream does not describe yet, and that no DDL created."""
        tables: dict[TableName, TableDefinition] = {}
        for text in schemas:
            reader = self._reader(text, unit)
            if isinstance(reader, TableReader):
                table = reader.table
                if table not in self.tables and str(table) not in self.ddl.created:
                    tables.setdefault(table, reader.definition)
        return list(tables.values())

    def describe(self, definition: TableDefinition) -> None:
        """Adds a table, which is known from here on."""
        self.tables[definition.table] = definition

    def _name(self, schema: dict[str, Any]) -> TableName:
        return TableName(self.naming(schema["owner"]), self.naming(schema["table"]))

    def _reader(self, text: bytes, unit: str) -> TableReader | str:
        reader = self._readers.get((text, unit))
        if reader is None:
            schema = _parsed(text)
            try:
                key = self.keys.get((schema["owner"], schema["table"]), ())
                reader = TableReader(schema, key, self.naming, unit)
                if reader.imprecise:
                    columns = ", ".join(reader.imprecise)
                    log.warning("%s: OpenLogReplicator prints six significant digits of %s", reader.table, columns)
            except Unfit as reason:
                reader = str(reason)
            self._readers[text, unit] = reader
        return reader

    def _describe(self, table: TableName, reader: TableReader) -> Iterator[Change]:
        """Handles a description that differs from that of the table's last change, or is the first."""
        former = self.tables.get(table)
        if former is None:
            complete = self.ddl.created.pop(str(table), False)
            definition = replace(reader.definition, complete=complete)
            self.tables[table] = definition
            self._last[table] = reader
            yield Change(Action.CREATE, table, definition=definition)
            return
        now = _placed(former, reader.definition)
        if now.shape != former.shape:
            self._leave(former, now)
            reason = _unknown(former, now, self.ddl.altered.get(str(table)))
            self.tables[table] = now
            yield Change(Action.ALTER, table, definition=now, former=former)
            if reason:
                yield from self._differs(table, reason)
        self._settled(table)
        self._last[table] = reader

    def _settled(self, table: TableName) -> None:
        """Applies a definition that is explained by DDL."""
        self.ddl.altered.pop(str(table), None)
        self.ddl.by.pop(str(table), None)

    def _misread(self, table: TableName, reader: TableReader, thread: str) -> bool:
        """Whether the thread's OpenLogReplicator reads rows as before DDL that another thread ran: it describes the
        table as before, although columns were added or dropped, or as at an earlier time, without DDL since then."""
        former, name = self.tables.get(table), str(table)
        if former is None:
            return False
        now = _placed(former, reader.definition)
        if now.shape == former.shape:
            elsewhere = self.ddl.by.get(name, thread) != thread
            return elsewhere and _COLUMNS.search(self.ddl.altered.get(name, "")) is not None
        return _digest(now) in self.ddl.left.get(name, []) and name not in self.ddl.altered

    def _leave(self, former: TableDefinition, now: TableDefinition) -> None:
        """Records that `former` is past; DDL may have restored `now`."""
        left, mark = self.ddl.left.setdefault(str(former.table), []), _digest(now)
        if mark in left:
            left.remove(mark)
        left.append(_digest(former))

    def _ddl(self, table: TableName, sql: str, thread: str) -> Iterator[Change]:
        bare = _QUOTED.sub("''", _COMMENT.sub(" ", sql))
        former = self.tables.get(table)
        if _CREATE.match(bare):
            if former is None:
                self.ddl.created[str(table)] = not _SELECT.search(bare)
            return
        if former is None:
            return
        if _TRUNCATE.match(bare):
            yield Change(Action.TRUNCATE, table)
        elif _DROP.match(bare):
            del self.tables[table]
            self._last.pop(table, None)
            self._settled(table)
            self.ddl.created[str(table)] = False
            yield Change(Action.DROP, table, former=former)
        elif _RENAME.match(bare):
            yield from self._differs(table, "it was renamed on the master")
        elif _ALTER.match(bare):
            if _ROWS_GO.search(bare):
                yield from self._differs(table, "a partition went with its rows, which redo does not name")
            name = str(table)
            self.ddl.by[name] = thread if self.ddl.by.get(name, thread) == thread else ""
            self.ddl.altered[name] = f"{self.ddl.altered.get(name, '')}{bare};"

    def _differs(self, table: TableName, reason: str) -> Iterator[Change]:
        """Makes the table differ, once for each reason: later changes find it inconsistent."""
        if (table, reason) not in self._differing:
            self._differing.add((table, reason))
            log.warning("%s differs from here on: %s", table, reason)
            yield Change(Action.DIFFER, table, reason=reason)


def _digest(definition: TableDefinition) -> str:
    """A digest of the columns, independent of their order."""
    columns = sorted((column.name, column.type, column.key) for column in definition.shape.columns)
    return hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16]


def _parsed(schema: bytes) -> dict[str, Any]:
    try:
        values = json.loads(schema)
    except ValueError as error:
        raise Unfit(f"is no JSON: {error}") from None
    if (
        not isinstance(values, dict)
        or not isinstance(values.get("owner"), str)
        or not isinstance(values.get("table"), str)
    ):
        raise Unfit("names no table: format.schema must be 7 for OpenLogReplicator")
    return values


def _placed(former: TableDefinition, now: TableDefinition) -> TableDefinition:
    """`now` with its columns at their former positions: a column is identified by its name."""
    positions: dict[str | None, int] = {column.name: column.position for column in former.shape.columns}
    return replace(now, shape=now.shape.placed(positions))


def _unknown(former: TableDefinition, now: TableDefinition, sql: str | None) -> str | None:
    """Why the table's rows are unknown after a change of its columns; None if they are known."""
    before, after = ({column.name for column in each.shape.columns} for each in (former, now))
    added, dropped = sorted(after - before), sorted(before - after)
    if added and dropped:
        return f"{', '.join(dropped)} went and {', '.join(added)} came: a column may have been renamed"
    if added and sql is None:
        return f"{', '.join(added)} came, and no message says with which default: set flag 32 for OpenLogReplicator"
    if added and sql is not None and _DEFAULT.search(sql):
        return f"{', '.join(added)} came with a default, whose values in older rows are in no redo"
    return None
