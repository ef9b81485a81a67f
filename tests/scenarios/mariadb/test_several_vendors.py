"""A MariaDB and a PostgreSQL as slaves of one master: neither delays the other, and neither loses a change."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack.mariadb import MariaDBServer
from sluice.model.connection import ConnectionInfo
from sluice.pair import Pair
from sluice.vendors.postgres.connection import connect
from tests.direct_work import housekeeping, purge
from tests.rig.rig import Rig as PostgresRig
from tests.rig.rig import configured
from tests.scenarios.mariadb.rig import Rig as MariaDBRig

TABLES = """
CREATE TABLE public.seats (id int PRIMARY KEY, place varchar(9) NOT NULL UNIQUE DEFERRABLE, amount numeric(12,2));
CREATE TABLE public.log (at timestamptz, what text);
INSERT INTO public.seats SELECT n, 'place ' || n, n / 3.0 FROM generate_series(1, 500) n;
INSERT INTO public.log SELECT now(), 'é😀 ' || n % 3 FROM generate_series(1, 50) n;
"""
CHANGES = """
UPDATE public.seats SET place = CASE id WHEN 1 THEN 'place 2' ELSE 'place 1' END WHERE id IN (1, 2);
UPDATE public.seats SET id = id + 1000 WHERE id % 50 = 0;
UPDATE public.seats SET place = CASE id WHEN 2 THEN 'place 2' ELSE 'place 1' END WHERE id IN (1, 2);
UPDATE public.seats SET id = id - 1000 WHERE id > 1000;
DELETE FROM public.log WHERE ctid IN (SELECT ctid FROM public.log LIMIT 3);
INSERT INTO public.log VALUES (NULL, ''), (NULL, '')
"""
DEFINITION = "ALTER TABLE public.seats RENAME COLUMN amount TO price; ALTER TABLE public.seats ADD COLUMN note text"
WAITING = "SELECT count(*) FROM public.demo_items"


@pytest.fixture
def pairs(
    database: Callable[..., ConnectionInfo],
    mariadb: Callable[[], ConnectionInfo],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[MariaDBRig, PostgresRig]:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    replication = configured(
        tmp_path,
        master={"conn_id": "m", "schema": "public"},
        slaves={"dr1": {"conn_id": "s", "vendor": "mysql"}, "dr2": {"conn_id": "p", "schema": "public"}},
        tables={"public.*": {}},
        apply={"lease": 2.0, "checkpoint_interval": 0.1},
    )
    infos = {"m": database(), "s": mariadb(), "p": database()}
    one = MariaDBRig(
        Pair.of(replication, "dr1", infos),
        redis_url,
        connect(infos["m"], application="test", autocommit=True),
        MariaDBRig.connect_slave(infos["s"]),
    )
    other = PostgresRig.between(Pair.of(replication, "dr2", infos), redis_url)
    one.master.execute(TABLES)
    one.capture()
    return one, other


@pytest.fixture
def durable(mariadb_server: MariaDBServer) -> Iterator[None]:
    """Flushes each commit: otherwise nothing is purged that a crash could take from the MariaDB."""
    with mariadb_server.connect() as admin, admin.cursor() as cursor:
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        yield
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")


@pytest.mark.usefixtures("durable")
def test_each_is_loaded_and_follows_and_items_wait_for_the_slower(pairs: tuple[MariaDBRig, PostgresRig]) -> None:
    one, other = pairs
    work = housekeeping(one.pair.replication, {"m": one.pair.master_info, "s": one.pair.slave_info,
                                               "p": other.slave_info}, one.redis_url)  # fmt: skip
    first = one.load()
    update = other.update()
    other.prepare(update)
    with other.apply():
        with one.apply():
            other.load_to_normal(update)
            one.await_current()
            one.finish(first)
            one.master.execute(CHANGES)
            one.await_current()
            other.await_current()
            assert (one.differences(), other.differences()) == ({}, {})
        one.master.execute(CHANGES)
        one.master.execute(DEFINITION)
        one.capture()
        one.master.execute("UPDATE public.seats SET price = price + 1, note = place WHERE id < 100")
        other.await_current()
        assert other.differences() == {}
        purge(work)
        assert one.master.execute(WAITING).fetchone() != (0,), "the MariaDB has not got them"
        with one.apply():
            one.await_current()
            assert one.differences() == {}
    one.await_that(lambda: purge(work) >= 0 and one.master.execute(WAITING).fetchone() == (0,))
    one.close()
    other.close()
