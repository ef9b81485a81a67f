"""Changes of definitions on a slave whose DDL commits implicitly; and TRUNCATE, which must not.

Whatever exists already is skipped, so that an item may be repeated, also after it was done in part. Columns are matched
by their number in the master's definitions, which a rename does not change, and are changed on the slave by name;
columns that only the slave has are not changed. Where one column gets the name that another one leaves, names do not
tell whether the change was made: a server that does it in one statement notes it there with the table; on others
columns that get other names first get one with their number, all of them. A column of the slave is never narrower than
the master's, and may be wider. A column whose values this server would convert differently from the master is made
again, empty, if the master rewrote its rows, which follow as changes; else it is refused: its table must be loaded
again. A table whose new key has a column that gave each row a value is emptied: its rows follow. TRUNCATE deletes rows
in the window's transaction, since the server's own would commit half a window.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sluice.database import column_types
from sluice.database.apply import DefinitionChange, DefinitionNotFollowed
from sluice.database.column_types import ColumnTypes, LogicalColumn
from sluice.database.errors import DatabaseRefused, StatementFailed
from sluice.database.schema import TableDefinition as MadeTable
from sluice.database.schema import defined_in
from sluice.database.session import Session
from sluice.database.translation import allows
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.change import Action
from sluice.model.defined import Defined, DefinedKind
from sluice.model.logical_type import ColumnType, Fit, Kind, LogicalType
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition, key_unknown
from sluice.vendors.common.catalog import OwnForeignKey
from sluice.vendors.common.definitions import Definitions
from sluice.vendors.common.slave_tables import SlaveTable, SlaveTables

T = TypeVar("T", bound=SlaveTable)  # type: ignore[type-arg]


class DefinitionRefused(DefinitionNotFollowed):
    """The slave cannot follow a change of a table's definition."""

    def __init__(self, table: TableName, what: str, remedy: str):
        super().__init__(
            table,
            f"{table}: the slave cannot follow the master's change of its definition: {what}. {remedy} "
            f"Then {RESTART_APPLY}.",
        )


_NONE: Mapping[int, Column] = {}
_ONE_FORM = frozenset(
    {
        frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE}),
        frozenset({Kind.TEXT, Kind.CHAR}),
        frozenset({Kind.TEXT, Kind.XML}),
    }
)
"""Kinds whose values PostgreSQL may leave as they are where one becomes the other."""
_BY_HAND = "Remove what is in the way on the slave (an index, a view, an extra column), or make the change there."
AGAIN = (
    "Take the table out of the replication's tables until then; or drop it on the slave, which the next initial update "
    "of it makes again."
)


@dataclass
class TableChange:
    """What an ALTER changes of one table. Columns that are there have their names before the change."""

    table: TableName
    dropped: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    """Old → new."""
    aside: dict[str, str] = field(default_factory=dict)
    """Of the renamed columns, their names in between."""
    modified: list[tuple[Column, Column, bool]] = field(default_factory=list)
    """The slave's column, the wanted one, and whether it gets that one's type; else only its NULL."""
    added: list[tuple[Column, str | None]] = field(default_factory=list)
    """With the value of the older rows, in the same statement; None where the master gave each row a value: they follow
    as changes."""
    drops_key: bool = False
    """Whether the present primary key goes."""
    key: tuple[str, ...] | None = None
    """The new primary key, by new names; () for none, None for an unchanged one."""
    note: int | None = None
    """What to note with the table in the same statement, where its columns do not tell whether it was done."""

    @property
    def any(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.dropped or self.renamed or self.modified or self.added or self.drops_key or self.key)

    @property
    def touched(self) -> set[str]:
        """The columns that are dropped, or get another type."""
        return {*self.dropped, *(own.name for own, _, wider in self.modified if wider)}


class Alterer(ABC, Generic[T]):
    """Alters one slave over one session. `of_master`: the master's types. `lossy`: the slave's `lossy_columns`."""

    definitions: Definitions

    def __init__(self, connection: Session, targets: SlaveTables[T], of_master: ColumnTypes, lossy: Sequence[str]):
        self.connection = connection
        self.targets = targets
        self._of_master = of_master
        self._lossy = lossy

    # What a vendor says otherwise

    @abstractmethod
    def made_of(self, columns: Sequence[LogicalColumn]) -> Sequence[ColumnType]:
        """The column types of a table with these columns."""

    @abstractmethod
    def holds(self, wider: str, type_: str) -> bool:
        """Whether a column of the type `wider` can hold every value of the other, with the same text."""

    @abstractmethod
    def create_table(self, wanted: MadeTable) -> None: ...

    @abstractmethod
    def drop_table(self, table: TableName) -> None:
        """Drops the table if it exists."""

    @abstractmethod
    def rename_table(self, old: TableName, new: TableName) -> None: ...

    @abstractmethod
    def alter_table(self, change: TableChange, placed: Callable[[], None]) -> None:
        """Changes the table: in one statement, with its note; or in several, and calls `placed` in between, see
        `sluice.database.apply.Alterer`. Raises `DefinitionRefused`."""

    def noted(self, table: TableName) -> int | None:
        """The `note` of the last change that had one; None where the server keeps none."""
        return None

    @abstractmethod
    def release(self, table: TableName) -> None:
        """Drops the acting foreign keys between the table and others, so that its rows are not changed by them."""

    @abstractmethod
    def literal(self, text: str) -> str: ...

    def label(self, column: str) -> str:
        """A column in the form in which its labels are compared."""
        return self.definitions.quoted(column)

    @abstractmethod
    def delete(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> int:
        """Deletes the rows with these keys; returns their number."""

    # What all do alike

    def apply(self, item: DefinitionChange, placed: Callable[[], None] = lambda: None) -> None:
        """Executes the missing changes. `placed`: as of `sluice.database.apply.Alterer`. Raises `DefinitionRefused`."""
        if item.action is Action.CREATE:
            assert item.defined is not None
            self._create(item.defined)
        elif item.action is Action.DROP:
            self.drop_table(item.table)
        elif item.action is Action.ALTER:
            self._alter(item, placed)
        else:
            raise ValueError(f"{item.action} is no change of a definition")
        self.targets.forget()

    def attempt(self, item: DefinitionChange) -> str:
        """See `sluice.database.apply.Alterer`."""
        try:
            self.apply(item)
        except Terminal as refused:
            return str(refused)
        return ""

    def prepare(self, items: Sequence[DefinitionChange]) -> None:
        """Does nothing: there are no user-defined types."""

    def rename_labels(self, item: DefinitionChange) -> None:
        """See `sluice.database.apply.Alterer`. Raises `DefinitionRefused`."""
        if item.action is not Action.ALTER:
            return
        old, new = item.former, item.defined
        assert old is not None and new is not None
        place = self.definitions.qualified(new.table)
        for column, labels in column_types.renamed(self._of_master, old, new).items():
            text = self.label(column)
            cases = " ".join(f"WHEN {self.literal(was)} THEN {self.literal(label)}" for was, label in labels.items())
            self.do(
                new.table,
                f"UPDATE {place} SET {self.definitions.quoted(column)} = CASE {text} {cases} END "
                f"WHERE {text} IN ({', '.join(map(self.literal, labels))})",
            )

    def complete_columns(self, changed: Collection[TableName]) -> None:
        """Does nothing: a column whose values follow as changes may stay NULL here."""

    def truncate(self, tables: Sequence[TableName]) -> None:
        """Deletes children first, since their foreign keys may act."""
        for table in reversed(self.targets.order(dict.fromkeys(tables))):
            self.do(table, f"DELETE FROM {self.definitions.qualified(table)}")

    def delete_where(self, item: DefinitionChange) -> None:
        """Raises `DefinitionRefused`: only the master's expressions can tell which rows a partition had."""
        raise DefinitionRefused(
            item.table, "a partition was dropped with its rows, and which those are, this server cannot tell", AGAIN
        )

    def keys(self, item: DefinitionChange) -> list[tuple[str, ...]]:
        """The keys of all rows, for a TRUNCATE."""
        if item.action is Action.DELETE_WHERE:
            self.delete_where(item)
        target = self.targets[item.table]
        key = [target.column(column.name) for column in target.shape.key]
        if not key:
            return []
        texts = ", ".join(column.text("t") for column in key)
        rows = self.connection.execute(f"SELECT {texts} FROM {self.definitions.qualified(item.table)} t".encode())
        return [tuple(column.shown(text) or "" for column, text in zip(key, row, strict=True)) for row in rows]

    def do(self, table: TableName, statement: str) -> None:
        """Raises `DefinitionRefused`."""
        try:
            self.definitions.run(self.connection, statement)
        except (StatementFailed, DatabaseRefused) as error:
            raise DefinitionRefused(
                table, f"{error.reason.rstrip('.')}. The statement was: {statement}", _BY_HAND
            ) from error

    # What a definition becomes

    def _translated(self, definition: TableDefinition, unchanged: Mapping[int, Column] = _NONE) -> dict[int, Column]:
        """The replicated columns by number, in types of this server. Raises `DefinitionRefused`.

        `unchanged`: the slave's own columns whose type on the master has not changed; they are not refused.
        """
        defined = defined_in(definition)
        columns = definition.shape.replicated
        made = self.made_of(
            [
                LogicalColumn(column.name, self._of_master.logical(column.type, defined), column.key > 0)
                for column in columns
            ]
        )
        return {
            column.position: self._allowed(definition.table, column, each, unchanged.get(column.position))
            for column, each in zip(columns, made, strict=True)
        }

    def _allowed(self, table: TableName, column: Column, made: ColumnType, unchanged: Column | None) -> Column:
        nullable = column.nullable and not column.key
        if made.fit is Fit.REFUSED or (made.fit is Fit.LOSSY and not allows(self._lossy, table, column.name)):
            if unchanged is not None:
                return Column(column.name, unchanged.type, column.position, nullable=nullable, key=column.key)
            named = "" if made.fit is Fit.REFUSED else " Or name the column under lossy_columns of the slave."
            lost = f"column {column.name} {column.type} would lose something: {made.lost}"
            raise DefinitionRefused(table, lost, AGAIN + named)
        return Column(column.name, made.type, column.position, nullable=nullable, key=column.key)

    # What is done

    def _shape(self, table: TableName) -> TableShape | None:
        return self.definitions.catalog.shapes(self.connection, [table]).get(table)

    def _create(self, wanted: TableDefinition) -> None:
        if self._shape(wanted.table) is not None:
            return
        shape = TableShape(wanted.table, tuple(self._translated(wanted).values()))
        try:
            self.create_table(MadeTable(shape, None, "p", (), {}))
        except (StatementFailed, DatabaseRefused) as error:
            raise DefinitionRefused(wanted.table, error.reason.rstrip("."), _BY_HAND) from error

    def _alter(self, item: DefinitionChange, placed: Callable[[], None]) -> None:
        old, new = _definitions(item)
        if old.table != new.table:
            slave_shapes = self.definitions.catalog.shapes(self.connection, [old.table, new.table])
            if old.table in slave_shapes and new.table not in slave_shapes:
                self.rename_table(old.table, new.table)
        have = self._shape(new.table)
        if have is None:
            self._create(new)
        elif (change := self._change(item, have)) is not None:
            if change.key and key_unknown(old, new):
                self.truncate([have.table])
            self.alter_table(change, placed)

    def will_drop(self, item: DefinitionChange) -> list[Defined]:
        """See `sluice.database.apply.Alterer`."""
        if item.action is not Action.ALTER:
            return []
        old, new = _definitions(item)
        shapes = self.definitions.catalog.shapes(self.connection, [old.table, new.table])
        have = shapes.get(old.table) or shapes.get(new.table)
        change = self._change(item, have) if have is not None else None
        if change is None:
            return []
        assert have is not None
        gone = [
            (DefinedKind.FOREIGN_KEYS, each.key.child, self.definitions.name_of_master(each.name))
            for each in self.touching(have.table, change)
        ]
        gone += [
            (DefinedKind.UNIQUE if each.unique else DefinedKind.INDEXES, each.table, each.name)
            for each in self.definitions.catalog.own_indexes(self.connection, [have.table])
            if not each.primary and change.touched & set(each.columns)
        ]
        return [
            Defined(kind, place, name, "")
            for kind, table, name in gone
            for place in {table, new.table if table == old.table else table}
        ]

    def touching(self, table: TableName, change: TableChange) -> list[OwnForeignKey]:
        """The foreign keys from or to columns of `table` that are dropped, or get another type."""
        if not (names := change.touched):
            return []
        return [
            own
            for own in self.definitions.catalog.foreign_keys(self.connection, [table])
            if (own.key.child == table and names & set(own.key.columns))
            or (own.key.parent == table and names & set(own.key.parent_columns))
        ]

    def _change(self, item: DefinitionChange, have: TableShape) -> TableChange | None:
        """What the slave's table still lacks of an ALTER; None for nothing. Raises `DefinitionRefused`."""
        old, new = _definitions(item)
        before = {column.position: column for column in old.shape.columns}
        own_columns = {column.name: column for column in have.columns}
        places = {column.name: column.position for column in before.values()}
        # A name that one column leaves to another one: names alone do not tell whether this has been done.
        passed_on = any(places.get(each.name, each.position) != each.position for each in new.shape.columns)
        if passed_on and self.noted(have.table) == item.repl_key:
            return None
        by_number = {
            position: own
            for position, column in before.items()
            if (own := own_columns.get(aside(position)) or own_columns.get(column.name)) is not None
        }
        if not passed_on:
            # What an earlier try has renamed or added.
            for column in new.shape.columns:
                if column.position not in by_number and column.name in own_columns:
                    by_number[column.position] = own_columns[column.name]
        wanted = self._translated(new, _unchanged(before, new, by_number))
        change = TableChange(new.table, note=item.repl_key if passed_on else None)
        kept = {each.position for each in new.shape.columns}
        change.dropped += [own.name for position, own in by_number.items() if position not in kept]
        for position, column in wanted.items():
            previous = before.get(position)
            if previous is not None and previous.generated:
                raise DefinitionRefused(new.table, f"column {column.name} was computed by the master before", AGAIN)
            own = by_number.get(position)
            if own is None:
                change.added.append((column, new.missing.get(column.name)))
                continue
            if self._emptied(item, own, column):
                change.dropped.append(own.name)
                change.added.append((column, None))
                continue
            if own.name != column.name:
                change.renamed[own.name] = column.name
                change.aside[own.name] = aside(position)
            if (wider := self._widened(item, own, column)) or (column.nullable and not own.nullable):
                change.modified.append((own, column, wider))
        key = [column.name for column in new.shape.key]
        formerly = [before[column.position].name if column.position in before else "" for column in new.shape.key]
        if [column.name for column in old.shape.key] != formerly:
            own_key = self._primary(have.table)
            # Another column may get the name of one that goes with the key.
            if [change.renamed.get(name, name) for name in own_key if name not in change.dropped] != key:
                change.drops_key, change.key = bool(own_key), tuple(key)
        return change if change.any else None

    def _primary(self, table: TableName) -> tuple[str, ...]:
        """The columns of the primary key."""
        indexes = self.definitions.catalog.own_indexes(self.connection, [table])
        return next((index.columns for index in indexes if index.primary), ())

    def _emptied(self, item: DefinitionChange, own: Column, wanted: Column) -> bool:
        """Whether the column must be made again: what it has is not converted, and the master's values follow."""
        types = self._retyped(item, wanted)
        alike = self.holds(own.type, wanted.type) or self.holds(wanted.type, own.type)
        return types is not None and not wanted.key and not alike and rewritten(*types)

    def _widened(self, item: DefinitionChange, own: Column, wanted: Column) -> bool:
        """Whether the slave's column must get the wanted type. Raises `DefinitionRefused`."""
        wider = not self.holds(own.type, wanted.type)
        types = self._retyped(item, wanted)
        # A number that becomes a text is one of as many digits here and on the master.
        digits = types is not None and {types[0].kind, types[1].kind} == {Kind.NUMBER} and not rewritten(*types)
        if wider and not digits and not self.holds(wanted.type, own.type):
            raise DefinitionRefused(
                item.table,
                f"column {wanted.name} is {own.type} here and would become {wanted.type}, in which this server may "
                "write its values otherwise than the master",
                AGAIN,
            )
        return wider

    def _retyped(self, item: DefinitionChange, column: Column) -> tuple[LogicalType, LogicalType] | None:
        """The column's types on the master before and after the change; None where it is the same or new."""
        definitions = _definitions(item)
        was, became = (
            next((each for each in one.shape.columns if each.position == column.position), None) for one in definitions
        )
        if was is None or became is None or was.type == became.type:
            return None
        old, new = (
            self._of_master.logical(each.type, defined_in(one))
            for each, one in zip((was, became), definitions, strict=True)
        )
        return old, new


def rewritten(old: LogicalType, new: LogicalType) -> bool:
    """Whether any master writes all rows again where a column gets this type. Pure."""
    if old.kind is new.kind is Kind.NUMBER:
        # Only room for more digits before the point, or for any, needs no other values.
        more = old.precision is not None and new.precision is not None and new.precision >= old.precision
        return not (new.precision is None or (more and new.scale == old.scale))
    kinds = frozenset({old.kind, new.kind})
    return len(kinds) == 2 and Kind.OTHER not in kinds and kinds not in _ONE_FORM


def aside(position: int) -> str:
    """The name of a column between its former and its new one."""
    return f"sluice_renamed_{position}"


def _definitions(item: DefinitionChange) -> tuple[TableDefinition, TableDefinition]:
    """Of an ALTER, before and after it."""
    assert item.former is not None and item.defined is not None
    return item.former, item.defined


def _unchanged(
    before: Mapping[int, Column], new: TableDefinition, own_columns: Mapping[int, Column]
) -> dict[int, Column]:
    """The slave's own columns, by number, whose type on the master has not changed."""
    return {
        column.position: own_columns[column.position]
        for column in new.shape.replicated
        if column.position in before and column.position in own_columns and before[column.position].type == column.type
    }
