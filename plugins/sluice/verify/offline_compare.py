"""Pins a slave at its own position without its apply, and finds the master's rows as of that position.

A transaction on the slave that reads CHECKPOINT sees the rows of exactly that position, because both are written
together. The master's snapshot is later; for rows that changed in between, ITEMS has the values before. So the two are
compared at the slave's position, although the master is past it.
"""

from collections.abc import Iterable, Sequence

from sluice.control.checkpoint import CheckpointStore
from sluice.database.changes import ChangeQueue
from sluice.database.registry import master_of
from sluice.database.row_images import RowImageCodec
from sluice.database.session import Session
from sluice.model.checkpoint import Checkpoint
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.reject import Row
from sluice.model.slave_state import SlaveState
from sluice.pair import Pair
from sluice.verify.findings import CouldNotCompare
from sluice.verify.pinned_side import Side

Image = dict[str, str | None]
"""A row: column → canonical text."""
Waiting = tuple[str, Image | None, Image | None]
"""A change that waits: its action, the row after it, the row before it."""

MOST_WAITING = 200_000
"""The most changes of one table that are undone."""


class ChangesWait(CouldNotCompare):
    """The changes that wait for the apply cannot be undone. `again`: it may run, and have them soon."""

    def __init__(self, what: str, *, again: bool = False):
        running = "The apply is behind" if again else "The apply does not run"
        remedy = "It is compared again" if again else "Start the DAG cdc_apply, or fix what it stopped at"
        super().__init__(f"{running}, and {what}. {remedy}.", again=again)


def begin(pair: Pair, master: Side, slave: Side) -> tuple[Position, Position] | None:
    """Begins the transactions of both sides. Returns the slave's position and the master's.

    None if the slave's rows are not at one position. Raises `CouldNotCompare`, and errors of taking a position.
    """
    if pair.rows_info is not None and not pair.beside_whole_log:
        raise ChangesWait("redo does not tell all former values of what waits for it")
    begun = slave.vendor.rows.begin_snapshot
    begun(slave.first)
    row = checkpoint(pair, slave, slave.first)
    if row is None or row.state is not SlaveState.NORMAL or row.catching_up:
        return None
    if pair.slave.checkpoint != "slave":  # the slave's row of CHECKPOINT is older than its rows
        return None
    slave_position = row.position
    assert slave_position is not None, "a slave that is NORMAL has a position"
    exported = slave.vendor.rows.export_snapshot(slave.first)
    for session in slave.sessions[1:]:
        begun(session, exported)

    snapshot = master.vendor.rows
    earlier = _queue(pair, master, master.control).take(slave_position)
    snapshot.begin_snapshot(master.first)
    seen = _queue(pair, master, master.first).position_of_snapshot(earlier, slave_position)
    exported = snapshot.export_snapshot(master.first)
    for session in master.sessions[1:]:
        snapshot.begin_snapshot(session, exported)

    if pair.beside_whole_log:
        return slave_position, seen  # nothing is purged of it
    # An apply that was started meanwhile may have applied changes, and these may have been purged.
    now = checkpoint(pair, slave, slave.control)
    if now is None or not now.same_place(row):
        raise CouldNotCompare(f"{pair}: the apply was started meanwhile.", again=True)
    return slave_position, seen


def before(items: Iterable[Waiting], key: Sequence[str]) -> dict[Row, Image | None]:
    """For each key of the changes its row before the first of them; None if there was none.

    Raises `ChangesWait` for what is no change of a row.
    """
    rows: dict[Row, Image | None] = {}
    for action, new, old in items:
        if action not in ("INSERT", "UPDATE", "DELETE"):
            raise ChangesWait(f"a change of the table ({action}) waits for it")
        if old is not None:
            rows.setdefault(_key(old, key), old)
        if new is not None:
            rows.setdefault(_key(new, key), None)
    return rows


def images(codec: RowImageCodec, action: str, text: str | None, oldtext: str | None) -> Waiting:
    """An item's action, new row and old row. Raises `ChangesWait` if columns of them are unknown."""
    if action not in ("INSERT", "UPDATE", "DELETE"):
        return action, None, None
    if any(each and codec.is_partial(each) for each in (text, oldtext)):
        raise ChangesWait("changes wait for it of which not all former values are known")
    new, old = (codec.row(each) if each else None for each in (text, oldtext))
    return action, new, {**new, **(old or {})} if action == "UPDATE" and new is not None else old


def waiting(pair: Pair, master: Side, window: Window, table: TableName) -> list[Waiting]:
    """The changes of `table` that wait. Raises `ChangesWait`."""
    codec = master_of(master.info.vendor).images
    items = _queue(pair, master, master.first).changes_of(window, table, MOST_WAITING + 1)
    if len(items) > MOST_WAITING:
        raise ChangesWait(f"more than {MOST_WAITING:,} changes of the table wait for it", again=pair.beside_whole_log)
    return [images(codec, *item) for item in items]


def _key(row: Image, key: Sequence[str]) -> Row:
    return tuple(row[name] for name in key)


def checkpoint(pair: Pair, slave: Side, session: Session) -> Checkpoint | None:
    """The checkpoint that a session on the slave sees."""
    return CheckpointStore.of(pair, session).read()


def _queue(pair: Pair, master: Side, session: Session) -> ChangeQueue:
    return master_of(master.info.vendor).queue(session, pair.prefix, pair.replication.master.schema)
