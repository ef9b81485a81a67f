"""`./sluice demo --redo`: replicates from redo logs to a slave. A stand-in replaces OpenLogReplicator.

    recorded output in redo logs ─▶ proxy ═▶ stager ─▶ stand-in ═▶ receiver ─▶ merge ─▶ apply ─▶ PostgreSQL

Two redo threads write logs. Meanwhile a program is killed, and the supervisor, whose standby takes over. At the end the
slave's rows must be the result of the transactions.
"""

import argparse
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import psutil
import psycopg
import yaml

from devstack import openlogreplicator
from devstack.demo import slave
from devstack.demo.accounts import APPLICATION
from devstack.home import REPOSITORY, Home
from devstack.ports import free_port
from devstack.process import await_true
from devstack.stack import Stack
from sluice import config
from sluice.apply.apply_loop import keep_applying
from sluice.coordination import redis_store
from sluice.errors import Terminal
from sluice.executor import ThreadExecutor
from sluice.pair import Pair
from sluice.vendors.postgres.connection import connect

PREFIX, SLAVE = "REDO_", "dr1"
RESETLOGS, BEGAN = 1_000_000, 1_000
THREADS = (1, 2)
LOGS, TRANSACTIONS = 12, 60
"""Logs of each thread, and transactions of both threads during one log."""
LEASE_SECONDS = 2
WAIT_SECONDS = 180.0
COLUMNS: list[dict[str, Any]] = [
    {"name": "ID", "type": "number", "precision": -1, "scale": -1, "nullable": False},
    {"name": "CUSTOMER", "type": "varchar2", "length": 100, "nullable": True},
    {"name": "AMOUNT", "type": "number", "precision": 10, "scale": 2, "nullable": True},
    {"name": "AT", "type": "date", "nullable": True},
]
SCHEMA = {"owner": "SHOP", "table": "ORDERS", "obj": 7, "columns": COLUMNS}
TABLE = """
CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE shop.orders (id numeric PRIMARY KEY, customer text, amount numeric(10,2), at timestamp(0));
"""
Row = dict[str, Any]


class History:
    """Transactions of an Oracle master with two redo threads, in OpenLogReplicator's form, and their resulting rows."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.rows: dict[int, Row] = {}
        self.scn = BEGAN
        self.changes = 0

    def logs(self) -> dict[int, list[bytes]]:
        """Returns the next log of each thread."""
        made: dict[int, list[bytes]] = {thread: [] for thread in THREADS}
        for _ in range(TRANSACTIONS):
            self.scn += self.random.randint(1, 3)
            thread = self.random.choice(THREADS)
            payloads = [self._change(number) for number in range(self.random.randint(1, 8))]
            whole: list[dict[str, Any]] = [{"op": "begin"}, *payloads, {"op": "commit"}]
            head = {"scn": self.scn, "tm": time.time_ns() // 10**9 * 10**9, "c_scn": self.scn}
            for index, payload in enumerate(whole, start=1):
                xid = {"c_idx": index, "xid": f"{thread}.{self.scn}.1", "db": "SHOP"}
                made[thread].append(_line({**head, **xid, "payload": [payload]}))
        self.scn += 1
        for number, each in enumerate(made.values(), start=1):
            passed = [{"op": "chkpt", "seq": number, "offset": 512}]
            head = {"scn": self.scn, "tm": time.time_ns() // 10**9 * 10**9, "c_scn": self.scn}
            each.append(_line({**head, "c_idx": 1, "payload": passed}))
        return made

    def _change(self, number: int) -> dict[str, Any]:
        self.changes += 1
        change: dict[str, Any] = {"op": "c", "schema": SCHEMA, "num": number, "rid": "AAARwWAAYAAAAAOAAA"}
        choice = self.random.random()
        if not self.rows or choice < 0.5:
            key = self.changes
            self.rows[key] = self._row(key)
            return {**change, "after": self.rows[key]}
        key = self.random.choice([*self.rows])
        before = self.rows[key]
        if choice < 0.65:
            del self.rows[key]
            return {**change, "op": "d", "before": before}
        self.rows[key] = self._row(key)
        return {**change, "op": "u", "before": before, "after": self.rows[key]}

    def _row(self, key: int) -> Row:
        customer = self.random.choice(["Anna", "O'Neill", "Ünal", '"quoted"', "line\nend", None])
        moment = self.random.randint(0, 2_000_000_000) * 10**9
        return {"ID": key, "CUSTOMER": customer, "AMOUNT": self.random.randint(0, 10**6) / 100, "AT": moment}


class RedoDemo:
    """The demo. `run` returns the exit status: 0 if the slave has the rows of the master's transactions."""

    def __init__(self, args: argparse.Namespace):
        self.once: bool = args.once
        self.seed: int = args.seed if args.seed is not None else random.randrange(10_000)
        self.stack = Stack(Home().root / "redo", slaves=[SLAVE], airflow=False)
        self.folder = self.stack.home.root / "capture" / secrets.token_hex(3)
        self.arch = self.folder / "master" / "arch"
        self.history = History(self.seed)
        self.began = time.monotonic()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stop = threading.Event()
        self._applying: threading.Thread | None = None
        self._failed: BaseException | None = None

    def run(self) -> int:
        """Runs all steps. Raises Sluice's errors after ending everything."""
        try:
            self.say(f"seed {self.seed}; without Airflow and Spark: the apply runs in this process")
            self.stack.up(lambda line: None)
            slave.make(self.stack.services.server(SLAVE))
            self.say("PostgreSQL (the slave) and Redis run")
            pair = self.prepare()
            with connect(pair.slave_info, application=APPLICATION, autocommit=True) as connection:
                connection.execute(TABLE)
                self.write_logs(pair)
                equal = self.compare(connection)
        finally:
            self.end()
        return 0 if equal else 1

    def prepare(self) -> Pair:
        """Starts the proxy, writes the configuration, and starts the first supervisor."""
        self.arch.mkdir(parents=True)
        token, port = self.folder / "token", free_port()
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
        seed = {
            "database": "SHOP", "scn": BEGAN, "resetlogs": RESETLOGS, "activation": 1, "context": "SHOP",
            "users": ["SHOP"], "schema-scn": BEGAN, "incarnations": [{"resetlogs": RESETLOGS, "resetlogs-scn": 1}],
            "sys-user": [{"user": 1, "name": "SHOP"}],
            "sys-obj": [{"owner": 1, "obj": 7, "name": "ORDERS", "type": 2}],
            "sys-col": [{"obj": 7, "int-col": 1, "name": "ID"}],
            "sys-cdef": [{"con": 1, "obj": 7, "type": 2}, {"con": 2, "obj": 7, "type": 17}],
            "sys-ccol": [{"con": 1, "int-col": 1, "obj": 7}],
        }  # fmt: skip
        (self.folder / f"SHOP-chkpt-{BEGAN}.json").write_text(json.dumps(seed))
        values = {
            "prefix": PREFIX,
            "master": {"capture": "redo", "location": str(self.folder / "shop")},
            "slaves": {SLAVE: {"conn_id": f"demo_{SLAVE}"}},
            "tables": {"shop.*": {}},
            "redo": {
                "program": str(openlogreplicator.program(self.folder)),
                "schema": str(self.folder / f"SHOP-chkpt-{BEGAN}.json"),
                "threads": ", ".join(map(str, THREADS)),
                "proxy": f"http://127.0.0.1:{port}",
                "archived": str(self.arch),
                "token_file": str(token),
                "first_port": free_port() // 2 + 1024,
                "lease": LEASE_SECONDS,
                "checkpoint_seconds": 2,
            },
        }
        replications = self.folder / "replications"
        replications.mkdir()
        (replications / "REDO.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
        os.environ["SLUICE_REPLICATIONS"] = str(replications)
        (self.folder / "shop").mkdir()
        redis_store.connect(self.stack.redis_url).flushdb()
        self._start("redo-proxy", "--root", str(self.arch), "--token-file", str(token), "--port", str(port))
        self.say(f"a proxy serves the master's archived logs on port {port}")
        self._start("capture-redo", PREFIX)
        return Pair.of(config.load(PREFIX), SLAVE, {f"demo_{SLAVE}": self.stack.connection(SLAVE)})

    def write_logs(self, pair: Pair) -> None:
        """Writes the master's logs, one after the other, and kills processes meanwhile."""
        for sequence in range(1, LOGS + 1):
            for thread, lines in self.history.logs().items():
                name = f"arch{thread}_{sequence}_{RESETLOGS}.dbf"
                openlogreplicator.write_log(
                    self.arch / name, lines, thread=thread, sequence=sequence, resetlogs=RESETLOGS
                )
            if sequence == LOGS // 3:
                self._await("a merged log", lambda: any((self.folder / "shop" / "stream").glob("*.jsonl")))
                self._applying = threading.Thread(target=self._apply, args=(pair,), daemon=True)
                self._applying.start()
                victim = self._program()
                os.kill(victim, signal.SIGKILL)
                self.say(f"log {sequence}: the program of one redo thread, process {victim}, is killed")
            if sequence == 2 * LOGS // 3:
                standby = self._start("capture-redo", PREFIX)
                self._processes[1].kill()
                self.say(f"log {sequence}: the supervisor is killed; process {standby.pid} takes over")
        self.say(f"{LOGS} logs of each thread are archived, with {self.history.changes:,} changes")

    def compare(self, connection: "psycopg.Connection[Any]") -> bool:
        """Waits for the rows of the transactions on the slave. Returns whether it has exactly those."""
        wanted = {key: _shown(row) for key, row in self.history.rows.items()}
        self._await("the result of all transactions", lambda: _rows(connection) == wanted)
        rows = _rows(connection)
        self.say(f"the slave has the {len(rows):,} rows of the master's transactions, value for value")
        return rows == wanted

    def end(self) -> None:
        self._stop.set()
        if self._applying is not None:
            self._applying.join(30)
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(60)
        if self.once:
            self.stack.down(lambda line: None)

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def _apply(self, pair: Pair) -> None:
        connections = {pair.slave.conn_id: pair.slave_info}
        store = redis_store.connect(self.stack.redis_url)
        try:
            keep_applying(pair, connections, store, ThreadExecutor(), self._stop)
        except BaseException as error:  # raised where the demo waits
            self._failed = error

    def _start(self, command: str, *arguments: str) -> "subprocess.Popen[bytes]":
        environment: Mapping[str, str] = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY / "plugins"),
            "SLUICE_REDIS_URL": self.stack.redis_url,
        }
        with (self.folder / f"{command}-{len(self._processes)}.log").open("wb") as log:
            words = [sys.executable, "-m", "sluice.cli", command, *arguments]
            self._processes.append(subprocess.Popen(words, env=environment, stdout=log, stderr=log))
        return self._processes[-1]

    def _program(self) -> int:
        """Returns the pid of one of the supervisor's programs."""
        pids: list[int] = []

        def runs() -> bool:
            children = psutil.Process(self._processes[1].pid).children()
            pids[:] = [child.pid for child in children if "devstack.openlogreplicator" in child.cmdline()]
            return bool(pids)

        self._await("a program of the supervisor", runs)
        return pids[0]

    def _await(self, what: str, condition: Any) -> None:
        """Waits for the condition. Raises `demo-timed-out`, or the error that ended the apply."""
        came = await_true(lambda: self._failed is not None or condition(), WAIT_SECONDS, 0.2)
        if self._failed is not None:
            raise self._failed
        if not came:
            raise Terminal(
                f"{what} did not appear within {WAIT_SECONDS:.0f} s. The logs are in {self.folder}.",
                code="demo-timed-out",
            )


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def _shown(row: Row) -> tuple[Any, ...]:
    return row["CUSTOMER"], f"{row['AMOUNT']:.2f}", row["AT"] // 10**9


def _rows(connection: "psycopg.Connection[Any]") -> dict[int, tuple[Any, ...]]:
    rows = connection.execute(
        "SELECT id::bigint, customer, amount::text, extract(epoch FROM at)::bigint FROM shop.orders"
    )
    return {key: tuple(rest) for key, *rest in rows}
