"""What others ask of an apply, done at the end of a window: snapshots at one position, and repairs.

A request is met at a position of its own. The apply takes it in a REPEATABLE READ transaction on the master,
ends a window there as it ends any other, and at once looks at the slave: what master and slave show then is
the same position. For `snapshots` it exports both transactions' snapshots, tells whoever asked, and goes on;
the transactions last until the asker has taken them over, at most `HOLD_SECONDS`. For `repair` it reads the
rows asked for in the master's transaction and makes the slave's equal, before the next window begins: nobody
else applies, so nothing races.

No request can stop the apply: what goes wrong with one is its answer.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sluice.apply.checkpoints import OnSlave
from sluice.apply.links import Links
from sluice.database.conflicts import Collision
from sluice.database.registry import rejects_of, vendor_of
from sluice.database.session import Session
from sluice.domain.change import Action, NetChanges, RowChange
from sluice.domain.checkpoint import Checkpoint, CheckpointMoved, Fenced
from sluice.domain.connection import ConnectionInfo
from sluice.domain.names import TableName
from sluice.domain.position import Position
from sluice.domain.reject import RejectStatus, Row
from sluice.domain.requests import (
    Refused,
    Repaired,
    RepairRequest,
    Request,
    Snapshots,
    parse_request,
)
from sluice.domain.state import SlaveState
from sluice.domain.table_state import how_to_load
from sluice.errors import SluiceError, Transient
from sluice.pair import Pair
from sluice.stores.requests import Pending, Requests

log = logging.getLogger("sluice.apply")

HOLD_SECONDS = 15.0
"""How long snapshots are held for an asker that does not say that it has them."""
VISIT_SECONDS = 90.0
"""How long a window may take that ends for an asker, who waits for less."""
ANSWER_SECONDS = 300.0
LOOK_SECONDS = 0.05
"""Between two looks for requests."""


class RepairRefused(Transient):
    """Rows of the slave that are not asked for stand in the way."""


class NotLoaded(Transient):
    """Rows of a table are to be repaired that has not been loaded."""

    def __init__(self, pair: Pair, table: TableName):
        super().__init__(
            f"{pair}: {table} is not loaded on this slave. {how_to_load(pair.prefix, pair.slave.name, [table])}"
        )


@dataclass
class Visit:
    """A request that is being met."""

    id: str
    request: Request
    position: Position
    master: Session
    """The session whose transaction is at `position`."""
    master_snapshot: str
    spent: float
    """Seconds that the apply gave to it so far."""
    slave: Session | None = None
    until: float = 0.0

    def close(self) -> None:
        for session in (self.master, self.slave):
            if session is not None:
                session.close()


class Asked:
    """The requests of one pair, met between windows over its links and sessions of their own."""

    def __init__(self, links: Links, requests: Requests, checkpoints: OnSlave):
        self.links = links
        self.pair = links.pair
        self.requests = requests
        self.checkpoints = checkpoints
        self._visit: Visit | None = None
        self._held: list[Visit] = []
        self._look_at = 0.0

    def target(self, checkpoint: Checkpoint, seen: Position, *, exact: bool) -> Position | None:
        """Where the next window must end for somebody's sake; None when nobody asks.

        `exact`: the slave holds nothing beyond `seen`, which after some crashes it may.
        """
        now = time.monotonic()
        if now < self._look_at:
            return None
        self._look_at = now + LOOK_SECONDS
        self._let_go(now)
        if self._visit is not None:  # its window ended elsewhere
            self._visit.close()
            self._visit = None
        if checkpoint.state is not SlaveState.NORMAL or not exact:
            return None
        pending = self.requests.next()
        if pending is None:
            return None
        try:
            self._visit = self._begin(pending, seen, now)
        except SluiceError as error:
            self._refuse(pending.id, error)
            return None
        return self._visit.position

    def reached(self, checkpoint: Checkpoint, seen: Position | None) -> None:
        """The slave is at `seen`; nothing of the next window has begun."""
        visit = self._visit
        if visit is None or checkpoint.catching_up or seen != visit.position:
            return
        self._visit = None
        begun = time.monotonic()
        try:
            if isinstance(visit.request, RepairRequest):
                answer: Snapshots | Repaired = self._repair(visit, visit.request, checkpoint)
            else:
                answer = self._export(visit)
        except (Fenced, CheckpointMoved):
            visit.close()
            raise
        except SluiceError as error:
            visit.close()
            self._refuse(visit.id, error)
            return
        visit.spent += time.monotonic() - begun
        self.requests.answer(visit.id, replace(answer, seconds=visit.spent), ANSWER_SECONDS)
        log.info("%s: %s at %s took %.0f ms of the apply's time", self.pair, visit.request.kind, visit.position.time,
                 1000 * visit.spent)  # fmt: skip

    def close(self) -> None:
        """Lets go of everything; requests that are not answered are met later."""
        for visit in [*self._held, *([self._visit] if self._visit else [])]:
            visit.close()
        self._held, self._visit = [], None

    def _begin(self, pending: Pending, seen: Position, now: float) -> Visit:
        request = parse_request(pending.text)
        info, pair = self.pair.master_info, self.pair
        snapshot = vendor_of(info.vendor).rows
        earlier = self.links.take_position(seen)
        session = self._session(info)
        try:
            snapshot.begin_snapshot(session)
            schema = pair.replication.master.schema
            position = snapshot.position_of_snapshot(session, pair.prefix, schema, earlier, seen)
            exported = snapshot.export_snapshot(session)
            vendor_of(info.vendor).sessions.end_when_idle(session, VISIT_SECONDS)
        except BaseException:
            session.close()
            raise
        return Visit(pending.id, request, position, session, exported, time.monotonic() - now)

    def _export(self, visit: Visit) -> Snapshots:
        info = self.pair.slave_info
        snapshot = vendor_of(info.vendor).rows
        visit.slave = self._session(info)
        snapshot.begin_snapshot(visit.slave)
        exported = snapshot.export_snapshot(visit.slave)
        # Should this process be frozen, the servers let go of what it exported.
        for side, session in ((self.pair.master_info, visit.master), (info, visit.slave)):
            vendor_of(side.vendor).sessions.end_when_idle(session, HOLD_SECONDS)
        visit.until = time.monotonic() + HOLD_SECONDS
        self._held.append(visit)
        return Snapshots(visit.master_snapshot, exported, visit.position.text())

    def _repair(self, visit: Visit, asked: RepairRequest, checkpoint: Checkpoint) -> Repaired:
        """Makes rows of one table equal to the master's at the visit's position, in one transaction."""
        links, table, key = self.links, asked.table, asked.key
        rows, typed = list(asked.rows), list(asked.columns)
        if table in checkpoint.tables:
            raise NotLoaded(self.pair, table)
        columns = [name for name, _ in typed]
        there = vendor_of(self.pair.master_info.vendor).rows
        wanted: list[Row | None] = []
        copies: list[int] = []
        if key:
            wanted = there.rows_under(visit.master, table, key, typed, rows)
        else:
            copies = there.copies(visit.master, table, typed, rows)
        visit.master.close()
        links.secure(visit.position)
        info = self.pair.slave_info
        here = vendor_of(info.vendor).rows
        with links.slave_transaction() as slave:
            links.merger.begin()
            self.checkpoints.lock(checkpoint)
            if not key:
                now = here.copies(slave, table, typed, rows)
                copies = [theirs - ours for theirs, ours in zip(copies, now, strict=True)]
                if min(copies, default=0) < 0 and not links.replica_role and links.merger.targets[table].watched:
                    reason = "without a key a row that changed looks like one that goes, and others may refer to it"
                    raise RepairRefused(f"{self.pair}: {table}: {reason}")
            try:
                links.merger.merge([_net(table, key, columns, rows, wanted, copies)], safe=True)
            except Collision as collision:
                if not key or (collision.unique and not links.replica_role):
                    # What would have to go could take along what refers to it, and lives on.
                    raise RepairRefused(f"{self.pair}: {table}: {collision.reason}") from collision
                # A row that a later request repairs has a value which one of these needs: it goes, and comes back.
                links.replayer.replay_changes(_changes(table, key, columns, rows, wanted), safe=True)
            settled = self._settle(slave, table, key, columns, rows, visit.position)
        return Repaired(settled, visit.position.text())

    def _settle(
        self,
        slave: Session,
        table: TableName,
        key: Sequence[str],
        columns: Sequence[str],
        rows: list[Row],
        at: Position,
    ) -> int:
        """Of changes that were set aside, those of `rows` are in them now, or superseded; how many those are."""
        pair = self.pair
        store = rejects_of(pair, slave)
        if not store.ready():
            return 0
        mended = set(rows)
        ids = [
            reject.id
            for reject in store.open()
            if reject.table == table and list(reject.key) == list(key) and reject.touched(columns, mended)
        ]
        answer = f"its row was repaired: it is as on the master at {at.time}"
        return len(store.move(ids, RejectStatus.DROPPED, "resync", answer=answer))

    def _session(self, info: ConnectionInfo) -> Session:
        connect = vendor_of(info.vendor).sessions.connect
        return connect(info, application=f"{self.pair.application} at a position", autocommit=True)

    def _let_go(self, now: float) -> None:
        for visit in list(self._held):
            if now > visit.until or self.requests.answered(visit.id) is None:
                visit.close()
                self._held.remove(visit)

    def _refuse(self, name: str, error: SluiceError) -> None:
        log.warning("%s: a request is refused: %s", self.pair, error)
        self.requests.answer(name, Refused(str(error)), ANSWER_SECONDS)


def _net(
    table: TableName,
    key: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[Row],
    wanted: Sequence[Row | None],
    copies: Sequence[int],
) -> NetChanges:
    """What makes the slave's rows the wanted ones.

    `wanted`: for each key in `rows` the master's row or None. `copies`: without a key, how many of each row to add.
    """
    if key:
        gone = [row for row, there in zip(rows, wanted, strict=True) if there is None]
        come = [there for there in wanted if there is not None]
        deletes = _table("k", len(key), gone)
    else:
        fewer = [(row, -count) for row, count in zip(rows, copies, strict=True) if count < 0]
        come = [row for row, count in zip(rows, copies, strict=True) for _ in range(count)]
        deletes = _table("c", len(columns), [row for row, _ in fewer])
        deletes = deletes.append_column("copies", pa.array([count for _, count in fewer], pa.int64()))
    return NetChanges(
        table, tuple(columns), tuple(key), deletes, _table("c", len(columns), []),
        _table("kc", 0, []), _table("c", len(columns), come), len(rows),
    )  # fmt: skip


def _changes(
    table: TableName, key: Sequence[str], columns: Sequence[str], rows: Sequence[Row], wanted: Sequence[Row | None]
) -> list[RowChange]:
    """The same of a table with a key, change by change: rows that go first."""
    gone = [dict(zip(key, row, strict=True)) for row, there in zip(rows, wanted, strict=True) if there is None]
    come = [dict(zip(columns, there, strict=True)) for there in wanted if there is not None]
    return [
        *(RowChange(0, table, Action.DELETE, tuple(key), {}, row, None, None) for row in gone),
        *(RowChange(0, table, Action.INSERT, tuple(key), row, {}, None, None) for row in come),
    ]


def _table(letter: str, width: int, rows: Sequence[Row]) -> pa.Table:
    texts = list(zip(*rows, strict=True)) if rows else [()] * width
    return pa.table({f"{letter}{place}": pa.array(column, pa.large_string()) for place, column in enumerate(texts, 1)})
