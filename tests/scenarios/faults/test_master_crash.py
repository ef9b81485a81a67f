"""No slave shows what the master forgets in a power failure.

A commit with `synchronous_commit = off`, and any rollback, is visible before it is on the disk. A master that loses its
power forgets it, and uses its transaction ID again: a slave that had applied it would keep a change that never was, or
skip the next transaction of that ID.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.rig.rig import Rig
from tests.scenarios.faults.pair import pair
from tests.scenarios.faults.plan import plan
from tests.scenarios.faults.servers import Servers

ASYNCHRONOUS = "SET synchronous_commit = off"


@pytest.fixture
def rig(servers: Servers, tmp_path: Path) -> Iterator[Rig]:
    """A pair whose master writes its log to the disk when it must, hardly ever otherwise."""
    with servers.master.connect() as admin:
        admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        admin.execute("ALTER SYSTEM SET wal_writer_flush_after = '1GB'")
        admin.execute("SELECT pg_reload_conf()")
    with pair(plan(1), servers, tmp_path) as (ends, _):
        assert isinstance(ends.rig, Rig)
        yield ends.rig
        ends.rig.close()
    with servers.master.connect() as admin:
        admin.execute("ALTER SYSTEM RESET ALL")
        admin.execute("SELECT pg_reload_conf()")


def without_power(rig: Rig, servers: Servers) -> Rig:
    """The pair after the master lost its power, and came back."""
    rig.close()
    servers.master.lose_power()
    servers.start_all()
    return Rig.between(rig.pair, rig.redis_url)


def test_a_change_that_the_slave_shows_survives_when_the_master_loses_its_power(rig: Rig, servers: Servers) -> None:
    with rig.apply():
        rig.await_current()
        rig.master.execute(ASYNCHRONOUS)
        rig.master.execute("INSERT INTO public.accounts VALUES (1, 2, 3)")
        rig.await_that(lambda: bool(rig.rows(rig.slave, rig.tables(rig.slave)[0])))
        rig = without_power(rig, servers)
        rig.await_current()
    assert rig.differences() == {}
    assert rig.rows(rig.slave, rig.tables(rig.slave)[0]) == ["(1,2,3)"]


@pytest.mark.long
def test_a_transaction_id_that_the_slave_went_by_is_not_given_out_again(rig: Rig, servers: Servers) -> None:
    with rig.apply():
        rig.await_current()
        other = connect(rig.pair.master_info, application="test")
        for number in range(20):
            other.execute("INSERT INTO public.accounts VALUES (%s, 0, 0)", [number])
            other.rollback()
        now = PostgresQueue(rig.master, rig.pair.prefix, "public").take()
        rig.await_that(lambda: bool((reached := rig.checkpoint.position) and reached.covers_all_of(now)))
        other.close()
        rig = without_power(rig, servers)
        for number in range(20):
            rig.master.execute("INSERT INTO public.accounts VALUES (%s, 1, 1)", [number])
        # Until the apply has begun again, CHECKPOINT still has the position with the forgotten transaction IDs.
        rig.await_that(lambda: rig.checkpoint.epoch == 2)
        rig.await_current()
    assert rig.differences() == {}
    assert len(rig.rows(rig.slave, rig.tables(rig.slave)[0])) == 20
