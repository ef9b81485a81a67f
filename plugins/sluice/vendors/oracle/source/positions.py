"""Positions of an Oracle master over a session: taken, and made durable."""

from collections.abc import Iterable
from dataclasses import replace

from sluice import sql_files
from sluice.database.recorder import RedoStream
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.model.position import Moment, Position
from sluice.vendors.oracle.queue_position import QueuePosition
from sluice.vendors.oracle.session import native
from sluice.vendors.oracle.source import position
from sluice.vendors.oracle.source.older_transactions import OlderTransactions, StreamBehind, ThreadsUnread, observe
from sluice.vendors.oracle.source.purge import purged
from sluice.vendors.oracle.source.server import Server


def take(connection: Session, prefix: Prefix, schema: str, previous: Position | None = None) -> Position:
    """The position of a moment that is taken now. Raises as `moment`."""
    return moment(connection, prefix, schema, previous).position


def moment(connection: Session, prefix: Prefix, schema: str, previous: Position | None = None) -> Moment:
    """The position taken now, with the SCN as of which the master shows what it covers; floors follow from
    `previous`.

    With redo, this is the end of its stream: later commits are not covered. Raises `InstanceLost`, `MasterReplaced`,
    `SequenceWentBack`, `NoPrimary`; with redo `ThreadsUnread`, `OlderTransactions`, `StreamBehind` and what
    `RedoStream.moment` raises.
    """
    del schema  # the account's own
    session = native(connection)
    server = Server(session, prefix)
    if session.redo is not None:
        return _of_redo(server, session.redo)
    before = None if previous is None else QueuePosition.of(previous)
    taken = replace(position.take(server, before), prefix=str(prefix))
    return Moment(taken, taken.scn)


def _of_redo(server: Server, redo: RedoStream) -> Moment:
    """The moment at the end of the stream.

    Only while all open redo threads are in the stream, and after every transaction that it lacks has ended: the stream
    stores the SCN from which on that is so.
    """
    moment = redo.moment(server.incarnation().resetlogs)
    if unread := {thread.number for thread in server.threads()} - set(redo.threads()):
        raise ThreadsUnread(server.session.place, unread)
    complete_from = redo.complete_from()
    if complete_from is None:
        begins = redo.begins()
        seen = observe(server, begins)
        if seen.older:
            raise OlderTransactions(server.session.place, begins, seen.older, server.owners())
        complete_from = seen.scn
        redo.keep_complete_from(complete_from)
    if moment.scn < complete_from:
        raise StreamBehind(server.session.place, complete_from, moment.scn)
    return moment


def beginning(connection: Session, prefix: Prefix, schema: str, after: int | None) -> Position | None:
    """None: only an initial update brings rows that are older than the capture."""
    return None


def window_end(connection: Session, prefix: Prefix, schema: str, previous: Position, changes: int) -> Position:
    """The master's position now: ITEMS does not tell earlier states, for any number of `changes`."""
    del changes
    return take(connection, prefix, schema, previous)


def nothing_committed(connection: Session, since: Position) -> bool:
    """Always false: only a whole position could tell, which costs as much as a turn."""
    del connection, since
    return False


def expect_continued(connection: Session, prefix: Prefix, schema: str, positions: Iterable[Position]) -> None:
    """By the incarnation, and the numbers of the position."""
    for each in positions:
        take(connection, prefix, schema, each)


def secure(connection: Session, prefix: Prefix, schema: str, position: Position) -> list[Position]:
    """Others see a commit before it is on disk. A later commit that waits for the disk brings it there as well."""
    session = native(connection)
    if session.redo is not None:
        session.redo.secure(position)
    else:
        with session.transaction():
            session.run(sql_files.render("oracle", "position_secure", prefix=QueuePosition.of(position).prefix))
            session.run("COMMIT WRITE IMMEDIATE WAIT")
    return purged(connection, prefix, schema)
