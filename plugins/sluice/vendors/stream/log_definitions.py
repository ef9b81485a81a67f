"""The tables of a stream that is recorded from a database's log: their definitions, and what DDL means for a slave.

The log describes a table with its rows. So a new definition is written before the table's next row, and a statement is
remembered until then: it says what older rows have in new columns, and whether they are known at all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """Statements about a table since its last row."""

    renamed: dict[str, str] = field(default_factory=dict)
    """Columns, from the name in the stream to the present one."""
    filled: dict[str, str | None] = field(default_factory=dict)


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


class LogDefinitions:
    """The tables of the stream at the place of its recorder."""

    def __init__(self, tables: Mapping[TableName, TableDefinition], types: Types, remembered: Remembered | None = None):
        self.tables = dict(tables)
        self.remembered = remembered or Remembered()
        self._types = types
        self._last: dict[TableName, tuple[LoggedTable, bool]] = {}
        """The description of each table's last rows, and whether it has a key."""

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
        if last is None or last[0] is not part.table:
            yield from self._describe(part.table)
            last = self._last[table]
        yield from _rows(part, keyed=last[1])

    def _describe(self, logged: LoggedTable) -> Iterator[Change]:
        table, now = logged.table, self.define(logged)
        former = self.tables.get(table)
        altered = self.remembered.altered.pop(str(table), None)
        renamed = altered.renamed if altered is not None else {}
        if former is not None and not logged.certain and now.shape.keyless:
            now = _with_key(now, [renamed.get(column.name, column.name) for column in former.shape.key])
        self._last[table] = logged, bool(now.shape.key)
        if former is None:
            unknown = self.remembered.created.pop(str(table), UNSEEN)
            self.tables[table] = now
            yield Change(Action.CREATE, table, definition=replace(now, complete=not unknown))
            if unknown:
                yield Change(Action.DIFFER, table, reason=unknown)
            return
        placed = _placed(former, now, renamed)
        if placed.shape == former.shape:
            return
        self.tables[table] = placed
        filled = altered.filled if altered is not None else {}
        there = {column.name for column in placed.shape.columns}
        missing = {name: value for name, value in filled.items() if value is not None and name in there}
        yield Change(Action.ALTER, table, definition=replace(placed, missing=missing), former=former)
        if reason := self._unknown(former, placed, logged, altered):
            yield Change(Action.DIFFER, table, reason=reason)

    def _unknown(
        self, former: TableDefinition, now: TableDefinition, logged: LoggedTable, altered: Altered | None
    ) -> str | None:
        """Why the rows that were there are unknown; None if they are known."""
        before = {column.position: column for column in former.shape.columns}
        kinds = {column.name: column.logical.kind for column in logged.columns}
        for column in now.shape.columns:
            was = before.get(column.position)
            if was is None:
                if altered is None or column.name not in altered.filled:
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
                if former is None:
                    self.remembered.created[name] = ""
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
                self._alter(name, event)
                if event.reason:
                    yield Change(Action.DIFFER, table, reason=event.reason)
            case Event.UNKNOWN:
                if former is None:
                    self.remembered.created[name] = event.reason
                yield Change(Action.DIFFER, table, reason=event.reason)
            case Event.ALTERED if event.reason:
                self.remembered.created[name] = event.reason

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

    def _alter(self, name: str, event: TableEvent) -> None:
        kept = self.remembered.altered.setdefault(name, Altered())
        for was, now in event.renamed.items():
            first = next((old for old, new in kept.renamed.items() if new == was), was)
            kept.renamed[first] = now
            if was in kept.filled:
                kept.filled[now] = kept.filled.pop(was)
        kept.filled.update(event.filled)

    def _forget(self, table: TableName) -> None:
        self.remembered.altered.pop(str(table), None)
        self.remembered.created.pop(str(table), None)
        self._last.pop(table, None)


def alike(was: str, now: str) -> bool:
    """Whether two types of the stream are of one family: texts, whole numbers, or bytes."""
    return _family(was) == _family(now)


def _family(type_: str) -> str:
    name = type_.partition("(")[0]
    if name in ("smallint", "integer", "bigint") or type_ == "numeric(20,0)":
        return "number"
    return "text" if name in ("character", "character varying", "text") else name


def _placed(former: TableDefinition, now: TableDefinition, renamed: Mapping[str, str]) -> TableDefinition:
    """`now` with its columns at their former positions, in whose order they are."""
    positions = {renamed.get(column.name, column.name): column.position for column in former.shape.columns}
    free = max(positions.values(), default=0)
    columns = []
    for column in now.shape.columns:
        if column.name not in positions:
            free += 1
            positions[column.name] = free
        columns.append(replace(column, position=positions[column.name]))
    columns.sort(key=lambda column: column.position)
    return replace(now, shape=replace(now.shape, columns=tuple(columns)))


def _with_key(definition: TableDefinition, key: Sequence[str]) -> TableDefinition:
    """The table with that key, if it still has its columns; the log does not tell keys other than primary ones."""
    shape, numbers = definition.shape, {name: index for index, name in enumerate(key, start=1)}
    if not numbers.keys() <= {column.name for column in shape.columns if not column.nullable}:
        return definition
    columns = tuple(replace(column, key=numbers.get(column.name, 0)) for column in shape.columns)
    return replace(definition, shape=replace(shape, columns=columns))


def _rows(part: Rows, *, keyed: bool) -> Iterator[RowChange]:
    names = (part.table.table.schema, part.table.table.name)
    if part.action == "insert":
        for row in part.rows:
            yield RowChange("insert", names, row)
    elif part.action == "delete":
        for row in part.rows:
            yield RowChange("delete", names, None, row)
    else:
        for old, new in part.rows:
            changed = {name: was for name, was in old.items() if new[name] != was}
            if changed:
                yield RowChange("update", names, new, changed if keyed else old)
