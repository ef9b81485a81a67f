"""What others ask of an apply, done at the end of a window: snapshots at one position, and repairs.

A request is met at a position of its own. The apply takes it in a REPEATABLE READ transaction on the master,
ends a window there as it ends any other, and at once looks at the slave: what master and slave show then is
the same position. For `snapshots` it exports both transactions' snapshots, answers, and goes on;
the transactions last until the asker has taken them over, at most `TAKEOVER_SECONDS`. For `repair` it reads the
rows asked for in the master's transaction and makes the slave's equal, before the next window begins: nobody
else applies, so nothing races.

No request can stop the apply: what goes wrong with one is its answer.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sluice.apply.checkpoint_writer import SlaveCheckpointWriter
from sluice.apply.pair_sessions import PairSessions
from sluice.control.rejects import rejects_of
from sluice.coordination.requests import Pending, Requests
from sluice.database.conflicts import Collision
from sluice.database.digests import by_canonical_texts, compared
from sluice.database.net_changes import NetChanges
from sluice.database.placed import vendor_at
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.errors import SluiceError, Transient
from sluice.model.change import Action, RowChange
from sluice.model.checkpoint import Checkpoint, CheckpointMoved, Fenced
from sluice.model.conflict_rule import ConflictRule, Undecidable
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.reject import RejectStatus, Row
from sluice.model.requests import Refused, Repaired, RepairRequest, Request, Snapshots, parse_request
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import how_to_load
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")

TAKEOVER_SECONDS = 15.0
"""How long snapshots are held for an asker that does not say that it has them."""
WINDOW_SECONDS = 90.0
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
class OpenRequest:
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


class RequestHandler:
    """The requests of one pair, met between windows over its sessions and sessions of their own."""

    def __init__(self, sessions: PairSessions, requests: Requests, checkpoints: SlaveCheckpointWriter):
        self.sessions = sessions
        self.pair = sessions.pair
        self.requests = requests
        self.checkpoints = checkpoints
        self._open_request: OpenRequest | None = None
        self._exported: list[OpenRequest] = []
        self._look_at = 0.0

    def target(self, checkpoint: Checkpoint, seen: Position, *, exact: bool) -> Position | None:
        """Where the next window must end for somebody's sake; None when nobody asks.

        `exact`: the slave holds nothing beyond `seen`, which after some crashes it may.
        """
        now = time.monotonic()
        if now < self._look_at:
            return None
        self._look_at = now + LOOK_SECONDS
        self._release(now)
        if self._open_request is not None:  # its window ended elsewhere
            self._open_request.close()
            self._open_request = None
        if checkpoint.state is not SlaveState.NORMAL or not exact:
            return None
        pending = self.requests.next()
        if pending is None:
            return None
        try:
            self._open_request = self._begin(pending, seen, now)
        except SluiceError as error:
            self._refuse(pending.id, error)
            return None
        return self._open_request.position

    def reached(self, checkpoint: Checkpoint, seen: Position | None) -> None:
        """The slave is at `seen`; nothing of the next window has begun."""
        open_request = self._open_request
        if open_request is None or checkpoint.catching_up or seen != open_request.position:
            return
        self._open_request = None
        begun = time.monotonic()
        try:
            if isinstance(open_request.request, RepairRequest):
                answer: Snapshots | Repaired = self._repair(open_request, open_request.request, checkpoint)
            else:
                answer = self._export(open_request)
        except (Fenced, CheckpointMoved):
            open_request.close()
            raise
        except SluiceError as error:
            open_request.close()
            self._refuse(open_request.id, error)
            return
        open_request.spent += time.monotonic() - begun
        self.requests.answer(open_request.id, replace(answer, seconds=open_request.spent), ANSWER_SECONDS)
        if open_request.slave is not None and not self._shares_snapshots:
            self._await_takeover(open_request)
        log.info(
            "%s: %s at %s took %.0f ms of the apply's time",
            self.pair,
            open_request.request.kind,
            open_request.position.time,
            1000 * open_request.spent,
        )

    @property
    def _shares_snapshots(self) -> bool:
        return vendor_at(self.pair).rows.shared_snapshots

    def _await_takeover(self, open_request: OpenRequest) -> None:
        """Nothing is applied until the asker's sessions on the slave have begun: they see what is there by then."""
        while time.monotonic() < open_request.until and self.requests.answered(open_request.id) is not None:
            time.sleep(LOOK_SECONDS)
        self._release(time.monotonic())

    def close(self) -> None:
        """Lets go of everything; requests that are not answered are met later."""
        for open_request in [*self._exported, *([self._open_request] if self._open_request else [])]:
            open_request.close()
        self._exported, self._open_request = [], None

    def _begin(self, pending: Pending, seen: Position, now: float) -> OpenRequest:
        request = parse_request(pending.text)
        info, pair = self.pair.place_of_rows(), self.pair
        snapshot = vendor_of(info.vendor).rows
        earlier = self.sessions.take_position(seen)
        session = self._session(info)
        try:
            snapshot.begin_snapshot(session)
            schema = pair.replication.master.schema
            position = snapshot.position_of_snapshot(session, pair.prefix, schema, earlier, seen)
            exported = snapshot.export_snapshot(session)
            vendor_of(info.vendor).sessions.end_when_idle(session, WINDOW_SECONDS)
        except BaseException:
            session.close()
            raise
        return OpenRequest(pending.id, request, position, session, exported, time.monotonic() - now)

    def _export(self, open_request: OpenRequest) -> Snapshots:
        info = self.pair.slave_info
        snapshot = vendor_at(self.pair).rows
        open_request.slave = self._session(info)
        snapshot.begin_snapshot(open_request.slave)
        exported = snapshot.export_snapshot(open_request.slave)
        # Should this process be frozen, the servers let go of what it exported.
        for side, session in ((self.pair.place_of_rows(), open_request.master), (info, open_request.slave)):
            vendor_of(side.vendor).sessions.end_when_idle(session, TAKEOVER_SECONDS)
        open_request.until = time.monotonic() + TAKEOVER_SECONDS
        self._exported.append(open_request)
        return Snapshots(open_request.master_snapshot, exported, open_request.position.text())

    def _repair(self, open_request: OpenRequest, asked: RepairRequest, checkpoint: Checkpoint) -> Repaired:
        """Makes rows of one table equal to the master's at the visit's position, in one transaction."""
        sessions, table, key = self.sessions, asked.table, asked.key
        slave_vendor = self.pair.slave_info.vendor
        rows, typed = list(asked.rows), compared(vendor_of(slave_vendor).types, asked.columns)
        place = self.pair.place_of_rows()
        canonical = by_canonical_texts(place.vendor, slave_vendor)
        if not checkpoint.tables.ready(table):
            raise NotLoaded(self.pair, table)
        columns = [each.name for each in typed]
        there = vendor_of(place.vendor).rows
        wanted: list[Row | None] = []
        copies: list[int] = []
        transformed = sessions.transformed.master_rows(open_request.master, table, rows) if key else None
        if transformed is not None:
            wanted = [None if row is None else tuple(row[name] for name in columns) for row in transformed]
        elif key:
            wanted = there.rows_under(open_request.master, table, key, typed, rows, canonical=canonical)
        elif self.pair.transformation(table) is not None:
            reason = "it has no key, and the slave gets it transformed: load it again"
            raise RepairRefused(f"{self.pair}: {table}: {reason}")
        else:
            copies = there.copies(open_request.master, table, typed, rows, canonical=canonical)
        open_request.master.close()
        sessions.secure(open_request.position)
        here = vendor_at(self.pair).rows
        with sessions.slave_transaction() as slave:
            sessions.merger.begin()
            self.checkpoints.lock(checkpoint)
            if not key:
                now = here.copies(slave, table, typed, rows, canonical=canonical)
                copies = [theirs - ours for theirs, ours in zip(copies, now, strict=True)]
                if min(copies, default=0) < 0 and not sessions.replica_role and sessions.merger.targets[table].watched:
                    reason = "without a key a row that changed looks like one that goes, and others may refer to it"
                    raise RepairRefused(f"{self.pair}: {table}: {reason}")
            rule = self.pair.slave.conflict_rule(table)
            if key and rule is not None:
                slave_rows = here.rows_under(slave, table, key, typed, rows, canonical=canonical)
                rows, wanted = _mended(rule, columns, rows, wanted, slave_rows)
            try:
                sessions.merger.merge([_net(table, key, columns, rows, wanted, copies)], safe=True)
            except Collision as collision:
                if not key or (collision.unique and not sessions.replica_role):
                    # What would have to go could take along what refers to it, and lives on.
                    raise RepairRefused(f"{self.pair}: {table}: {collision.reason}") from collision
                # A row that a later request repairs has a value which one of these needs: it goes, and comes back.
                sessions.replayer.replay(_changes(table, key, columns, rows, wanted), safe=True)
            settled = self._settle(slave, table, key, columns, rows, open_request.position)
        return Repaired(settled, open_request.position.text(), kept=len(asked.rows) - len(rows))

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

    def _release(self, now: float) -> None:
        for open_request in list(self._exported):
            if now > open_request.until or self.requests.answered(open_request.id) is None:
                open_request.close()
                self._exported.remove(open_request)

    def _refuse(self, name: str, error: SluiceError) -> None:
        log.warning("%s: a request is refused: %s", self.pair, error)
        self.requests.answer(name, Refused(str(error)), ANSWER_SECONDS)


def _mended(
    rule: ConflictRule,
    columns: Sequence[str],
    rows: Sequence[Row],
    wanted: Sequence[Row | None],
    slave_rows: Sequence[Row | None],
) -> tuple[list[Row], list[Row | None]]:
    """Of the keys `rows`, with the master's rows and the slave's, those whose row the rule gives to the master.

    Raises `RepairRefused`.
    """

    def mends(theirs: Row | None, ours: Row | None) -> bool:
        named = [None if row is None else dict(zip(columns, row, strict=True)) for row in (theirs, ours)]
        try:
            return theirs == ours or rule.mends(*named)
        except Undecidable as reason:
            raise RepairRefused(f"conflict_rules, {rule}, cannot decide: {reason}") from None

    found = [(row, theirs) for row, theirs, ours in zip(rows, wanted, slave_rows, strict=True) if mends(theirs, ours)]
    return [row for row, _ in found], [theirs for _, theirs in found]


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
