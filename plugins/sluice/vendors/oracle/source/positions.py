"""Positions of an Oracle master, over a session there: taken, and made sure of."""

from dataclasses import replace

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.model.position import Position
from sluice.vendors.oracle.queue_position import QueuePosition
from sluice.vendors.oracle.session import native
from sluice.vendors.oracle.source import position
from sluice.vendors.oracle.source.server import Server


def take(connection: Session, prefix: Prefix, schema: str, previous: Position | None = None) -> QueuePosition:
    """The position at which the master stands now; floors follow from `previous`.

    Raises `InstanceLost`, `MasterReplaced`, `SequenceWentBack`, `NoPrimary`.
    """
    del schema  # the account's own
    before = None if previous is None else QueuePosition.of(previous)
    return replace(position.take(Server(native(connection), prefix), before), prefix=str(prefix))


def beginning(connection: Session, prefix: Prefix, schema: str, after: int | None) -> Position | None:
    """None: rows that are older than the capture come by an initial update alone."""
    return None


def window_end(connection: Session, prefix: Prefix, schema: str, previous: Position, changes: int) -> QueuePosition:
    """Where the master stands now: ITEMS does not know which states it had in between, however many `changes`."""
    del changes
    return take(connection, prefix, schema, previous)


def secure(connection: Session, position: Position) -> None:
    """Others see a commit before it is on disk. One that comes later, and waits for the disk, has it there as well."""
    session = native(connection)
    with session.transaction():
        session.run(sql_files.render("oracle", "position_secure", prefix=QueuePosition.of(position).prefix))
        session.run("COMMIT WRITE IMMEDIATE WAIT")
