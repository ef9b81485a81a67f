"""From an Oracle master to slaves of other vendors than PostgreSQL, which are verified."""

from collections.abc import Callable, Iterator

import pytest

from devstack.mariadb import MariaDBServer
from sluice.coordination import redis_store
from sluice.model.connection import ConnectionInfo
from sluice.verify.findings import Outcome
from sluice.verify.resync import repair
from tests.oracle.live.master_rig import OracleMasterRig
from tests.oracle.live.test_master import (
    CHANGES,
    EXTREME_CHANGES,
    EXTREMES,
    TABLES,
    UNREAD,
    UNREAD_CHANGES,
    equal,
    fill,
    fill_extremes,
    fill_unread,
)

ABLE = ["ivorysql"]
"""An Oracle slave keeps tables under their master's schema: on one server of Oracle's those are the master's own."""
ACCOUNT = "of_oracle"
SCHEMA = "PUBLIC"


@pytest.fixture
def database(request: pytest.FixtureRequest, slave: str) -> Iterator[Callable[[], ConnectionInfo]]:
    """A slave's database, with a schema that is named like the master's account."""
    if slave == "oracle":
        yield request.getfixturevalue("oracle_database")
        return
    server: MariaDBServer = request.getfixturevalue("mariadb_server")
    server.create_account(ACCOUNT, ACCOUNT, SCHEMA)
    yield lambda: server.info(ACCOUNT, ACCOUNT)
    server.drop_account(ACCOUNT, ACCOUNT, SCHEMA)


@pytest.mark.parametrize("slave", ["mysql", "oracle"])
def test_loaded_applied_and_proved_equal(master_rig: Callable[..., OracleMasterRig], slave: str) -> None:
    pair = master_rig(f"{TABLES};\n{UNREAD};\n{EXTREMES}", stage=500, block_rows=150, lossy_columns=f"{SCHEMA}.*.*")
    fill(pair)
    fill_unread(pair)
    fill_extremes(pair)
    update = pair.load()
    with pair.apply() as running:
        pair.await_current()
        equal(pair)
        pair.finish(update)
        pair.change(*CHANGES, *UNREAD_CHANGES, *EXTREME_CHANGES)
        pair.await_current()
        equal(pair)
        running.await_normal_mode()
        pair.change(*CHANGES)
        pair.await_current()
        equal(pair)
        for damage in ('DELETE FROM "{}"."ORDERS" WHERE "ID" < 10', """UPDATE "{}"."LINES" SET "ITEM" = 'other'"""):
            pair.slave.execute(damage.format(SCHEMA).encode())
        damaged = [finding for finding in pair.compared().values() if finding.outcome is Outcome.DIFFERENT]
        assert sorted(finding.table.name for finding in damaged) == ["LINES", "ORDERS"]
        for finding in damaged:
            repair(pair.pair, redis_store.connect(pair.redis_url), finding)
        equal(pair)
