"""A foreign key: the referring and the referred columns, and its actions."""

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.model.names import TableName

# The order in which tables are written, so that foreign keys hold after every statement.


def write_order(tables: Iterable[TableName], foreign_keys: Iterable[tuple[TableName, TableName]]) -> list[TableName]:
    """`tables` with every parent before its children: insert in this order, delete in reverse order.

    `foreign_keys` are pairs (child, parent); tables that are not in `tables` are ignored. Otherwise the given order is
    kept, also within a cycle, where no order is right.
    """
    given = list(dict.fromkeys(tables))
    known = set(given)
    parents: dict[TableName, list[TableName]] = {table: [] for table in given}
    for child, parent in foreign_keys:
        if child in known and parent in known and child != parent:
            parents[child].append(parent)
    done: dict[TableName, None] = {}
    entered: set[TableName] = set()
    for start in given:
        # Depth first without recursion: a schema may chain thousands of tables.
        stack: list[tuple[TableName, bool]] = [(start, False)]
        while stack:
            table, finished = stack.pop()
            if finished:
                done[table] = None
            elif table not in entered:
                entered.add(table)
                stack.append((table, True))
                stack.extend((parent, False) for parent in reversed(parents[table]))
    return list(done)


@dataclass(frozen=True)
class ForeignKey:
    """`columns` of `child` refer to `parent_columns` of `parent`, in the same order.

    `on_update`, `on_delete`: a no action, r restrict, c cascade, n set null, d set default.
    """

    child: TableName
    parent: TableName
    on_update: str
    on_delete: str
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]

    @property
    def follows_updates(self) -> bool:
        """Whether an update of a referred row changes the child's rows."""
        return self.on_update in "cnd"

    @property
    def follows_deletes(self) -> bool:
        """Whether a delete of a referred row changes the child's rows without deleting them."""
        return self.on_delete in "nd"

    @property
    def takes_along(self) -> bool:
        """Whether a delete of a referred row deletes the child's rows."""
        return self.on_delete == "c"
