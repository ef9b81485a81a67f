"""A slave whose master lost its log, or was replaced by its replica."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack.account import new_folder
from devstack.mariadb import MariaDBServer
from sluice.errors import DataLost, Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.slave_state import SlaveState
from sluice.vendors.mysql.binlog.log import OtherServer
from tests.scenarios.binlog.beside import Beside
from tests.scenarios.binlog.master import SETTINGS, Master
from tests.scenarios.binlog.normal import normal
from tests.scenarios.binlog.test_beside import expect_alike
from tests.waiting import until

pytestmark = pytest.mark.long

Make = Callable[[], ConnectionInfo]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[MariaDBServer]]:
    """Two servers of their own, with logs that also have what they replicate."""
    made = []
    try:
        for number in (81, 82):
            settings = {**SETTINGS, "server_id": str(number), "log_slave_updates": "ON"}
            made.append(MariaDBServer(new_folder("sluice-test-replaced-"), settings=settings))
            made[-1].start(die_with_parent=True)
        yield made
    finally:
        for server in made:
            server.stop()
            shutil.rmtree(server.directory, ignore_errors=True)


@pytest.fixture
def configured(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    return redis_url


def loaded(master: Master, slave: ConnectionInfo, redis_url: str) -> Beside:
    """A pair whose slave is NORMAL and current."""
    master.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))", "INSERT INTO t SELECT seq, 'a' FROM seq_1_to_100")
    rig = Beside(master, "postgres", slave, redis_url)
    with rig.recording():
        update = rig.begin()
        with rig.apply():
            rig.load(update)
            rig.await_current()
    return rig


def test_after_a_purge_of_what_was_not_recorded_the_slave_is_inconsistent_and_keeps_what_it_has(
    master: Master, database: Make, configured: str
) -> None:
    rig = loaded(master, database(), configured)
    before = normal(rig.rows("t", "id, v"))
    # Recorded, and not applied yet.
    with rig.recording():
        master.run("UPDATE t SET v = 'recorded' WHERE id = 1")
        until(lambda: any(change["new"]["v"] == "recorded" for change in master.changes() if change.get("new")))
    master.run("UPDATE t SET v = 'purged'", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (101, 'b')", "FLUSH BINARY LOGS")
    (file, *_), *_ = master.run("SHOW MASTER STATUS")
    until(lambda: master.run(f"PURGE BINARY LOGS TO '{file}'", "SHOW BINARY LOGS")[0][0] == file)
    with pytest.raises(DataLost, match="new stream"), rig.recording():
        rig.await_that(lambda: rig.status is not None and rig.status.error)
    with pytest.raises(DataLost), rig.apply():
        rig.await_that(lambda: (found := rig.checkpoint) and found.state is SlaveState.INCONSISTENT)
    assert rig.checkpoint is not None
    assert rig.checkpoint.state is SlaveState.INCONSISTENT
    expected = sorted([("1", "recorded"), *(row for row in before if row[0] != "1")], key=repr)
    assert normal(rig.rows("t", "id, v")) == expected


def replicating(master: MariaDBServer, replica: MariaDBServer) -> None:
    info = master.info()
    for server in (master, replica):  # the accounts of each are its own
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("RESET MASTER")
    with replica.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "CHANGE MASTER TO master_host = %s, master_port = %s, master_user = %s, master_password = %s, "
            "master_use_gtid = slave_pos",
            (info.host, info.port, info.user, info.password),
        )
        cursor.execute("START SLAVE")


def position(server: MariaDBServer) -> str:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@gtid_binlog_pos")
        row = cursor.fetchone()
        return str(row[0]) if row else ""


def promoted(replica: MariaDBServer, former: Master) -> Master:
    """The database on the replica, which becomes the master."""
    with replica.connect() as connection, connection.cursor() as cursor:
        cursor.execute("STOP SLAVE")
        cursor.execute("RESET SLAVE ALL")
    return Master(replica, former.database, former.folder)


def test_a_replica_that_became_the_master_is_followed_by_its_transactions(
    servers: list[MariaDBServer], database: Make, configured: str, tmp_path: Path
) -> None:
    first, second = servers
    replicating(first, second)
    master = Master(first, "shop", tmp_path / "stream")
    slave = database()
    rig = loaded(master, slave, configured)
    with rig.recording(), rig.apply():
        master.run("UPDATE t SET v = 'before' WHERE id % 2", "ALTER TABLE t ADD COLUMN w int DEFAULT 3")
        master.run("INSERT INTO t VALUES (200, 'x', 4)")
        rig.await_current()
    # Not recorded before the failover.
    master.run("UPDATE t SET v = 'unrecorded' WHERE id = 7", "DELETE FROM t WHERE id = 8")
    until(lambda: position(second) == position(first))
    first.kill()
    replaced = promoted(second, master)
    replaced.run("INSERT INTO t VALUES (201, 'after', 5)", "UPDATE t SET id = -id WHERE id < 5", "FLUSH BINARY LOGS")
    rig = Beside(replaced, "postgres", slave, configured)
    with rig.recording(), rig.apply():
        rig.await_current()
        assert normal(rig.rows("t", "id, v, w")) == normal(replaced.run("SELECT id, v, w FROM t"))
        # Rows are read beside the stream of both servers.
        expect_alike(rig, "t")
        rig.load(rig.begin())
        replaced.run("UPDATE t SET w = w + 1")
        rig.await_current()
        expect_alike(rig, "t")


def test_a_replica_that_lacks_what_was_recorded_is_refused_and_the_slave_stays(
    servers: list[MariaDBServer], database: Make, configured: str, tmp_path: Path
) -> None:
    first, second = servers
    replicating(first, second)
    master = Master(first, "shop", tmp_path / "stream")
    slave = database()
    rig = loaded(master, slave, configured)
    until(lambda: position(second) == position(first))
    with second.connect() as connection, connection.cursor() as cursor:
        cursor.execute("STOP SLAVE")
    with rig.recording(), rig.apply():
        master.run("UPDATE t SET v = 'lost by the failover' WHERE id = 1")
        rig.await_current()
    replaced = promoted(second, master)
    replaced.run("UPDATE t SET v = 'another' WHERE id = 2")
    rig = Beside(replaced, "postgres", slave, configured)
    with pytest.raises(Terminal, match="another server") as refused, rig.recording():
        rig.await_that(lambda: rig.status is not None and rig.status.error)
    assert isinstance(refused.value, OtherServer)
    assert rig.checkpoint is not None
    assert rig.checkpoint.state is SlaveState.NORMAL
