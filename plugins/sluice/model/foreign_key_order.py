"""The order in which tables are written, so that foreign keys hold after every statement."""

from collections.abc import Iterable

from sluice.model.names import TableName


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
