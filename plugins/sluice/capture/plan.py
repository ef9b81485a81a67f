"""Plans the steps that change TABLES to the configuration. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.configuration.resolve import ResolvedTable
from sluice.database.capture import RegisteredTable
from sluice.model.names import TableName


@dataclass(frozen=True)
class Add:
    """Register the table and create its triggers."""

    table: TableName
    actions: frozenset[str]
    trigger: str | None
    debug: bool

    def __str__(self) -> str:
        return f"add {self.table} ({_shown(self.actions)})"


@dataclass(frozen=True)
class Alter:
    """Change how the table is captured."""

    table: TableName
    actions: frozenset[str]
    trigger: str
    debug: bool
    changes: tuple[str, ...]
    """The differences in words, e.g. `actions IUD become IU`."""

    def __str__(self) -> str:
        return f"alter {self.table}: {', '.join(self.changes)}"


@dataclass(frozen=True)
class Repair:
    """Make the table's triggers again, because they have `faults`."""

    table: TableName
    faults: tuple[str, ...]

    def __str__(self) -> str:
        return f"repair {self.table}: {', '.join(self.faults)}"


@dataclass(frozen=True)
class Reorder:
    """Give the table the next REPL_KEY, so that it is loaded after those before it in the plan."""

    table: TableName

    def __str__(self) -> str:
        return f"put {self.table} behind those before it in the order of loading, by their sequence"


@dataclass(frozen=True)
class Remove:
    """End the capture of the table. The slaves' tables and ITEMS stay."""

    table: TableName

    def __str__(self) -> str:
        return f"remove {self.table}"


Step = Add | Alter | Repair | Reorder | Remove


def plan(configured: Iterable[ResolvedTable], registered: Iterable[RegisteredTable]) -> list[Step]:
    """The steps from `registered` to `configured`, in their order.

    There are none for a table that needs no change. A registered table keeps the name of its trigger unless the
    configuration has another one.
    """
    entries = list(configured)
    have = {entry.table: entry for entry in registered}
    names = {entry.table for entry in entries}
    steps: list[Step] = [Remove(table) for table in have if table not in names]
    last = 0
    fresh = False  # From here on every table needs a new REPL_KEY to stay behind the one before it.
    for entry in _in_load_order(entries, have):
        present = have.get(entry.table)
        if present is None:
            steps.append(Add(entry.table, entry.actions, entry.trigger, entry.debug))
            fresh = True
            continue
        if fresh or present.repl_key < last:
            steps.append(Reorder(entry.table))
            fresh = True
        last = present.repl_key
        steps.extend(_correction(entry, present))
    return steps


def _in_load_order(entries: list[ResolvedTable], have: dict[TableName, RegisteredTable]) -> list[ResolvedTable]:
    """By sequence; within one, registered tables in their present order, then new ones: so few tables are moved."""
    return sorted(
        entries,
        key=lambda entry: (
            entry.sequence,
            entry.table not in have,
            have[entry.table].repl_key if entry.table in have else 0,
        ),
    )


def _correction(entry: ResolvedTable, registered: RegisteredTable) -> list[Step]:
    trigger = entry.trigger or registered.trigger
    changes = []
    if entry.actions != registered.actions:
        changes.append(f"actions {_shown(registered.actions)} become {_shown(entry.actions)}")
    if trigger != registered.trigger:
        changes.append(f"trigger {registered.trigger} becomes {trigger}")
    if entry.debug != registered.debug:
        changes.append(f"debug goes {'on' if entry.debug else 'off'}")
    if changes:
        return [Alter(entry.table, entry.actions, trigger, entry.debug, tuple(changes))]
    return [Repair(entry.table, registered.faults)] if registered.faults else []


def _shown(actions: frozenset[str]) -> str:
    return "".join(action for action in "IUD" if action in actions) or "initial content only"
