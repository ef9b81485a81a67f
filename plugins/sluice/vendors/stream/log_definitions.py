"""The tables of a stream that is recorded from a database's log: their definitions, and what DDL means for a slave.

The log describes a table with its rows. So a new definition is written before the table's next row, and a statement is
remembered until then: it says what older rows have in new columns, and whether they are known at all.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sluice.database.change_log import Event, LoggedTable, Part, Rows, TableEvent
from sluice.database.column_types import LogicalColumn
from sluice.model.change import Action
from sluice.model.logical_type import ColumnType, Kind
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from sluice.vendors.stream.lines import Change, RowChange

Types = Callable[[Sequence[LogicalColumn]], Sequence[ColumnType]]
"""The types of a table's columns in the stream."""

_KEPT_NARROWER = frozenset({Kind.TEXT, Kind.CHAR, Kind.INTEGER, Kind.BINARY})
"""Kinds whose values a narrower column has unchanged, or the statement fails."""
UNSEEN = "it came, or was altered, without a statement in the log"


@dataclass
class Altered:
    """Statements about a table since its last row. Columns are named in small letters."""

    renamed: dict[str, str] = field(default_factory=dict)
    """Columns, from the name in the stream to the present one."""
    filled: dict[str, str | None] = field(default_factory=dict)
    """Columns that came."""
    dropped: list[str] = field(default_factory=list)
    """Columns that went, by their names in the stream."""
    converted: dict[str, str] = field(default_factory=dict)
    """Columns that were given a type, and its family."""
    rekeyed: bool = False

    def present(self, column: Column) -> str | None:
        """The present name of a column of the stream; None if it went."""
        name = column.name.lower()
        return None if name in self.dropped else self.renamed.get(name, name)

    def follow(self, event: TableEvent, former: Sequence[Column]) -> str:
        """One more statement. Returns why values are unknown behind it, or nothing. `former`: the stream's columns."""
        renamed = {}
        for column in former:
            if (name := self.present(column)) in event.dropped:
                self.dropped.append(column.name.lower())
            elif name is not None:
                renamed[column.name.lower()] = event.renamed.get(name, name)
        self.renamed = {was: now for was, now in renamed.items() if was != now}
        behind = {name: event.renamed.get(name, name) for name in {*self.filled, *self.converted} - {*event.dropped}}
        self.filled = {behind[name]: value for name, value in self.filled.items() if name in behind}
        self.converted = {behind[name]: family for name, family in self.converted.items() if name in behind}
        there = {*renamed.values(), *self.filled}
        self.filled |= {name: value for name, value in event.filled.items() if name not in there}
        self.rekeyed |= event.rekeyed
        again = ""
        for was, family in event.converted.items():
            name = event.renamed.get(was, was)
            # Between is a type of which no description tells.
            if (before := self.converted.get(name)) is not None and (before != family or not family):
                again = f"values of the column {name} were converted more than once"
            self.converted[name] = family
        return again


@dataclass
class Remembered:
    """Statements that the next rows of their tables explain; stored with the stream."""

    altered: dict[str, Altered] = field(default_factory=dict)
    created: dict[str, str] = field(default_factory=dict)
    """Tables without any row yet: why rows of theirs are unknown; empty if all follow."""

    def values(self) -> dict[str, Any]:
        return {
            **({"altered": {table: asdict(each) for table, each in self.altered.items()}} if self.altered else {}),
            **({"created": self.created} if self.created else {}),
        }

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Remembered":
        altered = {table: Altered(**each) for table, each in values.get("altered", {}).items()}
        return cls(altered, dict(values.get("created", {})))


@dataclass(frozen=True)
class _Described:
    """How a table is recorded since its last description."""

    logged: LoggedTable
    keyed: bool
    left_out: Collection[str]
    """Columns of the log that the stream has not."""


class LogDefinitions:
    """The tables of the stream at the place of its recorder."""

    def __init__(self, tables: Mapping[TableName, TableDefinition], types: Types, remembered: Remembered | None = None):
        self.tables = dict(tables)
        self.remembered = remembered or Remembered()
        self._types = types
        self._last: dict[TableName, _Described] = {}

    def define(self, logged: LoggedTable) -> TableDefinition:
        """The definition in the stream of a table of the log. Generated columns are left out."""
        columns = [column for column in logged.columns if not column.generated]
        made = self._types([LogicalColumn(each.name, each.logical, bool(each.key)) for each in columns])
        shape = tuple(
            Column(column.name, type_.type, position, column.nullable and not column.key, column.key)
            for position, (column, type_) in enumerate(zip(columns, made, strict=True), start=1)
        )
        return TableDefinition(TableShape(logged.table, shape))

    @property
    def awaiting(self) -> list[TableName]:
        """Tables that were altered, and had no row since."""
        return [table for table in self.tables if str(table) in self.remembered.altered]

    def described(self, tables: Iterable[LoggedTable]) -> Iterator[Change]:
        """The definitions of such tables, as they are at this place of the log."""
        for logged in tables:
            yield from self._describe(logged)

    def changes(self, part: Part) -> Iterator[Change | RowChange]:
        """The changes of the stream for a part of a transaction."""
        if isinstance(part, TableEvent):
            yield from self._happened(part)
            return
        table = part.table.table
        last = self._last.get(table)
        if last is None or last.logged is not part.table:
            yield from self._describe(part.table)
            last = self._last[table]
        yield from _rows(part, last)

    def _describe(self, logged: LoggedTable) -> Iterator[Change]:
        table, now = logged.table, self.define(logged)
        former = self.tables.get(table)
        altered = self.remembered.altered.pop(str(table), None) or Altered()
        left_out: set[str] = set()
        if former is not None and not logged.certain:
            left_out = _computed(former, now, altered)
            kept = tuple(column for column in now.shape.columns if column.name not in left_out)
            now = replace(now, shape=replace(now.shape, columns=kept))
            if now.shape.keyless and not altered.rekeyed:
                now = _with_key(now, [altered.present(column) for column in former.shape.key])
        self._last[table] = _Described(logged, bool(now.shape.key), left_out)
        if former is None:
            unknown = self.remembered.created.pop(str(table), UNSEEN)
            self.tables[table] = now
            yield Change(Action.CREATE, table, definition=replace(now, complete=not unknown))
            if unknown:
                yield Change(Action.DIFFER, table, reason=unknown)
            return
        placed = _placed(former, now, altered)
        if placed.shape == former.shape:
            return
        self.tables[table] = placed
        before = {column.position for column in former.shape.columns}
        missing = {
            column.name: value
            for column in placed.shape.columns
            if column.position not in before and (value := altered.filled.get(column.name.lower())) is not None
        }
        yield Change(Action.ALTER, table, definition=replace(placed, missing=missing), former=former)
        if reason := self._unknown(former, placed, logged, altered):
            yield Change(Action.DIFFER, table, reason=reason)

    def _unknown(
        self, former: TableDefinition, now: TableDefinition, logged: LoggedTable, altered: Altered
    ) -> str | None:
        """Why the rows that were there are unknown; None if they are known."""
        before = {column.position: column for column in former.shape.columns}
        kinds = {column.name: column.logical.kind for column in logged.columns}
        for column in now.shape.columns:
            was = before.get(column.position)
            if was is None:
                if column.name.lower() not in altered.filled:
                    return f"the column {column.name} came without a statement in the log"
            elif was.type != column.type and not (
                kinds[column.name] in _KEPT_NARROWER and alike(was.type, column.type)
            ):
                return f"values of the column {column.name} were converted from {was.type} to {column.type}"
        return None

    def _happened(self, event: TableEvent) -> Iterator[Change]:
        if not event.table.name:
            for table in [each for each in self.tables if each.schema == event.table.schema]:
                yield from self._happened(replace(event, table=table))
            return
        table, name = event.table, str(event.table)
        former = self.tables.get(table)
        match event.event:
            case Event.CREATED:
                if former is None:  # with IF NOT EXISTS it may have rows of which nothing is known
                    self.remembered.created.setdefault(name, "")
            case Event.EMPTIED:
                if former is not None:
                    yield Change(Action.TRUNCATE, table)
                elif name in self.remembered.created:
                    self.remembered.created[name] = ""
            case Event.DROPPED:
                self._forget(table)
                if former is not None:
                    del self.tables[table]
                    yield Change(Action.DROP, table, former=former)
            case Event.RENAMED:
                assert event.other is not None
                yield from self._rename(table, event.other, former)
            case Event.ALTERED if former is not None:
                altered = self.remembered.altered.setdefault(name, Altered())
                again = altered.follow(event, former.shape.columns)
                if reason := event.reason or again:
                    yield Change(Action.DIFFER, table, reason=reason)
            case Event.UNKNOWN:
                if former is None:
                    self.remembered.created[name] = event.reason
                yield Change(Action.DIFFER, table, reason=event.reason)
            case Event.ALTERED if event.reason and self.remembered.created.get(name) != "":
                self.remembered.created[name] = event.reason  # a table that has no row yet has none that is unknown

    def _rename(self, table: TableName, other: TableName, former: TableDefinition | None) -> Iterator[Change]:
        altered, created = self.remembered.altered, self.remembered.created
        if former is None:
            created[str(other)] = created.pop(str(table), UNSEEN)
            return
        if str(table) in altered:
            altered[str(other)] = altered.pop(str(table))
        self._last.pop(table, None)
        self._last.pop(other, None)
        now = replace(former, shape=replace(former.shape, table=other))
        del self.tables[table]
        self.tables[other] = now
        yield Change(Action.ALTER, table, definition=now, former=former)

    def _forget(self, table: TableName) -> None:
        self.remembered.altered.pop(str(table), None)
        self.remembered.created.pop(str(table), None)
        self._last.pop(table, None)


def alike(was: str, now: str) -> bool:
    """Whether two types of the stream are of one family: texts, whole numbers, or bytes."""
    if _name(now) == "character" != _name(was):
        return False  # it has no blanks at its end
    return _family(was) == _family(now)


def _name(type_: str) -> str:
    return type_.partition("(")[0]


def _family(type_: str) -> str:
    name = _name(type_)
    if name in ("smallint", "integer", "bigint") or type_ == "numeric(20,0)":
        return "number"
    return "text" if name in ("character", "character varying", "text") else name


def _computed(former: TableDefinition, now: TableDefinition, altered: Altered) -> set[str]:
    """Columns of which the log alone tells: neither the stream nor a statement has them, so they are computed."""
    named = {altered.present(column) for column in former.shape.columns} | altered.filled.keys()
    found = {column.name for column in now.shape.columns if column.name.lower() not in named}
    return set() if any(column.name in found for column in now.shape.key) else found


def _placed(former: TableDefinition, now: TableDefinition, altered: Altered) -> TableDefinition:
    """`now` with its columns at their former positions, in whose order they are."""
    positions = {altered.present(column): column.position for column in former.shape.columns}
    return replace(now, shape=now.shape.placed(positions, str.lower))


def _with_key(definition: TableDefinition, key: Sequence[str | None]) -> TableDefinition:
    """The table with that key, if it still has its columns; the log does not tell keys other than primary ones."""
    shape, numbers = definition.shape, {name: index for index, name in enumerate(key, start=1)}
    if not numbers.keys() <= {column.name.lower() for column in shape.columns if not column.nullable}:
        return definition
    columns = tuple(replace(column, key=numbers.get(column.name.lower(), 0)) for column in shape.columns)
    return replace(definition, shape=replace(shape, columns=columns))


def _rows(part: Rows, described: _Described) -> Iterator[RowChange]:
    names = (part.table.table.schema, part.table.table.name)
    rows = part.rows
    if described.left_out:
        rows = [_without(described.left_out, row) for row in rows]
    if part.action == "insert":
        for row in rows:
            yield RowChange("insert", names, row)
    elif part.action == "delete":
        for row in rows:
            yield RowChange("delete", names, None, row)
    else:
        for old, new in rows:
            changed = {name: was for name, was in old.items() if new[name] != was}
            if changed:
                yield RowChange("update", names, new, changed if described.keyed else old)


def _without(columns: Collection[str], row: Any) -> Any:
    """A row, or a pair of them, without some columns."""
    if isinstance(row, tuple):
        return tuple(_without(columns, each) for each in row)
    return {name: value for name, value in row.items() if name not in columns}
