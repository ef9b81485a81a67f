"""A rehearsal on databases of the tests' server."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from devstack.rehearse.course import Course, Place, scripts_of
from devstack.rehearse.replica import Replica
from sluice.model.connection import ConnectionInfo
from sluice.pair import Pair
from sluice.verify.rehearsal import Report
from tests.rig.rig import configured

Rehearse = Callable[..., Report]
SCHEMA = """
CREATE TABLE public.customers (id bigint PRIMARY KEY, name text NOT NULL);
CREATE TABLE public.orders (id bigint PRIMARY KEY, customer bigint REFERENCES public.customers, total numeric);
INSERT INTO public.customers SELECT g, 'n' || g FROM generate_series(1, 100) g;
INSERT INTO public.orders SELECT g, 1 + g % 100, g FROM generate_series(1, 300) g;
"""


@pytest.fixture
def rehearse(
    postgres: PostgresServer, database: Callable[..., ConnectionInfo], redis_server: RedisServer, tmp_path: Path
) -> Rehearse:
    """Rehearses a script after `SCHEMA` on databases of the tests' server."""

    def run(script: str | bytes, schema: str = SCHEMA, notified: bool = True, wait: float = 60.0) -> Report:
        (file := tmp_path / "m.sql").write_bytes(script if isinstance(script, bytes) else script.encode())
        replication = configured(
            tmp_path, master={"conn_id": "m", "schema": "sluice"}, slaves={"dr1": {"conn_id": "s", "schema": "sluice"}},
            tables={"public.*": {}}, apply={"checkpoint_interval": 0.1},
        )  # fmt: skip
        plain, master, slave = (database() for _ in range(3))
        for info in (plain, master):
            with postgres.connect(info.database) as connection:
                connection.execute(schema.encode())
        with ExitStack() as stack:
            replica = Replica(Pair.of(replication, "dr1", {"m": master, "s": slave}), redis_server.url, notified)
            replica.begin(stack)
            one, other = (Place(postgres, info.database, "postgres") for info in (plain, master))
            both = Course(one, other, [replica], ("demo_", "sluice"), wait)
            return both.run("script", scripts_of([file]), lambda line: None)

    return run
