"""The definition of each of the master's tables, at the place in the stream where the apply is.

A change is read by the definition under which it was captured, above all by its key; the master's present definition
may be a later one. The first definition of a table is the one that the slave followed last (DEFINITIONS). Where it
followed none since its load, it is the former one of the next change of definition in the stream, or the present one
where there is no such change. Each change of definition that the apply passes replaces it.

Two sessions of the master that meet a change of a definition at once both write its item, so an item may say a former
definition that the slave has left already.
"""

from collections.abc import Collection, Container, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.control.definitions import DefinitionStore, KnownColumns
from sluice.errors import RESTART_APPLY, DataLost, Terminal
from sluice.model.change import EMPTYING, Action
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition

if TYPE_CHECKING:
    from sluice.apply.pair_sessions import PairSessions
    from sluice.apply.window_runs import CutItem
    from sluice.pair import Pair


class TableGone(DataLost):
    """Changes wait for a table that the master no longer has, and its key is unknown."""

    def __init__(self, table: TableName):
        super().__init__(
            f"Table {table} is gone from the master while changes of it still wait, so their key is unknown. "
            "Start an initial update of this slave."
        )
        self.table = table


def key_needed(pair: "Pair", tables: Iterable[TableName]) -> Terminal:
    """Without a key a change that comes twice cannot be recognised."""
    tables = tuple(tables)
    names = ", ".join(map(str, tables))
    return Terminal(
        f"{pair}: with checkpoint: redis changes may come twice, and without a key they would be applied twice: "
        f"{names}. Set checkpoint: slave for this slave and {RESTART_APPLY}; or add a primary key on the "
        f"master, or take {'it' if len(tables) == 1 else 'them'} out of the replication's tables, and start "
        "an initial update.",
        code="key-needed",
    )


class SchemaHistory:
    """The definitions as of the stream's place; void when a window is not committed (`clear`)."""

    def __init__(self, sessions: "PairSessions"):
        self.sessions = sessions
        self._shapes: dict[TableName, TableShape] = {}
        self._followed: dict[TableName, TableShape] = {}
        """What the steps of a window that is not committed yet follow."""

    def load(self, tables: Iterable[TableName], seen: Position, above: int) -> None:
        """Reads the definitions that are not known yet, as of the changes after `seen` and the REPL_KEY `above`."""
        unknown = [table for table in dict.fromkeys(tables) if table not in self._shapes]
        if unknown:
            self._shapes |= self.sessions.queue.definitions(unknown, seen, above)
            for table, known in self._known(unknown).items():
                if known.followed and table in self._shapes:
                    self._shapes[table] = known.shape

    def __getitem__(self, table: TableName) -> TableShape:
        """The definition of a table that was loaded. Raises `TableGone`."""
        try:
            return self._shapes[table]
        except KeyError:
            raise TableGone(table) from None

    def key(self, table: TableName) -> tuple[str, ...]:
        """The columns of its key, as the slave has them; empty for none.

        Raises `TableGone`, `TransformationInvalid`, and `key-needed` if there must be a key.
        """
        shape = self[table]
        transform = self.sessions.transformed.of(shape)
        key = tuple(column.name for column in shape.key) if transform is None else transform.key()
        if not key and self.sessions.pair.slave.checkpoint == "redis":
            raise key_needed(self.sessions.pair, [table])
        return key

    def keyless(self) -> list[TableName]:
        """The known tables that have no key."""
        return [table for table, shape in self._shapes.items() if not shape.key]

    def known(self, left_out: Container[TableName] = ()) -> dict[TableName, tuple[str, ...]]:
        """The keys of all tables that are known, without those that are left out."""
        return {table: self.key(table) for table in self._shapes if table not in left_out}

    def follow(self, cut: "CutItem") -> None:
        """Passes a change of a definition: changes after it are read by the new one."""
        if cut.action in EMPTYING or cut.action is Action.DIFFER:
            return
        self._shapes.pop(cut.table, None)
        self._followed.pop(cut.table, None)
        if cut.defined is not None:
            self._shapes[cut.defined.table] = self._followed[cut.defined.table] = cut.defined.shape

    def from_present(self, cut: "CutItem") -> "CutItem":
        """An ALTER with the columns that the slave's table has then as its former ones, whatever the item says."""
        if cut.action is not Action.ALTER or cut.former is None or cut.defined is None:
            return cut
        now = cut.defined.table
        for table in dict.fromkeys((cut.table, now)):
            shape = self._followed.get(table)
            if shape is None and (known := self._known([table])):
                shape = known[table].shape
            if shape is not None:
                return replace(cut, former=with_columns(cut.former, shape))
        return cut

    def _known(self, tables: Collection[TableName]) -> dict[TableName, KnownColumns]:
        with self.sessions.slave_transaction() as slave:
            return DefinitionStore.of(self.sessions.pair, slave).columns(tables)

    def committed(self) -> None:
        """The window is committed, and DEFINITIONS has what it followed."""
        self._followed.clear()

    def clear(self) -> None:
        """Forgets all definitions."""
        self._shapes.clear()
        self._followed.clear()


def with_columns(former: TableDefinition, present: TableShape) -> TableDefinition:
    """The definition with the names and types of other columns, each by its number."""
    by_number = {column.position: column for column in former.shape.columns}

    def merged(column: Column) -> Column:
        was = by_number.get(column.position)
        return column if was is None else replace(was, name=column.name, type=column.type, collation=column.collation)

    shape = replace(former.shape, columns=tuple(map(merged, present.columns)))
    return replace(former, shape=shape)
