"""A master of one release and a slave of another: loaded under traffic, altered, verified, repaired."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from devstack.postgres import PostgresServer
from devstack.postgres_releases import OLDEST, RELEASES
from sluice.load import steps
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.pair import Pair as Ends
from sluice.vendors.postgres import catalog
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Kind, Outcome
from sluice.verify.resync import Action, resync
from tests.rig.rig import Rig
from tests.scenarios.initial_load.test_live_traffic import KEYS
from tests.scenarios.initial_load.traffic import Traffic, Writable

QUICK = (OLDEST, OLDEST)
"""All other quick tests run `NEWEST` to `NEWEST`."""
QUICK_KEYS = ("uuid", "text", "partitioned")
"""Of the quick pair: those that `DEFINITIONS` names."""
PAIRS = [
    pytest.param(master, slave, id=f"{master} to {slave}", marks=() if (master, slave) == QUICK else pytest.mark.long)
    for master in RELEASES
    for slave in RELEASES
]
DEFINITIONS = (
    "ALTER TABLE public.of_uuid ADD n int NOT NULL DEFAULT 7, ADD g int GENERATED ALWAYS AS (length(v)) STORED",
    "ALTER TABLE public.of_uuid ALTER n TYPE numeric(12, 2)",
    "ALTER TABLE public.of_uuid RENAME n TO amount",
    "TRUNCATE public.of_text",
    "INSERT INTO public.of_text (id, v) SELECT 'after ' || g, 'new' FROM generate_series(1, 100) g",
    "ALTER TABLE public.of_partitioned ADD extra text DEFAULT 'x'",
    "CREATE TABLE public.part_more PARTITION OF public.of_partitioned FOR VALUES FROM (6000) TO (9000)",
    "INSERT INTO public.of_partitioned (id, v) SELECT g, 'more' FROM generate_series(6000, 6100) g",
)
NEW_TABLE = (
    "CREATE TABLE public.later (id uuid PRIMARY KEY, v text, at timestamptz DEFAULT now())",
    "INSERT INTO public.later (id, v) SELECT md5(g::text)::uuid, g FROM generate_series(1, 100) g",
)


@pytest.fixture
def pair_of(
    database: Callable[..., ConnectionInfo],
    server_of_release: Callable[[int], PostgresServer],
    redis_url: str,
    tmp_path: Path,
) -> Iterator[Callable[[int, int], Rig]]:
    """A pair of two releases; the account on the slave owns its database and has no other privilege."""
    made: list[Rig] = []

    def make(master: int, slave: int) -> Rig:
        ends = {
            "master": database(server=server_of_release(master)),
            "slave": database(server=server_of_release(slave), role=True),
        }
        made.append(Rig.empty(database, redis_url, tmp_path / "replications", block_rows=300, seconds=0.05, **ends))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for pair in made:
        pair.master.close()
        pair.slave.close()


@pytest.mark.parametrize(("master", "slave"), PAIRS)
def test_a_pair_of_releases_is_loaded_follows_and_is_fixed(
    pair_of: Callable[[int, int], Rig], master: int, slave: int
) -> None:
    pair = pair_of(master, slave)
    assert pair.master.info.server_version // 10000 == master
    assert pair.slave.info.server_version // 10000 == slave
    keys = QUICK_KEYS if (master, slave) == QUICK else tuple(KEYS)
    tables = _fill(pair, keys)
    pair.capture()
    update = pair.update()
    with Traffic(pair.master_info, tables, writers=2):
        pair.prepare(update)
        with pair.apply():
            pair.load_to_normal(update)
            for statement in DEFINITIONS:
                pair.master.execute(statement.encode())
            pair.master.execute(NEW_TABLE[0].encode())
            pair.capture()
            pair.master.execute(NEW_TABLE[1].encode())
            pair.await_current()
    with pair.apply():
        pair.await_current()
        assert steps.finish(update).left_out == []
        pair.assert_equal()
        _verify_and_fix(pair, keys)
    pair.assert_equal()


def _fill(pair: Rig, keys: Sequence[str]) -> list[Writable]:
    """Creates tables with keys of these kinds, and one without a key; fills them."""
    pair.master.execute("SET search_path TO pg_catalog, public")
    pair.master.execute("CREATE EXTENSION citext SCHEMA public")
    pair.slave.execute("CREATE EXTENSION citext SCHEMA public")
    pair.master.execute("CREATE TYPE public.mood AS ENUM ('sad', 'ok', 'happy')")
    found = []
    for name in keys:
        columns, key, make_key = KEYS[name]
        partitioned = "PARTITION BY RANGE (id)" if name == "partitioned" else ""
        pair.master.execute(f"CREATE TABLE public.of_{name} ({columns}, v text) {partitioned}".encode())
        if partitioned:
            for number in range(3):
                within = f"FOR VALUES FROM ({number * 2000}) TO ({number * 2000 + 2000})"
                pair.master.execute(
                    f"CREATE TABLE public.part_{number} PARTITION OF public.of_{name} {within}".encode()
                )
        pair.master.execute(
            f"INSERT INTO public.of_{name} ({', '.join(key)}, v) SELECT {make_key}, 'old ' || g "
            "FROM generate_series(1, 600) g ON CONFLICT DO NOTHING".encode()
        )
        found.append(Writable(f"public.of_{name}", key, make_key))
    pair.master.execute("CREATE TABLE public.keyless (v text, n int)")
    pair.master.execute("INSERT INTO public.keyless SELECT 'v' || g % 5, g % 2 FROM generate_series(1, 300) g")
    found.append(Writable("public.keyless", (), ""))
    pair.master.execute("SET search_path TO pg_catalog, pg_temp")
    return found


def _verify_and_fix(pair: Rig, keys: Sequence[str]) -> None:
    """Verifies each table as identical; then deletes a row on the slave and changes another; finds and repairs both."""
    ends = Ends.of(pair.replication, "dr1", {"m": pair.master_info, "s": pair.slave_info})
    shapes = catalog.shapes(
        pair.master, [TableName("public", name) for name in ("later", "keyless", *(f"of_{key}" for key in keys))]
    )
    for table in shapes:
        resync_table = partial(resync, ends, pair.store, table, CompareOptions())
        assert resync_table(Action.VERIFY, None).outcome is Outcome.IDENTICAL, table
        rows = f"SELECT ctid, row_number() OVER () AS n FROM {table}"
        pair.slave.execute(f"DELETE FROM {table} t USING ({rows}) r WHERE t.ctid = r.ctid AND r.n = 1".encode())
        pair.slave.execute(
            f"UPDATE {table} t SET v = 'spoilt' FROM ({rows}) r WHERE t.ctid = r.ctid AND r.n = 2".encode()
        )
        found = resync_table(Action.REPAIR, None)
        differing = {kind: found.finding.found[kind].count for kind in Kind if found.finding.found[kind].count}
        assert found.finding.outcome is Outcome.DIFFERENT and sum(differing.values()) >= 2, (table, differing)
        assert found.outcome is Outcome.IDENTICAL and not found.refused, (table, found.refused)
