"""The state of each table on one slave, and how changes of definitions move it.

A table that is registered on the master has a CREATE item. The stream does not bring the rows that it had before: until
a load has brought them, the table is absent on the slave, and its changes are left out. If the item says that all rows
follow in the stream, the table is ready at once.

CHECKPOINT has the tables that are not ready, written in the transaction of the data. For a loading table, BLOCKS
decides on each change (see `sluice.model.blocks`). In TRANSITION, while the whole slave is loaded, BLOCKS decides for
all tables, and none is stored as loading.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sluice.model.names import Prefix, TableName


class TableState(StrEnum):
    """The state of one table on one slave."""

    ABSENT = "absent"
    """Not loaded since it joined: its changes are left out."""
    LOADING = "loading"
    """BLOCKS decides which changes are applied."""
    READY = "ready"
    """Every change is applied."""
    INCONSISTENT = "inconsistent"
    """Its load ended early, or its changes cannot be applied: they are left out until it is loaded again."""


@dataclass(frozen=True)
class TableStates:
    """The tables of a slave that are not ready; all others are."""

    not_ready: Mapping[TableName, TableState] = field(default_factory=dict)
    reasons: Mapping[TableName, str] = field(default_factory=dict)
    """Why a table is inconsistent."""
    loading_since: str | None = None
    """The slave's position, as text, when the running load began: later changes must not be purged."""
    former: frozenset[TableName] = frozenset()
    """Tables that left the replication and were kept: a table that comes back with such a name replaces it."""

    def __contains__(self, table: object) -> bool:
        """Whether all changes of the table are left out."""
        return self.not_ready.get(table, TableState.LOADING) is not TableState.LOADING  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[TableName]:
        """The tables whose changes are left out, by name."""
        return iter(sorted(table for table in self.not_ready if table in self))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def loading(self) -> tuple[TableName, ...]:
        """The tables for which BLOCKS decides, by name."""
        return tuple(sorted(table for table, state in self.not_ready.items() if state is TableState.LOADING))

    def state(self, table: TableName) -> TableState:
        return self.not_ready.get(table, TableState.READY)

    def ready(self, table: TableName) -> bool:
        return self.state(table) is TableState.READY

    def put(self, table: TableName, state: TableState, reason: str = "") -> "TableStates":
        """The same with `table` in `state`. `reason`: why it is inconsistent."""
        states = {name: was for name, was in self.not_ready.items() if name != table}
        reasons = {name: why for name, why in self.reasons.items() if name != table}
        if state is not TableState.READY:
            states[table] = state
        if reason and state is TableState.INCONSISTENT:
            reasons[table] = reason
        since = self.loading_since if TableState.LOADING in states.values() else None
        former = self.former if state in (TableState.ABSENT, TableState.INCONSISTENT) else self.former - {table}
        return TableStates(states, reasons, since, former)

    def leave_out(self, reasons: Mapping[TableName, str]) -> "TableStates":
        """The same with the tables of `reasons` inconsistent, each with its reason."""
        states = self
        for table, reason in reasons.items():
            states = states.put(table, TableState.INCONSISTENT, reason)
        return states

    def left(self, table: TableName, *, kept: bool) -> "TableStates":
        """The same without `table`, which left; `kept`: the slave still has it with the master's rows."""
        kept = kept and (self.state(table) is not TableState.ABSENT or table in self.former)
        states = self.put(table, TableState.READY)
        return replace(states, former=states.former | {table}) if kept else states

    def put_all(self, tables: Collection[TableName], state: TableState, reason: str = "") -> "TableStates":
        """The same with all of `tables` in `state`."""
        states = self
        for table in tables:
            states = states.put(table, state, reason)
        return states

    def load(self, tables: Collection[TableName], since: str) -> "TableStates":
        """The same with `tables` loading, by a load that began at the slave's position `since`."""
        return replace(self.put_all(tables, TableState.LOADING), loading_since=since if tables else None)

    def renamed(self, old: TableName, new: TableName, *, kept: bool = False) -> "TableStates":
        """The same after the master renamed a table; `kept`: an inconsistent one is not dropped on the slave."""
        states = self.put(old, TableState.READY).put(new, self.state(old), self.reasons.get(old, ""))
        # A table that is left out gets its new name, and nothing on the slave changes.
        stays = old in self.former or (kept and self.state(old) is TableState.INCONSISTENT)
        return replace(states, former=states.former | {old}) if stays else states

    def explain(self, table: TableName) -> str:
        """The state of a table for people, with the reason if there is one."""
        reason = self.reasons.get(table)
        return f"{self.state(table)}: {reason}" if reason else str(self.state(table))

    def text(self) -> str | None:
        """The text for CHECKPOINT; None if all tables are ready."""
        entries = [self._entry(table) for table in sorted(self.not_ready)]
        entries += [[table.schema, table.name, _FORMER] for table in sorted(self.former)]
        return json.dumps(entries, ensure_ascii=False) if entries else None

    @classmethod
    def parse(cls, text: str | None) -> "TableStates":
        """Reads a text of `text`; entries of an earlier release have three items."""
        states: dict[TableName, TableState] = {}
        reasons: dict[TableName, str] = {}
        since = None
        former: set[TableName] = set()
        for schema, name, state, *more in json.loads(text) if text else []:
            table = TableName(schema, name)
            if state == _FORMER:
                former.add(table)
                continue
            states[table] = TableState(state)
            if more and states[table] is TableState.LOADING:
                since = more[0]
            elif more:
                reasons[table] = more[0]
        return cls(states, reasons, since, frozenset(former))

    def _entry(self, table: TableName) -> list[str]:
        more = self.loading_since if self.state(table) is TableState.LOADING else self.reasons.get(table)
        return [table.schema, table.name, self.state(table), *([more] if more else [])]


ALL_READY = TableStates()
_FORMER = "former"
"""The word in place of a state in CHECKPOINT."""

_LISTED = 20


def how_to_load(prefix: Prefix, slave: str, tables: Collection[TableName]) -> str:
    """How to load `tables`, for people."""
    names = [str(table) for table in sorted(tables)]
    listed = json.dumps(names[:_LISTED], ensure_ascii=False)
    if len(names) > _LISTED:
        listed = f"{listed[:-1]}, …] (and {len(names) - _LISTED} more)"
    return f"Start the DAG initial_update with prefix {prefix}, slave {slave} and tables {listed}."


def how_to_capture(prefix: Prefix) -> str:
    """How to capture tables that are not captured, for people."""
    return f"Start the DAG reconcile_tables with prefix {prefix}."
