"""An Oracle master and a slave, by default a PostgreSQL, replicated by the production code."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from sluice import config
from sluice.capture import reconcile, resources
from sluice.control.checkpoint import CheckpointStore
from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.database.registry import master_of, vendor_of
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.pair import Pair
from sluice.vendors.oracle.session import OracleSession
from sluice.verify.compare import compare
from sluice.verify.findings import TableFinding
from sluice.verify.pinned_sessions import at_one_position
from tests.scenarios.mariadb.rig import Rig

CONFIG = """
prefix: DEMO_
master: {{conn_id: m, vendor: oracle}}
slaves:
  dr1: {{conn_id: s, vendor: {vendor}{slave}}}
tables:
{tables}
apply: {{lease: 2.0, checkpoint_interval: 0.1, stage_above: {stage}}}
initial: {{block_rows: {block_rows}, parallel: 2, read: {read}}}
"""


class OracleMasterRig(Rig):
    master: OracleSession  # type: ignore[assignment]  # the other rigs' is PostgreSQL's

    @staticmethod
    def connect_slave(info: ConnectionInfo) -> Any:
        return vendor_of(info.vendor).sessions.connect(info, application="test", autocommit=True)

    @classmethod
    def of(
        cls,
        oracle_database: Callable[[], ConnectionInfo],
        database: Callable[[], ConnectionInfo],
        redis_url: str,
        folder: Path,
        tables: str,
        *,
        stage: int = 20_000,
        block_rows: int = 1_000,
        read: str = "committed",
        lines: Mapping[str, str] = MappingProxyType({}),
        **slave: str,
    ) -> Self:
        """`tables`: the master's statements that create tables and rows, separated by `;` and a line break. All tables
        of the account are captured. `lines`: lines of the configuration, by table name."""
        infos = {"m": oracle_database(), "s": database()}
        master = cls.connect_master(infos["m"])
        for statement in tables.split(";\n"):
            if statement.strip():
                master.run(statement.strip().rstrip(";"))
        wanted = "".join(
            f'  "{table.schema}.{table.name}": {lines.get(table.name, "{}")}\n'
            for table in vendor_of("oracle").rows.tables(master)
            if table.schema == master.schema
        )
        options = "".join(f", {name}: {value}" for name, value in slave.items())
        text = CONFIG.format(
            vendor=infos["s"].vendor, slave=options, tables=wanted, stage=stage, block_rows=block_rows, read=read
        )
        (folder / "DEMO.yaml").write_text(text)
        pair = Pair.of(config.load("DEMO_"), "dr1", infos)
        rig = cls(pair, redis_url, master, cls.connect_slave(infos["s"]))  # type: ignore[arg-type]
        resources.install(master, pair.prefix, "public")
        rig.reconcile()
        return rig

    @staticmethod
    def connect_master(info: ConnectionInfo) -> OracleSession:
        made: OracleSession = vendor_of("oracle").sessions.connect(info, application="test")  # type: ignore[assignment]
        return made

    def reconcile(self) -> None:
        """Captures what is configured."""
        wanted = self.pair.replication.resolve(vendor_of("oracle").rows.tables(self.master))
        reconcile.reconcile(self.master, self.pair.prefix, "public", wanted)

    def change(self, *statements: str) -> None:
        """Runs one transaction on the master."""
        with self.master.transaction():
            for statement in statements:
                self.master.run(statement)

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(self.slave, self.pair.prefix, self.pair.slave.schema, "dr1")

    @property
    def rejects(self) -> RejectStore:
        return RejectStore(self.slave, self.pair.prefix, self.pair.slave.schema, "dr1")

    def await_current(self, seconds: float = 60.0) -> None:
        now = master_of("oracle").queue(self.master, self.pair.prefix, "").take()

        def current() -> bool:
            found = self.checkpoint
            applied = found.position is not None and found.position.covers_all_of(now)
            return applied and found.state == "NORMAL" and not found.catching_up

        self.await_that(current, seconds)

    def tables(self) -> list[TableName]:
        return master_of("oracle").queue(self.master, self.pair.prefix, "").registered()

    def compared(self) -> dict[TableName, TableFinding]:
        """The outcome of a comparison by digests for each table, both sides at one position."""
        with at_one_position(self.pair, redis_store.connect(self.redis_url)) as view:
            return {table: compare(view, table) for table in self.tables()}

    def rows(self, table: str, order: str) -> list[tuple[Any, ...]]:
        """The slave's rows."""
        query = f'SELECT * FROM "{self.master.schema}"."{table}" ORDER BY "{order}"'
        return list(self.slave.execute(query.encode()).fetchall())
