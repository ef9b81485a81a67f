"""Large windows: executors read shares of a window, reduce them and stage the net changes on the slave.

The driver merges what lies staged in one transaction. A share holds all changes of its keys. Keys
that change into one another are in no share: the driver reduces those itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.apply import alike_tables, net_changes
from sluice.apply.pair_sessions import TableGone
from sluice.apply.slave_changes import SlaveChanges, key_of_master
from sluice.apply.window_runs import Run, by_table, pieces
from sluice.database.apply import Staged
from sluice.database.changes import Share
from sluice.database.net_changes import NetChanges
from sluice.database.placed import vendor_at
from sluice.database.registry import source_of, vendor_of
from sluice.database.session import Session, SessionOptions
from sluice.errors import SluiceError, Transient
from sluice.model.mask import Mask
from sluice.model.names import TableName
from sluice.model.position import Window
from sluice.pair import Pair
from sluice.transform.engine import Engine
from sluice.transform.table_transform import TableTransform

FEW, MANY = 200, 20
"""Changes of a table up to which its net changes travel to the driver, where runs or tables are many."""


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
