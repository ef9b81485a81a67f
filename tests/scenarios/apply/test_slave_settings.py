"""Whatever settings the slave's database and roles have, the apply writes the master's values, or waits."""

from collections.abc import Callable

import pytest

from devstack.postgres import PostgresServer
from sluice.vendors.postgres.connection import quoted
from tests.rig.rig import Rig

SETTINGS = [
    "array_nulls = off",
    "default_transaction_read_only = on",
    "default_transaction_isolation = serializable",
    "transaction_timeout = '1500ms'",
    "transform_null_equals = on",
    "synchronous_commit = off",
    "datestyle = German",
]


@pytest.mark.one_in(15)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("stage", [20_000, 1], ids=["by the driver", "staged"])
def test_the_settings_of_the_slave_change_no_value(rig: Callable[..., Rig], setting: str, stage: int) -> None:
    pair = rig("CREATE TABLE public.t (id int PRIMARY KEY, a text[], d date, b int)", stage=stage)
    pair.slave.execute(f"ALTER DATABASE {quoted(pair.slave.info.dbname)} SET {setting}".encode())
    with pair.apply() as running:
        pair.master.execute(
            "INSERT INTO public.t SELECT g, ARRAY['NULL', NULL, 'null', 'x\\y'], '2026-02-01', g"
            " FROM generate_series(1, 50) g"
        )
        pair.await_normal_mode(running)
        pair.master.execute("UPDATE public.t SET b = b + 1, a = a || NULL::text WHERE id % 2 = 0")
        pair.master.execute("UPDATE public.t SET id = -id WHERE id % 3 = 0")
        pair.master.execute("ALTER TABLE public.t ADD x text[] DEFAULT '{NULL}'")
        pair.master.execute("DELETE FROM public.t WHERE id % 5 = 0")
        pair.await_current()
        assert pair.differences() == {}


@pytest.mark.long
def test_a_slave_that_refuses_connections_for_a_while_is_awaited(
    rig: Callable[..., Rig], postgres: PostgresServer
) -> None:
    pair = rig("CREATE TABLE public.t (id int PRIMARY KEY)")
    name = pair.slave.info.dbname
    with pair.apply() as running:
        pair.await_normal_mode(running)
        with postgres.connect() as admin:
            admin.execute(f"ALTER DATABASE {quoted(name)} ALLOW_CONNECTIONS false".encode())
            try:
                ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
                admin.execute(f"{ended} AND datname = %s", ["sluice DEMO_ dr1", name])
                pair.await_that(
                    lambda: "not currently accepting" in str(running.loop.report.status.read().get("activity"))
                )
            finally:
                admin.execute(f"ALTER DATABASE {quoted(name)} ALLOW_CONNECTIONS true".encode())
        pair.master.execute("INSERT INTO public.t VALUES (1)")
        pair.await_current()
        assert pair.differences() == {}
