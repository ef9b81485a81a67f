"""A slave as a target of changes (`sluice.database.apply.ApplyTarget`)."""

from collections.abc import Callable, Iterable, Sequence

from sluice import sql_files
from sluice.database.apply import Acting, Staged
from sluice.database.column_types import ColumnTypes
from sluice.database.conflicts import CommitRefused
from sluice.database.conflicts import RowStays as row_stays  # noqa: N813, F401
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import Prefix, TableName
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.session import native
from sluice.vendors.oracle.target import definitions, merge, stage
from sluice.vendors.oracle.target.alter import Alterer
from sluice.vendors.oracle.target.replay import Replayer
from sluice.vendors.oracle.target.slave_tables import SlaveTables

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
        target = self._targets[changes.table]
        for name in (*changes.columns, *changes.key):
            target.column(name)
        return stage.put(self.connection, changes, prefix=prefix, epoch=epoch, number=number)


def drop_stages(connection: Session, prefix: Prefix, schema: str, *, below: int) -> int:
    """Drops stages of epochs below this one; returns their number."""
    return stage.drop(connection, prefix, below=below)


def at_commit(error: BaseException | None, hides: Callable[[TableName], bool]) -> CommitRefused | None:
    """None: errors of deferred constraints name them."""
    return None


def acting(connection: Session) -> list[Acting]:
    """The foreign keys that delete rows, or set them to NULL, when others are deleted."""
    session = native(connection)
    acting_tables = session.run(sql_files.render("oracle", "foreign_keys_acting")).fetchall()
    keys = catalog.foreign_keys(connection, [TableName(names.HERE, name) for (name,) in acting_tables])
    return [Acting(own.name, definitions.clause(own.key), own.key) for own in keys if own.key.on_delete in ("c", "n")]


def filled(connection: Session, table: TableName) -> bool:
    """Whether the slave has such a table, with rows."""
    if catalog.shape(connection, table) is None:
        return False
    row = native(connection).run(f"SELECT COUNT(*) FROM {names.place(table)} WHERE ROWNUM <= 1").fetchone()
    return bool(row and row[0])
