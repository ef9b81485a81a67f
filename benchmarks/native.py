"""The reference: PostgreSQL's own logical replication, one publication, one subscription, all as it comes."""

from collections.abc import Mapping
from typing import Any

import psycopg

from benchmarks.servers import DATABASES, Servers
from benchmarks.side import Side, scalar
from sluice.errors import Terminal
from sluice.vendors.postgres.connection import literal

NAME = "sluice_bench"


class Native(Side):
    """Tables published on the master and subscribed to on the slave; `options` are those of CREATE SUBSCRIPTION."""

    name = "native"

    def __init__(self, servers: Servers, tables: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__(servers, DATABASES[1])
        self.options = dict(options or {})
        self.run_on_both(tables)
        self.master.execute(f"CREATE PUBLICATION {NAME} FOR ALL TABLES")
        # Made apart: a server that subscribes to itself would wait for itself.
        self.master.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [NAME])
        info = self.infos["master"]
        conninfo = psycopg.conninfo.make_conninfo(
            "", host=info.host, port=info.port, dbname=info.database, user=info.user, password=info.password
        )
        given = "".join(f", {name} = {value}" for name, value in self.options.items())
        self.slave.execute(
            f"CREATE SUBSCRIPTION {NAME} CONNECTION {literal(conninfo)} PUBLICATION {NAME}"
            f" WITH (copy_data = false, create_slot = false, slot_name = {NAME}{given})".encode()
        )
        self.await_that(self._runs, "the subscription runs")

    def hold(self) -> None:
        self.slave.execute(f"ALTER SUBSCRIPTION {NAME} DISABLE")
        active = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
        self.await_that(lambda: not self._runs() and not scalar(self.master, active, NAME), "the subscription stops")

    def release(self) -> None:
        self.slave.execute(f"ALTER SUBSCRIPTION {NAME} ENABLE")

    def await_current(self) -> None:
        now = scalar(self.master, "SELECT pg_current_wal_lsn()")
        ahead = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
        self.await_that(lambda: bool(scalar(self.master, ahead, now, NAME)), "the subscription confirms")

    def forget(self) -> None:
        """Its changes are in the WAL, which the slot lets go of by itself."""

    def check(self) -> None:
        errors = "SELECT apply_error_count FROM pg_stat_subscription_stats WHERE subname = %s"
        problem = scalar(self.slave, errors, NAME)
        if problem:
            raise Terminal(f"The subscription met {problem} errors; see the slave's log.", code="bench-side-failed")

    def describe(self) -> Mapping[str, Any]:
        return {"subscription": self.options or "defaults"}

    def close(self) -> None:
        if not self.slave.closed:
            self.slave.execute(f"ALTER SUBSCRIPTION {NAME} DISABLE")
            self.slave.execute(f"ALTER SUBSCRIPTION {NAME} SET (slot_name = NONE)")
            self.slave.execute(f"DROP SUBSCRIPTION {NAME}")
            active = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
            self.await_that(lambda: not scalar(self.master, active, NAME), "the slot is free")
            self.master.execute("SELECT pg_drop_replication_slot(%s)", [NAME])
        super().close()

    def _runs(self) -> bool:
        return bool(scalar(self.slave, "SELECT pid IS NOT NULL FROM pg_stat_subscription WHERE subname = %s", NAME))
