"""`verify`: one large table of a master and a slave is compared, beside reladiff, the fastest tool made for it.

`equal`: nothing differs. `hundred`: a hundred rows all over the table do. Ours is what a run of `resync` does for a
table, its sessions and the request to the running apply included. reladiff compares two tables that stand still, all
columns, with its defaults; it is measured from its first connection on, so that starting Python counts for neither. It
is installed by its hashes, once, into `.reladiff/`. What travels between the databases and either tool is counted in a
run of its own, by proxies in between. `floor`: ours beside one plain checksum query a side, both at the same time.
`executors`, where it is asked for: by Spark's executors in a session that is up, beside the process of a comparison
alone.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import machine, progress
from benchmarks.cpu import CpuWatch
from benchmarks.load import DDL, FILL, TABLE, started
from benchmarks.ours import Ours
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import Servers, connect
from devstack.home import kept
from devstack.ports import HOST
from sluice.errors import Terminal
from sluice.executor import Executor
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.pair import Pair
from sluice.verify.compare import compare
from sluice.verify.executor_reads import ByExecutors
from sluice.verify.pinned_sessions import at_one_position
from workload.faults.proxy import Proxy

Infos = Mapping[str, ConnectionInfo]
Tool = Callable[[Infos], Run]
"""Compares the table as it is found there."""
LOCK = Path(__file__).with_name("reladiff.lock")
ROWS = 2_000_000
COLUMNS = ("customer", "amount", "quantity", "status", "note", "created")
GOALS = {"equal": 2.5, "hundred": 4.0}
NAMES = {"equal": "no difference", "hundred": "100 scattered differences"}
CHECKSUM = f"SELECT count(*), sum(hashtext(t::text)) FROM {TABLE} t"
RELADIFF = """
import json, sys, time
from reladiff import connect_to_table, diff_tables
task = json.load(sys.stdin)
begun = time.perf_counter()
tables = [connect_to_table(uri, task["table"], "id") for uri in task["uris"]]
found = len({row[1][0] for row in diff_tables(*tables, extra_columns=tuple(task["columns"]))})
print(json.dumps({"seconds": time.perf_counter() - begun, "found": found}))
"""


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when a side does not find exactly what differs."""
    chosen = args.figure or ("equal", "hundred", "floor")
    rows = max(10_000, int(ROWS * args.scale))
    figures = []
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(args))
        ours = Ours(servers, args, f"{DDL};{FILL.format(rows=rows)}")
        stack.callback(ours.close)
        ours.run_on_both(f"VACUUM (ANALYZE) {TABLE}")
        ours.start()
        for name in ("equal", "hundred"):
            if name == "hundred":
                ours.slave.execute(f"UPDATE {TABLE} SET quantity = -1 WHERE id % {rows // 100} = 7".encode())
            expected = 0 if name == "equal" else 100
            tools: dict[str, Tool] = {
                "ours": partial(_ours, servers, ours, rows, expected),
                "reference": partial(_reladiff, servers, expected),
            }
            tools = {side: tool for side, tool in tools.items() if args.side in ("both", side)}
            sides: dict[str, Callable[[], Run]] = {side: partial(tool, ours.infos) for side, tool in tools.items()}
            if name in chosen:
                servers.quiet_down()
                runs = alternate(name, sides, args.rounds, args.warm_up)
                figures.append(
                    Figure(
                        NAMES[name], "s", runs.get("ours", ()), runs.get("reference", ()), "reladiff", True, GOALS[name]
                    )
                )
                sent = {side: [_travelled(tool, ours.infos)] for side, tool in tools.items()}
                kilobytes, others = sent.get("ours", ()), sent.get("reference", ())
                figures.append(Figure(f"{NAMES[name]}, wire", "kB", kilobytes, others, "reladiff", True, 1.0))
            if name == "equal" and "floor" in chosen:
                runs = alternate(
                    "floor", {**sides, "reference": lambda: _floor(servers, ours)}, args.rounds, args.warm_up
                )
                figures.append(
                    Figure("the floor", "s", runs.get("ours", ()), runs["reference"], "plain checksums", True)
                )
        if "executors" in chosen:
            figures.append(_by_executors(servers, ours, rows, args))
        setting: Mapping[str, object] = {**machine.describe(), **servers.describe(), "rows": rows}
    return Report("verify", figures, setting)


def _by_executors(servers: Servers, ours: Ours, rows: int, args: argparse.Namespace) -> Figure:
    """As the slave is by now, which has a hundred rows that differ."""
    from spark_jobs.session import SparkExecutor

    executor = SparkExecutor("sluice bench: verify", servers.spark(args.spark_master))
    try:
        started(executor)
        by = {
            "ours": partial(_ours, servers, ours, rows, 100, ours.infos, executor),
            "reference": partial(_ours, servers, ours, rows, 100, ours.infos),
        }
        runs = alternate("executors", by, args.rounds, args.warm_up)
    finally:
        executor.stop()
    return Figure(f"{NAMES['hundred']}, by executors", "s", runs["ours"], runs["reference"], "one process", True)


def _travelled(tool: Tool, infos: Infos) -> Run:
    """Kilobytes between both databases and the tool, whatever asks and answers included."""
    with ExitStack() as stack:
        proxies = {place: stack.enter_context(closing(Proxy(info.port))) for place, info in infos.items()}
        run = tool({place: replace(info, host=HOST, port=proxies[place].port) for place, info in infos.items()})
        return Run(sum(proxy.bytes for proxy in proxies.values()) / 1000, run.seconds)


def _ours(
    servers: Servers, ours: Ours, rows: int, expected: int, infos: Infos, executor: Executor | None = None
) -> Run:
    schema, name = TABLE.split(".")
    pair = Pair.of(ours.pair.replication, ours.pair.slave.name, infos)
    with CpuWatch(servers.roots, ours.roots) as watch:
        begun = time.perf_counter()
        with at_one_position(pair, ours.store) as view:
            table = TableName(schema, name)
            reads = ByExecutors(view, table, executor) if executor is not None else None
            finding = compare(view, table, reads=reads)
        seconds = time.perf_counter() - begun
    if finding.faults != expected or finding.rows_master != rows:
        raise Terminal(f"{finding.faults} differences found instead of {expected}", code="bench-side-failed")
    detail = {"blocks": finding.blocks, "apply seconds": finding.paused, "digests traveled": finding.traveled}
    return Run(seconds, seconds, watch.seconds, detail)


def _install_reladiff() -> Path:
    """Returns the folder of reladiff's packages. Raises `reladiff-missing`."""
    folder = kept(".reladiff") / hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    if not folder.exists():
        progress.say("installs reladiff")
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:"]
        done = subprocess.run([*pip, "--target", unfinished, "-r", LOCK], capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise Terminal(
                f"pip could not install reladiff: {done.stderr[-500:].strip()}\nMeasure without it: --side ours.",
                code="reladiff-missing",
            )
        unfinished.rename(folder)
    return folder


def _reladiff(servers: Servers, expected: int, infos: Infos) -> Run:
    task = {
        "uris": [_uri(infos[place]) for place in ("master", "slave")],
        "table": TABLE,
        "columns": COLUMNS,
    }
    packages = {**os.environ, "PYTHONPATH": str(_install_reladiff())}
    with CpuWatch(servers.roots) as watch:
        done = subprocess.run(
            [sys.executable, "-c", RELADIFF], input=json.dumps(task), capture_output=True, text=True, env=packages
        )
    if done.returncode:
        raise Terminal(f"reladiff: {done.stderr[-500:]}", code="bench-side-failed")
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer["found"] != expected:
        raise Terminal(f"reladiff found {answer['found']} differences instead of {expected}", code="bench-side-failed")
    return Run(answer["seconds"], answer["seconds"], watch.seconds)


def _floor(servers: Servers, ours: Ours) -> Run:
    def ask(info: ConnectionInfo) -> object:
        with connect(info) as connection:
            connection.execute("SET max_parallel_workers_per_gather = 0")
            return connection.execute(CHECKSUM.encode()).fetchone()

    with CpuWatch(servers.roots) as watch, ThreadPoolExecutor(2) as pool:
        begun = time.perf_counter()
        master, slave = pool.map(ask, [ours.infos[place] for place in ("master", "slave")])
        seconds = time.perf_counter() - begun
    if master != slave:
        raise Terminal("the tables are not equal", code="bench-side-failed")
    return Run(seconds, seconds, watch.seconds)


def _uri(info: ConnectionInfo) -> str:
    password = f":{info.password}" if info.password else ""
    return f"postgresql://{info.user}{password}@{info.host}:{info.port}/{info.database}"
