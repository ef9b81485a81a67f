"""The steps of a failover up to the last position, one function a task of its DAG.

    planned   begin → (verify) → prepare → guard → reach → end_apply → (compare) ─┐
    forced    begin ─────────────────────────────────────▶ end_apply ─────────────┴▶ complete → capture → switch

and both end with follow → finish.

From `guard` to `switch` the application cannot write, so these steps follow each other in one task, and do only what
cannot be done before.

Each step may be killed anywhere and run again: it reads from the slave what is done (`Phase`), and does the rest. Until
the switch everything can be undone: see `sluice.failover.switch.abort`.
"""

import logging
import time

from redis import Redis

from sluice.coordination import lease
from sluice.coordination.gate import Gate
from sluice.coordination.records import FailoverClaim
from sluice.database import registry
from sluice.database.errors import LockNotAvailable
from sluice.database.failover import MasterGuard
from sluice.database.registry import master_of, vendor_of
from sluice.database.session import Session
from sluice.errors import Terminal, Transient
from sluice.failover import survey
from sluice.failover.attempt import Failover, applied
from sluice.failover.survey import failover_not_ready
from sluice.model.failover import Action, Phase, Record, passed, refusal
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState

log = logging.getLogger("sluice.failover")

APPROACH_SECONDS = 900.0
"""How long a slave may take to come close to a master that is written to; then the failover fails."""
REACH_SECONDS = 60.0
"""How long the application waits at most for the slave to apply the last changes; then the failover fails."""
SILENT_SECONDS = 60.0
"""After so long without a running apply the failover fails."""
LOOK_SECONDS = 0.05


def failover_not_running(failover: Failover, record: Record | None) -> Terminal:
    """The step's failover is not running."""
    what = "was never begun" if record is None or record.id != failover.id else f"is {record.phase}"
    return Terminal(f"{failover}: failover {failover.id} {what}. Trigger a new one.", code="failover-not-running")


class Taken(Terminal):
    """Another failover of the master is running."""

    def __init__(self, failover: Failover, other: str, slave: str):
        super().__init__(
            f"{failover}: failover {other} of slave {slave} is under way for the same master. Wait until it is "
            f"through, or trigger the DAG failover for slave {slave} with the action abort."
        )


def last_position_not_reached(failover: Failover, why: str) -> Terminal:
    """The slave does not reach the master's last position."""
    return Terminal(
        f"{failover}: the slave does not reach the master's last position: {why}", code="last-position-not-reached"
    )


def begin(failover: Failover, store: "Redis") -> None:
    """Begins the failover. Raises `failover-not-ready`, `Taken`, without any change."""
    facts = survey.gather_facts(failover, store)
    if facts.record is not None and survey.goes_on(facts, failover):
        log.info("%s: failover %s continues after: %s", failover, failover.id, facts.record.phase)
        return
    reasons = survey.blockers(
        facts, failover.action, failover_id=failover.id, reverse=failover.reverse, override=failover.override
    )
    if reasons:
        raise failover_not_ready(failover, reasons)
    first = FailoverClaim(store, failover.prefix).take(failover.id, failover.slave.name)
    if first["id"] != failover.id:
        raise Taken(failover, first["id"], first["slave"])
    if facts.sheet is not None and not facts.silent:
        survey.keep_sheet(failover, facts.sheet)
    with failover.on_slave() as slave:
        kept = failover.kept(slave)
        kept.ensure()
        with slave.transaction():
            record = kept.read(lock=True)
            if record is not None and record.under_way and record.id != failover.id:
                raise Taken(failover, record.id, failover.slave.name)
            kept.begin(failover.id, failover.action, failover.reverse, failover.by)
    log.info("%s: %s failover %s begins", failover, failover.action, failover.id)


def lay_guard(failover: Failover) -> None:
    """Creates the triggers of the guard, which refuse nothing yet. Raises `master-busy`, `Taken`."""
    with failover.on_master() as master:
        master_guard = guard_of(failover, master)
        _claim(failover, master_guard)
        master_guard.lay()


def approach(failover: Failover, store: "Redis") -> Position | None:
    """Waits until the slave has what the master holds now, so that little is left when it refuses writes. Returns the
    master's position; None if it refuses them already."""
    with failover.on_slave() as slave:
        if done(failover, slave, Phase.GUARDED):
            return None
        with failover.on_master() as master:
            position = position_of(failover, master)
            _await(failover, slave, master, store, position, APPROACH_SECONDS)
            return position


def guard(failover: Failover) -> None:
    """Makes the master refuse writes to the replicated tables, and takes the last position.

    Raises `master-busy`, `Taken`.
    """
    with failover.on_slave() as slave:
        if done(failover, slave, Phase.GUARDED):
            return
        with failover.on_master() as master:
            master_guard = guard_of(failover, master)
            _claim(failover, master_guard)
            master_guard.close(
                f"the database moves to {failover.slave_info.server} (failover to slave {failover.slave.name})"
            )
            log.info("%s: the master refuses writes to the replicated tables", failover)
            last = position_of(failover, master)
        move(failover, slave, Phase.GUARDED, last=last.text())
        with slave.transaction():
            checkpoints = failover.checkpoints(slave)
            checkpoints.read(lock=True)
            checkpoints.say(refusal(failover.record(slave)))
    log.info("%s: the master's last position is %s, as of %s", failover, last, last.time)


def _claim(failover: Failover, master_guard: MasterGuard) -> None:
    first = master_guard.claim(failover.id, failover.slave.name)
    if first.id != failover.id:
        raise Taken(failover, first.id, first.slave)


def reach(failover: Failover, store: "Redis") -> None:
    """Waits until the slave has reached the last position. Raises `last-position-not-reached`."""
    with failover.on_slave() as slave:
        if done(failover, slave, Phase.REACHED):
            return
        with failover.on_master() as master:
            _await(failover, slave, master, store, last_of(failover, slave), REACH_SECONDS)
        move(failover, slave, Phase.REACHED)
    log.info("%s: the slave has applied all that the master ever committed", failover)


def _await(failover: Failover, slave: Session, master: Session, store: "Redis", goal: Position, seconds: float) -> None:
    """Returns when the slave has applied `goal`. Raises `last-position-not-reached`."""
    end, silent = time.monotonic() + seconds, time.monotonic() + min(seconds, SILENT_SECONDS)
    while True:
        checkpoint = failover.checkpoints(slave).read()
        if checkpoint is None or checkpoint.state is not SlaveState.NORMAL:
            raise last_position_not_reached(failover, f"it is {checkpoint.state if checkpoint else 'gone'}.")
        position = applied(failover, store, checkpoint)
        if position is not None and not checkpoint.catching_up and has_all(failover, master, position, goal):
            return
        if closures := Gate(store, failover.prefix, failover.slave.name).closures():
            raise last_position_not_reached(failover, f"its gate is closed: {'; '.join(map(str, closures))}")
        now = time.monotonic()
        if lease.taken(store, failover.prefix, failover.slave.name):
            silent = now + SILENT_SECONDS
        if now > silent:
            raise last_position_not_reached(failover, "no apply runs. Trigger cdc_apply.")
        if now > end:
            raise last_position_not_reached(failover, f"{seconds:.0f} s were not enough. Wait until its lag is small.")
        time.sleep(LOOK_SECONDS)


def has_all(failover: Failover, master: Session, position: Position, goal: Position) -> bool:
    """Whether a slave at `position` has all of `goal`: the master has captured nothing in between.

    A slave that rests records its position only once a second, so it may have all of `goal` before its position says
    so. And its position may say so too early: it is then past the last one that the master has recorded, and after a
    crash the master uses the transaction IDs in between again.
    """
    if position.restart.covers_all_of(goal):
        return True
    support, schema = master_of(failover.master_info.vendor).failover, failover.replication.master.schema
    return not support.changed_since(master, failover.prefix, schema, position.restart, goal)


def is_verified(failover: Failover) -> bool:
    """Whether this failover has compared the slave."""
    with failover.on_slave() as slave:
        return done(failover, slave, Phase.VERIFIED)


def slave_position(failover: Failover, store: "Redis") -> Position | None:
    """The position that the slave has applied."""
    with failover.on_slave() as slave:
        checkpoint = failover.checkpoints(slave).read()
        return applied(failover, store, checkpoint) if checkpoint else None


def verified(failover: Failover, what: str, since: Position | None = None) -> None:
    """Records what was compared and found identical. `since`: the slave's position before that began."""
    with failover.on_slave() as slave:
        if not done(failover, slave, Phase.VERIFIED):
            move(failover, slave, Phase.VERIFIED, verified=what, compared=since.text() if since else None)
    log.info("%s: %s", failover, what)


def end_apply(failover: Failover, store: "Redis") -> str:
    """Ends applying for good. Returns, in words, which changes the slave has. Raises `last-position-not-reached`,
    `apply-transaction-open`.
    """
    with failover.on_slave() as slave:
        if not done(failover, slave, Phase.ENDED):
            for _ in range(3):
                if _ended(failover, slave, store):
                    break
                # An apply that is frozen, or whose machine is lost, still has the checkpoint's lock.
                locks = vendor_of(failover.slave_info.vendor).load_locks
                locks.end_sessions(slave, failover.apply_application)
            else:
                raise Transient(
                    f"{failover}: a transaction of the apply holds the slave's checkpoint.",
                    code="apply-transaction-open",
                )
        last = last_of(failover, slave)
    text = f"the slave holds all that the master had committed up to {last.time}, {last}"
    if failover.action is Action.FORCED:
        text += f". {lost(last, survey.gather_facts(failover, store))}"
    log.info("%s: %s", failover, text)
    return text


def lost(last: Position, facts: survey.Facts) -> str:
    """What a forced failover loses, in words."""
    text = f"What the master committed after {last.time} is lost"
    if facts.checkpoint is not None and facts.checkpoint.catching_up:
        text += ", and a large window was under way: its rows are at no one state of the master"
    if facts.heard:
        text += f"; the apply saw it last at {facts.heard}"
    return text + "."


def _ended(failover: Failover, slave: Session, store: "Redis") -> bool:
    """Ends applying; False if a transaction of the apply does not end."""
    driver = vendor_of(failover.slave_info.vendor).sessions
    try:
        with slave.transaction():
            driver.limit_lock_waits(slave, seconds=5)
            driver.be_durable(slave)
            checkpoints = failover.checkpoints(slave)
            checkpoint = checkpoints.configured(lock=True)
            position = applied(failover, store, checkpoint)
            if position is None:
                raise last_position_not_reached(failover, "its position is not known.")
            if failover.action is Action.PLANNED:
                last = last_of(failover, slave)
                with failover.on_master() as master:
                    at_last = has_all(failover, master, position, last) and not checkpoint.catching_up
                if checkpoint.state is not SlaveState.NORMAL or not at_last:
                    raise last_position_not_reached(failover, f"it is {checkpoint.state} and left that position since.")
            if failover.slave.checkpoint == "redis":
                checkpoints.start_at(position)
            refused = f". {refusal(failover.record(slave))}" if failover.action is Action.PLANNED else ""
            checkpoints.move(SlaveState.SWITCHING, f"Failover {failover.id} completes the slave{refused}")
            move(failover, slave, Phase.ENDED, last=position.text())
    except LockNotAvailable:
        return False
    return True


# -- what the steps share


def done(failover: Failover, slave: Session, phase: Phase) -> bool:
    """Whether the step of `phase` was done before. Raises `failover-not-running` if the failover is not running."""
    record = failover.kept(slave).read()
    if record is None or record.id != failover.id or record.phase is Phase.ABORTED:
        raise failover_not_running(failover, record)
    return passed(record.phase, phase)


def move(
    failover: Failover,
    slave: Session,
    phase: Phase,
    *,
    last: str | None = None,
    start: str | None = None,
    verified: str | None = None,
    compared: str | None = None,
) -> None:
    """Moves the failover to `phase`, unless it was aborted meanwhile. Raises `failover-not-running`."""
    kept = failover.kept(slave)
    with slave.transaction():
        record = kept.read(lock=True)
        if record is None or record.id != failover.id or record.phase is Phase.ABORTED:
            raise failover_not_running(failover, record)
        if not passed(record.phase, phase):
            kept.move(phase, last=last, start=start, verified=verified, compared=compared)


def last_of(failover: Failover, slave: Session) -> Position:
    """The master's last position."""
    return registry.parse_position(failover.record(slave).last)


def guard_of(failover: Failover, master: Session) -> MasterGuard:
    support = master_of(failover.master_info.vendor).failover
    return support.Guard(master, failover.prefix, failover.replication.master.schema)


def own_guard(failover: Failover, slave: Session) -> MasterGuard:
    """The guard of a slave that was a master before."""
    support = master_of(failover.slave_info.vendor).failover
    return support.Guard(slave, failover.prefix, failover.slave.schema)


def position_of(failover: Failover, master: Session) -> Position:
    """The position of the master now; no crash of it undoes what it covers."""
    vendor = master_of(failover.master_info.vendor)
    queue = vendor.queue(master, failover.prefix, failover.replication.master.schema)
    taken = queue.take()
    queue.secure(taken)
    return taken
