"""What becomes of a table whose changes cannot be applied, by `on_error`: the apply stops, or only the table does.

Left alone, such a table is inconsistent from the last window on: its changes are left out until it is loaded again.
That is right only where no foreign key ties it to a table that goes on: rows there would refer to rows that are not
there.
"""

from collections.abc import Mapping, Sequence

from sluice.apply.key_events import WrongKey
from sluice.apply.load_filter import RowNotWhole
from sluice.apply.net_changes import NoColumns
from sluice.apply.pair_sessions import PairSessions
from sluice.apply.schema_history import TableGone
from sluice.apply.transaction import CannotReplay
from sluice.database.conflicts import ColumnMissing, Conflict, SlaveTableMissing
from sluice.database.registry import source_of
from sluice.errors import Terminal
from sluice.model.checkpoint import Checkpoint
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.model.table_state import TableStates

ISOLATE, STOP = "isolate", "stop"
"""What `on_error` of a slave, or of a table, says."""

Reasons = Mapping[TableName, str]
"""Why each of some tables is inconsistent."""

OF_ONE_TABLE = (
    Conflict | ColumnMissing | SlaveTableMissing | WrongKey | NoColumns | TableGone | CannotReplay | RowNotWhole
)


class NotIsolated(Terminal):
    """A table fails that is to be left alone, and cannot be."""

    def __init__(self, failure: Terminal, ties: Sequence[ForeignKey]):
        tied = ", ".join(f"{key.child} → {key.parent}" for key in ties)
        super().__init__(
            f"{failure} (on_error is isolate, but foreign keys tie the table to others that go on: {tied}. So the "
            "whole slave stops.)"
        )


def reason(failure: Terminal) -> str:
    """Why the table is inconsistent, without the remedy of an apply that stops."""
    return (failure.finding if isinstance(failure, Conflict) else str(failure)).rstrip(".")


def ties(table: TableName, keys: Sequence[ForeignKey], states: TableStates) -> list[ForeignKey]:
    """The foreign keys between `table` and tables that go on."""
    found = []
    for key in keys:
        other = key.parent if key.child == table else key.child
        if table in (key.child, key.parent) and other != table and other not in states:
            found.append(key)
    return found


def isolated(
    failure: Terminal, table: TableName, sessions: PairSessions, checkpoint: Checkpoint, before: Reasons
) -> Reasons:
    """`before` and what fails now. Raises `failure` where the slave is to stop, and `NotIsolated`.

    A table whose line in the configuration was changed since it was loaded is left out alone whatever `on_error` says:
    a load is to follow anyhow, and foreign keys of a slave hold nothing up meanwhile where they do not act.
    """
    pair = sessions.pair
    if table in before:
        raise failure
    assert checkpoint.position is not None, "a window follows it"
    if sessions.replica_role and (unfit := sessions.transformed.unfit(checkpoint.position, table)):
        return {**before, table: f"the configuration gives it other columns than the slave has: {'; '.join(unfit)}"}
    rule = pair.replication.rule(table)
    policy = (rule.on_error if rule is not None else None) or pair.slave.on_error
    if policy != ISOLATE:
        raise failure
    changes, place = source_of(pair.master_info.vendor).changes, pair.replication.master
    registered = changes.registered(sessions.master, pair.prefix, place.schema)
    known = [key for key in changes.foreign_keys(sessions.master, registered) if key.parent in registered]
    if tied := ties(table, known, checkpoint.tables):
        raise NotIsolated(failure, tied) from failure
    return {**before, table: reason(failure)}
