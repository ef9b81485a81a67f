"""A PostgreSQL slave as a target of changes (`sluice.database.apply.ApplyTarget`)."""

# ruff: noqa: F401 (what is imported here is offered)

from collections.abc import Iterable, Sequence

from sluice.database.apply import Staged
from sluice.database.column_types import ColumnTypes
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import Prefix, TableName
from sluice.vendors.postgres.foreign_keys import acting
from sluice.vendors.postgres.target import merge, stage
from sluice.vendors.postgres.target.alter import Alterer
from sluice.vendors.postgres.target.conflicts import at_commit
from sluice.vendors.postgres.target.replay import PostgresRowStays as row_stays  # noqa: N813
from sluice.vendors.postgres.target.replay import Replayer
from sluice.vendors.postgres.target.slave_tables import SlaveTables
from sluice.vendors.postgres.target.stage import drop as drop_stages
from sluice.vendors.postgres.target.tables import filled

transactional_ddl = True


class Merger(merge.Merger):
    """Merges, and makes the replayer and the alterer over the same session."""

    def replayer(self) -> Replayer:
        return Replayer(self.connection, self.targets, cascades=self.cascades)

    def alterer(self, *, trusted: bool, of_master: ColumnTypes, lossy: Sequence[str]) -> Alterer:
        return Alterer(self.connection, self.targets, trusted=trusted, of_master=of_master, lossy=lossy)


class Stager:
    """Stages net changes over one session."""

    def __init__(self, connection: Session, mask: Mask = NO_PATTERNS):
        self.connection = connection
        self._targets = SlaveTables(connection, mask)

    def load(self, tables: Iterable[TableName]) -> None:
        self._targets.load(tables)

    def put(self, changes: NetChanges, *, prefix: Prefix, schema: str, epoch: int, number: str) -> Staged:
        name = stage.stage_name(prefix, epoch, number)
        return stage.put(self.connection, changes, self._targets[changes.table], schema, name)
