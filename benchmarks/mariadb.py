"""`mariadb`: a MariaDB slave beside what its own client does with the same rows and changes, and a PostgreSQL slave.

`load`: the loaders of an initial update, all that they need being up, beside `LOAD DATA LOCAL` of the same rows from a
file by the client `mariadb`, into a table with its key. `drain`: changes wait behind a closed gate, then it opens;
beside the same changes as statements of many rows that the client reads from a file, and beside a PostgreSQL slave
that drains them. `lag`: under steady traffic, beside a PostgreSQL slave under the same. After each of our runs the
table is compared with the master's, by canonical texts.
"""

import argparse
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from benchmarks import drain, lag, machine
from benchmarks.cpu import CpuWatch
from benchmarks.load import DDL as SALES_DDL
from benchmarks.load import FILL, TABLE, started
from benchmarks.ours import PREFIX, SLAVE, Ours, begin, capture, configure
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import DATABASES, Servers, connect
from devstack.demo.compare_vendors import compare
from devstack.demo.heartbeat import percentile
from devstack.mariadb import MariaDBServer, ensure_installed, program
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.gate import Gate
from sluice.coordination.records import Status
from sluice.errors import Terminal
from sluice.load import steps
from sluice.load.update import Update
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.pair import Pair
from sluice.vendors.mysql.connection import MySQLSession
from sluice.vendors.mysql.connection import connect as connect_slave
from workload import mixes
from workload.mixes import Mix

ACCOUNT = "bench"
SETTINGS = {"innodb_buffer_pool_size": "512M", "innodb_log_file_size": "1G"}
"""Beside MariaDB's defaults: commits are durable, as those of PostgreSQL here."""
COLLATION = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
ORDERS = f"""CREATE TABLE orders (
    id bigint PRIMARY KEY, customer longtext NOT NULL, amount decimal(12,2) NOT NULL, status longtext NOT NULL,
    note longtext, created datetime(6) NOT NULL
) {COLLATION}"""
SALES = f"""CREATE TABLE sales (
    id bigint PRIMARY KEY, customer longtext NOT NULL, amount decimal(12,2) NOT NULL, quantity int NOT NULL,
    status longtext NOT NULL, note longtext, created datetime(6) NOT NULL
) {COLLATION}"""
"""The table as Sluice creates it."""
PROBE = "CREATE TABLE probe (id int PRIMARY KEY, beat bigint NOT NULL)"
ROWS_A_STATEMENT = 1_000
LAG_GOAL = 0.2
"""Seconds, of p95."""


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when a slave's table differs from the master's."""
    chosen = args.figure or ("load", "drain", "lag")
    ensure_installed()
    figures: list[Figure] = []
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(args))
        mariadb = MariaDBServer(servers.folder / "mariadb", name="MariaDB", settings=SETTINGS)
        stack.callback(mariadb.stop)
        mariadb.start(die_with_parent=True)
        if "load" in chosen:
            figures.append(_load(servers, mariadb, args))
        if "drain" in chosen:
            figures += _drain(servers, mariadb, args)
        if "lag" in chosen:
            figures += _lag(servers, mariadb, args)
        with mariadb.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            (version,) = cursor.fetchone() or ("",)
        setting = {**machine.describe(), **servers.describe(), "MariaDB": version, "settings of MariaDB": SETTINGS}
    return Report("mariadb", figures, setting)


def emptied(server: MariaDBServer) -> ConnectionInfo:
    """An empty database."""
    server.drop_account(ACCOUNT, ACCOUNT)
    server.create_account(ACCOUNT, ACCOUNT)
    return server.info(ACCOUNT, ACCOUNT)


def process_of(server: MariaDBServer) -> dict[str, int]:
    """For the CPU seconds of a run."""
    process = server.process()
    return {"MariaDB": process.pid} if process is not None else {}


def client(server: MariaDBServer, statements: Path, *, root: bool = False) -> None:
    """Runs a file by the server's own client. Raises `bench-side-failed`."""
    info = server.info() if root else server.info(ACCOUNT, ACCOUNT)
    where = [f"--host={info.host}", f"--port={info.port}", f"--user={info.user}", "--local-infile=1", info.database]
    with open(statements, "rb") as source:
        done = subprocess.run(
            [str(program("mariadb")), "--no-defaults", *where], stdin=source, stderr=subprocess.PIPE, check=False,
            env={**os.environ, "MYSQL_PWD": info.password},
        )  # fmt: skip
    if done.returncode != 0:
        raise Terminal(
            f"the client ended with status {done.returncode}: {done.stderr.decode()[-500:]}", code="bench-side-failed"
        )


def expect_equal(master: ConnectionInfo, slave: ConnectionInfo, table: str) -> None:
    """Raises `bench-side-failed`."""
    (verdict,) = compare(master, slave, [TableName("public", table)])
    if not verdict.equal:
        raise Terminal(f"{table} of the slave differs from the master: {verdict}", code="bench-side-failed")


# -- load


def _load(servers: Servers, server: MariaDBServer, args: argparse.Namespace) -> Figure:
    from spark_jobs.load import load_through_outages, stores
    from spark_jobs.session import SparkExecutor

    rows = max(1000, int(2_000_000 * args.scale))
    info = servers.database("master", DATABASES[0])
    master = connect(info)
    master.execute(SALES_DDL.encode())
    master.execute(FILL.format(rows=rows).encode())
    master.execute(f"VACUUM (ANALYZE) {TABLE}".encode())
    replication = configure(servers.folder / "replications", vendor="mysql")
    capture(master, replication)
    store = redis.from_url(servers.redis_url, decode_responses=True)
    file, statement = servers.folder / "rows.csv", servers.folder / "load.sql"
    with open(file, "wb") as target, master.cursor() as cursor:
        select = f"SELECT id, customer, amount, quantity, status, note, created::timestamp FROM {TABLE} ORDER BY id"
        with cursor.copy(f"COPY ({select}) TO STDOUT (FORMAT csv, NULL 'NULL')".encode()) as copy:
            for piece in copy:
                target.write(piece)
    statement.write_text(
        f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE sales CHARACTER SET utf8mb4"
        " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '';\n"
    )

    def ours() -> Run:
        slave = emptied(server)
        pair = Pair.of(replication, SLAVE, {"master": info, "slave": slave})
        update = Update.named(pair, f"bench {uuid.uuid4().hex[:8]}")
        steps.begin(update, store)
        steps.create_tables(update)
        steps.plan(update, store)
        servers.quiet_down()
        with CpuWatch(servers.roots, lambda: {**process_of(server), "driver": os.getpid()}) as watch:
            begun = time.perf_counter()
            load_through_outages(update, executor, threading.Event(), stores(update))
            seconds = time.perf_counter() - begun
        expect_equal(info, slave, "sales")
        return Run(rows / seconds, seconds, watch.seconds, {"rows": rows})

    def by_client() -> Run:
        slave = emptied(server)
        with connect_slave(slave, application="sluice bench") as session:
            session.run(SALES)
        with CpuWatch(servers.roots, lambda: process_of(server)) as watch:
            begun = time.perf_counter()
            client(server, statement)
            seconds = time.perf_counter() - begun
        expect_equal(info, slave, "sales")
        return Run(rows / seconds, seconds, watch.seconds, {"rows": rows})

    executor = SparkExecutor("sluice bench: load into MariaDB", servers.spark(args.spark_master))
    try:
        started(executor)
        runs = alternate("mariadb load", {"ours": ours, "reference": by_client}, args.rounds, args.warm_up)
    finally:
        executor.stop()
        master.close()
    title = f"load: {rows:,} rows of seven columns, everything up"
    return Figure(title, "rows/s", runs["ours"], runs["reference"], "LOAD DATA of a file by the client", goal=0.7)


# -- drain


class OnMariaDB(Ours):
    """Captured tables on the master, and an apply into the MariaDB."""

    def __init__(self, servers: Servers, args: argparse.Namespace, server: MariaDBServer) -> None:
        self.servers, self.options, self.beside = servers, {}, dict
        self.infos = {"master": servers.database("master", DATABASES[0]), "slave": emptied(server)}
        self.master = connect(self.infos["master"])
        self.session: MySQLSession = connect_slave(self.infos["slave"], application="sluice bench")
        self.endpoint = servers.spark(args.spark_master)
        replication = configure(servers.folder / "replications", vendor="mysql")
        self.pair = Pair.of(replication, SLAVE, self.infos)
        self.store = redis.from_url(servers.redis_url, decode_responses=True)
        self.gate, self.status = Gate(self.store, PREFIX, SLAVE), Status(self.store, PREFIX, SLAVE)
        self.master.execute(lag.DDL.encode())
        self.session.run(ORDERS)
        self.session.run(PROBE)
        capture(self.master, replication)
        with self.session.transaction():
            begin(self.checkpoints, self.queue)

    @property
    def checkpoints(self) -> CheckpointStore:
        return CheckpointStore(self.session, PREFIX, "", SLAVE)

    def close(self) -> None:
        self.stop()
        self.master.close()
        self.session.close()


def _drain(servers: Servers, server: MariaDBServer, args: argparse.Namespace) -> list[Figure]:
    mix, _ = drain.goals(args.scale)["bulk"]
    side = OnMariaDB(servers, args, server)
    statements = servers.folder / "changes.sql"

    def ours() -> Run:
        side.release()
        side.master.execute(f"TRUNCATE {mixes.TABLE}".encode())
        mix.prepare(side.master)
        side.await_current()
        side.forget()
        side.hold()
        side.master.execute("SET synchronous_commit = off")
        mix.write(side.master, mark := f"run of {time.time_ns()}")
        side.master.execute("VACUUM ANALYZE")
        servers.quiet_down()

        def arrived() -> bool:
            row = side.session.run(f"SELECT note FROM orders WHERE id = {mixes.MARK}").fetchone()
            return row == (mark,)

        with CpuWatch(servers.roots, lambda: {**process_of(server), **side.roots()}) as watch:
            begun = time.perf_counter()
            side.release()
            side.await_that(arrived, "the last change is on the slave")
            seconds = time.perf_counter() - begun
        side.await_current()
        expect_equal(side.infos["master"], side.infos["slave"], "orders")
        return Run(mix.changes / seconds, seconds, watch.seconds, {"changes": mix.changes})

    def by_client() -> Run:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS stream")
            cursor.execute("DROP TABLE IF EXISTS stream.orders")
            cursor.execute(ORDERS.replace("TABLE orders", "TABLE stream.orders"))
        with CpuWatch(servers.roots, lambda: process_of(server)) as watch:
            begun = time.perf_counter()
            client(server, statements, root=True)
            seconds = time.perf_counter() - begun
        return Run(mix.changes / seconds, seconds, watch.seconds, {"changes": mix.changes})

    statements.write_text("USE stream;\n" + "".join(_statements(mix)))
    try:
        side.start()
        runs = alternate("mariadb drain", {"ours": ours, "reference": by_client}, args.rounds, args.warm_up)
    finally:
        side.close()
    title = f"drain: {mix.title}"
    into_postgres = Ours(servers, args, mixes.DDL)
    try:
        into_postgres.start()
        measure = {"a PostgreSQL slave": lambda: drain.drain(servers, into_postgres, mix)}
        beside = alternate("mariadb drain", measure, args.rounds, args.warm_up)["a PostgreSQL slave"]
    finally:
        into_postgres.close()
    return [
        Figure(title, "changes/s", runs["ours"], runs["reference"], "statements of many rows by the client"),
        Figure(title, "changes/s", runs["ours"], beside, "a PostgreSQL slave"),
    ]


# -- lag


def _lag(servers: Servers, server: MariaDBServer, args: argparse.Namespace) -> list[Figure]:
    traffic, beside = lag.TRAFFIC["1000"], "a PostgreSQL slave"
    seconds = max(2.0, 60 * min(args.scale, 1.0)) / args.rounds

    def measured(side: Ours, beats: lag.Beats) -> dict[float, list[Run]]:
        found: dict[float, list[Run]] = {0.5: [], 0.95: []}
        try:
            side.start()
            lag.prepare(side)
            for _ in range(args.rounds):
                lags, cpu, achieved = lag.under(servers, side, traffic, seconds, beats, asynchronous=False)
                detail = {"samples": len(lags), "changes_per_second": achieved, "worst": max(lags)}
                for share, runs in found.items():
                    runs.append(Run(percentile(lags, share) or 0.0, seconds, cpu, detail))
            if isinstance(side, OnMariaDB):
                expect_equal(side.infos["master"], side.infos["slave"], "orders")
        finally:
            side.close()
        return found

    ours = measured(OnMariaDB(servers, args, server), beats_of_mariadb)
    reference = measured(Ours(servers, args, lag.DDL), lag.beats_of_postgres)
    return [
        Figure(
            f"lag: {traffic.rate:,} changes/s, p{share * 100:.0f}", "s", ours[share], reference[share], beside,
            less_is_better=True, at_most=LAG_GOAL if share == 0.95 else None,
        )
        for share in (0.5, 0.95)
    ]  # fmt: skip


@contextmanager
def beats_of_mariadb(info: ConnectionInfo) -> Iterator[Callable[[], int]]:
    with connect_slave(info, application="sluice bench") as session:

        def beat() -> int:
            row = session.run("SELECT beat FROM probe WHERE id = 1").fetchone()
            return int(row[0]) if row else 0

        yield beat


def _statements(mix: Mix) -> Iterable[str]:
    """The changes of a mix as an application would send them in bulk: a transaction for each of the master's."""
    inserts, updates = mix.changes // 2, mix.changes * 4 // 10
    for low, high in _ranges(inserts, mix.transaction):
        yield "BEGIN;\n"
        for first, last in _ranges(high - low + 1, ROWS_A_STATEMENT):
            rows = ",".join(map(_row, range(low + first - 1, low + last)))
            yield f"INSERT INTO orders VALUES {rows};\n"
        yield "COMMIT;\n"
    for low, high in _ranges(updates, mix.transaction):
        yield f"UPDATE orders SET amount = amount + 0.01, status = 'open' WHERE id BETWEEN {low} AND {high};\n"
    for low, high in _ranges(mix.changes - inserts - updates, mix.transaction):
        yield f"DELETE FROM orders WHERE id BETWEEN {updates + low} AND {updates + high};\n"


def _row(key: int) -> str:
    note = f"'note {key}'" if key % 5 else "NULL"
    return f"({key},'customer {key % 977}',{key % 10000},'closed',{note},'2026-01-01 10:00:00.5')"


def _ranges(count: int, size: int) -> list[tuple[int, int]]:
    """1 to `count` in pieces of `size`, both ends inclusive."""
    return [(low, min(low + size - 1, count)) for low in range(1, count + 1, size)]
