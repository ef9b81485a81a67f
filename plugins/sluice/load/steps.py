"""The steps of an initial update, one function a task of its DAG.

    begin → create_tables → plan → (load: see `sluice.load.load_job`) → finish,   cancel at any time

Each step may be killed anywhere and run again. The state on the slave says where an update stands:
INITIAL from `begin`, TRANSITION from `plan`, NORMAL by the apply, INCONSISTENT by `cancel`.
"""

import logging
from collections.abc import Callable, Sequence

from redis import Redis

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.control.load_owner import LoadOwner
from sluice.control.rejects import RejectStore
from sluice.coordination.gate import INITIAL_UPDATE, Gate
from sluice.coordination.status import Status
from sluice.counted import counted
from sluice.database.load import Completed
from sluice.database.placed import vendor_at
from sluice.database.registry import vendor_of
from sluice.database.session import Session
from sluice.errors import SluiceError, Terminal, Transient
from sluice.load import part_steps, partial_load
from sluice.load.load_ownership import LoadEnded, expect_loading, owner_of
from sluice.load.preparation import Preparation, captured_tables
from sluice.load.sessions import on_master, on_slave
from sluice.load.update import Update
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
"""Why the gate is closed meanwhile."""


class UpdateUnderWay(ForbiddenMove):
    """Another initial update owns the slave."""

    def __init__(self, slave: str, state: SlaveState, update_id: str | None, message: str):
        super().__init__(slave, state, SlaveState.INITIAL)
        said = f" It says: {message}." if message else ""
        self.args = (f"{self} It is initial update {update_id}: mark its run as failed to cancel it.{said}",)
        self.update_id = update_id


class PartUnderWay(ForbiddenMove):
    """Another initial update loads a part of the slave."""

    def __init__(self, slave: str, update_id: str | None):
        super().__init__(slave, SlaveState.NORMAL, SlaveState.INITIAL)
        self.args = (
            f"Initial update {update_id} loads a part of slave {slave}. Wait until its run has ended, or mark that run "
            "as failed to cancel it; then start this one again.",
        )
        self.update_id = update_id


class NotWhole(Terminal):
    """Indexes and constraints can be made only when the slave's data is whole."""

    def __init__(self, update: Update, state: SlaveState):
        super().__init__(
            f"{update}: the slave is {state}; its indexes and constraints can be made when it is NORMAL. "
            "Wait until the apply got there, then run this step again."
        )
        self.state = state


class MasterRestless(Transient):
    """Tables of the master changed again and again while the update was prepared."""

    def __init__(self, update: Update, tables: list[TableName]):
        super().__init__(f"{update}: {', '.join(map(str, tables))} changed on the master while being prepared.")
        self.tables = tuple(tables)


def begin(update: Update, store: Redis, by: str = "initial update") -> bool:
    """The slave belongs to this update: state INITIAL, gate closed, blocks of earlier updates forgotten.

    An update of a part leaves state and gate alone (`sluice.load.part_steps`). False when this very update has begun
    before and simply goes on. Raises `ForbiddenMove` when another one is under way, `SelectionRefused`
    where a chosen part cannot be loaded alone.
    """
    with on_slave(update) as slave:
        checkpoints = CheckpointStore.of(update, slave)
        with slave.transaction():
            checkpoints.ensure()
        if _goes_on(update, slave):
            log.info("%s: initial update %s goes on where it was", update, update.update_id)
            return False
        _expect_free(update, slave)
        if update.selection.partial:
            return part_steps.begin(update, slave, *_chosen(update, slave))
        # Before the move: an apply that sees INITIAL and an open gate would not write either, but people look at both.
        Gate(store, update.prefix, update.slave.name).close(INITIAL_UPDATE, by, _closing(update))
        with slave.transaction():
            checkpoints.configured(lock=True)
            if _goes_on(update, slave):
                return False
            checkpoints.move(SlaveState.INITIAL, f"Initial update {update.update_id} is being prepared")
            LoadOwner.of(update, slave).name(update.update_id)
            forgotten = BlockStore.of(update, slave).delete()
        _say(update, store, SlaveState.INITIAL, f"Initial update {update.update_id} is being prepared")
        log.info(
            "%s: initial update %s begins; %s of earlier ones forgotten",
            update,
            update.update_id,
            counted(forgotten, "block"),
        )
        return True


def create_tables(update: Update) -> list[TableName]:
    """The slave's tables are there and empty (or kept, by policy). Returns those that were made.

    Raises `TablesDiffer`, `TablesExist` before anything is changed, `LoadEnded`
    when the update was cancelled. Does nothing when the load has begun.
    """
    with on_slave(update) as slave:
        if not _preparing(update, slave):
            return []
        with on_master(update) as master:
            return prepare(update, master, slave)


def plan(update: Update, store: Redis, queueing: str = "", *, for_another: bool = False) -> int:
    """The start position is taken, every table is one planned block, the slave is in TRANSITION, the gate open.

    With a reason for `queueing` the gate stays closed: the blocks travel as files, and changes wait until they arrived.
    Of a part the gate was never closed: its tables are loading from here on, and all else is applied.

    `for_another`: the blocks are read for another slave, and become this one's when all are (see
    `sluice.load.transfer.multi_slave_export`).

    Every replicated table must have its triggers by now: changes before the start position are
    nowhere but in the blocks. Returns the number of tables. Raises `NotCaptured`, `LoadEnded`,
    `MasterRestless`, and what `create_tables` raises.
    """
    with on_slave(update) as slave, on_master(update) as master:
        if update.selection.partial:
            return _plan_part(update, master, slave, for_another)
        count = 0
        if _preparing(update, slave):
            count = _plan_whole(update, master, slave, for_another)
            _say(update, store, SlaveState.TRANSITION, "")
        if queueing:
            Gate(store, update.prefix, update.slave.name).close(INITIAL_UPDATE, "initial update", queueing)
        else:
            open_gate(update, store)
        return count or len(BlockStore.of(update, slave).progress())


def open_gate(update: Update, store: Redis) -> None:
    """Changes may be applied, as far as this update is concerned."""
    opened = Gate(store, update.prefix, update.slave.name).open(INITIAL_UPDATE)
    log.info("%s: the gate's closure 'initial update' is %s", update, "removed" if opened else "not there")


def finish(update: Update, stopped: Callable[[], bool] = lambda: False) -> Completed:
    """Indexes, unique values, checks and foreign keys of the master that the slave lacks; statistics; sequences.

    While the apply goes on. What the slave cannot have (a function is missing, say) is left out,
    logged and in the answer's `left_out`. Raises `NotWhole`, and `Transient` for outages.
    """
    with on_slave(update) as slave, on_master(update) as master:
        owner = owner_of(update, slave)
        if owner is None or owner.update_id != update.update_id:
            raise LoadEnded.of(update, owner)
        if owner.state is not SlaveState.NORMAL:
            raise NotWhole(update, owner.state)
        if update.selection.partial:
            part_steps.expect_ready(update, slave)
        of_master, of_slave = vendor_of(update.master_info.vendor), vendor_at(update)
        defined, target = of_master.schemas, of_slave.load_target
        loaded = [progress.table for progress in BlockStore.of(update, slave).progress()]
        # A table may have been dropped since.
        names = list(of_slave.rows.shapes(slave, loaded))
        for table in names:
            if stopped():
                break
            target.analyze(slave, table)
        trusted = update.slave.trusted_ddl
        ready = part_steps.ready_tables(update, master, slave) if update.selection.partial else names
        indexes = fitting.indexes(defined.indexes(master, names), update)
        between = [
            constraint
            for constraint in defined.constraints(master, ready)
            if constraint.table in names or constraint.parent in names
        ]
        checks = fitting.constraints(between, update)
        done = target.complete_indexes(slave, indexes.kept, stopped, trusted=trusted)
        done.extend(target.complete_constraints(slave, checks.kept, ready, stopped, trusted=trusted))
        done.left_out += [*indexes.left_out, *checks.left_out]
        moved = target.advance_sequences(slave, defined.sequences(master, names))
        lacks = [
            *of_master.preflight.sequences_of_master(master, names),
            *of_slave.preflight.sequences_of_slave(slave, names),
        ]
        for lack in lacks:
            log.warning("%s: sequences were not set. Clear the task finish after this was mended: %s", update, lack)
        log.info(
            "%s: indexes and constraints: %s made, %s left out; %s set",
            update, len(done.made), len(done.left_out), counted(moved, "sequence"),
        )  # fmt: skip
        return done


def cancel(update: Update, store: Redis, reason: str = INTERRUPTED, *, any_update: bool = False) -> bool:
    """The slave is INCONSISTENT with `reason`; loaders stop within a block. False when nothing was under way.

    An update of a part leaves its tables INCONSISTENT, and the slave NORMAL.

    `any_update`: also one of another id. Raises `LoadEnded` when another update owns the slave.
    """
    with on_slave(update) as slave:
        checkpoints = CheckpointStore.of(update, slave)
        if not checkpoints.exists():
            return False
        with slave.transaction():
            checkpoints.read(lock=True)
            owner = owner_of(update, slave)
            part = part_steps.under_way(update, slave)
            if owner is None or not (part or owner.state in (SlaveState.INITIAL, SlaveState.TRANSITION)):
                _open_unbegun(update, store)
                return False
            if owner.update_id != update.update_id and not any_update:
                raise LoadEnded(update, owner.state, f"it belongs to initial update {owner.update_id}")
            if part:
                part_steps.give_up(update, slave, owner.update_id, reason)
                log.info("%s: initial update %s cancelled: %s", update, owner.update_id, reason)
                return True
            checkpoints.move(SlaveState.INCONSISTENT, reason)
            # Blocks stay as far as they came: an apply in the middle of a window still decides by them, then rolls
            # back. What is being read can no longer be stored.
            BlockStore.of(update, slave).release()
        Gate(store, update.prefix, update.slave.name).open(INITIAL_UPDATE)
        _say(update, store, SlaveState.INCONSISTENT, reason)
        log.info("%s: initial update %s cancelled: %s", update, owner.update_id, reason)
        return True


def _say(update: Update, store: Redis, state: SlaveState, message: str) -> None:
    """For pages: the apply that says so otherwise need not run."""
    Status(store, update.prefix, update.slave.name).note(state, message)


def end_sessions(update: Update) -> int:
    """Ends what steps and workers that were killed have left on either database: a session lives on while it waits
    for a lock, or makes an index. How many those were; none where another update owns the slave by now.

    Only when nothing of the update runs any more. Outages are passed over.
    """
    ended = 0
    try:
        with on_slave(update) as slave:
            if not CheckpointStore.of(update, slave).exists():
                return 0  # the update failed before it made anything
            owner = owner_of(update, slave)
            if owner is None or owner.update_id not in (update.update_id, f"{update.update_id}{part_steps.GIVEN_UP}"):
                return 0
            ended += _end_sessions(update, slave, update.slave_info.vendor)
        with on_master(update) as master:
            ended += _end_sessions(update, master, update.master_info.vendor)
    except SluiceError as error:
        log.warning("%s: sessions of an update that is over may be left for a moment: %s", update, error)
    if ended:
        log.info("%s: ended %s that the update had left", update, counted(ended, "session"))
    return ended


def _end_sessions(update: Update, connection: Session, vendor: str) -> int:
    locks = vendor_of(vendor).load_locks
    applications = (update.application, update.loader_application)
    return sum(int(locks.end_sessions(connection, application)) for application in applications)


def note(update: Update, message: str) -> None:
    """Leaves word on the slave why the load stands still; the state stays, loading can go on."""
    with on_slave(update) as slave:
        LoadOwner.of(update, slave).note(update.update_id, message)


def arrive(update: Update, store: Redis) -> None:
    """All blocks were read in one snapshot and are stored: the slave is what the master was then, and NORMAL.

    What followed may be applied from here on. Does nothing where blocks have markers of their own. Raises `Transient`
    for outages, `LoadEnded` when the update was cancelled.
    """
    if update.selection.partial:
        return  # each table is ready once it has caught up
    with on_slave(update) as slave:
        if not in_one_snapshot(update, slave):
            return
        with slave.transaction():
            checkpoints = CheckpointStore.of(update, slave)
            found = checkpoints.configured(lock=True)
            expect_loading(update, slave)
            read_at = found.position if found.state is SlaveState.TRANSITION else None
            if read_at is not None and BlockStore.of(update, slave).map().complete(read_at):
                checkpoints.move(SlaveState.NORMAL)
                log.info("%s: the slave is NORMAL, current as of %s", update, read_at.time)
    open_gate(update, store)


def in_one_snapshot(update: Update, slave: Session) -> bool:
    """Whether all blocks are read in one snapshot: by the configuration, or because they were planned so."""
    return update.options.read == "snapshot" or bool(BlockStore.of(update, slave).in_snapshot())


def prepare(update: Update, master: Session, slave: Session) -> list[TableName]:
    """Makes or empties the slave's tables. Returns those that were made. Raises `TablesDiffer`, `TablesExist`."""
    tables = captured_tables(update, master)
    if update.selection.partial:
        made = Preparation(update, master, slave, tables).make()
        log.info("%s: %s made", update, counted(len(made), "table"))
        return made
    preparation = Preparation(update, master, slave, tables)
    preparation.examine()
    emptied = make_way(update, preparation)
    made = preparation.make()
    log.info(
        "%s: tables: %s made, %s emptied, %s as they were",
        update, len(made), len(emptied), len(preparation.tables) - len(made) - len(emptied),
    )  # fmt: skip
    return made


def make_way(update: Update, preparation: Preparation, again: Sequence[TableName] = ()) -> list[TableName]:
    """Empties tables by the policy; of a chosen part, what cannot be replaced block by block. Returns which tables.

    `again`: tables that hold rows of a load which starts over.
    """
    if not update.selection.partial:
        return preparation.empty(again)
    there = [shape for table, shape in preparation.there.items() if again or table not in preparation.mine]
    partial_load.clear(
        update, preparation.master, preparation.slave, there, partial_load.planned(update, preparation.slave)
    )
    return []


def _hold(update: Update, slave: Session) -> None:
    """Its blocks are read for another slave."""
    BlockStore.of(update, slave).hold(f"{update.update_id}/export for several slaves")


def _chosen(update: Update, slave: Session) -> tuple[list[Part], list[TableName]]:
    """What the form chooses, and which tables of it are made anew; nothing was changed yet.

    Raises `SelectionRefused`, `TablesDiffer`.
    """
    with on_master(update) as master:
        partial_load.check(update, master, slave)
        tables = captured_tables(update, master)
        anew = part_steps.examine(update, master, slave, tables)
        return partial_load.parts(update, master, slave, tables), anew


def _plan_part(update: Update, master: Session, slave: Session, for_another: bool) -> int:
    """The parts were planned when the update began; from here on their blocks decide."""
    tables = captured_tables(update, master)
    if part_steps.preparing(update, slave):
        Preparation(update, master, slave, tables).make()
        with slave.transaction():
            CheckpointStore.of(update, slave).read(lock=True)
            if part_steps.preparing(update, slave):
                if for_another:
                    _hold(update, slave)
                part_steps.load(update, slave)
                _settle_rejects(update, master, slave)
    if part_steps.untouched(update, slave):
        # Not before the tables are loading: until then readers have their rows.
        make_way(update, Preparation(update, master, slave, tables))
    return len(tables)


def _plan_whole(update: Update, master: Session, slave: Session, for_another: bool) -> int:
    """Of all tables; how many. Raises `MasterRestless`."""
    changes, schema = vendor_of(update.master_info.vendor).changes, update.replication.master.schema
    for _ in range(PLAN_TRIES):
        # Captured first: what is not by now may have changed before the start position, seen by nobody.
        tables = captured_tables(update, master)
        start = changes.take(master, update.prefix, schema)
        # DDL before the start position reaches the slave in no other way than by this look.
        preparation = Preparation(update, master, slave, tables)
        unfit = preparation.unfit()
        if not unfit:
            changes.secure(master, start)
            joined = [table for table in changes.captured(master, update.prefix, schema) if table not in tables]
            with slave.transaction():
                checkpoints = CheckpointStore.of(update, slave)
                checkpoints.read(lock=True)
                if not _preparing(update, slave):
                    return 0
                current = preparation.current()
                BlockStore.of(update, slave).plan([table for table in preparation.order() if table not in current])
                for place, table in enumerate(current):
                    BlockStore.of(update, slave).choose(Part(table, ranges=()), place)
                if for_another:
                    _hold(update, slave)
                checkpoints.start_at(start)
                # Registered since: what tells of it in ITEMS may come before the start position.
                checkpoints.put_tables(ALL_READY.put_all(joined, TableState.ABSENT))
                _forget_rejects(update, slave)
                checkpoints.move(SlaveState.TRANSITION, f"Initial update {update.update_id} is loading")
            log.info(
                "%s: %s planned, applying starts at %s", update, counted(len(preparation.tables), "table"), start.time
            )
            return len(preparation.tables)
        log.info("%s: %s changed on the master meanwhile, prepared again", update, ", ".join(map(str, unfit)))
        prepare(update, master, slave)
    raise MasterRestless(update, unfit)


def _goes_on(update: Update, slave: Session) -> bool:
    """Whether this very update owns the slave already and was not cancelled."""
    owner = owner_of(update, slave)
    return owner is not None and owner.update_id == update.update_id and owner.state is not SlaveState.INCONSISTENT


def _preparing(update: Update, slave: Session) -> bool:
    """True while the update is being prepared, False when its load has begun. Raises `LoadEnded`."""
    if update.selection.partial:
        return part_steps.preparing(update, slave)
    owner = owner_of(update, slave)
    if owner is None or owner.update_id != update.update_id or owner.state is SlaveState.INCONSISTENT:
        raise LoadEnded.of(update, owner)
    return owner.state is SlaveState.INITIAL


def _expect_free(update: Update, slave: Session) -> None:
    owner = owner_of(update, slave)
    if owner is not None and owner.state in (SlaveState.SWITCHING, SlaveState.MASTER):
        # Before the gate is closed: the failover, or what was the slave, goes on.
        raise ForbiddenMove(update.slave.name, owner.state, SlaveState.INITIAL)
    if owner is not None and owner.state in (SlaveState.INITIAL, SlaveState.TRANSITION):
        raise UpdateUnderWay(update.slave.name, owner.state, owner.update_id, owner.message)
    if owner is not None and part_steps.under_way(update, slave):
        raise PartUnderWay(update.slave.name, owner.update_id)


def _closing(update: Update) -> str:
    """Why `begin` closes the gate."""
    return f"initial update {update.update_id}"


def _open_unbegun(update: Update, store: Redis) -> None:
    """A `begin` that died between the gate and the state has closed the gate of a slave that it never took over."""
    gate = Gate(store, update.prefix, update.slave.name)
    if any(closure.name == INITIAL_UPDATE and closure.reason == _closing(update) for closure in gate.closures()):
        gate.open(INITIAL_UPDATE)
        log.info("%s: the gate is open again", update)


def _forget_rejects(update: Update, slave: Session) -> None:
    """What was set aside is part of the content that the slave gets."""
    store = RejectStore.of(update, slave)
    if store.ready():
        store.move([reject.id for reject in store.open()], RejectStatus.DROPPED, f"initial update {update.update_id}")


def _settle_rejects(update: Update, master: Session, slave: Session) -> None:
    """What was set aside of rows that come anew is settled; what says that a table differs, if all of it does."""
    store = RejectStore.of(update, slave)
    if not store.ready():
        return
    open_ones, ids = store.open(), list[int]()
    for part in partial_load.planned(update, slave):
        mine = [reject for reject in open_ones if reject.table == part.table]
        ids += [reject.id for reject in mine if part.whole or partial_load.holds(update, master, part, reject)]
    if ids:
        store.move(ids, RejectStatus.DROPPED, f"initial update {update.update_id}", answer="a load brings its rows")
