"""`binlog`: what a MariaDB master logs is read, recorded, read again, loaded and applied.

`read`: the server's log comes over a connection, and every value is typed; beside MariaDB's own program, which prints
the same rows as text. `record`: it becomes a recorded stream. `stream`: that stream is read as an apply reads it. The
last two stand beside Python's own reader of JSON, which reads the stream's lines and types nothing. These rates are
changes by the processor time of the process: a server works beside it, and is not counted.

`load`: the loaders of an initial update into a PostgreSQL slave, all that they need being up, beside two pipes from the
client `mariadb` into `psql`, each half of the keys. `lag`: from a commit on the master until a PostgreSQL slave shows
it, through a recorder as production starts it, beside a MariaDB that replicates from its master.
"""

import argparse
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import redis

from benchmarks import lag, machine, progress
from benchmarks.cpu import CpuWatch
from benchmarks.load import started
from benchmarks.mariadb import beats_of_mariadb, expect_equal, process_of
from benchmarks.ours import PREFIX, SLAVE, Ours, begin, configure
from benchmarks.progress import alternate
from benchmarks.redo import both, expect, measured
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import DATABASES, Servers, connect
from benchmarks.side import WAIT_SECONDS, Side
from devstack.account import new_folder
from devstack.demo.heartbeat import percentile
from devstack.home import REPOSITORY
from devstack.mariadb import LOGGED, MariaDBServer, ensure_installed, program
from devstack.postgres import binary
from devstack.process import await_true
from sluice.configuration.model import Replication
from sluice.coordination.gate import Gate
from sluice.coordination.records import Status
from sluice.database.change_log import LogPlace, Rows
from sluice.database.changes import ChangeQueue
from sluice.database.registry import master_of
from sluice.errors import Terminal
from sluice.load import steps
from sluice.load.update import Update
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.position import Window
from sluice.pair import Pair
from sluice.vendors.mysql.binlog.log import BinaryLog
from sluice.vendors.mysql.connection import connect as connect_to_mariadb
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.log_recorder import LogRecorder
from sluice.vendors.stream.reader import Reader
from sluice.vendors.stream.recorder import end_of
from sluice.vendors.stream.session import StreamSession
from sluice.vendors.stream.source import StreamQueue
from workload.pgbench import environment

CHANGES = 1_000_000
"""Two inserts, two updates and a delete for each five."""
OF_A_TRANSACTION = 1_000
GOAL = 150_000
"""Changes that are to be read and typed in a second."""
DATABASE = "bench"
TABLE = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, note varchar(100), amount decimal(12,2), "
    "placed datetime(6), weight double, flag tinyint)"
)
VALUES = "seq, seq % 977, concat('note ', seq), seq / 7, '2026-01-01' + INTERVAL seq MICROSECOND, seq / 3, seq % 100"


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when changes are missing."""
    ensure_installed()
    chosen = args.figure or ("read", "record", "stream", "load", "lag")
    figures: list[Figure] = []
    setting: dict[str, Any] = {"load": [round(each, 1) for each in os.getloadavg()]}
    if not {"read", "record", "stream"}.isdisjoint(chosen):
        with _master() as server:
            bench = _Bench(server, args)
            benches = {"read": bench.read, "record": bench.record, "stream": bench.stream}
            figures += [benches[name]() for name in chosen if name in benches]
    if not {"load", "lag"}.isdisjoint(chosen):
        with Servers(args, ("slave",)) as servers:
            figures += _load(servers, args) if "load" in chosen else []
            figures += _lag(servers, args) if "lag" in chosen else []
            setting |= servers.describe()
    setting["MariaDB"] = subprocess.check_output([program("mariadbd"), "--version"], text=True).strip()
    return Report("binlog", figures, {**machine.describe(), **setting})


@contextmanager
def _master(**settings: str) -> Iterator[MariaDBServer]:
    """A server with a log and an empty database; its log begins with that."""
    folder = new_folder("sluice-bench-binlog-")
    server = MariaDBServer(folder / "server", settings={**LOGGED, "max_binlog_size": "1G", **settings})
    try:
        server.start(die_with_parent=True)
        server.create_account("owner", DATABASE)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


class _Earlier(BinaryLog):
    """A log whose recording begins before the changes."""

    begin: ClassVar[LogPlace]

    def end(self) -> LogPlace:
        return self.begin


class _Bench:
    """A server whose log has the changes, and the place before them."""

    def __init__(self, server: MariaDBServer, args: argparse.Namespace):
        self.args, self.info, self.server = args, server.info(DATABASE), server
        rows = max(OF_A_TRANSACTION, int(CHANGES * args.scale) * 2 // 5)
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute(TABLE)
            with self._log() as log:
                _Earlier.begin = log.end()
            cursor.execute("FLUSH BINARY LOGS")
            for first in range(1, rows + 1, OF_A_TRANSACTION):
                last = min(first + OF_A_TRANSACTION - 1, rows)
                cursor.execute(f"INSERT INTO orders SELECT {VALUES} FROM seq_{first}_to_{last}")
            for statement in ("UPDATE orders SET amount = amount + 1, note = 'changed'", "DELETE FROM orders"):
                share = " AND id % 2" if statement.startswith("DELETE") else ""
                for first in range(1, rows + 1, OF_A_TRANSACTION):
                    cursor.execute(f"{statement} WHERE id BETWEEN {first} AND {first + OF_A_TRANSACTION - 1}{share}")
            cursor.execute("SHOW MASTER STATUS")
            self.file = server.data / str((cursor.fetchone() or ("",))[0])
        self.changes = 2 * rows + (rows + 1) // 2

    def _log(self) -> BinaryLog:
        return BinaryLog(self.info, lambda table: table.schema == "public", application="sluice bench")

    def read(self) -> Figure:
        def ours() -> Run:
            found = 0
            with self._log() as log, measured(self.changes) as took:
                for transaction in log.read(_Earlier.begin, waits=False):
                    for part in transaction.parts if transaction is not None else ():
                        found += len(part.rows) if isinstance(part, Rows) else 0
            expect(self.changes, found)
            return took[0]

        arguments = [str(program("mariadb-binlog")), "-v", "--base64-output=decode-rows", str(self.file)]

        def reference() -> Run:
            with _of_child(self.changes) as took:
                subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
            return took[0]

        title, aim = f"{self.changes:,} changes read and typed", f"the aim is {GOAL:,} a second"
        return self._figure(title, "read", ours, reference, "mariadb-binlog -v, as text", aim)

    def record(self) -> Figure:
        with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
            places = (Path(folder) / str(number) for number in itertools.count())
            self._record(first := next(places))
            title = f"{self.changes:,} changes recorded into a stream"
            ours, reference = lambda: self._record(next(places)), lambda: _parsed(first, self.changes)
            return self._figure(title, "record", ours, reference, "json.loads of its lines")

    def stream(self) -> Figure:
        with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
            place = Path(folder)
            self._record(place)

            def ours() -> Run:
                queue = StreamQueue(StreamSession(place), Prefix("BENCH_"), "")
                window = Window(queue.beginning(None), queue.take())
                with measured(self.changes) as took:
                    found = Reader(place, queue.files).items(window).num_rows
                expect(self.changes, found)
                return took[0]

            title = f"{self.changes:,} changes of a stream read as columns"
            return self._figure(title, "stream", ours, lambda: _parsed(place, self.changes), "json.loads of its lines")

    def _record(self, folder: Path) -> Run:
        wanted = TableName("public", "orders")
        recorder = LogRecorder(self.info, Prefix("BENCH_"), folder, lambda table: table == wanted, _Earlier)
        with measured(self.changes) as took:
            end = recorder.record_once()
        expect(self.changes, end.position)
        return took[0]

    def _figure(
        self, title: str, name: str, ours: Callable[[], Run], reference: Callable[[], Run], of: str, note: str = ""
    ) -> Figure:
        return Figure(title, "changes/s of a core", *both(self.args, name, ours, reference), of, note=note)


def _parsed(folder: Path, changes: int) -> Run:
    """The lines of a stream, by Python's own reader."""
    lines = [line for file in Files(folder).names() for line in file.read_bytes().splitlines()]
    with measured(changes) as took:
        found = sum("change" in json.loads(line) for line in lines)
    expect(changes, found)
    return took[0]


@contextmanager
def _of_child(changes: int) -> Iterator[list[Run]]:
    """Filled at the end: so many changes by the processor time of the processes that ended meanwhile."""
    made: list[Run] = []
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    yield made
    seconds, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    made.append(Run(changes / cpu, seconds, {"process": round(cpu, 3)}))


# -- load and lag: a master whose log a process records


@contextmanager
def _recording(servers: Servers, server: MariaDBServer) -> Iterator["_Recorded"]:
    """Its log is recorded until the end of the block."""
    folder, log = servers.folder / f"stream-{server.port}", servers.folder / "recorder.log"
    folder.mkdir()
    master = f"{{conn_id: master, vendor: mysql, capture: binlog, location: '{folder}'}}"
    replication = configure(servers.folder / "replications", master=master)
    info = server.info(DATABASE)
    task = {
        "prefix": str(PREFIX), "slave": "", "connections": {"master": info.to_dict()}, "redis_url": servers.redis_url
    }  # fmt: skip
    path = f"{REPOSITORY / 'plugins'}{os.pathsep}{REPOSITORY}"
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.capture_redo"], cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE, stdout=output, stderr=output,
        )  # fmt: skip
    assert process.stdin is not None
    try:
        with process.stdin as given:
            given.write(json.dumps(task).encode())
        await_true(lambda: _begun(folder, process, log), WAIT_SECONDS)
        vendor, known = master_of("mysql"), replace(info, stream=str(folder))
        with vendor.sessions.connect(known, application="sluice bench", autocommit=True) as session:
            yield _Recorded(info, replication, vendor.queue(session, PREFIX, ""), process.pid)
    finally:
        process.terminate()
        process.wait()


def _begun(folder: Path, recorder: "subprocess.Popen[bytes]", log: Path) -> bool:
    """Whether there is a stream. Raises `bench-side-failed`."""
    if recorder.poll() is not None:
        raise Terminal(f"The recorder has ended:\n{log.read_text()[-1500:]}", code="bench-side-failed")
    return end_of(folder, PREFIX)[0] is not None


@dataclass(frozen=True)
class _Recorded:
    """A MariaDB and the stream of its log."""

    info: ConnectionInfo
    replication: Replication
    queue: ChangeQueue
    pid: int
    """Of the recorder."""


SALES = """CREATE TABLE sales (
    id bigint PRIMARY KEY, customer varchar(40) NOT NULL, amount decimal(12,2) NOT NULL, quantity int NOT NULL,
    status varchar(20) NOT NULL, note varchar(100), created {moment} NOT NULL)"""
FILL = """INSERT INTO sales SELECT seq, concat('customer ', seq % 977), seq % 10000 + 0.25, seq % 7, 'closed',
    if(seq % 5 <> 0, concat('note ', seq), NULL), '2020-01-01 10:00' + INTERVAL seq * 1000001 MICROSECOND
  FROM seq_1_to_{rows}"""
LOAD_GOAL = 0.9


def _load(servers: Servers, args: argparse.Namespace) -> list[Figure]:
    from spark_jobs.load import load_through_outages, stores
    from spark_jobs.session import SparkExecutor

    rows = max(1000, int(2_000_000 * args.scale))
    with _master(innodb_buffer_pool_size="512M") as server, ExitStack() as stack:
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute(SALES.format(moment="datetime(6)"))
            cursor.execute(FILL.format(rows=rows))
        master = stack.enter_context(_recording(servers, server))
        store = redis.from_url(servers.redis_url, decode_responses=True)
        executor = SparkExecutor("sluice bench: load from MariaDB", servers.spark(args.spark_master))
        stack.callback(executor.stop)
        started(executor)

        def timed(slave: ConnectionInfo, part: dict[str, int], load: Callable[[], object]) -> Run:
            servers.quiet_down()
            with CpuWatch(servers.roots, lambda: {**process_of(server), **part}) as watch:
                begun = time.perf_counter()
                load()
                seconds = time.perf_counter() - begun
            expect_equal(master.info, slave, "sales")
            return Run(rows / seconds, seconds, watch.seconds, {"rows": rows})

        def ours() -> Run:
            slave = servers.database("slave", DATABASES[0])
            pair = Pair.of(master.replication, SLAVE, {"master": master.info, "slave": slave})
            update = Update.named(pair, f"bench {uuid.uuid4().hex[:8]}")
            steps.begin(update, store)
            steps.create_tables(update)
            steps.plan(update, store)
            return timed(
                slave, {"driver": os.getpid(), "recorder": master.pid},
                lambda: load_through_outages(update, executor, threading.Event(), stores(update)),
            )  # fmt: skip

        def pipes() -> Run:
            slave = servers.database("slave", DATABASES[0])
            with connect(slave) as session:
                session.execute(SALES.format(moment="timestamp(6)").encode())
            return timed(slave, {"pipes": os.getpid()}, lambda: _pipes(server, slave, rows, servers.folder))

        runs = alternate("binlog load", {"ours": ours, "reference": pipes}, args.rounds, args.warm_up)
    title = f"load: {rows:,} rows of seven columns into PostgreSQL, everything up"
    return [Figure(title, "rows/s", runs["ours"], runs["reference"], "two pipes mariadb | psql", goal=LOAD_GOAL)]


def _client(server: MariaDBServer, *options: str, **streams: Any) -> "subprocess.Popen[bytes]":
    """The server's own client."""
    info = server.info(DATABASE)
    where = [f"--host={info.host}", f"--port={info.port}", f"--user={info.user}", "--batch", "--skip-column-names"]
    command = [str(program("mariadb")), "--no-defaults", *where, *options, info.database]
    return subprocess.Popen(command, env={**os.environ, "MYSQL_PWD": info.password}, **streams)


def _pipes(server: MariaDBServer, slave: ConnectionInfo, rows: int, folder: Path) -> None:
    """Half of the keys each, side by side. Raises `bench-side-failed`."""
    running: list[subprocess.Popen[bytes]] = []
    for condition in (f"id <= {rows // 2}", f"id > {rows // 2}"):
        select = f"SELECT * FROM sales WHERE {condition} ORDER BY id"
        source = _client(server, "--quick", f"--execute={select}", stdout=subprocess.PIPE)
        into = [str(binary("psql")), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", "COPY sales FROM STDIN (NULL 'NULL')"]
        running += [source, subprocess.Popen(into, env=dict(environment(slave, folder)), stdin=source.stdout)]
        assert source.stdout is not None
        source.stdout.close()
    if [process.wait() for process in running] != [0] * len(running):
        raise Terminal("a pipe failed; see what the clients said above", code="bench-side-failed")


ORDERS = """CREATE TABLE orders (
    id bigint PRIMARY KEY, customer varchar(40) NOT NULL, amount decimal(12,2) NOT NULL, status varchar(20) NOT NULL,
    note varchar(100), created {moment} NOT NULL)"""
PROBE = "CREATE TABLE probe (id int PRIMARY KEY, beat bigint NOT NULL)"
ORDER = "({id}, 'customer {id}', 17.5, 'closed', 'note', '2026-01-01 10:00:00.5')"
LAG_GOAL = 0.05
"""Seconds, of p50."""


class _Ours(Ours):
    """An apply of the recorded stream into a PostgreSQL slave."""

    def __init__(self, servers: Servers, args: argparse.Namespace, master: _Recorded) -> None:
        self.servers, self.options, self.recorded = servers, {}, master
        self.beside = lambda: {"recorder": master.pid}
        self.infos = {"master": master.info, "slave": servers.database("slave", DATABASES[0])}
        self.slave = connect(self.infos["slave"])
        self.slave.execute(ORDERS.format(moment="timestamp(6)").encode())
        self.slave.execute(PROBE.encode())
        self.endpoint = servers.spark(args.spark_master)
        self.pair = Pair.of(master.replication, SLAVE, self.infos)
        self.store = redis.from_url(servers.redis_url, decode_responses=True)
        self.gate, self.status = Gate(self.store, PREFIX, SLAVE), Status(self.store, PREFIX, SLAVE)
        with self.slave.transaction():
            begin(self.checkpoints, self.queue)

    @property
    def queue(self) -> ChangeQueue:
        return self.recorded.queue

    def close(self) -> None:
        self.stop()
        self.slave.close()


class _Replica(Side):
    """A MariaDB that replicates from its master."""

    name = "replica"

    def __init__(self, servers: Servers, master: MariaDBServer, replica: MariaDBServer) -> None:
        self.servers, self._replica = servers, replica
        self.infos = {"master": master.info(DATABASE), "slave": replica.info(DATABASE)}
        self._on_master, self._on_slave = master.connect(DATABASE), replica.connect(DATABASE)
        # What the log has had so far makes databases and accounts, also root's.
        self._run(self._on_slave, f"SET GLOBAL gtid_slave_pos = '{self._gtid()}'")
        self._run(
            self._on_slave,
            "CHANGE MASTER TO MASTER_HOST = %s, MASTER_PORT = %s, MASTER_USER = %s, MASTER_PASSWORD = %s, "
            "MASTER_USE_GTID = slave_pos",
            self.infos["master"].host, self.infos["master"].port, self.infos["master"].user,
            self.infos["master"].password,
        )  # fmt: skip
        self.release()

    def hold(self) -> None:
        self._run(self._on_slave, "STOP SLAVE")

    def release(self) -> None:
        self._run(self._on_slave, "START SLAVE")

    def await_current(self) -> None:
        now = self._gtid()
        self.await_that(lambda: self._run(self._on_slave, "SELECT @@gtid_slave_pos") == now, "the replica has all")

    def forget(self) -> None:
        """The master's log stays."""

    def check(self) -> None:
        error = self._run(
            self._on_slave,
            "SELECT concat_ws(' ', nullif(last_io_error, ''), nullif(last_sql_error, '')) "
            "FROM information_schema.slave_status",
        )
        if error:
            raise Terminal(f"The replica: {error}", code="bench-side-failed")

    def describe(self) -> Mapping[str, Any]:
        return {"replica": "MASTER_USE_GTID = slave_pos, defaults"}

    def close(self) -> None:
        self.hold()
        self._on_master.close()
        self._on_slave.close()

    def roots(self) -> dict[str, int]:
        process = self._replica.process()
        return {"replica": process.pid} if process is not None else {}

    def _gtid(self) -> object:
        return self._run(self._on_master, "SELECT @@gtid_binlog_pos")

    @staticmethod
    def _run(connection: Any, statement: str, *values: object) -> object:
        """The one value of its answer."""
        with connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            row = cursor.fetchone()
        return row[0] if row else None


class _Traffic(threading.Thread):
    """Transactions of ten changes, as those of `lag.TENS`; the client gets each at its time."""

    def __init__(self, server: MariaDBServer, first: int):
        super().__init__(daemon=True)
        self.transactions, self.seconds = 0, 0.0
        self._first, self._ended = first, threading.Event()
        self._client = _client(server, stdin=subprocess.PIPE)

    def run(self) -> None:
        begun = time.monotonic()
        assert self._client.stdin is not None
        with self._client.stdin as given:
            while not self._ended.is_set():
                n = 5 * (self._first + self.transactions)
                given.write(
                    f"BEGIN;INSERT INTO orders VALUES {', '.join(ORDER.format(id=n + i) for i in range(1, 6))};"
                    f"UPDATE orders SET amount = amount + 0.01, status = 'open' WHERE id IN ({n + 1},{n + 2},{n + 3},"
                    f"{n - 1});DELETE FROM orders WHERE id = {n};COMMIT;\n".encode()
                )
                given.flush()
                self.transactions += 1
                self._ended.wait(begun + self.transactions / lag.TRANSACTIONS - time.monotonic())
        self._client.wait()
        self.seconds = time.monotonic() - begun

    def end(self) -> None:
        """Returns when all is committed. Raises `bench-side-failed`."""
        self._ended.set()
        self.join()
        if self._client.returncode:
            raise Terminal(f"the client ended with {self._client.returncode}", code="bench-side-failed")


@contextmanager
def _commits(info: ConnectionInfo) -> Iterator[Callable[[int], object]]:
    with connect_to_mariadb(info, application="sluice bench") as session:
        yield lambda number: session.run(f"UPDATE probe SET beat = {number} WHERE id = 1")


def _lag(servers: Servers, args: argparse.Namespace) -> list[Figure]:
    traffic = lag.TRAFFIC["1000"]
    seconds = max(2.0, 60 * min(args.scale, 1.0)) / args.rounds

    def measured(name: str, server: MariaDBServer, side: Side, beats: lag.Beats) -> dict[float, list[Run]]:
        found: dict[float, list[Run]] = {0.5: [], 0.95: []}
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO probe VALUES (1, 0)")
            cursor.execute(f"INSERT INTO orders VALUES {ORDER.format(id=-1)}, {ORDER.format(id=0)}")
        sent = 0
        for number in range(args.rounds):
            progress.say(f"{traffic.rate:,} changes/s, {name}, round {number + 1} of {args.rounds}")
            side.await_current()
            probe, writer = lag.Probe(side, _commits, beats), _Traffic(server, sent)
            with CpuWatch(lambda: {**servers.roots(), **process_of(server)}, side.roots) as watch:
                writer.start()
                probe.run(seconds, min(2.0, seconds / 4))
                writer.end()
            side.await_current()
            sent += writer.transactions
            achieved = writer.transactions * traffic.changes / writer.seconds
            detail = {"samples": len(probe.lags), "changes_per_second": achieved, "worst": max(probe.lags)}
            for share, runs in found.items():
                runs.append(Run(percentile(probe.lags, share) or 0.0, seconds, watch.seconds, detail))
        expect_equal(side.infos["master"], side.infos["slave"], "orders")
        return found

    def tables(server: MariaDBServer) -> None:
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute(ORDERS.format(moment="datetime(6)"))
            cursor.execute(PROBE)

    with _master() as server:
        tables(server)
        with _recording(servers, server) as master, closing(_Ours(servers, args, master)) as side:
            side.start()
            ours = measured("ours", server, side, lag.beats_of_postgres)
    with _master() as server, _master(server_id="2") as replica:
        tables(server)
        tables(replica)
        with closing(_Replica(servers, server, replica)) as beside:
            reference = measured("reference", server, beside, beats_of_mariadb)
    return [
        Figure(
            f"lag: {traffic.rate:,} changes/s into PostgreSQL, p{share * 100:.0f}", "s", ours[share], reference[share],
            "a MariaDB that replicates", less_is_better=True, at_most=LAG_GOAL if share == 0.5 else None,
        )
        for share in (0.5, 0.95)
    ]  # fmt: skip
