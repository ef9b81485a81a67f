"""`binlog`: what a MariaDB master logs is read, recorded and read again; each a rate of one core.

`read`: the server's log comes over a connection, and every value is typed; beside MariaDB's own program, which prints
the same rows as text. `record`: it becomes a recorded stream. `stream`: that stream is read as an apply reads it. The
last two stand beside Python's own reader of JSON, which reads the stream's lines and types nothing.

Rates are changes by the processor time of the process: a server works beside it, and is not counted.
"""

import argparse
import itertools
import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from benchmarks import machine
from benchmarks.redo import both, expect, measured
from benchmarks.report import Figure, Report, Run
from devstack.account import new_folder
from devstack.mariadb import LOGGED, MariaDBServer, ensure_installed, program
from sluice.database.change_log import LogPlace, Rows
from sluice.model.names import Prefix, TableName
from sluice.model.position import Window
from sluice.vendors.mysql.binlog.log import BinaryLog
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.log_recorder import LogRecorder
from sluice.vendors.stream.reader import Reader
from sluice.vendors.stream.session import StreamSession
from sluice.vendors.stream.source import StreamQueue

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
    folder = new_folder("sluice-bench-binlog-")
    server = MariaDBServer(folder / "server", settings={**LOGGED, "max_binlog_size": "1G"})
    try:
        server.start(die_with_parent=True)
        server.create_account("owner", DATABASE)
        bench = _Bench(server, args)
        benches = {"read": bench.read, "record": bench.record, "stream": bench.stream}
        figures = [benches[name]() for name in args.figure or benches if name in benches]
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    setting = {"load": [round(each, 1) for each in os.getloadavg()], "MariaDB": bench.version}
    return Report("binlog", figures, {**machine.describe(), **setting})


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
            cursor.execute("SELECT version()")
            self.version = str((cursor.fetchone() or ("",))[0])
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
            self._recorded(first := next(places))
            title = f"{self.changes:,} changes recorded into a stream"
            ours, reference = lambda: self._recorded(next(places)), lambda: _parsed(first, self.changes)
            return self._figure(title, "record", ours, reference, "json.loads of its lines")

    def stream(self) -> Figure:
        with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
            place = Path(folder)
            self._recorded(place)

            def ours() -> Run:
                queue = StreamQueue(StreamSession(place), Prefix("BENCH_"), "")
                window = Window(queue.beginning(None), queue.take())
                with measured(self.changes) as took:
                    found = Reader(place, queue.files).items(window).num_rows
                expect(self.changes, found)
                return took[0]

            title = f"{self.changes:,} changes of a stream read as columns"
            return self._figure(title, "stream", ours, lambda: _parsed(place, self.changes), "json.loads of its lines")

    def _recorded(self, folder: Path) -> Run:
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
