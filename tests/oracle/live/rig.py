"""A PostgreSQL master and an Oracle slave, replicated by the production code."""

from typing import Any, ClassVar

from sluice.coordination import redis_store
from sluice.database.registry import vendor_of
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.verify.compare import compare
from sluice.verify.findings import TableFinding
from sluice.verify.pinned_sessions import at_one_position
from tests.scenarios.mariadb.rig import Rig


class OracleRig(Rig):
    vendor: ClassVar[str] = "oracle"

    @staticmethod
    def connect_slave(info: ConnectionInfo) -> Any:
        return vendor_of("oracle").sessions.connect(info, application="test")

    def compared(self) -> dict[TableName, TableFinding]:
        """The outcome of a comparison by digests for each table, both sides at one position."""
        with at_one_position(self.pair, redis_store.connect(self.redis_url)) as view:
            return {table: compare(view, table) for table in self.tables()}

    def column(self, table: str, column: str) -> list[Any]:
        """The slave's values, ordered by the key `id`."""
        return [value for (value,) in self.slave.run(f'SELECT "{column}" FROM "{table}" ORDER BY "id"')]
