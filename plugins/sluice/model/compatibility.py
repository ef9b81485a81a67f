"""Whether a slave's table can hold the rows of the master's."""

from collections.abc import Callable

from sluice.errors import Terminal
from sluice.model.shape import TableShape


class TablesDiffer(Terminal):
    """The slave's tables cannot hold the master's rows; `differences` has one sentence for each reason."""

    def __init__(self, slave: str, differences: list[str]):
        listed = "\n".join(f"- {difference}" for difference in differences)
        super().__init__(
            f"Slave {slave} cannot take the master's tables as it is. Nothing was changed.\n{listed}\n"
            "Fix these (a table that is dropped there is created again), then start again."
        )
        self.differences = differences


def differences(master: TableShape, slave: TableShape, holds: Callable[[str, str], bool]) -> list[str]:
    """Why `slave` cannot hold the rows of `master`, one sentence for each reason; empty if it can.

    `master` uses the words of the slave's vendor. `holds`: as of `sluice.database.column_types.ColumnTypes`. Columns
    that only the slave has are ignored, unless a row cannot be inserted without them.
    """
    table = master.table
    slave_columns = {column.name: column for column in slave.columns}
    sentences = []
    for column in master.replicated:
        own = slave_columns.get(column.name)
        if own is None:
            sentences.append(f"{table} lacks column {column.name} {column.type}")
        elif own.generated:
            sentences.append(f"{table}.{column.name} is generated on the slave, but replicated from the master")
        elif not holds(own.type, column.type):
            sentences.append(f"{table}.{column.name} is {own.type}, the master's {column.type} does not fit in")
        elif not own.nullable and column.nullable:
            sentences.append(f"{table}.{column.name} is NOT NULL, on the master it may be NULL")
    sent = {column.name for column in master.replicated}
    for own in slave.columns:
        fills_itself = own.nullable or own.default is not None or own.identity or own.generated
        if own.name not in sent and not fills_itself:
            sentences.append(
                f"{table} has column {own.name}, which is NOT NULL without default and unknown to the master"
            )
    if not master.keyless and {column.name for column in master.key} != {column.name for column in slave.key}:
        master_key = ", ".join(column.name for column in master.key)
        key = ", ".join(column.name for column in slave.key) or "none"
        sentences.append(f"{table} has key ({key}), the master's is ({master_key}): add a primary key on it")
    if master.keyless and not slave.keyless:
        key = ", ".join(column.name for column in slave.key)
        sentences.append(f"{table} has key ({key}), on the master it has none: equal rows would collide")
    return sentences
