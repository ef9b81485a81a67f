"""`join`: how far the slave is behind while a large table joins.

The traffic, the probe and the watcher are those of `lag`. A table with rows is registered meanwhile, loaded by a load
job of its own as an `initial_update` with `tables` does it, and ready in the end. Counted are the commits of the probe
from the registration until then. The reference is the same traffic while nothing joins.
"""

import argparse
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from benchmarks import lag, load, machine
from benchmarks.clients import finish
from benchmarks.cpu import CpuWatch
from benchmarks.ours import Ours, capture
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import Servers, connect
from devstack.demo.heartbeat import percentile
from sluice.errors import Terminal
from sluice.load import steps
from sluice.load.selection import Selection
from sluice.load.update import Update
from sluice.model.names import TableName
from workload import mixes

ROWS = 2_000_000
TRAFFIC = lag.TRAFFIC["1000"]
LEAD, ALONE = 2.0, 20.0
"""Seconds before anything counts, and of the reference."""


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when a table differs at the end."""
    rows = max(1000, int(ROWS * args.scale))
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(args))
        ours = Ours(servers, args, lag.DDL)
        stack.callback(ours.close)
        ours.start()
        lag.prepare(ours)
        bench = _Bench(ours, rows)
        sides: dict[str, Callable[[], Run]] = {}
        if args.side != "reference":
            sides["ours"] = bench.joining
        if args.side != "ours":
            sides["reference"] = lambda: bench.measure(lambda: time.sleep(max(2.0, ALONE * min(args.scale, 1.0))))
        runs = alternate("join", sides, args.rounds, args.warm_up)
        setting = {**machine.describe(), **servers.describe(), **ours.describe()}
    joins = runs.get("ours", [])
    seconds = ", ".join(f"{each.seconds:.0f} s" for each in joins)
    note = f"from the registration until the table was ready: {seconds}" if joins else ""
    title = f"a table of {rows:,} rows joins under {TRAFFIC.rate:,} changes/s"
    figures = [
        Figure(
            f"{title}, lag of the others, p{share * 100:.0f}",
            "s",
            [_of(each, share) for each in joins],
            [_of(each, share) for each in runs.get("reference", [])],
            "nothing joins",
            less_is_better=True,
            at_most=goal,
            note=note,
        )
        for share, goal in ((0.95, TRAFFIC.p95), (0.5, TRAFFIC.p50))
    ]
    return Report("join", figures, setting)


class _Bench:
    def __init__(self, ours: Ours, rows: int) -> None:
        self.ours = ours
        self.rows = rows
        self._number = 0

    def joining(self) -> Run:
        """One join, under traffic."""
        self._number += 1
        table = TableName("public", f"joins_{self._number}")
        for statement in (load.DDL, load.FILL.format(rows=self.rows), f"VACUUM (ANALYZE) {load.TABLE}"):
            self.ours.master.execute(statement.replace(load.TABLE, str(table)).encode())
        found = self.measure(lambda: self._join(table))
        digests = [mixes.digest(connection, str(table)) for connection in (self.ours.master, self.ours.slave)]
        if digests[0] != digests[1]:
            raise Terminal(f"{table}: the slave differs from the master: {digests}", code="bench-side-failed")
        # Kept tables would make every later run slower.
        self.ours.run_on_both(f"DROP TABLE {table}")
        self.ours.await_current()
        return found

    def measure(self, work: Callable[[], None]) -> Run:
        """Lags of what is committed while `work` is done."""
        ours, servers = self.ours, self.ours.servers
        ours.forget()
        with connect(ours.infos["master"]) as admin:
            admin.execute("ANALYZE")
        servers.quiet_down()
        clients = lag.clients_of(servers, ours, TRAFFIC, asynchronous=False)
        done, failures = threading.Event(), list[BaseException]()
        seconds = 0.0

        def worked() -> None:
            nonlocal seconds
            time.sleep(LEAD)
            began = time.monotonic()
            try:
                work()
            except BaseException as failure:
                failures.append(failure)
            seconds = time.monotonic() - began
            done.set()

        working = threading.Thread(target=worked, name="join", daemon=True)
        begun = time.monotonic()
        pgbench = clients.start("-T", "86400", "--rate", str(lag.TRANSACTIONS))
        try:
            probe = lag.Probe(ours, lag.commits_of_postgres, lag.beats_of_postgres)
            with CpuWatch(servers.roots, ours.roots) as watch:
                working.start()
                probe.run(LEAD, LEAD, done)
        finally:
            done.wait()
            pgbench.send_signal(signal.SIGALRM)  # as its own timer: it ends in order
            output = finish(pgbench)
            under_traffic = time.monotonic() - begun
        if failures:
            raise failures[0]
        ours.await_current()
        digests = [mixes.digest(connection) for connection in (ours.master, ours.slave)]
        if digests[0] != digests[1]:
            raise Terminal(f"{mixes.TABLE}: the slave differs from the master: {digests}", code="bench-side-failed")
        achieved = lag.processed(output) * TRAFFIC.changes / under_traffic
        detail = {"lags": probe.lags, "changes_per_second": achieved}
        return Run(percentile(probe.lags, 0.95) or 0.0, seconds, watch.seconds, detail)

    def _join(self, table: TableName) -> None:
        ours = self.ours
        with connect(ours.infos["master"]) as master:
            capture(master, ours.pair.replication)
        update = Update.named(ours.pair, f"bench {table}", Selection(tables=(str(table),)))
        steps.begin(update, ours.store)
        steps.create_tables(update)
        steps.plan(update, ours.store)
        load.load_job(update, ours.servers, ours.endpoint)
        with connect(ours.infos["slave"]) as slave:
            store = ours.checkpoints_over(slave)
            while (found := store.read()) is None or not found.tables.ready(table):
                ours.check()
                time.sleep(0.05)
        steps.finish(update)


def _of(run: Run, share: float) -> Run:
    lags = run.detail["lags"]
    detail = {"samples": len(lags), "worst": max(lags), "changes_per_second": run.detail["changes_per_second"]}
    return Run(percentile(lags, share) or 0.0, run.seconds, run.cpu, detail)
