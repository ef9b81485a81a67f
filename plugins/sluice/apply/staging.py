"""Large windows: executors read shares of a window, reduce them and stage the net changes on the slave.

The driver merges what lies staged in one transaction. A share holds all changes of its keys. Keys
that change into one another are in no share: the driver reduces those itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from sluice import vendors
from sluice.apply import net
from sluice.apply.definitions import TableGone
from sluice.apply.window import by_table
from sluice.domain.names import TableName
from sluice.domain.position import Position
from sluice.errors import SluiceError, Transient
from sluice.pair import Pair


@dataclass(frozen=True)
class WarmUp:
    """A task without work: the executor that ran it has a Python worker that has imported what a share needs.

    `master` and `slave` are vendors. On a new cluster that takes longer than a window.
    """

    master: str
    slave: str

    def __call__(self, number: int) -> int:
        vendors.module(self.master, "queue")
        for noun in ("connection", "stage", "target"):
            vendors.module(self.slave, noun)
        return number


class ShareInterrupted(Transient):
    """An executor met an outage."""


@dataclass(frozen=True)
class Failure:
    """Why a share could not be staged. Plain values, because an error need not survive the way back."""

    message: str
    passing: bool
    """An outage; otherwise the changes themselves, or the slave's tables, are the matter."""


@dataclass(frozen=True)
class Span:
    """Part of a window between two REPL_KEYs: `above` exclusive, `up_to` inclusive (None: its end)."""

    previous: Position
    target: Position
    above: int
    up_to: int | None


@dataclass(frozen=True)
class StageShare:
    """The task of an executor, called with the number of its share; it may run twice.

    `label` makes the stage tables' names unique within the epoch. `keys`: the key columns of each
    table. `apart`: keys the driver handles. `compared`: tables whose old images are wanted. `safe`: reduced
    for safe mode.
    """

    pair: Pair
    span: Span
    parts: int
    epoch: int
    label: str
    keys: Mapping[TableName, tuple[str, ...]]
    apart: Mapping[TableName, frozenset[str]]
    compared: frozenset[TableName]
    safe: bool = False

    def __call__(self, number: int) -> "list[Any] | Failure":
        """What was staged, one entry a table. An error is told, not raised: Spark would try again and hide it."""
        try:
            return self._read_and_stage(number)
        except SluiceError as error:
            return Failure(str(error), passing=isinstance(error, Transient))

    def _read_and_stage(self, number: int) -> list[Any]:
        pair, span = self.pair, self.span
        master, slave = pair.master_info, pair.slave_info
        queue = vendors.module(master.vendor, "queue")
        with queue.Reader(master, pair.prefix, pair.replication.master.schema, application=pair.application) as reader:
            items = reader.items(
                span.previous,
                span.target,
                above=span.above,
                up_to=span.up_to,
                part=queue.Part(number, self.parts),
                images=bool(self.compared),
            )
        if not items.num_rows:
            return []
        changes = by_table(items)
        connections = vendors.module(slave.vendor, "connection")
        try:
            # Nothing staged needs to survive a crash of the slave: the window is then staged again.
            settings = {"synchronous_commit": "off"}
            application = pair.application
            with connections.connect(slave, application=application, autocommit=True, settings=settings) as connection:
                return self._stage(connection, number, changes)
        except psycopg.Error as error:
            raise connections.classify(error, slave.place) from error

    def _stage(self, connection: psycopg.Connection[Any], number: int, changes: Mapping[TableName, Any]) -> list[Any]:
        vendor = self.pair.slave_info.vendor
        stage = vendors.module(vendor, "stage")
        targets = vendors.module(vendor, "target").Targets(connection)
        targets.load(changes)
        staged = []
        for place, (table, items) in enumerate(changes.items()):
            if table not in self.keys:
                raise TableGone(table)
            mine = net.without(items, self.apart.get(table, frozenset()))
            if not mine.num_rows:
                continue
            before = table in self.compared
            changed = net.reduce(net.events(mine, self.keys[table]), before=before, safe=self.safe)
            staged.append(
                stage.put(
                    connection,
                    changed,
                    targets[table],
                    prefix=self.pair.prefix,
                    schema=self.pair.slave.schema,
                    epoch=self.epoch,
                    number=f"{self.label}_{number}_{place}",
                )
            )
        return staged
