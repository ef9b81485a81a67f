"""A slave as a target of changes (`sluice.database.apply.ApplyTarget`)."""

from collections.abc import Callable, Iterable, Sequence

from sluice.database.apply import Acting, Staged
from sluice.database.column_types import ColumnTypes
from sluice.database.conflicts import CommitRefused
from sluice.database.conflicts import RowStays as row_stays  # noqa: N813, F401
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import Prefix, TableName
from sluice.vendors.mysql import catalog, names
from sluice.vendors.mysql.connection import native
from sluice.vendors.mysql.target import merge, stage
from sluice.vendors.mysql.target.alter import Alterer
from sluice.vendors.mysql.target.replay import Replayer
from sluice.vendors.mysql.target.slave_tables import SlaveTables

transactional_ddl = False


class Merger(merge.Merger):
    """The merger, with the other parts that apply changes over the same session."""

    def replayer(self) -> Replayer:
        return Replayer(self.connection, self.targets)

    def alterer(self, *, trusted: bool, of_master: ColumnTypes, lossy: Sequence[str]) -> Alterer:
        """`trusted` has no effect: no expression of the master's is run."""
        return Alterer(self.connection, self.targets, of_master, lossy)


class Stager:
    """Stages net changes over one session."""

    def __init__(self, connection: Session, mask: Mask = NO_PATTERNS):
        self.connection = connection
        self._targets = SlaveTables(connection, mask)

    def load(self, tables: Iterable[TableName]) -> None:
        self._targets.load(tables)

    def put(self, changes: NetChanges, *, prefix: Prefix, schema: str, epoch: int, number: str) -> Staged:
        return stage.put(
            self.connection, changes, self._targets[changes.table], prefix=prefix, epoch=epoch, number=number
        )


def drop_stages(connection: Session, prefix: Prefix, schema: str, *, below: int) -> int:
    """Drops stages of epochs below this one; returns their number."""
    return stage.drop(connection, prefix, below=below)


def at_commit(error: BaseException | None, hides: Callable[[TableName], bool]) -> CommitRefused | None:
    """None: nothing is checked at the commit."""
    return None


def acting(connection: Session) -> list[Acting]:
    """Empty: foreign keys do not act in these sessions."""
    return []


def filled(connection: Session, table: TableName) -> bool:
    """Whether the slave has such a table, with rows."""
    if catalog.shape(connection, table) is None:
        return False
    row = native(connection).run(f"SELECT EXISTS (SELECT 1 FROM {names.place(table)})").fetchone()
    return bool(row and row[0])
