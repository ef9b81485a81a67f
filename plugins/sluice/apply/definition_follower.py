"""Follows the master's indexes, constraints and comments on one slave, beside the apply of rows.

No item reports them (`sluice.model.defined`), so they are compared. A round reads the master's definitions, waits
until the apply has passed that moment, and then creates what the slave lacks, each step in its own transaction.
So a constraint is created after the rows that satisfy it. A constraint that the master dropped is dropped in the
next round, or at once if it refuses rows (`sluice.apply.slave_foreign_keys`).

A round may be killed anywhere. DEFINITIONS records each step before and after it, and a half-done step is repeated:
an index that was not finished is dropped and built again.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from sluice.apply.log_limiter import LogLimiter
from sluice.apply.pair_sessions import PairSessions
from sluice.configuration.options import Policy
from sluice.control.blocks import BlockStore
from sluice.control.definitions import DefinitionStore
from sluice.counted import counted, listed
from sluice.database.errors import Contended, LockNotAvailable
from sluice.database.following import Described, NotMade, OfMaster, by_id
from sluice.database.placed import vendor_at
from sluice.database.registry import has_rows, master_of, reach, vendor_of
from sluice.database.schema import Constraint
from sluice.database.session import Session
from sluice.errors import RESTART_APPLY, SluiceError, Terminal
from sluice.model import defined
from sluice.model.checkpoint import Checkpoint
from sluice.model.comparison_trigger import ComparisonTrigger
from sluice.model.connection import ConnectionInfo
from sluice.model.defined import (
    Defined,
    DefinedKind,
    Drop,
    Forget,
    Know,
    Make,
    Rename,
    SetAgain,
    Step,
    Taken,
)
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import ALL_READY, TableStates
from sluice.model.views import View
from sluice.pair import Pair
from sluice.transform import fitting

log = logging.getLogger("sluice.apply")

AGAIN_SECONDS = 60.0
"""The pause after a round that could not do everything."""
RETRY_SECONDS = 5.0
"""The pause after an outage."""
LOCK_SECONDS = 1.0
"""How long to wait for a definition of the master."""


class DefinitionStops(Terminal):
    """The master changed a definition for which `ddl` says `stop`."""

    def __init__(self, pair: Pair, what: Defined, statement: str):
        super().__init__(
            f"{pair}: the master changed its definitions: {what}. The configuration says ddl: {{{what.kind}: stop}}. "
            f"Run on the slave what you want there of: {statement}; or let it follow (ddl: {{{what.kind}: follow}}); "
            f"then {RESTART_APPLY}."
        )


class DefinitionFollower:
    """Follows for one pair, in its own thread; the apply tells it when to begin and how far the slave is."""

    def __init__(self, pair: Pair):
        self.pair = pair
        self._vendor = vendor_at(pair)
        self._limiter = LogLimiter(log)
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._due = False
        self._busy = False
        self._left = False
        """Whether the last round could not do everything."""
        self._ticket = self._passed = 0
        self._states: TableStates = ALL_READY
        self._loaded = False
        self._connections: list[tuple[Session, Callable[[Session], None]]] = []
        self._thread: threading.Thread | None = None
        self._error: Terminal | None = None
        self._altered = False
        self._doing = ""
        """The current step; empty while the follower waits."""
        self._holding: tuple[frozenset[TableName], Session] | None = None
        """The slave's tables that the current step may have locked, and its session."""
        self._avoided: frozenset[TableName] = frozenset()
        """Tables of the slave that the apply locks."""
        self._gave_way = False
        self._locked: set[TableName] = set()
        """Tables of the master whose definitions could not be read without waiting for a lock."""
        self._refused: dict[Defined, str] = {}
        """The definitions that the slave refused, with the logged reason."""

    # Called in the apply's thread

    def begin(self) -> None:
        """Starts the thread. Does nothing if the master is no database that could be compared."""
        if self._thread is not None or not has_rows(self.pair.master_info.vendor):
            return
        self._ended.clear()
        wanted = self.pair.replication.replicate
        if wanted.any and not beside_tables(self.pair):
            vendor = self.pair.slave_info.vendor
            log.warning("%s: views and sequences do not follow to %s: their SQL is the master's", self.pair, vendor)
        self._thread = threading.Thread(target=self._run, name="definitions", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stops the thread, and cuts sessions that wait for a server."""
        with self._changed:
            self._ended.set()
            self._changed.notify_all()
            for session, cut in self._connections:
                cut(session)
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None

    def make_round(self, states: TableStates, *, loaded: bool) -> None:
        """Requests a round, because definitions or table states have changed. `loaded`: a load has ended."""
        with self._changed:
            self._states, self._loaded, self._due = states, self._loaded or loaded, True
            self._changed.notify_all()

    def tables_altered(self, *, again: bool = False) -> None:
        """Requests a round after the apply has altered tables, if one runs or the last one left something to do.

        Where altering a table drops definitions that the master keeps, and with `again`, it requests one in any case.
        """
        with self._changed:
            if again or self._busy or self._left or not self.pair.slave_vendor.transactional_ddl:
                self._due = True
                self._changed.notify_all()

    @property
    def ticket(self) -> int:
        """Read this number before taking the end of a window, and give it to `passed` after applying the window."""
        return self._ticket

    def passed(self, ticket: int) -> None:
        """Notes that the slave is where the master was after `ticket` was read, or later."""
        if ticket > self._passed:
            with self._changed:
                self._passed = ticket
                self._changed.notify_all()

    @contextmanager
    def away_from(self, tables: Collection[TableName]) -> Iterator[None]:
        """Keeps the follower from locking these tables of the slave while the apply locks them.

        A step that holds such a lock is interrupted and repeated later. It could take hours, since building an index
        waits for all earlier transactions.
        """
        if not tables:
            yield
            return
        with self._changed:
            self._avoided = frozenset(tables)
            holding = self._holding
            self._gave_way = holding is not None and bool(holding[0] & self._avoided)
        try:
            if holding is not None and self._gave_way:
                log.info("%s: %s is left for later: the apply changes the table", self.pair, self._doing or "a step")
                self._vendor.sessions.interrupt(holding[1])
            yield
        finally:
            with self._changed:
                self._avoided = frozenset()

    @property
    def activity(self) -> str:
        """For people: what the follower is doing, and what it waits for."""
        waiting = f"definitions of {', '.join(map(str, sorted(self._locked)))} wait for a lock on the master"
        return "; ".join(filter(None, (self._doing, waiting if self._locked else "")))

    @property
    def busy(self) -> bool:
        """Whether a round is under way, or about to begin."""
        return self._thread is not None and (self._due or self._busy)

    def check(self) -> bool:
        """Whether the slave's tables were altered since the last call. Raises `DefinitionStops`."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        altered, self._altered = self._altered, False
        return altered

    # In the follower's own thread

    def _run(self) -> None:
        wait: float | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended.is_set() or self._due, timeout=wait)
                if self._ended.is_set():
                    return
                states, loaded = self._states, self._loaded
                self._due, self._loaded, self._busy, self._gave_way = False, False, True, False
            try:
                self._left = not self._round(states, loaded=loaded)
                wait = AGAIN_SECONDS if self._left else None
            except DefinitionStops as stops:
                self._error, wait = stops, AGAIN_SECONDS
            except SluiceError as error:
                if self._ended.is_set():
                    return  # its sessions were cut
                expected = isinstance(error, LockNotAvailable) or (self._gave_way and isinstance(error, Contended))
                level = logging.INFO if expected else logging.WARNING
                self._limiter.log(level, f"round {error}", f"{self.pair}: definitions: {error}")
                self._loaded, wait = self._loaded or loaded, RETRY_SECONDS
            except Exception:
                if not self._ended.is_set():  # a session that was cut fails in any way
                    log.exception("%s: definitions are compared again in %g s", self.pair, AGAIN_SECONDS)
                wait = AGAIN_SECONDS
            finally:
                self._busy = False

    def _round(self, states: TableStates, *, loaded: bool) -> bool:
        """Does one round; whether nothing is left to do."""
        pair = self.pair
        with ExitStack() as stack:
            master = self._open(stack, pair.master_info)
            master.limit_lock_waits(LOCK_SECONDS)
            of_master = self._of_master(master, states)
            if not self._await_passed():
                return True
            slave = self._open(stack, pair.slave_info)
            # An initial update has it while it makes indexes.
            stack.enter_context(self._vendor.sessions.named_lock(slave, pair.definitions_lock))
            store = DefinitionStore.of(pair, slave)
            known = store.read()
            on_slave = self._vendor.rows.shapes(slave, of_master.tables)
            tables = [table for table in of_master.tables if table in on_slave]
            views = _of_kinds(known or (), {DefinedKind.VIEWS})
            wanted = {
                one: source.read_by(views) if isinstance(source, View) else source
                for one, source in of_master.made_from.items()
                if self._follows(one, on_slave)
            }
            if known is None:
                store.begin()
            set_again = _of_kinds(wanted, _SET_AGAIN) if known is None or loaded else set()
            following = self._vendor.following
            present = by_id(following.present(slave, tables))
            about = {*tables, *(one.table for one in wanted)}
            # A domain may be used only by tables that are not ready or were kept. Then neither side shows it here, and
            # what is known of it stays.
            about |= {table for kind, table, _ in present if kind is DefinedKind.DOMAINS}
            if kinds := beside_tables(pair):
                schemas = {table.schema for table in tables}
                present |= by_id(following.present_beside(slave, pair.prefix, schemas))
                about |= _of_kinds(known or (), kinds)
            steps = defined.steps(wanted, present, known or (), about, set_again)
            loaded_now = BlockStore.of(pair, slave).map().tables if loaded else ()
            fresh = {one for one in wanted if known is None or one.table in loaded_now}
            steps = list(filter(None, (self._as_configured(step, wanted, fresh) for step in steps)))
            done = [self._do(step, slave, store, wanted, tables) for step in self._showing(steps)]
            return all(done) and not self._locked

    def _showing(self, steps: Sequence[Step]) -> Iterator[Step]:
        """The steps, while people are told which of them is being done."""
        count, done = sum(not isinstance(step, Know | Forget) for step in steps), 0
        try:
            for step in steps:
                if not isinstance(step, Know | Forget):
                    done += 1
                    self._doing = f"following {step.object}{f' ({done} of {count})' if count > 1 else ''}"
                yield step
        finally:
            self._doing = ""

    def _of_master(self, master: Session, states: TableStates) -> OfMaster:
        pair = self.pair
        vendor = master_of(pair.master_info.vendor)
        registered = vendor.queue(master, pair.prefix, pair.replication.master.schema).registered()
        locked = vendor.schemas.locked(master, registered)
        if locked != self._locked and locked:
            waiting = ", ".join(map(str, sorted(locked)))
            log.info("%s: definitions of %s follow later: a session has locked or waits to lock these", pair, waiting)
        self._locked = locked
        ready = [table for table in registered if states.ready(table) and table not in locked]
        of_master = OfMaster.read(vendor.schemas, master, ready, ready)
        # Views of tables that are not ready stay too, and show what the slave has of those.
        of_master = of_master.beside(vendor.schemas, master, pair.prefix, list(registered), beside_tables(pair))
        return fitting.of_master(of_master, pair)

    def _as_configured(
        self, step: Step, wanted: Mapping[Defined, Described], fresh: Collection[Defined]
    ) -> Step | None:
        """The step that the configuration allows; None if `indexes` leaves the definition out.

        `fresh`: definitions of tables that were just loaded. If `ddl` does not let one of them follow, it is only
        recorded as known.
        """
        if not isinstance(step, Make):
            return step
        one = step.object
        if not fitting.wanted(wanted[one], self.pair):
            return None
        follows = self.pair.replication.ddl.of(one.kind) is Policy.FOLLOW
        return Know(one) if one in fresh and not follows else step

    def _follows(self, one: Defined, on_slave: Collection[TableName]) -> bool:
        return one.kind in self._vendor.following.kinds and (one.table in on_slave or not one.of_table)

    def _do(
        self,
        step: Step,
        slave: Session,
        store: DefinitionStore,
        wanted: dict[Defined, Described],
        tables: list[TableName],
    ) -> bool:
        """Does one step; False if it must be tried again."""
        following, one = self._vendor.following, step.object
        if isinstance(step, Know):
            store.put(one)
            return True
        if isinstance(step, Forget):
            store.forget(one)
            return True
        if isinstance(step, Taken):
            message = f"{self.pair}: {one} does not follow: the slave has another one of its own under that name"
            self._limiter.log(logging.WARNING, f"taken {one}", f"{message}. Rename or drop one of them.")
            return False
        # Setting a value again does not change a definition.
        policy = Policy.FOLLOW if isinstance(step, SetAgain) else self.pair.replication.ddl.of(one.kind)
        undoing = self._undoing(step, slave) if isinstance(step, Drop | Rename) else None
        statement = undoing or following.statement(wanted[one])
        if policy is Policy.STOP:
            raise DefinitionStops(self.pair, one, statement)
        if policy is Policy.WARN:
            message = f"{self.pair}: the master changed {one}. On the slave somebody may run: {statement}"
            self._limiter.log(logging.WARNING, f"{type(step).__name__} {one}", message)
            return True
        with self._locking({one.table, *_parent(wanted.get(one))}, slave) as free:
            return free and self._execute(step, slave, store, wanted, tables, statement)

    def _execute(
        self,
        step: Make | SetAgain | Rename | Drop,
        slave: Session,
        store: DefinitionStore,
        wanted: dict[Defined, Described],
        tables: list[TableName],
        statement: str,
    ) -> bool:
        """Changes the slave's definition; False if it must be tried again. `statement`: for messages."""
        following, one = self._vendor.following, step.object
        try:
            if isinstance(step, SetAgain):
                following.make(slave, wanted[one], tables, trusted=self.pair.slave.trusted_ddl)
                return True
            if isinstance(step, Make):
                store.put(one, making=True)
                following.make(slave, wanted[one], tables, trusted=self.pair.slave.trusted_ddl)
                if one.id not in by_id(following.present(slave, [one.table])) and one.kind in _SERVED:
                    return True  # another index serves as well; it is made when that one goes
                store.put(one)
            elif isinstance(step, Rename):
                store.put(step.renamed, making=True)
                following.rename(slave, one, step.name)
                store.put(step.renamed)
                store.forget(one)
            else:
                following.drop(slave, one)
                store.forget(one)
        except NotMade as refused:
            if self._refused.get(one) != refused.reason:  # log it once, not in each round
                self._refused[one] = refused.reason
                log.warning(
                    "%s: %s does not follow: %s. Wanted: %s", self.pair, one, refused.reason.rstrip("."), statement
                )
            return False
        except LockNotAvailable as busy:
            log.info("%s: %s waits: %s", self.pair, one, busy)
            return False
        self._altered = True
        log.info("%s: followed on the slave: %s", self.pair, statement)
        return True

    @contextmanager
    def _locking(self, tables: Collection[TableName], slave: Session) -> Iterator[bool]:
        """Whether locks of these tables of the slave may be taken inside."""
        with self._changed:
            free = self._avoided.isdisjoint(tables)
            self._holding = (frozenset(tables), slave) if free else None
        try:
            yield free
        finally:
            with self._changed:
                self._holding = None

    def _undoing(self, step: Drop | Rename, slave: Session) -> str:
        if isinstance(step, Rename):
            return f"rename {step.object} to {step.name}"
        return self._vendor.following.drop_statement(slave, step.object)

    def _await_passed(self) -> bool:
        """Waits until the slave is where the master is now. False if this round is void, as another one is due."""
        with self._changed:
            self._ticket += 1
            self._changed.wait_for(lambda: self._ended.is_set() or self._due or self._passed >= self._ticket)
            return not (self._ended.is_set() or self._due)

    def _open(self, stack: ExitStack, info: ConnectionInfo) -> Session:
        session = stack.enter_context(reach(info, f"{self.pair.application} ddl"))
        cut = vendor_of(info.vendor).sessions.cut
        with self._changed:
            if self._ended.is_set():
                cut(session)
            self._connections.append((session, cut))
        stack.callback(self._connections.remove, (session, cut))
        return session


_SET_AGAIN = frozenset({DefinedKind.SEQUENCES})
_SERVED = frozenset({DefinedKind.INDEXES, DefinedKind.UNIQUE})


def beside_tables(pair: Pair) -> frozenset[DefinedKind]:
    """The kinds beside tables that the slave gets."""
    wanted = pair.replication.replicate
    chosen = {DefinedKind.VIEWS: wanted.views, DefinedKind.SEQUENCES: wanted.sequences}
    kinds = vendor_at(pair).following.kinds
    return frozenset(kind for kind, yes in chosen.items() if yes and kind in kinds)


def _parent(wanted: Described | None) -> list[TableName]:
    """The table that a wanted foreign key refers to."""
    return [wanted.parent] if isinstance(wanted, Constraint) and wanted.parent is not None else []


def _of_kinds(defined: Collection[Defined], kinds: Collection[DefinedKind]) -> set[TableName]:
    return {one.table for one in defined if one.kind in kinds}


# Detects, from time to time, changed definitions on the master that no item reports, and starts a round for them.


LOOK_SECONDS, LOOK_SHARE, LONGEST_SECONDS = 2.0, 200.0, 30.0
"""The pause between two digests of the definitions: at least this long, this many times as long as one takes, at most
this long. So a change is found within a minute."""


COMPARE_SECONDS, COMPARE_SHARE, COMPARE_WITHIN_SECONDS = 1.0, 20.0, 30.0
"""The pause between two comparisons of definitions: at least this long, this many times as long as one takes, at most
this long. So a change is found within a minute, also on a busy master."""
COMPARE_WITH_TRIGGERS_SECONDS = 30.0
"""The shortest pause if event triggers report DDL; they may miss some."""


class DefinitionWatch:
    """Watches the definitions for one apply, in its thread."""

    def __init__(self, sessions: PairSessions, follower: DefinitionFollower):
        self.sessions = sessions
        self.follower = follower
        self._trigger = ComparisonTrigger()
        self._digest = ""
        self._next_check = 0.0
        self._has_ddl_triggers = True
        self._next_comparison = self._next_look = 0.0
        self._followed: tuple[str, TableStates] | None = None
        """The digest and the table states of the follower's last round."""
        self._loading = False
        """Whether the slave was loading since that round."""

    def begin(self) -> None:
        """Learns whether the master reports DDL. To be called when the apply has taken over."""
        self._has_ddl_triggers = self.sessions.queue.reports_definitions()

    @property
    def compared(self) -> bool:
        """Whether definitions were compared since the process began."""
        return self._next_comparison > 0

    def compare(self) -> None:
        """From time to time compares definitions.

        That finds DDL which no event trigger reported, and renews the capture functions of tables whose DDL was.
        """
        started = time.monotonic()
        if started < self._next_comparison and not self._waits(started):
            return
        changed = self.sessions.queue.compare_definitions()
        ended = time.monotonic()
        self._next_look = ended + COMPARE_SECONDS
        # At the beginning a table may have waited for this comparison.
        self._has_ddl_triggers = self._has_ddl_triggers or self.sessions.queue.reports_definitions()
        least = COMPARE_WITH_TRIGGERS_SECONDS if self._has_ddl_triggers else COMPARE_SECONDS
        self._next_comparison = ended + max(least, min(COMPARE_SHARE * (ended - started), COMPARE_WITHIN_SECONDS))
        if changed:
            found = counted(len(changed), "changed definition")
            log.info("%s: found on the master by comparison: %s: %s", self.sessions.pair, found, listed(changed))

    def _waits(self, now: float) -> bool:
        """Whether event triggers have left work to a comparison; asks once a second."""
        if not self._has_ddl_triggers or now < self._next_look:
            return False
        self._next_look = now + COMPARE_SECONDS
        return not self.sessions.queue.reports_definitions()

    def check_follower(self) -> None:
        """Notes that the follower has altered tables of the slave. Raises what stops the apply."""
        if self.follower.check():
            self.sessions.merger.targets.forget()

    def check(self, checkpoint: Checkpoint, differing: object) -> bool:
        """Starts a round of the follower if definitions may have changed. Returns whether people should be told.

        `differing`: tables that are known to differ.
        """
        now = time.monotonic()
        if now >= self._next_check:
            self._digest = self.sessions.queue.definitions_digest()
            started, now = now, time.monotonic()
            pause = max(LOOK_SECONDS, LOOK_SHARE * (now - started))
            self._next_check = now + min(pause, LONGEST_SECONDS)
        self._follow(checkpoint)
        # What the follower does needs no person.
        return not self.follower.busy and self._trigger.asks((self._digest, differing, checkpoint.tables), now)

    def _follow(self, checkpoint: Checkpoint) -> None:
        if checkpoint.state is not SlaveState.NORMAL:
            self._loading, self._followed = True, None
            return
        present = self._digest, checkpoint.tables
        if present != self._followed:
            joined = self._followed is not None and self._followed[1] != checkpoint.tables
            self.follower.make_round(checkpoint.tables, loaded=self._loading or joined)
            self._loading, self._followed = False, present
