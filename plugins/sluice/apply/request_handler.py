"""Serves other processes' requests to the apply at the end of a window: snapshots at one position, and repairs.

Each request is served at its own position. The apply takes it in a REPEATABLE READ transaction on the master and
ends a window there; then master and slave are at the same position. For `snapshots` it exports the snapshots of
transactions on both, answers, and continues; the transactions stay open until the requester has imported the snapshots,
at most `TAKEOVER_SECONDS`. For `repair` it reads the rows in the master's transaction and makes the slave's equal
before the next window begins: nobody else applies, so nothing races.

An error of a request is its answer, and does not stop the apply, except a refused login. The requester has just logged
in to both databases with the connections that Airflow has now, so those of this apply are outdated (`LoginRefused`).
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sluice.apply.checkpoint_writer import SlaveCheckpointWriter
from sluice.apply.pair_sessions import PairSessions
from sluice.control.rejects import RejectStore
from sluice.coordination.requests import Pending, Requests
from sluice.counted import counted
from sluice.database.apply import ReplayOptions
from sluice.database.broadcasts import Broadcasts, Waiting
from sluice.database.conflicts import Collision
from sluice.database.digests import ComparedTable, by_canonical_texts, compared
from sluice.database.errors import LoginRefused
from sluice.database.net_changes import NetChanges
from sluice.database.placed import vendor_at
from sluice.database.registry import has_rows, master_of, vendor_of
from sluice.database.session import Session, SessionOptions
from sluice.errors import SluiceError, Transient
from sluice.model.broadcast import MOST_ROWS, Answer
from sluice.model.change import Action, RowChange
from sluice.model.checkpoint import Checkpoint, CheckpointMoved, Fenced
from sluice.model.conflict_rule import ConflictRule, Undecidable
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.reject import RejectStatus, Row
from sluice.model.requests import Refused, Repaired, RepairRequest, Request, Snapshots, parse_request
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import how_to_load
from sluice.pair import Pair

log = logging.getLogger("sluice.apply")

# Answers queries that a person asked of all slaves at one position (`sluice.model.broadcast`).
#
# A window ends at the position of the query, and the slave answers before the next window begins: nobody else
# writes to it. Where the apply is killed before the answer is written, the next apply answers, at the same
# position.


PASSED = "the slave had passed the place of this query when it saw it: it was loaded or set back meanwhile. Ask again"


class SlaveAnswers:
    """Answers for one pair, over the apply's sessions, between windows."""

    def __init__(self, sessions: PairSessions):
        self.sessions = sessions
        self.pair = sessions.pair
        self._offered = False
        self._none_at: Position | None = None
        """The position at which there was no query. A query is committed, which changes the master's position."""

    def begin(self) -> None:
        """Learns whether the master has queries at all. To be called when the apply has taken over."""
        self._none_at, broadcasts = None, self._broadcasts()
        self._offered = broadcasts is not None and broadcasts.offered()

    def _broadcasts(self) -> Broadcasts | None:
        pair = self.pair
        if not has_rows(pair.master_info.vendor):
            return None
        vendor, schema = master_of(pair.master_info.vendor), pair.replication.master.schema
        return vendor.broadcasts(self.sessions.master, pair.prefix, schema)

    def window_end(self, seen: Position, target: Position, *, exact: bool) -> Position:
        """Answers the queries at `seen`. Returns where the next window ends: at `target`, or earlier, at a query.

        The slave is NORMAL and at `seen`, or possibly later if that is not `exact`. `target` was taken just now.
        Raises `Transient` for outages of the master; an error of a query is its answer.
        """
        if not self._offered or target == self._none_at:
            return target
        pair, broadcasts = self.pair, self._broadcasts()
        assert broadcasts is not None, "offered"
        # Read after the target was taken: a query that is not visible yet was asked after it.
        while (waiting := broadcasts.next_for(pair.slave.name, seen)) is not None:
            if not seen.covers_all_of(waiting.position):
                return waiting.position
            at_query = exact and self._is_at(seen, waiting.position)
            answer = self._answer(waiting) if at_query else Answer(error=PASSED)
            broadcasts.answer(waiting.id, pair.slave.name, answer)
            log.info("%s: query %d: %s", pair, waiting.id, answer.error or counted(answer.count, "row"))
        self._none_at = target
        return target

    def _is_at(self, seen: Position, position: Position) -> bool:
        """Whether no change lies between `position` and the slave's position `seen`."""
        if seen == position or seen.high == position.high:
            return True
        return self.sessions.reader.survey(Window(position, seen), limit=1).changes == 0

    def _answer(self, waiting: Waiting) -> Answer:
        pair, vendor = self.pair, vendor_at(self.pair)
        options = SessionOptions(statement_seconds=waiting.seconds, read_only=True)
        try:
            with vendor.sessions.connect(
                pair.slave_info, application=f"{pair.application} query", autocommit=True, options=options
            ) as session:
                columns, rows = vendor.queries.run(session, waiting.statement, MOST_ROWS)
        except SluiceError as error:
            return Answer.failed(error, hidden=bool(pair.replication.verify.mask))
        return Answer.of(columns, rows, waiting.shown)


TAKEOVER_SECONDS = 15.0
"""How long exported snapshots are kept for a requester that does not confirm them."""
WINDOW_SECONDS = 90.0
"""How long the master's transaction may wait for the window's end; the requester waits less."""
ANSWER_SECONDS = 300.0
LOOK_SECONDS = 0.1
"""Between two looks whether exported snapshots are still needed."""


class NotLoaded(Transient):
    """The table whose rows are to be repaired has not been loaded."""

    def __init__(self, pair: Pair, table: TableName):
        super().__init__(
            f"{pair}: {table} is not loaded on this slave. {how_to_load(pair.prefix, pair.slave.name, [table])}"
        )


@dataclass
class OpenRequest:
    """A request that is being served."""

    id: str
    request: Request
    position: Position
    master: Session
    """The session whose transaction is at `position`."""
    master_snapshot: str
    spent: float
    """Seconds of the apply's time that it took so far."""
    slave: Session | None = None
    until: float = 0.0

    def close(self) -> None:
        for session in (self.master, self.slave):
            if session is not None:
                session.close()


class RequestHandler:
    """Serves the requests of one pair, between windows, over the apply's sessions and further ones."""

    def __init__(self, sessions: PairSessions, requests: Requests, checkpoints: SlaveCheckpointWriter):
        self.sessions = sessions
        self.pair = sessions.pair
        self.requests = requests
        self.checkpoints = checkpoints
        self._open_request: OpenRequest | None = None
        self._exported: list[OpenRequest] = []
        self._release_at = 0.0

    def target(self, checkpoint: Checkpoint, seen: Position, *, exact: bool, requested: bool) -> Position | None:
        """The position at which the next window must end for a request; None without one.

        `exact`: the slave has no change after `seen`; after some crashes it may. `requested`: a request may be
        waiting.
        """
        now = time.monotonic()
        if self._exported and now >= self._release_at:
            self._release_at = now + LOOK_SECONDS
            self._release(now)
        if self._open_request is not None:  # its window ended at another position
            self._open_request.close()
            self._open_request = None
        if checkpoint.state is not SlaveState.NORMAL or not exact or not requested:
            return None
        pending = self.requests.next()
        if pending is None:
            return None
        try:
            self._open_request = self._begin(pending, seen, now)
        except SluiceError as error:
            self._refuse(pending.id, error)
            if isinstance(error, LoginRefused):
                raise
            return None
        return self._open_request.position

    def reached(self, checkpoint: Checkpoint, seen: Position | None) -> None:
        """Serves the open request if the slave is at its position; the next window has not begun."""
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
            if isinstance(error, LoginRefused):
                raise
            return
        open_request.spent += time.monotonic() - begun
        self.requests.answer(open_request.id, replace(answer, seconds=open_request.spent), ANSWER_SECONDS)
        if open_request.slave is not None and not self.pair.slave_vendor.shared_snapshots:
            self._await_takeover(open_request)
        log.info(
            "%s: %s at %s took %.0f ms of the apply's time",
            self.pair,
            open_request.request.kind,
            open_request.position.time,
            1000 * open_request.spent,
        )

    def _await_takeover(self, open_request: OpenRequest) -> None:
        """Waits until the requester's sessions on the slave have begun: where snapshots are not shared, they see the
        slave as of then."""
        while time.monotonic() < open_request.until and self.requests.answered(open_request.id) is not None:
            time.sleep(LOOK_SECONDS)
        self._release(time.monotonic())

    def close(self) -> None:
        """Closes all sessions; requests without an answer are served later."""
        for open_request in [*self._exported, *([self._open_request] if self._open_request else [])]:
            open_request.close()
        self._exported, self._open_request = [], None

    def _begin(self, pending: Pending, seen: Position, now: float) -> OpenRequest:
        request = parse_request(pending.text)
        info, pair = self.pair.place_of_rows(), self.pair
        snapshot = master_of(info.vendor).rows
        earlier = self.sessions.queue.take(seen)
        session = self._session(info)
        try:
            snapshot.begin_snapshot(session)
            schema = pair.replication.master.schema
            queue = master_of(info.vendor).queue(session, pair.prefix, schema)
            position = queue.position_of_snapshot(earlier, seen)
            exported = snapshot.export_snapshot(session)
            master_of(info.vendor).sessions.end_when_idle(session, WINDOW_SECONDS)
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
        # Where this process freezes, the servers end these sessions.
        for side, session in ((self.pair.place_of_rows(), open_request.master), (info, open_request.slave)):
            vendor_of(side.vendor).sessions.end_when_idle(session, TAKEOVER_SECONDS)
        open_request.until = time.monotonic() + TAKEOVER_SECONDS
        self._exported.append(open_request)
        return Snapshots(open_request.master_snapshot, exported, open_request.position.text())

    def _repair(self, open_request: OpenRequest, request: RepairRequest, checkpoint: Checkpoint) -> Repaired:
        """Makes rows of one table equal to the master's at the request's position, in one transaction."""
        sessions, table, key, rows = self.sessions, request.table, request.key, list(request.rows)
        if not checkpoint.tables.ready(table):
            raise NotLoaded(self.pair, table)
        slave_vendor = self.pair.slave_info.vendor
        typed = compared(vendor_of(slave_vendor).types, request.columns)
        canonical = by_canonical_texts(self.pair.place_of_rows().vendor, slave_vendor)
        of, columns = ComparedTable(table, typed, tuple(key), canonical), [each.name for each in typed]
        master_rows, copies = self._of_master(open_request.master, of, rows)
        open_request.master.close()
        sessions.secure(open_request.position)
        of_slave = vendor_at(self.pair).rows
        with sessions.slave_transaction() as slave:
            sessions.merger.begin()
            self.checkpoints.lock(checkpoint)
            if not key:
                slave_copies = of_slave.copies(slave, of, rows)
                copies = [on_master - on_slave for on_master, on_slave in zip(copies, slave_copies, strict=True)]
                if min(copies, default=0) < 0 and not sessions.replica_role and sessions.merger.targets[table].watched:
                    reason = "without a key a row that changed looks like one that goes, and others may refer to it"
                    raise Transient(f"{self.pair}: {table}: {reason}", code="repair-refused")
            rule = self.pair.slave.conflict_rule(table)
            if key and rule is not None:
                slave_rows = of_slave.rows_under(slave, of, rows)
                rows, master_rows = _won_by_master(rule, columns, rows, master_rows, slave_rows)
            try:
                sessions.merger.merge([_net(table, key, columns, rows, master_rows, copies)], safe=True)
            except Collision as collision:
                if not key or (collision.unique and not sessions.replica_role):
                    # A row that would be displaced may have rows that refer to it, which would be deleted with it.
                    raise Transient(f"{self.pair}: {table}: {collision.reason}", code="repair-refused") from collision
                # A row that a later request repairs has a unique value which one of these needs: it is displaced.
                changes = _changes(table, key, columns, rows, master_rows)
                sessions.replayer.replay(changes, ReplayOptions(safe=True))
            settled = self._drop_rejects(slave, request, columns, rows, open_request.position)
        return Repaired(settled, open_request.position.text(), kept=len(request.rows) - len(rows))

    def _of_master(self, master: Session, of: ComparedTable, rows: Sequence[Row]) -> tuple[list[Row | None], list[int]]:
        """The master's row for each of the keys `rows`; of a table without a key, how often it has each of `rows`."""
        of_master = master_of(self.pair.place_of_rows().vendor).rows
        if not of.key:
            if self.pair.transformation(of.table) is not None:
                reason = "it has no key, and the slave gets it transformed: load it again"
                raise Transient(f"{self.pair}: {of.table}: {reason}", code="repair-refused")
            return [], of_master.copies(master, of, rows)
        transformed = self.sessions.transformed.master_rows(master, of.table, of.key, rows)
        if transformed is None:
            return of_master.rows_under(master, of, rows), []
        return [None if row is None else tuple(row[each.name] for each in of.columns) for row in transformed], []

    def _drop_rejects(
        self, slave: Session, request: RepairRequest, columns: Sequence[str], rows: list[Row], at: Position
    ) -> int:
        """Settles the rejects of the repaired `rows`, which make them obsolete. Returns how many."""
        pair = self.pair
        store = RejectStore.of(pair, slave)
        if not store.ready():
            return 0
        repaired, key = set(rows), list(request.key)
        ids = [
            reject.id
            for reject in store.open()
            if reject.table == request.table and list(reject.key) == key and reject.touched(columns, repaired)
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


def _won_by_master(
    rule: ConflictRule,
    columns: Sequence[str],
    keys: Sequence[Row],
    master_rows: Sequence[Row | None],
    slave_rows: Sequence[Row | None],
) -> tuple[list[Row], list[Row | None]]:
    """The keys whose row the rule decides for the master, and the master's rows. Raises `repair-refused`."""

    def fixes(master_row: Row | None, slave_row: Row | None) -> bool:
        named = [None if row is None else dict(zip(columns, row, strict=True)) for row in (master_row, slave_row)]
        try:
            return master_row == slave_row or rule.fixes(*named)
        except Undecidable as reason:
            raise Transient(f"conflict_rules, {rule}, cannot decide: {reason}", code="repair-refused") from None

    triples = zip(keys, master_rows, slave_rows, strict=True)
    won = [(key, master_row) for key, master_row, slave_row in triples if fixes(master_row, slave_row)]
    return [key for key, _ in won], [row for _, row in won]


def _net(
    table: TableName,
    key: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[Row],
    master_rows: Sequence[Row | None],
    copies: Sequence[int],
) -> NetChanges:
    """The net changes that make the slave's rows equal to the master's.

    `master_rows`: for each key in `rows` the master's row or None. `copies`: without a key, how many of each row to
    add.
    """
    if key:
        gone = [row for row, master_row in zip(rows, master_rows, strict=True) if master_row is None]
        inserts = [row for row in master_rows if row is not None]
        deletes = _table("k", len(key), gone)
    else:
        fewer = [(row, -count) for row, count in zip(rows, copies, strict=True) if count < 0]
        inserts = [row for row, count in zip(rows, copies, strict=True) for _ in range(count)]
        deletes = _table("c", len(columns), [row for row, _ in fewer])
        deletes = deletes.append_column("copies", pa.array([count for _, count in fewer], pa.int64()))
    return NetChanges(
        table, tuple(columns), tuple(key), deletes, _table("c", len(columns), []),
        _table("kc", 0, []), _table("c", len(columns), inserts), len(rows),
    )  # fmt: skip


def _changes(
    table: TableName, key: Sequence[str], columns: Sequence[str], rows: Sequence[Row], master_rows: Sequence[Row | None]
) -> list[RowChange]:
    """As `_net`, for a table with a key, as single changes: deletes first."""
    gone = [dict(zip(key, row, strict=True)) for row, other in zip(rows, master_rows, strict=True) if other is None]
    inserts = [dict(zip(columns, row, strict=True)) for row in master_rows if row is not None]
    return [
        *(RowChange(0, table, Action.DELETE, tuple(key), {}, row, None, None) for row in gone),
        *(RowChange(0, table, Action.INSERT, tuple(key), row, {}, None, None) for row in inserts),
    ]


def _table(letter: str, width: int, rows: Sequence[Row]) -> pa.Table:
    texts = list(zip(*rows, strict=True)) if rows else [()] * width
    return pa.table({f"{letter}{index}": pa.array(column, pa.large_string()) for index, column in enumerate(texts, 1)})
