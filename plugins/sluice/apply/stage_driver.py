"""A large window, staged: the executors reduce it and put the net changes on the slave, beside its tables.

One job of Spark for a window, also where it is cut: each share is read once and reduced run by run. Keys that
change into one another are in no share; the driver reduces those. What follows a change of a definition is the
driver's as well: the slave has the new definition only within the transaction.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, pairwise

import pyarrow as pa

from sluice.apply import alike_tables, net_changes, window_runs
from sluice.apply.apply_plan import Checks, Rows, Step, Truncation
from sluice.apply.pair_sessions import PairSessions, TableGone
from sluice.apply.rejects import Overlaps, PairRejects
from sluice.apply.slave_changes import SlaveChanges, key_of_master, keys_of_master, one_by_one
from sluice.apply.window_runs import CutItem, Run, by_table, pieces
from sluice.counted import counted
from sluice.database.apply import Staged
from sluice.database.changes import Cut, Share, Survey
from sluice.database.net_changes import NetChanges
from sluice.database.placed import vendor_at
from sluice.database.registry import source_of, vendor_of
from sluice.database.row_images import MixedShapes
from sluice.database.session import Session, SessionOptions
from sluice.errors import SluiceError, Transient
from sluice.executor import Executor, ExecutorStuck, T, run_with_heartbeat
from sluice.model.change import Action
from sluice.model.mask import Mask
from sluice.model.names import TableName
from sluice.model.position import Window
from sluice.model.table_state import TableStates
from sluice.pair import Pair
from sluice.transform.engine import Engine
from sluice.transform.table_transform import TableTransform, TransformationInvalid

# Large windows: executors read shares of a window, reduce them and stage the net changes on the slave.
#
# The driver merges what lies staged in one transaction. A share holds all changes of its keys. Keys that change into
# one another are in no share: the driver reduces those itself.

FEW, MANY = 200, 20
"""Changes of a table up to which its net changes travel to the driver, if runs or tables are many."""


@dataclass(frozen=True)
class StageFailure:
    """Why a share could not be staged. Plain values, because an error need not survive the way back."""

    message: str
    transient: bool
    """True for an outage; False if the changes or the slave's tables caused the failure."""


@dataclass(frozen=True)
class StageTask:
    """The task of an executor, called with the number of its share; it may run twice.

    `cuts`: REPL_KEYs that cut the window into runs, each reduced on its own. `label` makes the stage tables' names
    unique within the epoch. `keys`: the key columns of each table on the slave. `transforms`: the transformations of
    tables. `apart`: keys that the driver handles. `compared`: tables whose old images are needed. `left_out`: tables
    whose changes are not applied. `safe`: reduced for safe mode.
    """

    pair: Pair
    window: Window
    cuts: tuple[int, ...]
    parts: int
    epoch: int
    label: str
    keys: Mapping[TableName, tuple[str, ...]]
    apart: Mapping[TableName, frozenset[str]]
    compared: frozenset[TableName]
    left_out: frozenset[TableName]
    transforms: Mapping[TableName, TableTransform]
    safe: bool = False

    def __call__(self, number: int) -> "list[tuple[int, NetChanges | Staged]] | StageFailure":
        """The numbers of runs with what was staged of a table, or with its net changes themselves if they are few.

        An error is returned, not raised: Spark would retry and hide it.
        """
        try:
            return self._read_and_stage(number)
        except SluiceError as error:
            return StageFailure(str(error), transient=isinstance(error, Transient))

    def _read_and_stage(self, number: int) -> list[tuple[int, NetChanges | Staged]]:
        pair = self.pair
        master, slave = pair.master_info, pair.slave_info
        largest = pair.replication.apply.max_change_bytes
        with source_of(master.vendor).reader(
            master, pair.prefix, pair.replication.master.schema, application=pair.application, largest=largest
        ) as reader:
            items = reader.items(
                self.window, share=Share(number, self.parts), images=bool(self.compared or self.transforms)
            )
        if not items.num_rows:
            return []
        runs = [by_table(piece) if piece.num_rows else {} for piece in pieces(items, self.cuts)]
        connections = vendor_of(slave.vendor).sessions
        # Nothing staged needs to survive a crash of the slave: the window is then staged again.
        options = SessionOptions(durable=False)
        application = pair.application
        with connections.connect(slave, application=application, autocommit=True, options=options) as connection:
            return self._stage(connection, number, runs)

    def _stage(self, connection: Session, number: int, runs: Sequence[Run]) -> list[tuple[int, NetChanges | Staged]]:
        applying = vendor_at(self.pair).applying
        stager = applying.Stager(connection, Mask(self.pair.slave_info.mask))
        images = source_of(self.pair.master_info.vendor).images
        stager.load(table for run in runs for table in run if table not in self.left_out)
        engine = Engine() if self.transforms else None  # not for two tasks at once
        transforms = {table: each.with_engine(engine) for table, each in self.transforms.items() if engine is not None}
        staged: list[tuple[int, NetChanges | Staged]] = []
        for index, run in enumerate(runs):
            own_run = self._own_changes(run)
            plain = {table: items for table, items in own_run.items() if table not in transforms}
            alike = alike_tables.reduced(plain, self.keys, images, compares=self.compared.__contains__, safe=self.safe)
            for table, items in own_run.items():
                transform = transforms.get(table)
                changed = alike.get(table)
                if changed is None:
                    events = net_changes.events(items, key_of_master(self.keys[table], transform), images)
                    changed = SlaveChanges(events, transform).net(compare=table in self.compared, safe=self.safe)
                if transform is not None and not changed.rows:
                    continue
                if items.num_rows <= FEW and (len(runs) > 1 or len(own_run) > MANY):
                    # A table of its own would cost more than what it holds.
                    staged.append((index, alike_tables.alone(changed) if table in alike else changed))
                    continue
                name = f"{self.label}_{number}_{len(staged)}"
                pair = self.pair
                put = stager.put(changed, prefix=pair.prefix, schema=pair.slave.schema, epoch=self.epoch, number=name)
                staged.append((index, put))
        return staged

    def _own_changes(self, run: Run) -> Run:
        """The part of a run that is reduced here. Raises `TableGone`."""
        run_here: Run = {}
        for table, items in run.items():
            if table in self.left_out:
                continue
            if table not in self.keys:
                raise TableGone(table)
            own_items = net_changes.without(items, self.apart.get(table, frozenset()))
            if own_items.num_rows:
                run_here[table] = own_items
        return run_here


log = logging.getLogger("sluice.apply")

# Decides how long Spark may take for its share of a window before it counts as stuck; no I/O.
#
# A frozen process and a slow one look alike. So the limit is a multiple of the time that a share of this size took
# at the best pace measured so far.

FIRST_SECONDS, SECONDS = 60.0, 30.0
"""Seconds allowed beside the time for the share's size; the first time executors must start as well."""
SLACK = 10.0
"""How many times slower than the best pace a share may be."""
PACE = 1 / 20_000_000
"""Seconds a byte before anything is measured: a third of what two cores did (docs/performance.md)."""
CHANGE_BYTES = 100
"""The work for a change beside its contents, as bytes of contents."""


def size(changes: int, contents: int) -> int:
    """The work that a window is, in bytes; `contents`: their bytes."""
    return contents + CHANGE_BYTES * changes


class SparkDeadline:
    """The time limits of one process."""

    def __init__(self) -> None:
        self._seconds = FIRST_SECONDS
        self._pace = PACE
        self._failures = 0

    def limit(self, size: int) -> float:
        """Seconds for a share of the given size."""
        return float((self._seconds + SLACK * self._pace * size) * 2**self._failures)

    def done(self, size: int, seconds: float) -> None:
        """Notes how long a window took."""
        self._seconds, self._failures = SECONDS, 0
        self._pace = min(self._pace, seconds / max(size, 1))

    def failed(self) -> None:
        """Notes that a share timed out. The next try has twice the time, so that slow work ends eventually."""
        self._failures += 1


Transforms = Mapping[TableName, TableTransform]
"""The transformations of tables."""
PROGRESS_SECONDS = 5.0
"""Between two lines of the log about work under way."""


@dataclass(frozen=True)
class _LargeWindow:
    """A window that is staged."""

    span: Window
    truncations: Sequence[Cut]
    """The truncations in it, in order: they cut its changes into runs."""
    runs: Sequence[list[NetChanges | Staged]]
    """What is known so far of each run's net changes."""
    keys: Mapping[TableName, tuple[str, ...]]
    """The keys of all captured tables that are not left out."""
    transforms: Transforms
    left_out: TableStates
    """Tables whose changes are not applied."""
    checks: Checks

    @property
    def places(self) -> tuple[int, ...]:
        """The REPL_KEYs at which runs end."""
        return tuple(cut.repl_key for cut in self.truncations)


class StageDriver:
    """Stages windows of one pair. `heartbeat` is called again and again while Spark works; it may raise."""

    def __init__(
        self, sessions: PairSessions, executor: Executor, pair_rejects: PairRejects, heartbeat: Callable[[], None]
    ):
        self.sessions = sessions
        self.pair = sessions.pair
        self.executor = executor
        self.pair_rejects = pair_rejects
        self._heartbeat = heartbeat
        self._deadline = SparkDeadline()
        self._labels = count(1)
        self._epoch: int | None = None
        """That of stage tables which may exist."""

    def steps(
        self,
        span: Window,
        survey: Survey,
        epoch: int,
        overlaps: Overlaps,
        checks: Checks,
        left_out: TableStates,
    ) -> tuple[list[Step], Window | None]:
        """Steps of the window `span`, and the rest of it that the driver must reduce, None for nothing.

        `survey`: of the span. `left_out`: tables whose changes are not applied. What overtakes changes that were set
        aside is added to `overlaps`. Raises `share-interrupted`, `ExecutorsFailed`, and what `heartbeat` raises.
        """
        whole = span
        span, truncations, rest = _before_definitions(span, survey.cuts)
        try:
            keys = self._definitions(span, left_out)
        except TransformationInvalid as invalid:
            # Of a table that may have no change in the window: then nothing is the matter.
            log.info("%s: %s The window is reduced by the driver.", self.pair, invalid)
            return [], whole
        runs: list[list[NetChanges | Staged]] = [[] for _ in range(len(truncations) + 1)]
        transforms = self.sessions.transformed.of_all(keys)
        large = _LargeWindow(span, truncations, runs, keys, transforms, left_out, checks)
        try:
            # Without changes of keys the queue is spared another look for them.
            apart = self._moved(large) if survey.key_changes else {}
        except MixedShapes as mixed:
            log.info("%s: %s The window is reduced by the driver.", self.pair, mixed)
            return [], whole
        self._note_overlaps(large, overlaps)
        compared = frozenset(table for table in keys if checks.compares(table))
        label, self._epoch = str(next(self._labels)), epoch

        def task(parts: int) -> StageTask:
            return StageTask(
                self.pair, span, large.places, parts, epoch, label, keys, apart, compared, frozenset(left_out),
                transforms, checks.safe,
            )  # fmt: skip

        if not self._stage(task, survey, runs):
            return [], whole
        return self._in_order(large), rest

    def _stage(
        self, task: Callable[[int], StageTask], survey: Survey, runs: Sequence[list[NetChanges | Staged]]
    ) -> bool:
        """Lets the executors stage, and adds what they did to `runs`; False if the driver must reduce the window.

        `task`: what each does, by their number.
        """
        work = size(survey.changes, survey.bytes)
        parts = self._with_heartbeat(lambda: self.executor.parallelism, work)
        began = time.monotonic()
        what = f"stage {counted(survey.changes, 'change')}"
        shares = self._with_heartbeat(lambda: self.executor.map(task(parts), parts, what), work)
        seconds = time.monotonic() - began
        for staged in shares:
            if isinstance(staged, StageFailure) and staged.transient:
                raise Transient(staged.message, code="share-interrupted")
            if isinstance(staged, StageFailure):
                # Here the same changes show what is the matter, and policies apply to them.
                log.info("%s: %s The window is reduced by the driver.", self.pair, staged.message)
                return False
            for number, changes in staged:
                runs[number].append(changes)
        self._deadline.done(work, seconds)
        log.info(
            "%s: %s staged by %s of Spark in %.2g s",
            self.pair,
            counted(survey.changes, "change"),
            counted(parts, "task"),
            seconds,
        )
        return True

    def _in_order(self, large: _LargeWindow) -> list[Step]:
        """Its runs of rows, and the truncations between them."""
        steps: list[Step] = []
        span, truncations = large.span, large.truncations
        bounds = [span.above, *large.places, None]
        for number, (reduced, (begin, end)) in enumerate(zip(large.runs, pairwise(bounds), strict=True)):
            assert begin is not None
            if reduced:
                piece = replace(span, above=begin, up_to=span.up_to if end is None else end - 1)
                steps.append(Rows(reduced, self._items_of(piece, large.checks.images, large.transforms), large.keys))
            if number < len(truncations) and truncations[number].table not in large.left_out:
                cut = truncations[number]
                item = CutItem(cut.repl_key, cut.transaction, Action.TRUNCATE, cut.table)
                steps.append(Truncation(item))
        return steps

    def drop(self, epoch: int) -> None:
        """Drops the stage tables of `epoch` and of all before it."""
        with self.sessions.slave_transaction(durable=False) as slave:
            # Not those of a successor, should we have been overtaken.
            vendor_at(self.pair).applying.drop_stages(slave, self.pair.prefix, self.pair.slave.schema, below=epoch + 1)

    def clear(self) -> None:
        """Drops the stage tables, if there are any."""
        if self._epoch is not None:
            epoch, self._epoch = self._epoch, None
            self.drop(epoch)

    def _definitions(self, span: Window, left_out: TableStates) -> dict[TableName, tuple[str, ...]]:
        """The keys of all captured tables that are not left out, because the executors will meet any of them."""
        info = self.pair.master_info
        schema = self.pair.replication.master.schema
        registered = source_of(info.vendor).queue(self.sessions.master, self.pair.prefix, schema).registered()
        tables = [table for table in registered if table not in left_out]
        self.sessions.schema_history.load(tables, span.previous, span.above)
        return self.sessions.schema_history.known(left_out)

    def _moved(self, large: _LargeWindow) -> dict[TableName, frozenset[str]]:
        """Adds the net changes of keys that change into one another to their runs; tells these keys."""
        moved = self._key_changes(large.span)
        if not moved.num_rows:
            return {}
        definitions, codec = self.sessions.schema_history, self.sessions.images

        def key(table: TableName) -> tuple[str, ...]:
            return key_of_master(definitions.key(table), large.transforms.get(table))

        apart = {
            table: frozenset(net_changes.changed_key_texts(items, key(table), codec))
            for table, items in window_runs.by_table(moved).items()
            if table not in large.left_out
        }
        if not apart:
            return {}
        checks = large.checks
        key_changes = self._key_changes(large.span, guids=apart, images=large.checks.images)
        for table, items in window_runs.by_table(key_changes).items():
            for number, run in enumerate(window_runs.pieces(items, large.places)):
                if run.num_rows and table not in large.left_out:
                    events = net_changes.events(run, key(table), codec)
                    changes = SlaveChanges(events, large.transforms.get(table))
                    large.runs[number].append(changes.net(compare=checks.compares(table), safe=checks.safe))
        return apart

    def _note_overlaps(self, large: _LargeWindow, overlaps: Overlaps) -> None:
        """Notes which changes that were set aside are overtaken."""
        keys, transforms = large.keys, large.transforms
        if pair_rejects := {
            table: keys_of_master(self.pair_rejects.keys(table), transforms.get(table))
            for table in self.pair_rejects.tables()
            if table in keys
        }:
            items = self._key_changes(large.span, guids=pair_rejects, images=bool(transforms))
            for table, items_of_table in window_runs.by_table(items).items():
                if table in keys:
                    transform = transforms.get(table)
                    events = net_changes.events(
                        items_of_table, key_of_master(keys[table], transform), self.sessions.images
                    )
                    self.pair_rejects.note_overlaps(SlaveChanges(events, transform).events, table, overlaps)

    def _key_changes(
        self, span: Window, guids: Mapping[TableName, Collection[str]] | None = None, *, images: bool = False
    ) -> pa.Table:
        return self.sessions.reader.key_changes(span, guids=guids, images=images)

    def _items_of(self, span: Window, images: bool, transforms: Transforms) -> Callable[[TableName], pa.Table]:
        """All changes of a table in a run, read when they are first asked for."""

        @cache
        def everything() -> Run:
            return window_runs.by_table(self.sessions.reader.items(span, images=images))

        return lambda table: one_by_one(everything()[table], transforms.get(table), self.sessions.images)

    def _with_heartbeat(self, work: Callable[[], T], size: int) -> T:
        """Runs `work` on Spark while renewing the lease and honoring stop requests. `size`: of the window."""
        reported_at = time.monotonic()

        def heartbeat() -> None:
            nonlocal reported_at
            self._heartbeat()
            if (progress := self.executor.progress) and time.monotonic() - reported_at >= PROGRESS_SECONDS:
                reported_at = time.monotonic()
                log.info("%s: Spark stages a large window, %s done", self.pair, progress)

        try:
            return run_with_heartbeat(work, heartbeat, self._deadline.limit(size))
        except Transient as failure:
            self.executor.cancel()
            if isinstance(failure, ExecutorStuck):
                self._deadline.failed()
            raise


def _before_definitions(span: Window, cuts: Sequence[Cut]) -> tuple[Window, list[Cut], Window | None]:
    """`span` up to the first change of a definition, the truncations in it, and the rest, None for nothing."""
    definition = next((cut for cut in cuts if cut.action != Action.TRUNCATE), None)
    if definition is None:
        return span, list(cuts), None
    last = definition.repl_key - 1
    return replace(span, up_to=last), list(cuts[: cuts.index(definition)]), replace(span, above=last)
