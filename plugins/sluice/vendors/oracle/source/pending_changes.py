"""Waiting changes in ITEMS on an Oracle master: of one table, and of the first transaction."""

from collections import Counter
from collections.abc import Collection

from sluice.database.changes import WaitingChange, WaitingTable
from sluice.database.session import Session
from sluice.model.names import Prefix, TableName
from sluice.model.window import Window
from sluice.vendors.oracle.session import Value, native
from sluice.vendors.oracle.source.queue import Condition, of_table


def read(
    connection: Session, prefix: Prefix, schema: str, window: Window, table: TableName, most: int
) -> list[WaitingChange]:
    """The changes of `table` in the window, in order, as the session sees them; at most `most`."""
    del schema
    text, values = of_table(table)
    chosen = Condition(window, text, values | {"most": most})
    statement = f"SELECT s.* FROM ({chosen.statement('queue_items', prefix)}) s WHERE ROWNUM <= :most"
    return [(row[5], row[6], row[7]) for row in native(connection).run(statement, chosen.binds)]


def first_transaction(
    connection: Session, prefix: Prefix, schema: str, window: Window, left_out: Collection[TableName]
) -> list[WaitingTable]:
    """What the first transaction changes that changes a table not in `left_out`; empty without one."""
    del schema
    session = native(connection)
    conditions, values = ["1 = 1"], dict[str, Value]()
    for number, table in enumerate(sorted(left_out)):
        text, own = of_table(table, number)
        conditions.append(f"NOT ({text})")
        values |= own
    chosen = Condition(window, " AND ".join(conditions), values | {"most": 1})
    first = session.run(
        f"SELECT s.TRANS_KEY FROM ({chosen.statement('queue_items', prefix)}) s WHERE ROWNUM <= :most", chosen.binds
    ).fetchone()
    if first is None:
        return []
    chosen = Condition(window, "i.TRANS_KEY = :transaction", {"transaction": first[0]})
    by_table: dict[TableName, Counter[str]] = {}
    for _, _, owner, name, _, action, *_ in session.run(chosen.statement("queue_items", prefix), chosen.binds):
        by_table.setdefault(TableName(owner, name), Counter())[action] += 1
    return [WaitingTable(table, actions.total(), tuple(sorted(actions))) for table, actions in sorted(by_table.items())]
