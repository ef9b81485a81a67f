"""A recorder continues exactly where it was, or says that it cannot."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devstack.account import new_folder
from devstack.mariadb import MariaDBServer
from sluice.database.change_log import LogUnreadable
from sluice.errors import DataLost, Terminal
from sluice.vendors.mysql.binlog.log import OtherServer
from sluice.vendors.mysql.binlog.requirements import MasterUnfit
from sluice.vendors.stream.writer import LOCK
from tests.scenarios.binlog.master import ACCOUNT, SETTINGS, Master, short
from tests.waiting import awaited, until

ROOT = Path(__file__).resolve().parents[3]
DUMPING = "SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump' AND user = %s"
TABLE = "CREATE TABLE t (id int primary key, v varchar(300))"


class Killed(BaseException):
    """The recorder is gone."""


def command(master: Master, *options: str) -> "subprocess.Popen[str]":
    """`./sluice record` as a process."""
    url = f"mysql://{ACCOUNT}@{master.info.host}:{master.info.port}/{master.database}"
    arguments = ["record", "REC_", "--location", str(master.folder), "--database", url, *options]
    environment = {**os.environ, "MYSQL_PWD": master.info.password, "PYTHONPATH": str(ROOT / "plugins")}
    return subprocess.Popen(
        [sys.executable, "-m", "sluice.cli", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.mark.long
def test_a_recorder_that_is_killed_at_any_moment_goes_on_without_gap_or_repetition(master: Master) -> None:
    master.run(TABLE)
    master.record()
    number = 0
    for _ in range(3):
        with command(master) as process:
            began = len(master.changes())
            while len(master.changes()) < began + 5:
                number += 1
                master.run(
                    "BEGIN", f"INSERT INTO t VALUES ({number}, 'a')", f"INSERT INTO t VALUES (-{number}, 'b')", "COMMIT"
                )
            process.send_signal(signal.SIGKILL)
    master.run("INSERT INTO t VALUES (0, 'end')")
    master.record()
    expected = [each for one in range(1, number + 1) for each in (str(one), str(-one))]
    assert [change["new"]["id"] for change in master.changes()] == [*expected, "0"]


def test_a_recorder_that_is_killed_within_a_transaction_reads_it_again(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    master.run(TABLE, "INSERT INTO t VALUES (0, 'before')")
    master.record()
    master.run("INSERT INTO t SELECT seq, 'x' FROM seq_1_to_5000", "UPDATE t SET v = 'y' WHERE id = 7")
    recorder, written = master.recorder(), [0]

    def killed(number: int) -> None:
        written[0] += 1
        if written[0] == number:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("sluice.vendors.stream.writer.write_rows", lambda rows: killed(5))
        with pytest.raises((Killed, TypeError)):
            recorder.record_once()
    changes = master.record()
    assert len(changes) == 5001
    assert short(changes[-1]) == ("update", "t", "7", "y")


def test_a_running_recorder_ends_at_a_signal_and_shows_each_commit_at_once(master: Master) -> None:
    master.run(TABLE)
    with command(master) as process:
        until(lambda: master.folder.exists() and any(master.folder.glob("*.jsonl")))
        master.run("INSERT INTO t VALUES (1, 'a')")
        until(lambda: len(master.changes()) == 1)
        process.terminate()
        output, _ = process.communicate()
    assert process.returncode == 0, output
    assert "1 change recorded" in output


def test_a_recorder_whose_connections_are_cut_connects_again_and_goes_on(master: Master) -> None:
    master.run(TABLE)
    master.record()
    stop, recorder = threading.Event(), master.recorder()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(recorder.run, stop)
        try:
            for number in range(3):
                master.run(f"INSERT INTO t VALUES ({number}, 'a')")
                until(lambda expected=number + 1: running.done() or len(master.changes()) == expected)
                ((session,),) = awaited(lambda: master.rows(DUMPING, ACCOUNT))
                master.run(f"KILL {session}")
        finally:
            stop.set()
        running.result()
    assert [change["new"]["id"] for change in master.changes()] == ["0", "1", "2"]


def test_a_log_that_was_purged_meanwhile_ends_the_stream(master: Master) -> None:
    master.run(TABLE, "INSERT INTO t VALUES (1, 'a')")
    master.record()
    master.run(
        "INSERT INTO t VALUES (2, 'b')", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 'c')", "FLUSH BINARY LOGS"
    )
    (file, *_), *_ = master.run("SHOW MASTER STATUS")
    until(lambda: master.run(f"PURGE BINARY LOGS TO '{file}'", "SHOW BINARY LOGS")[0][0] == file)
    with pytest.raises(LogUnreadable, match="new stream"):
        master.record()
    assert "lost" in master.lines()[-1]
    with pytest.raises(DataLost):
        master.record()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[MariaDBServer]:
    """A server that the test may spoil."""
    made = MariaDBServer(new_folder("sluice-test-spoilt-"), settings={**SETTINGS, "sync_binlog": "1"})
    made.start(die_with_parent=True)
    yield made
    made.stop()
    shutil.rmtree(made.directory, ignore_errors=True)


@pytest.mark.long
def test_a_server_that_lost_the_end_of_its_log_or_began_it_anew_is_noticed(
    own_server: MariaDBServer, tmp_path: Path
) -> None:
    """The same GTIDs are used again, for other transactions, or not yet."""
    for again in ("reset", "cut", "restored"):
        master = Master(own_server, f"shop_{again}", tmp_path / again)
        master.run(TABLE, "INSERT INTO t VALUES (1, 'a')")
        master.record()
        master.run("FLUSH BINARY LOGS")
        place = master.run("SHOW MASTER STATUS")[0][1]
        if again == "restored":
            own_server.stop()
            shutil.copytree(own_server.data, backup := own_server.directory / "backup")
            own_server.start(die_with_parent=True)
            master.connection = master.connect()
        master.run("INSERT INTO t VALUES (2, 'b')", "INSERT INTO t VALUES (3, 'c')")
        assert len(master.record()) == 2
        count = int(master.run("SELECT SUBSTRING_INDEX(@@gtid_binlog_pos, '-', -1)")[0][0])
        if again == "reset":
            master.run("RESET MASTER")
            master.run(*(f"INSERT INTO t VALUES ({number}, 'again')" for number in range(100, 100 + count + 2)))
        elif again == "restored":
            own_server.kill()
            shutil.rmtree(own_server.data)
            backup.rename(own_server.data)
            own_server.start(die_with_parent=True)
            master.connection = master.connect()
        else:
            file = own_server.data / master.run("SHOW MASTER STATUS")[0][0]
            own_server.kill()
            os.truncate(file, place)
            own_server.start(die_with_parent=True)
            master.connection = master.connect()
            master.run(*(f"INSERT INTO t VALUES ({number}, 'again')" for number in range(200, 206)))
        with pytest.raises(LogUnreadable, match="not in the master's binlog" if again == "restored" else "lost"):
            master.record()
        assert [short(change)[2] for change in master.changes()] == ["2", "3"]


@pytest.mark.long
def test_another_server_without_these_transactions_is_refused_and_the_stream_stays(
    master: Master, own_server: MariaDBServer, tmp_path: Path
) -> None:
    master.run(TABLE)
    master.record()
    master.run("INSERT INTO t VALUES (1, 'a')")
    master.record()
    other = Master(own_server, master.database, master.folder)
    other.run(TABLE)
    with pytest.raises(OtherServer):
        other.record()
    master.run("INSERT INTO t VALUES (2, 'b')")
    assert [short(change) for change in master.record()] == [("insert", "t", "2", "b")]


def test_two_recorders_of_one_folder_never_both_write(master: Master) -> None:
    master.run(TABLE)
    master.record()
    with (master.folder / LOCK).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Terminal, match="another recorder"):
            master.record()


def test_what_a_server_and_its_tables_lack_is_told_at_once_with_the_statements(master: Master) -> None:
    master.run(
        "CREATE TABLE p (id int primary key)", "CREATE TABLE m (id int primary key) ENGINE = MyISAM",
        "CREATE TABLE c (id int primary key, p int, FOREIGN KEY (p) REFERENCES p (id) ON UPDATE CASCADE "
        "ON DELETE SET NULL)",
        "CREATE TABLE v (id int primary key) WITH SYSTEM VERSIONING",
        f"REVOKE REPLICATION SLAVE ON *.* FROM {ACCOUNT}@'%%'".replace("%%", "%"),
        f"REVOKE REFERENCES ON {master.database}.* FROM {ACCOUNT}@'%'",
        "SET GLOBAL sync_binlog = 0, GLOBAL binlog_row_metadata = NO_LOG, GLOBAL binlog_format = MIXED",
    )  # fmt: skip
    try:
        with pytest.raises(MasterUnfit) as told:
            master.record()
    finally:
        master.run("SET GLOBAL sync_binlog = 1, GLOBAL binlog_row_metadata = FULL, GLOBAL binlog_format = ROW")
    assert [issue.statement for issue in told.value.issues if issue.statement] == [
        "SET GLOBAL binlog_format = 'ROW'",
        "SET GLOBAL binlog_row_metadata = 'FULL'",
        "SET GLOBAL sync_binlog = 1",
        f"GRANT REPLICATION SLAVE ON *.* TO '{ACCOUNT}'@'%'",
        f"GRANT REFERENCES ON `{master.database.replace('_', chr(92) + '_')}`.* TO '{ACCOUNT}'@'%'",
    ]
    assert "Run ALTER TABLE `m` ENGINE = InnoDB, or leave the table out." in str(told.value)
    assert "public.v as a plain table" in str(told.value)
    # The account sees foreign keys when it has the privilege.
    master.run(f"GRANT REFERENCES ON {master.database}.* TO {ACCOUNT}@'%'")
    with pytest.raises(MasterUnfit, match=r"(?s)CASCADE.*SET NULL"):
        master.recorder().record_once()
    assert not any(master.folder.glob("*.jsonl")), "nothing was recorded"
