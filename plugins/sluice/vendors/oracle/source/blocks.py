"""Reads tables of an Oracle master as of an SCN: blocks with their markers, and snapshots that several sessions
share.

A position's SCN is the moment of which it says what was seen (`source/position.py`), so a session that reads the
tables as of it sees exactly what the position covers. Undo must reach back to it: seconds for a block, or the
duration of a comparison or a load in one snapshot.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sluice.database.rows import SnapshotGone
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.position import Position
from sluice.model.shape import TableShape
from sluice.vendors.oracle import catalog
from sluice.vendors.oracle.session import OracleSession, native

_AS_OF = "scn "
"""The beginning of the name of a snapshot of a master."""


def no_shared_locks(server: str) -> Terminal:
    """Rows cannot be locked against changes only."""
    return Terminal(
        f"{server}: `read: locked` cannot be had of an Oracle master, which locks rows for one session alone. Write "
        "`read: committed` or `read: snapshot` under `initial`.",
        code="no-shared-locks",
    )


@dataclass(frozen=True)
class Block:
    """See `sluice.database.rows.BlockRead`."""

    marker: Position
    shape: TableShape
    session: OracleSession
    locked: bool = False

    @property
    def open(self) -> bool:
        """False: no transaction stays open."""
        return False

    def end(self) -> None:
        self.session.see_now()


@contextmanager
def reading_exported(connection: Session, table: TableShape, exported: str, marker: Position) -> Iterator[Block]:
    """The table as of the snapshot `exported`, whose position is `marker`. Raises `SnapshotGone` as well."""
    session = native(connection)
    shape = catalog.shape(connection, table.table)
    if shape is None:
        raise SnapshotGone(f"{table.table} was dropped or renamed since")
    with as_of(session, _scn(exported)):
        yield Block(marker, shape, session)
    if catalog.shape(connection, table.table) != shape:
        raise SnapshotGone(f"{table.table} was altered while it was read")


def enter(session: OracleSession, exported: str) -> bool:
    """Makes the session see the snapshot `exported` of a master; False if that is no such name."""
    if not exported.startswith(_AS_OF):
        return False
    session.see(_scn(exported))
    return True


def exported(session: OracleSession) -> str | None:
    """The name of the snapshot of a master that the session sees; None if it sees none as of an SCN."""
    return None if session.seen is None else f"{_AS_OF}{session.seen}"


def _scn(exported: str) -> int:
    return int(exported.removeprefix(_AS_OF))


@contextmanager
def as_of(session: OracleSession, scn: int) -> Iterator[None]:
    """Within the block the session sees all tables as of `scn`."""
    session.see(scn)
    try:
        yield
    finally:
        if not session.closed:
            session.see_now()
