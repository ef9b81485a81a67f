"""A PostgreSQL slave as a target of changes (`sluice.database.apply.ApplyTarget`)."""

from collections.abc import Iterable, Sequence

from sluice.database.apply import ApplyTarget, Staged, Stager
from sluice.database.column_types import ColumnTypes
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import Prefix, TableName
from sluice.vendors.postgres import foreign_keys
from sluice.vendors.postgres.target import conflicts, merge, stage, tables
from sluice.vendors.postgres.target.alter import Alterer
from sluice.vendors.postgres.target.replay import PostgresRowStays, Replayer
from sluice.vendors.postgres.target.slave_tables import SlaveTables


class PostgresMerger(merge.Merger):
    """Merges, and makes the replayer and the alterer over the same session."""

    def replayer(self) -> Replayer:
        return Replayer(self.connection, self.targets, cascades=self.cascades)

    def alterer(self, *, trusted: bool, of_master: ColumnTypes, lossy: Sequence[str]) -> Alterer:
        return Alterer(self.connection, self.targets, trusted=trusted, of_master=of_master, lossy=lossy)


class PostgresStager(Stager):
    """Stages net changes over one session."""

    def __init__(self, connection: Session, mask: Mask = NO_PATTERNS):
        self.connection = connection
        self._targets = SlaveTables(connection, mask)

    def load(self, tables: Iterable[TableName]) -> None:
        self._targets.load(tables)

    def put(self, changes: NetChanges, *, prefix: Prefix, schema: str, epoch: int, number: str) -> Staged:
        name = stage.stage_name(prefix, epoch, number)
        return stage.put(self.connection, changes, self._targets[changes.table], schema, name)


class PostgresApplyTarget(ApplyTarget):
    """A slave as a target of changes."""

    Merger = PostgresMerger
    Stager = PostgresStager
    drop_stages = staticmethod(stage.drop)
    at_commit = staticmethod(conflicts.at_commit)
    row_stays = PostgresRowStays
    acting = staticmethod(foreign_keys.acting)
    filled = staticmethod(tables.filled)


APPLYING = PostgresApplyTarget()
