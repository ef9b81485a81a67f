"""The steps of an initial update, one function a task of its DAG.

    begin → create_tables → plan → (load: see `sluice.load.load_job`) → finish,   cancel at any time

Each step may be killed anywhere and run again. The state on the slave says where an update stands:
INITIAL from `begin`, TRANSITION from `plan`, NORMAL by the apply, INCONSISTENT by `cancel`.
"""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from redis import Redis

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.own_tables import LoadOwner
from sluice.control.rejects import RejectStore
from sluice.coordination.gate import INITIAL_UPDATE, Gate
from sluice.coordination.records import Status
from sluice.counted import counted
from sluice.database import lock_waits
from sluice.database.load import Completed
from sluice.database.placed import vendor_at
from sluice.database.registry import master_of, vendor_of
from sluice.database.session import Session
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load import outdated_constraints, partial_load
from sluice.load.load_ownership import LoadEnded, expect_loading, owner_of
from sluice.load.preparation import Preparation, captured_tables, tables_to_load
from sluice.load.update import Update, on_master, on_slave
from sluice.model.key_ranges import Part
from sluice.model.names import TableName
from sluice.model.reject import RejectStatus
from sluice.model.slave_state import ForbiddenMove, SlaveState
from sluice.model.table_state import ALL_READY, TableState
from sluice.transform import fitting

log = logging.getLogger("sluice.load")

INTERRUPTED = "Initial Update interrupted by the ADMIN"
PLAN_TRIES = 5
IN_ONE_SNAPSHOT = "All tables are read in one snapshot, changes are queued until they are stored"
"""The reason of the gate's closure meanwhile."""


class UpdateUnderWay(ForbiddenMove):
    """Another initial update owns the slave."""

    def __init__(self, slave: str, state: SlaveState, update_id: str | None, message: str):
        super().__init__(slave, state, SlaveState.INITIAL)
        its_message = f" It says: {message}." if message else ""
        self.args = (f"{self} It is initial update {update_id}: mark its run as failed to cancel it.{its_message}",)


class PartUnderWay(ForbiddenMove):
    """Another initial update loads a part of the slave."""

    def __init__(self, slave: str, update_id: str | None):
        super().__init__(slave, SlaveState.NORMAL, SlaveState.INITIAL)
        self.args = (
            f"Initial update {update_id} loads a part of slave {slave}. Wait until its run has ended, or mark that run "
            "as failed to cancel it; then start this one again.",
        )


def master_changing(update: Update, tables: list[TableName]) -> Transient:
    """Definitions of the master changed in each try to prepare the update."""
    return Transient(
        f"{update}: {', '.join(map(str, tables))} changed on the master while being prepared.", code="master-changing"
    )


def begin(update: Update, store: Redis, by: str = "initial update") -> bool:
    """Makes this update the slave's owner: state INITIAL, gate closed, blocks of earlier updates deleted.

    A partial load leaves state and gate alone (`sluice.load.partial_load`). Returns False if this update has begun
    before and continues. Raises `ForbiddenMove` when another update is running, `SelectionRefused` if the chosen part
    cannot be loaded.
    """
    with on_slave(update) as slave:
        checkpoints = CheckpointStore.of(update, slave)
        with slave.transaction():
            checkpoints.ensure()
        if _continues(update, slave):
            log.info("%s: initial update %s continues", update, update.update_id)
            return False
        _expect_free(update, slave)
        if update.selection.partial:
            return partial_load.begin(update, slave, *_chosen(update, slave))
        # Before the state: with INITIAL alone an apply would not write either, but people see both.
        Gate(store, update.prefix, update.slave.name).close(INITIAL_UPDATE, by, _closing_reason(update))
        with slave.transaction():
            checkpoints.configured(lock=True)
            if _continues(update, slave):
                return False
            checkpoints.move(SlaveState.INITIAL, f"Initial update {update.update_id} is being prepared")
            checkpoints.put_tables(ALL_READY)
            LoadOwner.of(update, slave).name(update.update_id)
            deleted = BlockStore.of(update, slave).delete()
        _note_status(update, store, SlaveState.INITIAL, f"Initial update {update.update_id} is being prepared")
        gone = counted(deleted, "block")
        log.info("%s: initial update %s begins; %s of earlier ones deleted", update, update.update_id, gone)
        return True


def create_tables(update: Update) -> list[TableName]:
    """Makes the slave's tables, or empties them, or keeps them, by policy. Returns those that were made.

    Raises `TablesDiffer`, `tables-exist` before anything is changed, `LoadEnded` when the update was canceled. Does
    nothing when the load has begun.
    """
    with on_slave(update) as slave:
        if not _preparing(update, slave):
            return []
        with on_master(update) as master:
            return prepare(update, master, slave)


def plan(update: Update, store: Redis, queueing: str = "", *, for_another: bool = False) -> int:
    """Takes the start position, plans one block a table, moves the slave to TRANSITION, opens the gate.

    With a reason for `queueing` the gate stays closed: the blocks travel as files, and changes wait until they have
    arrived. In a partial load the gate was never closed: the chosen tables are loading from here on, all others are
    applied.

    `for_another`: another slave reads the blocks, and this one gets them when all are read (see
    `sluice.load.transfer.transfer_steps`).

    Every replicated table must have its triggers before. Returns the number of tables.
    Raises `changes-not-captured`, `LoadEnded`, `master-changing`, and as `create_tables`.
    """
    with on_slave(update) as slave, on_master(update) as master:
        if update.selection.partial:
            return _plan_part(update, master, slave, for_another)
        count = 0
        if _preparing(update, slave):
            count = _plan_whole(update, master, slave, for_another)
            _note_status(update, store, SlaveState.TRANSITION, "")
        if queueing:
            Gate(store, update.prefix, update.slave.name).close(INITIAL_UPDATE, "initial update", queueing)
        else:
            open_gate(update, store)
        return count or len(BlockStore.of(update, slave).progress())


def open_gate(update: Update, store: Redis) -> None:
    """Opens the gate's closure of initial updates."""
    opened = Gate(store, update.prefix, update.slave.name).open(INITIAL_UPDATE)
    log.info("%s: the gate's closure 'initial update' is %s", update, "removed" if opened else "not there")


def finish(update: Update) -> Completed:
    """Makes the master's indexes and constraints that the slave lacks, sets sequences and gathers statistics.

    The apply runs meanwhile. What the slave cannot have (because a function is missing, say) is left out, logged, and
    listed in the result's `left_out`. Raises `slave-incomplete`, and `Transient` for outages.
    """
    with on_slave(update) as slave, on_master(update) as master:
        owner = owner_of(update, slave)
        if owner is None or owner.update_id != update.update_id:
            raise LoadEnded.of(update, owner)
        if owner.state is not SlaveState.NORMAL:
            raise Terminal(
                f"{update}: the slave is {owner.state}; its indexes and constraints can be made when it is NORMAL. "
                "Wait until the apply got there, then run this step again.",
                code="slave-incomplete",
            )
        states = CheckpointStore.of(update, slave).configured().tables
        if update.selection.partial:
            partial_load.expect_loaded(update, states)
        of_master, of_slave = master_of(update.master_info.vendor), vendor_at(update)
        defined, target = of_master.schemas, of_slave.load_target
        loaded = [progress.table for progress in BlockStore.of(update, slave).progress()]
        # Without tables that were dropped since.
        names = [table for table in of_slave.rows.shapes(slave, loaded) if table not in states]
        for table in names:
            target.analyze(slave, table)
        trusted = update.slave.trusted_ddl
        ready = partial_load.ready_tables(update, master, slave) if update.selection.partial else names
        indexes = fitting.possible(defined.indexes(master, names), update)
        between = [
            constraint
            for constraint in defined.constraints(master, ready)
            if constraint.table in names or constraint.parent in names
        ]
        checks = fitting.possible(between, update)
        with ExitStack() as stack:  # the apply may be making some of them
            locked = partial(of_slave.sessions.named_lock, slave, update.definitions_lock)
            lock_waits.until_unlocked(lambda: stack.enter_context(locked()))
            created = [index for index in indexes.kept if fitting.wanted(index, update)]
            done = target.complete_indexes(slave, created, trusted=trusted)
            checked = [constraint for constraint in checks.kept if fitting.wanted(constraint, update)]
            done.extend(target.complete_constraints(slave, checked, ready, trusted=trusted))
        done.left_out += [*indexes.left_out, *checks.left_out]
        for what in done.made:
            log.info("%s: %s is made on the slave", update, what)
        for what, reason in done.left_out:
            log.warning("%s: %s is left out on the slave: %s", update, what, reason)
        target.complete_columns(slave, names)
        moved = target.advance_sequences(slave, defined.sequences(master, names))
        issues = [
            *of_master.preflight.sequences_of_master(master, names),
            *of_slave.preflight.sequences_of_slave(slave, names),
        ]
        for issue in issues:
            log.warning("%s: sequences were not set. Fix this, then clear the task finish: %s", update, issue)
        log.info(
            "%s: indexes and constraints: %s made, %s left out; %s set",
            update, len(done.made), len(done.left_out), counted(moved, "sequence"),
        )  # fmt: skip
        if update.selection.partial:
            partial_load.expect_ready(update, states)
        else:
            done.left_out += [(f"table {table}", reason) for table, reason in states.reasons.items()]
        return done


def cancel(update: Update, store: Redis, reason: str = INTERRUPTED, *, any_update: bool = False) -> bool:
    """Makes the slave INCONSISTENT with `reason`; loaders stop within a block. False when no update was running.

    A partial load leaves its tables INCONSISTENT, and the slave NORMAL.

    `any_update`: also cancels an update of another id. Otherwise raises `LoadEnded` when another update owns the slave.
    """
    with on_slave(update) as slave:
        checkpoints = CheckpointStore.of(update, slave)
        if not checkpoints.exists():
            return False
        with slave.transaction():
            checkpoints.read(lock=True)
            owner = owner_of(update, slave)
            part = partial_load.under_way(update, slave)
            if owner is None or not (part or owner.state in (SlaveState.INITIAL, SlaveState.TRANSITION)):
                _open_unbegun(update, store)
                return False
            if owner.update_id != update.update_id and not any_update:
                raise LoadEnded(update, owner.state, f"it belongs to initial update {owner.update_id}")
            if part:
                partial_load.give_up(update, slave, owner.update_id, reason)
                log.info("%s: initial update %s canceled: %s", update, owner.update_id, reason)
                return True
            checkpoints.move(SlaveState.INCONSISTENT, reason)
            # Blocks stay in BLOCKS: an apply in the middle of a window still decides by them, then rolls back. Blocks
            # that are being read can no longer be stored.
            BlockStore.of(update, slave).release()
        Gate(store, update.prefix, update.slave.name).open(INITIAL_UPDATE)
        _note_status(update, store, SlaveState.INCONSISTENT, reason)
        log.info("%s: initial update %s canceled: %s", update, owner.update_id, reason)
        return True


def _note_status(update: Update, store: Redis, state: SlaveState, message: str) -> None:
    """Writes the slave's state for pages; the apply, which writes it otherwise, may not be running."""
    Status(store, update.prefix, update.slave.name).note(state, message)


def end_sessions(update: Update) -> int:
    """Ends sessions of killed steps and workers on both databases: they live on while they wait for a lock or build an
    index. Returns how many; 0 if another update owns the slave by now.

    Call it only when nothing of the update runs any more. Outages are ignored.
    """
    ended = 0
    try:
        with on_slave(update) as slave:
            if not CheckpointStore.of(update, slave).exists():
                return 0  # the update failed before it made any table
            owner = owner_of(update, slave)
            if owner is None or owner.update_id not in (update.update_id, f"{update.update_id}{partial_load.GIVEN_UP}"):
                return 0
            ended += _end_sessions(update, slave, update.slave_info.vendor)
        with on_master(update) as master:
            ended += _end_sessions(update, master, update.master_info.vendor)
    except SluiceError as error:
        log.warning("%s: sessions of an ended update may be left for a moment: %s", update, error)
    if ended:
        log.info("%s: ended %s that the update had left", update, counted(ended, "session"))
    return ended


def _end_sessions(update: Update, connection: Session, vendor: str) -> int:
    locks = vendor_of(vendor).load_locks
    applications = (update.application, update.loader_application)
    return sum(int(locks.end_sessions(connection, application)) for application in applications)


def note(update: Update, message: str) -> None:
    """Writes to the slave why the load has stopped; the state stays, and loading can continue."""
    with on_slave(update) as slave:
        LoadOwner.of(update, slave).note(update.update_id, message)


def arrive(update: Update, store: Redis) -> None:
    """Makes the slave NORMAL when all blocks are stored that were read in one snapshot, and opens the gate.

    The slave is then what the master was at the snapshot, and the changes after it are applied. Does nothing if
    each block has its own marker. Raises `Transient` for outages, `LoadEnded` when the update was canceled.
    """
    if update.selection.partial:
        return  # each table becomes ready when it has caught up
    with on_slave(update) as slave:
        if not in_one_snapshot(update, slave):
            return
        with slave.transaction():
            checkpoints = CheckpointStore.of(update, slave)
            checkpoint = checkpoints.configured(lock=True)
            expect_loading(update, slave)
            read_at = checkpoint.position if checkpoint.state is SlaveState.TRANSITION else None
            if read_at is not None and BlockStore.of(update, slave).map().complete(read_at):
                checkpoints.move(SlaveState.NORMAL)
                log.info("%s: the slave is NORMAL, current as of %s", update, read_at.time)
    open_gate(update, store)


def in_one_snapshot(update: Update, slave: Session) -> bool:
    """Whether all blocks are read in one snapshot, by the configuration or as they were planned."""
    return update.options.read == "snapshot" or bool(BlockStore.of(update, slave).in_snapshot())


def prepare(update: Update, master: Session, slave: Session) -> list[TableName]:
    """Makes or empties the slave's tables. Returns those that were made. Raises `TablesDiffer`, `tables-exist`."""
    if update.selection.partial:
        created = partial_load.make_tables(update, master, slave)
        log.info("%s: %s made", update, counted(len(created), "table"))
        return created
    preparation = Preparation(update, master, slave, captured_tables(update, master))
    preparation.examine()
    emptied = clear_tables(update, preparation)
    created = preparation.make()
    with slave.transaction():
        checkpoints = CheckpointStore.of(update, slave)
        checkpoint = checkpoints.configured(lock=True)
        before = ALL_READY if checkpoint.state is SlaveState.INITIAL else checkpoint.tables
        checkpoints.put_tables(before.leave_out(preparation.left_out))
    log.info(
        "%s: tables: %s made, %s emptied, %s as they were",
        update, len(created), len(emptied), len(preparation.tables) - len(created) - len(emptied),
    )  # fmt: skip
    return created


def clear_tables(update: Update, preparation: Preparation, again: Sequence[TableName] = ()) -> list[TableName]:
    """Empties tables by the policy, and returns which; of a partial load, deletes what blocks cannot replace exactly.

    `again`: tables that have rows of a load which starts over.
    """
    outdated_constraints.drop(update, preparation.master, preparation.slave, preparation.tables)
    if not update.selection.partial:
        return preparation.empty(again)
    kept = [shape for table, shape in preparation.on_slave.items() if again or table not in preparation.made_by_update]
    planned = partial_load.planned(update, preparation.slave)
    partial_load.clear(update, preparation.master, preparation.slave, kept, planned)
    return []


def _begin_for_another(update: Update, slave: Session) -> None:
    """Marks the planned blocks as read for another slave."""
    BlockStore.of(update, slave).hold(f"{update.update_id}/export for several slaves")


def _chosen(update: Update, slave: Session) -> tuple[list[Part], dict[TableName, str]]:
    """The parts that the form chooses, and the tables among them that are left out or made again → why. Changes
    nothing.

    Raises `SelectionRefused`, `TablesDiffer`.
    """
    with on_master(update) as master:
        partial_load.check(update, master, slave)
        tables = captured_tables(update, master)
        inconsistent, left_out = partial_load.examine(update, master, slave, tables)
        parts = partial_load.parts(update, master, slave, tables)
        return [part for part in parts if part.table not in left_out], inconsistent | left_out


def _plan_part(update: Update, master: Session, slave: Session, for_another: bool) -> int:
    """Makes the tables loading; their parts were planned when the update began. Returns the number of tables."""
    if partial_load.preparing(update, slave):
        partial_load.make_tables(update, master, slave)
        with slave.transaction():
            CheckpointStore.of(update, slave).read(lock=True)
            if partial_load.preparing(update, slave):
                if for_another:
                    _begin_for_another(update, slave)
                partial_load.load(update, slave)
                _settle_rejects(update, master, slave)
    tables = tables_to_load(update, master, slave)
    if partial_load.untouched(update, slave):
        # Only when the tables are loading: until then readers have their rows.
        clear_tables(update, Preparation(update, master, slave, tables))
    return len(tables)


def _plan_whole(update: Update, master: Session, slave: Session, for_another: bool) -> int:
    """Plans all tables. Returns how many; 0 if that was done before. Raises `master-changing`."""
    queue = update.queue(master)
    for _ in range(PLAN_TRIES):
        # First the captured tables: others may change before the start position without any trace.
        tables = tables_to_load(update, master, slave)
        start = queue.take()
        # DDL before the start position reaches the slave only by this comparison.
        preparation = Preparation(update, master, slave, tables)
        preparation.extend_types()
        unfit = preparation.unfit()
        if not unfit:
            queue.secure(start)
            captured = queue.captured()
            with slave.transaction():
                checkpoints = CheckpointStore.of(update, slave)
                states = checkpoints.configured(lock=True).tables
                if not _preparing(update, slave):
                    return 0
                current = preparation.current()
                BlockStore.of(update, slave).plan([table for table in preparation.order() if table not in current])
                for index, table in enumerate(current):
                    BlockStore.of(update, slave).choose(Part(table, ranges=()), index)
                if for_another:
                    _begin_for_another(update, slave)
                checkpoints.start_at(start)
                # Registered since: their CREATE items may come before the start position.
                joined = [table for table in captured if table not in tables and table not in states]
                checkpoints.put_tables(states.put_all(joined, TableState.ABSENT))
                _drop_rejects(update, slave)
                checkpoints.move(SlaveState.TRANSITION, f"Initial update {update.update_id} is loading")
            log.info(
                "%s: %s planned, applying starts at %s", update, counted(len(preparation.tables), "table"), start.time
            )
            return len(preparation.tables)
        log.info("%s: %s changed on the master meanwhile, prepared again", update, ", ".join(map(str, unfit)))
        prepare(update, master, slave)
    raise master_changing(update, unfit)


def _continues(update: Update, slave: Session) -> bool:
    """Whether this update owns the slave already and was not canceled."""
    owner = owner_of(update, slave)
    return owner is not None and owner.update_id == update.update_id and owner.state is not SlaveState.INCONSISTENT


def _preparing(update: Update, slave: Session) -> bool:
    """Whether the update is being prepared; False when its load has begun. Raises `LoadEnded`."""
    if update.selection.partial:
        return partial_load.preparing(update, slave)
    owner = owner_of(update, slave)
    if owner is None or owner.update_id != update.update_id or owner.state is SlaveState.INCONSISTENT:
        raise LoadEnded.of(update, owner)
    return owner.state is SlaveState.INITIAL


def _expect_free(update: Update, slave: Session) -> None:
    """Raises `ForbiddenMove` if a failover or another update has the slave. Call it before closing the gate."""
    owner = owner_of(update, slave)
    if owner is not None and owner.state in (SlaveState.SWITCHING, SlaveState.MASTER):
        raise ForbiddenMove(update.slave.name, owner.state, SlaveState.INITIAL)
    if owner is not None and owner.state in (SlaveState.INITIAL, SlaveState.TRANSITION):
        raise UpdateUnderWay(update.slave.name, owner.state, owner.update_id, owner.message)
    if owner is not None and partial_load.under_way(update, slave):
        raise PartUnderWay(update.slave.name, owner.update_id)


def _closing_reason(update: Update) -> str:
    """The reason with which `begin` closes the gate."""
    return f"initial update {update.update_id}"


def _open_unbegun(update: Update, store: Redis) -> None:
    """Opens the gate that a `begin` closed before it was killed, without taking over the slave."""
    gate = Gate(store, update.prefix, update.slave.name)
    if any(closure.name == INITIAL_UPDATE and closure.reason == _closing_reason(update) for closure in gate.closures()):
        gate.open(INITIAL_UPDATE)
        log.info("%s: the gate is open again", update)


def _drop_rejects(update: Update, slave: Session) -> None:
    """Settles all rejects: the load brings their rows."""
    store = RejectStore.of(update, slave)
    if store.ready():
        store.move([reject.id for reject in store.open()], RejectStatus.DROPPED, f"initial update {update.update_id}")


def _settle_rejects(update: Update, master: Session, slave: Session) -> None:
    """Settles the rejects of rows that the load brings, and those of complete tables that differ if it brings all."""
    store = RejectStore.of(update, slave)
    if not store.ready():
        return
    open_ones, ids = store.open(), list[int]()
    for part in partial_load.planned(update, slave):
        of_table = [reject for reject in open_ones if reject.table == part.table]
        ids += [reject.id for reject in of_table if part.whole or partial_load.holds(update, master, part, reject)]
    if ids:
        store.move(ids, RejectStatus.DROPPED, f"initial update {update.update_id}", answer="a load brings its rows")
