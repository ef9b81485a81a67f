"""The state of each table on one slave, and how changes of definitions in the stream move it.

A table that is registered on the master announces itself with a CREATE item. What rows it had before, the stream
does not bring: until a load has brought them the table is absent on the slave, and its changes are left out. Where the
item says that all rows follow in the stream, the table is ready at once.

Only tables that are not ready are noted, in CHECKPOINT, in the transaction that carries the data. That a table is
loading, BLOCKS says: its changes are decided block by block then (see `sluice.model.blocks`).
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sluice.model.names import Prefix, TableName


class TableState(StrEnum):
    """What the rows of one table on one slave are worth."""

    ABSENT = "absent"
    """Never loaded since it joined: its changes are left out."""
    LOADING = "loading"
    """Its blocks decide which changes are applied."""
    READY = "ready"
    """Every change is applied."""
    INCONSISTENT = "inconsistent"
    """A load of it was given up: its changes are left out until it is loaded again."""


@dataclass(frozen=True)
class TableStates:
    """The tables of a slave whose changes are left out; every other one is ready or loading."""

    not_ready: Mapping[TableName, TableState] = field(default_factory=dict)

    def __contains__(self, table: object) -> bool:
        """Whether changes of the table are left out."""
        return table in self.not_ready

    def __iter__(self) -> Iterator[TableName]:
        """The tables whose changes are left out, by name."""
        return iter(sorted(self.not_ready))

    def __len__(self) -> int:
        return len(self.not_ready)

    def put(self, table: TableName, state: TableState) -> "TableStates":
        """The same with `table` in `state`."""
        others = {name: was for name, was in self.not_ready.items() if name != table}
        return TableStates(others if state in (TableState.READY, TableState.LOADING) else {**others, table: state})

    def put_all(self, tables: Collection[TableName], state: TableState) -> "TableStates":
        """The same with all of `tables` in `state`."""
        states = self
        for table in tables:
            states = states.put(table, state)
        return states

    def renamed(self, old: TableName, new: TableName) -> "TableStates":
        """The same after the master renamed a table."""
        state = self.not_ready.get(old, TableState.READY)
        return self.put(old, TableState.READY).put(new, state)

    def text(self) -> str | None:
        """As CHECKPOINT keeps it; None where all tables are ready."""
        if not self.not_ready:
            return None
        return json.dumps([[table.schema, table.name, self.not_ready[table]] for table in self])

    @classmethod
    def parse(cls, text: str | None) -> "TableStates":
        """From what `text` gave."""
        entries = json.loads(text) if text else []
        return cls({TableName(schema, name): TableState(state) for schema, name, state in entries})


ALL_READY = TableStates()

_LISTED = 20


def how_to_load(prefix: Prefix, slave: str, tables: Collection[TableName]) -> str:
    """What loads `tables`, for people."""
    names = [str(table) for table in sorted(tables)]
    listed = json.dumps(names[:_LISTED], ensure_ascii=False)
    if len(names) > _LISTED:
        listed = f"{listed[:-1]}, …] (and {len(names) - _LISTED} more)"
    return f"Start the DAG initial_update with prefix {prefix}, slave {slave} and tables {listed}."


def how_to_capture(prefix: Prefix) -> str:
    """What captures tables that are not captured, for people."""
    return f"Start the DAG reconcile_tables with prefix {prefix}."
