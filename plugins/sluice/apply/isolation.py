"""Isolates a table whose changes cannot be applied, or stops the apply, as `on_error` says.

An isolated table is inconsistent from the last window on: its changes are left out until it is loaded again. Where the
slave's foreign keys act on the apply, that is allowed only if none connects it with a table that is still applied,
whose rows might refer to missing ones.
"""

from collections.abc import Mapping, Sequence

from sluice.apply.key_events import WrongKey
from sluice.apply.load_filter import RowIncomplete
from sluice.apply.net_changes import NoColumns
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.schema_history import TableGone
from sluice.apply.transaction import CannotReplay
from sluice.apply.transformed_tables import ColumnRenamed
from sluice.database.changes import ChangeTooLarge
from sluice.database.conflicts import ColumnMissing, Conflict, SlaveTableMissing, TableForbidden
from sluice.database.rows import TableRefused
from sluice.errors import Terminal
from sluice.model.checkpoint import Checkpoint
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.table_state import TableStates
from sluice.transform.table_transform import TransformationInvalid

ISOLATE, STOP = "isolate", "stop"
"""The values of `on_error`."""

Reasons = Mapping[TableName, str]
"""Table → why it is inconsistent."""

OF_ONE_TABLE = (
    Conflict
    | ColumnMissing
    | SlaveTableMissing
    | TableForbidden
    | WrongKey
    | NoColumns
    | TableGone
    | CannotReplay
    | RowIncomplete
    | TransformationInvalid
    | ColumnRenamed
    | ChangeTooLarge
    | TableRefused
)


def table_not_isolated(failure: Terminal, ties: Sequence[ForeignKey]) -> Terminal:
    """A table fails that `on_error` isolates, but foreign keys forbid it."""
    tied = ", ".join(f"{key.child} → {key.parent}" for key in ties)
    return Terminal(
        f"{failure} (The table is to be left out alone, but foreign keys, which act here, tie it to others that go "
        f"on: {tied}. So the whole slave stops.)",
        code="table-not-isolated",
    )


def reason(failure: Terminal) -> str:
    """Why the table is inconsistent, without the remedy of an apply that stops."""
    return (failure.finding or str(failure)).rstrip(".")


def ties(table: TableName, keys: Sequence[ForeignKey], states: TableStates) -> list[ForeignKey]:
    """The foreign keys between `table` and other tables that are applied."""
    others = [
        (key, key.parent if key.child == table else key.child) for key in keys if table in (key.child, key.parent)
    ]
    return [key for key, other in others if other != table and other not in states]


def _unfit(sessions: PairSessions, position: Position, table: TableName) -> list[str]:
    """Why the slave's table cannot hold the result of its transformation; empty if unknown."""
    try:
        return sessions.transformed.unfit(position, table)
    except TransformationInvalid:
        return []


def isolated(
    failure: Terminal,
    table: TableName,
    sessions: PairSessions,
    checkpoint: Checkpoint,
    before: Reasons,
    *,
    of_definition: bool,
) -> Reasons:
    """Adds the failing table to `before`. Raises `failure` where the slave must stop, and `table-not-isolated`.

    A table whose transformation was changed since it was loaded is isolated whatever `on_error` says: a load must
    follow anyway, and the slave's foreign keys, where they are switched off, refuse nothing meanwhile.
    """
    pair = sessions.pair
    if table in before:
        raise failure
    assert checkpoint.position is not None, "a window follows it"
    if sessions.replica_role and (unfit := _unfit(sessions, checkpoint.position, table)):
        return {**before, table: f"the configuration gives it other columns than the slave has: {'; '.join(unfit)}"}
    rule = pair.replication.rule(table)
    by_default = ISOLATE if of_definition or isinstance(failure, ChangeTooLarge | TableRefused) else STOP
    policy = (rule.on_error if rule is not None else None) or pair.slave.on_error or by_default
    if policy != ISOLATE:
        raise failure
    if sessions.replica_role:
        # The slave's foreign keys refuse nothing meanwhile; a load of the table gives the rows what they refer to.
        return {**before, table: reason(failure)}
    registered = sessions.queue.registered()
    known = [key for key in sessions.queue.foreign_keys(registered) if key.parent in registered]
    if tied := ties(table, known, checkpoint.tables):
        raise table_not_isolated(failure, tied) from failure
    return {**before, table: reason(failure)}
