"""The steps of a failover that make the slave a master, and those that undo what was begun."""

import logging
from collections.abc import Callable

from redis import Redis

from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.records import FailoverClaim
from sluice.coordination.redis_checkpoint import StoredCheckpoint
from sluice.database import registry
from sluice.database.errors import DatabaseRefused
from sluice.database.registry import master_of, vendor_of
from sluice.database.session import Session
from sluice.errors import SluiceError, Terminal, Transient
from sluice.failover import survey
from sluice.failover.attempt import Failover
from sluice.failover.steps import done, guard_of, last_of, lay_guard, move, own_guard, position_of
from sluice.model.failover import REFUSAL, Action, Made, Phase, Record, Sheet, Switch, passed
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState

log = logging.getLogger("sluice.failover")

CAPTURE = "capture of the slave's changes"
"""The name of the capture in the list of created objects."""


class MasterChanged(Terminal):
    """The master was changed although it refuses writes."""

    def __init__(self, failover: Failover, what: str):
        super().__init__(
            f"{failover}: the master was changed after its last position: {what}. Somebody writes past triggers, "
            f"{master_of(failover.master_info.vendor).failover.PAST_TRIGGERS}, or alters tables. End that, then "
            "trigger the failover again."
        )


class TooLate(Terminal):
    """The slave is a master already."""

    def __init__(self, failover: Failover):
        super().__init__(
            f"{failover}: the slave is a master already, which cannot be taken back. Fail over the other way round."
        )


def prepare(failover: Failover, install: Callable[[Session], bool]) -> list[str]:
    """Does before the master refuses writes what may be done then, while changes are applied: indexes, checks,
    comments and the like, the triggers of the guard, and with `reverse` the capture. Returns what could not be created.

    `install` installs the capture over the slave's session. Raises `master-busy`, `Taken`.
    """
    left: list[str] = []
    with failover.on_slave() as slave:
        if done(failover, slave, Phase.PREPARED):
            return left
        with failover.on_master() as master:
            sheet = survey.read_sheet(failover, master)
        survey.keep_sheet(failover, sheet)
        left += _definitions(failover, slave, sheet, early=True)
        _sequences(failover, slave, sheet)
        _validate(failover, slave, sheet)
        if failover.reverse:
            _install(failover, slave, install)
        lay_guard(failover)
        move(failover, slave, Phase.PREPARED)
    for line in left:
        log.warning("%s: %s", failover, line)
    return left


def complete(failover: Failover) -> list[str]:
    """Creates definitions and sequences as on the master, those of a planned failover that could not be created
    earlier. Returns what could not be created, with the reasons, one line each."""
    left: list[str] = []
    sheet: Sheet | None
    with failover.on_slave() as slave:
        if done(failover, slave, Phase.COMPLETED):
            return left
        if failover.action is Action.PLANNED:
            with failover.on_master() as master:
                sheet = survey.read_sheet(failover, master)
            failover.kept(slave).keep(sheet)
        else:
            sheet = failover.kept_sheet(slave)
        if sheet is None:
            left.append("nothing is kept of the master: compare triggers, privileges and constraints by hand")
            left += _sequences(failover, slave, _own(failover, slave))
        else:
            if failover.action is Action.FORCED:
                left += _definitions(failover, slave, sheet, early=True)
            # All at once: nobody sees half of it, and a failure leaves nothing to undo.
            with slave.transaction():
                left += _definitions(failover, slave, sheet, early=False)
            # What columns hold was looked up by `prepare`, and the master's sequences are where they will stay.
            left += _sequences(failover, slave, sheet, search=failover.action is Action.FORCED)
        move(failover, slave, Phase.COMPLETED)
    for line in left:
        log.warning("%s: %s", failover, line)
    return left


def _definitions(failover: Failover, slave: Session, sheet: Sheet, *, early: bool) -> list[str]:
    """Creates what `Difference.early` says. What a person has to do is told at the end, when owners are known."""
    support, kept = master_of(failover.slave_info.vendor).failover, failover.kept(slave)
    left: list[str] = []
    for one in survey.compared(failover, slave, sheet):
        if one.stays:
            continue
        statements = "; ".join(statement.strip(" ;") for statement in one.statements)
        if not one.automatic:
            done = f"runs: {statements};" if statements else f"makes it: {one.definition.text}"
            left += [] if early else [f"{one}: a person {done}"]
        elif one.early is not early:
            if not early and failover.action is Action.PLANNED:  # refused before, or made on the master since
                left.append(f"{one}: a person runs: {statements};")
        elif refused := support.make(slave, kept, one, trusted=failover.slave.trusted_ddl):
            left.append(f"{one}: refused ({refused}); fix that and run: {statements};")
        else:
            log.info("%s: made as on the master: %s", failover, one.definition)
    return left


def _validate(failover: Failover, slave: Session, sheet: Sheet) -> None:
    support = master_of(failover.slave_info.vendor).failover
    for violated in support.validate_constraints(slave, sheet.tables):
        log.warning("%s: not validated: %s", failover, violated)


def _own(failover: Failover, slave: Session) -> Sheet:
    """The slave's own tables and sequences, if nothing is known of the master's."""
    vendor = failover.slave_info.vendor
    existing = master_of(vendor).rows.tables(slave)
    tables = tuple(one.table for one in failover.replication.resolve(existing))
    support = master_of(vendor).failover
    values = support.sequence_values(slave, failover.prefix, tables)
    return Sheet("", support.server_time(slave), sequences=values, tables=tables)


def _sequences(failover: Failover, slave: Session, sheet: Sheet, *, search: bool = True) -> list[str]:
    support, left = master_of(failover.slave_info.vendor).failover, []
    forced = failover.action is Action.FORCED
    for sequence in sheet.sequences:
        try:
            value = support.set_sequence(slave, sequence, failover.gap if forced else 0, search=search)
        except LookupError:
            left.append(f"{sequence}: the slave has no such sequence; the master's was at {sequence.last}")
            continue
        if value is not None:
            log.info("%s: %s is set to %s", failover, sequence, value)
        if forced and sequence.table is None:
            left.append(f"{sequence}: set to {value} by what was known at {sheet.time}; set it higher if need be")
    return left


def capture(failover: Failover, install: Callable[[Session], bool]) -> None:
    """With `reverse`: captures changes of the slave, and takes the position at which that begins.

    `install` installs the capture over the slave's session, or what is still to be installed of it.
    """
    with failover.on_slave() as slave:
        if done(failover, slave, Phase.CAPTURED):
            return
        if not failover.reverse:
            move(failover, slave, Phase.CAPTURED)
            return
        _install(failover, slave, install)
        queue = master_of(failover.slave_info.vendor).queue(slave, failover.prefix, failover.slave.schema)
        start = queue.take()
        queue.secure(start)
        move(failover, slave, Phase.CAPTURED, start=start.text())
    log.info("%s: changes of the slave are captured from %s on, as of %s", failover, start, start.time)


def _install(failover: Failover, slave: Session, install: Callable[[Session], bool]) -> None:
    """Installs the capture; for an abort, a note is written first that there was none."""
    capture = master_of(failover.slave_info.vendor).capture(slave, failover.prefix, failover.slave.schema)
    noted = any(made.what == CAPTURE for made in failover.record(slave).made)
    if not noted and capture.installed() is None:
        failover.kept(slave).note_made(Made(CAPTURE, ()))
    install(slave)


def switch(failover: Failover, store: "Redis") -> str:
    """Makes the slave a master: the one step that cannot be undone. Raises `MasterChanged`."""
    planned = failover.action is Action.PLANNED
    with failover.on_slave() as slave:
        if not done(failover, slave, Phase.SWITCHED):
            if planned:
                with failover.on_master() as master:
                    prove_unchanged(failover, master, last_of(failover, slave))
                    # An abort that cannot reach the slave moves the claim as well: the first one wins.
                    if not guard_of(failover, master).move_claim(failover.id, ["guarded", "switch"], "switch"):
                        raise Terminal(
                            f"{failover}: the failover was aborted meanwhile. Trigger a new one.",
                            code="failover-aborted",
                        )
            _become_master(failover, slave)
        begun_at = failover.record(slave).begun_at
        _release_own(failover, slave)
    if planned:
        _note_on_master(failover)
    FailoverClaim(store, failover.prefix).give_back(failover.id)
    text = f"slave {failover.slave.name}, {failover.slave_info.server}, is the master now; begun at {begun_at}"
    log.info("%s: %s", failover, text)
    return text


def prove_unchanged(failover: Failover, master: Session, last: Position) -> None:
    """Raises `MasterChanged` unless the master refuses writes and nothing was committed to its tables after `last`."""
    open_to = [one.table for one in guard_of(failover, master).tables() if not one.refuses]
    if open_to:
        raise MasterChanged(failover, f"{', '.join(open_to)} would take writes")
    now = position_of(failover, master)
    support = master_of(failover.master_info.vendor).failover
    if support.changed_since(master, failover.prefix, failover.replication.master.schema, last, now):
        raise MasterChanged(failover, "ITEMS has changes that are younger")


def _become_master(failover: Failover, slave: Session) -> None:
    driver = vendor_of(failover.slave_info.vendor).sessions
    with slave.transaction():
        driver.be_durable(slave)
        checkpoints, kept = failover.checkpoints(slave), failover.kept(slave)
        checkpoints.read(lock=True)
        record = failover.record(slave, lock=True)
        if record.id != failover.id or record.phase is not Phase.CAPTURED:
            raise Terminal(
                f"{failover}: failover {failover.id} is {record.phase}. Trigger a new one.", code="failover-not-running"
            )
        checkpoints.claim()
        checkpoints.move(SlaveState.MASTER, f"Master since {failover.action} failover {failover.id}")
        kept.move(Phase.SWITCHED, switch=_switch(failover, slave, record))


def _switch(failover: Failover, slave: Session, record: Record) -> Switch:
    """For the history: the slave is the master from now on."""
    now = master_of(failover.slave_info.vendor).failover.server_time(slave)
    return Switch(
        failover.id,
        failover.action,
        failover.slave.name,
        failover.slave_info.server,
        failover.master_info.server,
        now,
        record.by,
        record.guarded_at,
    )


def _release_own(failover: Failover, slave: Session) -> None:
    """Makes the slave accept writes again if it was a master before and another failover made it refuse them."""
    capture = master_of(failover.slave_info.vendor).capture(slave, failover.prefix, failover.slave.schema)
    if capture.installed() is None:
        return
    own = own_guard(failover, slave)
    claimed = own.claimed()
    if claimed is not None:
        own.move_claim(claimed.id, [claimed.phase], None)
    own.release()


def _note_on_master(failover: Failover) -> None:
    """Notes on the former master that it is none any more; best effort, as its guard stays in any case."""
    try:
        with failover.on_master() as master:
            guard_of(failover, master).move_claim(failover.id, ["switch"], "switched")
            store = CheckpointStore(master, failover.prefix, failover.replication.master.schema, failover.slave.name)
            checkpoint = store.read()
            if checkpoint is not None and checkpoint.state is SlaveState.MASTER:
                with master.transaction():
                    store.move(
                        SlaveState.INCONSISTENT, f"Failover {failover.id} made {failover.slave_info.server} the master"
                    )
    except SluiceError as error:
        log.warning("%s: that could not be noted on the former master: %s", failover, error)


def follow(failover: Failover, store: "Redis") -> str:
    """Makes the former master a slave of the new one, without a load if its rows are those of the new one's start.

    Returns the result in words. Raises `Transient` if it does not answer.
    """
    with failover.on_slave() as slave:
        record, switches = failover.record(slave), failover.kept(slave).switches()
        if record.id != failover.id or not passed(record.phase, Phase.SWITCHED):
            raise Terminal(
                f"{failover}: the slave is no master yet. Trigger the failover again.", code="slave-not-yet-master"
            )
    if failover.action is Action.FORCED:
        return "the former master needs an initial update: what it had committed last is not known"
    last, start = registry.parse_position(record.last), registry.parse_position(record.start)
    with failover.on_master() as master:
        try:
            prove_unchanged(failover, master, last)
        except MasterChanged as changed:
            return f"the former master needs an initial update: {changed}"
        support = master_of(failover.master_info.vendor).failover
        schema = failover.replication.master.schema
        support.follow(master, failover.prefix, schema, failover.slave.name, start)
        kept = support.FailoverStore(master, failover.prefix, schema, failover.slave.name)
        kept.ensure()
        kept.learn(switches)
    StoredCheckpoint(store, failover.prefix, failover.slave.name).forget()
    return f"the former master is a slave, NORMAL at {start} as of {start.time}, without a load"


def finish(failover: Failover) -> list[str]:
    """Validates constraints that were made without checking rows, and ends the failover; the application writes
    meanwhile. Returns the constraints that rows violate."""
    with failover.on_slave() as slave:
        if done(failover, slave, Phase.FINISHED):
            return []
        sheet = failover.kept(slave).sheet()
        support = master_of(failover.slave_info.vendor).failover
        violated = support.validate_constraints(slave, sheet.tables) if sheet is not None else []
        for one in violated:
            log.warning("%s: not validated: %s", failover, one)
        move(failover, slave, Phase.FINISHED)
    return violated


def abort(failover: Failover, store: "Redis", uninstall: Callable[[Session], None]) -> str:
    """Undoes all that a failover of the pair has begun: the application gets its master back, exactly as before.

    May be run again. Raises `TooLate`; `master-still-guarded` if the master does not answer.
    """
    silence = ""
    planned = failover.action is Action.PLANNED
    if planned:
        try:
            with failover.on_master() as master:
                master_guard = guard_of(failover, master)
                # A later switch does not find the claim. Of a running one the slave's row decides, below.
                if master_guard.move_claim(failover.id, ["guarded"], None):
                    master_guard.release()
                    log.info("%s: the master takes writes again", failover)
        except (Transient, DatabaseRefused) as error:
            silence = str(error)
    with failover.on_slave() as slave:
        _mark_aborted(failover, slave)
        if planned and not silence:
            with failover.on_master() as master:
                master_guard = guard_of(failover, master)
                master_guard.move_claim(failover.id, ["guarded", "switch"], None)
                if master_guard.claimed() is None:
                    master_guard.release()
        _take_back(failover, slave, uninstall)
    FailoverClaim(store, failover.prefix).give_back(failover.id)
    if silence:
        raise Transient(
            f"{failover}: the slave is as before, but the master does not answer, and may refuse writes until this "
            f"step was run again: {silence}",
            code="master-still-guarded",
        )
    return f"failover {failover.id} is aborted: the master takes writes, the slave is a slave"


def _mark_aborted(failover: Failover, slave: Session) -> None:
    kept = failover.kept(slave)
    if not kept.exists():
        return
    with slave.transaction():
        record = kept.read(lock=True)
        if record is None or record.id != failover.id or record.phase is Phase.ABORTED:
            return
        if not passed(record.phase, Phase.SWITCHED):
            kept.move(Phase.ABORTED)
        elif failover.checkpoints(slave).configured().state is SlaveState.MASTER:
            raise TooLate(failover)


def _take_back(failover: Failover, slave: Session, uninstall: Callable[[Session], None]) -> None:
    support, kept = master_of(failover.slave_info.vendor).failover, failover.kept(slave)
    record = kept.read()
    if record is None or record.id != failover.id:
        return
    for made in reversed(record.made):
        if made.what == CAPTURE:
            uninstall(slave)
        support.undo(slave, kept, made)
        log.info("%s: taken back: %s", failover, made.what)
    with slave.transaction():
        checkpoints = failover.checkpoints(slave)
        checkpoint = checkpoints.read(lock=True)
        if checkpoint is not None and checkpoint.state is SlaveState.SWITCHING:
            checkpoints.move(SlaveState.NORMAL)
        elif checkpoint is not None and checkpoint.message.startswith(REFUSAL):
            checkpoints.say("")
    if (sheet := kept.sheet()) is not None:
        support.validate_constraints(slave, sheet.tables)
