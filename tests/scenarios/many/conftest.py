"""The net of databases that the scenarios here work with."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.rig.net import Net


@pytest.fixture
def net(database: Callable[..., ConnectionInfo], redis_url: str, tmp_path: Path) -> Iterator[Net]:
    """A net without databases: see `Net.configure`."""
    made = Net.of(database, redis_url, tmp_path / "replications")
    yield made
    made.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of blocks of each table that were read from the master."""
    counted: Counter[str] = Counter()
    reading = PostgresQueue.reading

    @contextmanager
    def counting(queue: PostgresQueue, table: Any, *rest: Any) -> Iterator[Any]:
        with reading(queue, table, *rest) as seen:
            yield seen
        counted[table.table.name] += 1

    monkeypatch.setattr(PostgresQueue, "reading", counting)
    return counted


OF_THREE = """
prefix: DEMO_
master: {conn_id: m, schema: public}
slaves:
  one: {conn_id: s1, schema: public}
  two: {conn_id: s2, schema: own, existing_tables: keep}
  three: {conn_id: s3, schema: public%s}
tables: {'public.*': {}}
initial: {block_rows: 200, block_target_seconds: 0.02, parallel: 2}
"""


def of_three_slaves(net: Net, third: str = "") -> Net:
    """A replication whose second slave has rows already. `third`: more options of the third slave."""
    net.configure(OF_THREE % third)
    net.at("m", "CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    net.at("m", "INSERT INTO public.orders SELECT g, repeat(md5(g::text), 4) FROM generate_series(1, 3000) g")
    net.at("m", "CREATE TABLE public.heap (v text)")
    net.at("m", "INSERT INTO public.heap SELECT 'x' FROM generate_series(1, 100) g")
    net.at("s2", "CREATE SCHEMA own; CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    net.at("s2", "INSERT INTO public.orders SELECT g, 'old' FROM generate_series(2000, 5000) g")
    return net
