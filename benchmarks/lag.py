"""`lag`: how long after its commit on the master a change can be seen on the slave, under steady traffic.

pgbench writes at a rate of row changes a second; beside it a probe commits a number every 20 ms and notes when the
commit returned, and a watcher reads the slave every few milliseconds until it shows the number. Both are threads of
this process, so that one clock is read. The reference is logical replication under the same traffic, in two forms:
the master's commits asynchronous, which wait for the WAL writer before they are sent, and synchronous.

`idle` is the share of one core that everything we start uses while nothing changes.
"""

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from benchmarks import machine, progress
from benchmarks.clients import HUNDREDS, TENS, Clients, finish
from benchmarks.cpu import CpuWatch
from benchmarks.native import Native
from benchmarks.ours import Ours
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import Servers, connect
from benchmarks.side import Side, scalar
from devstack.demo.heartbeat import percentile
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from workload import mixes

PROBE = "public.probe"
DDL = f"{mixes.DDL}; CREATE TABLE {PROBE} (id int PRIMARY KEY, beat bigint NOT NULL)"
BEAT, LOOK = 0.02, 0.004
"""Seconds between two commits of the probe, and between two looks of the watcher."""
CLIENTS = 2
TRANSACTIONS = 100
"""Transactions of the traffic per second."""
IDLE_GOAL = 10.0


@dataclass(frozen=True)
class Traffic:
    """The transaction that pgbench runs `TRANSACTIONS` times per second."""

    script: str
    changes: int
    """Row changes of a transaction."""
    p50: float | None
    p95: float | None
    """Seconds aimed at."""

    @property
    def rate(self) -> int:
        """Row changes a second."""
        return TRANSACTIONS * self.changes


TRAFFIC = {"1000": Traffic(TENS, 10, 0.02, 0.1), "10000": Traffic(HUNDREDS, 100, None, 1.0)}


Beats = Callable[[ConnectionInfo], AbstractContextManager[Callable[[], int]]]
"""A session on a slave, and what reads the probe's number there; 0 while there is none."""
Commits = Callable[[ConnectionInfo], AbstractContextManager[Callable[[int], object]]]
"""A session on a master, and what commits a number there."""


@contextmanager
def commits_of_postgres(info: ConnectionInfo, *, asynchronous: bool = False) -> Iterator[Callable[[int], object]]:
    with connect(info) as master:
        if asynchronous:
            master.execute("SET synchronous_commit = off")
        yield lambda number: master.execute(f"UPDATE {PROBE} SET beat = %s WHERE id = 1", [number])


@contextmanager
def beats_of_postgres(info: ConnectionInfo) -> Iterator[Callable[[], int]]:
    with connect(info) as slave:
        yield lambda: scalar(slave, f"SELECT beat FROM {PROBE} WHERE id = 1") or 0


@dataclass
class Probe:
    """Commits numbers on one side, and sees them arrive."""

    side: Side
    commits: Commits
    beats: Beats
    lags: list[float] = field(default_factory=list)
    """Seconds, after `run`."""
    failure: BaseException | None = None
    _sent: dict[int, float] = field(default_factory=dict)
    _last: int = 0
    _seen: int = 0
    _arrived: list[tuple[int, float]] = field(default_factory=list)

    def run(self, seconds: float, lead: float, done: threading.Event | None = None) -> None:
        """For `seconds`, and until `done` is set; what is committed in the first `lead` seconds does not count."""
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch, args=[stop], daemon=True)
        with self.commits(self.side.infos["master"]) as commit:
            self._last = int(time.time() * 1000)
            first = self._last + 1
            watcher.start()
            begun = time.monotonic()
            while (now := time.monotonic()) < begun + seconds or not (done is None or done.is_set()):
                self._last += 1
                commit(self._last)
                self._sent[self._last] = time.monotonic()
                if now < begun + lead:
                    first = self._last + 1
                time.sleep(max(0.0, now + BEAT - time.monotonic()))
        self.side.await_that(lambda: self._seen >= self._last or self.failure is not None, "the last beat arrives")
        stop.set()
        watcher.join(10)
        if self.failure:
            raise self.failure
        self.lags = [lag for number, lag in self._arrived if number >= first]

    def _watch(self, stop: threading.Event) -> None:
        try:
            with self.beats(self.side.infos["slave"]) as beat:
                while not stop.is_set():
                    begun = time.monotonic()
                    self._look(beat)
                    time.sleep(max(0.0, begun + LOOK - time.monotonic()))
        except BaseException as failure:
            self.failure = failure

    def _look(self, look: Callable[[], int]) -> None:
        beat = look()
        at = time.monotonic()
        if beat <= self._seen or not self._sent:
            return
        # A beat that is seen before its commit has returned to the probe has no lag at all.
        for number in range(max(self._seen + 1, min(self._sent)), beat + 1):
            self._arrived.append((number, max(0.0, at - self._sent.get(number, at))))
        self._seen = beat


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when a beat does not arrive or tables differ at the end."""
    chosen = args.figure or ("1000", "10000", "idle")
    seconds = max(2.0, 60 * min(args.scale, 1.0))
    figures: list[Figure] = []
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(args))
        sides: dict[str, Side] = {}
        if args.side != "reference":
            ours = sides["ours"] = Ours(servers, args, DDL)
            stack.callback(ours.close)
            ours.start()
        if args.side != "ours":
            native = sides["reference"] = Native(servers, DDL)
            stack.callback(native.close)
        for side in sides.values():
            prepare(side)
        for name in chosen:
            if name in TRAFFIC:
                figures += _under_traffic(servers, sides, TRAFFIC[name], seconds, args)
        if "idle" in chosen and "ours" in sides:
            figures.append(_idle(servers, sides["ours"], seconds / 2, args.rounds))
        setting = {**machine.describe(), **servers.describe()}
    return Report("lag", figures, setting)


def prepare(side: Side) -> None:
    """The probe's row is on both sides."""
    side.master.execute(f"INSERT INTO {PROBE} VALUES (1, 0)")
    side.await_current()


def _under_traffic(
    servers: Servers, sides: dict[str, Side], traffic: Traffic, seconds: float, args: argparse.Namespace
) -> list[Figure]:
    measures = [(side, asynchronous) for side in sides for asynchronous in (False, True)]
    found: dict[tuple[str, bool, float], list[Run]] = {}
    # A minute of each side and commit mode, in turns of a third or less.
    for number in range(args.rounds):
        for side, asynchronous in measures if number % 2 == 0 else reversed(measures):
            commits = "asynchronous" if asynchronous else "synchronous"
            progress.say(f"{traffic.rate:,} changes/s, {commits} commits, {side}, round {number + 1} of {args.rounds}")
            lags, cpu, achieved = _one(servers, sides[side], traffic, seconds / args.rounds, asynchronous)
            for share in (0.5, 0.95):
                value = percentile(lags, share) or 0.0
                detail = {"samples": len(lags), "changes_per_second": achieved, "worst": max(lags)}
                found.setdefault((side, asynchronous, share), []).append(Run(value, seconds, cpu, detail))
    figures = []
    for asynchronous in (False, True):
        for share, goal in ((0.5, traffic.p50), (0.95, traffic.p95)):
            ours = found.get(("ours", asynchronous, share), [])
            reference = found.get(("reference", asynchronous, share), [])
            title = f"{traffic.rate:,} changes/s, commits {'a' * asynchronous}synchronous, p{share * 100:.0f}"
            figures.append(
                Figure(title, "s", ours, reference, "logical replication", less_is_better=True, at_most=goal)
            )
    return figures


def _one(
    servers: Servers, side: Side, traffic: Traffic, seconds: float, asynchronous: bool
) -> tuple[list[float], dict[str, float], float]:
    """See `under`; then the tables are compared."""
    found = under(servers, side, traffic, seconds, beats_of_postgres, asynchronous=asynchronous)
    digests = [mixes.digest(connection) for connection in (side.master, side.slave)]
    if digests[0] != digests[1]:
        raise Terminal(f"{side.name}: the slave differs from the master: {digests}", code="bench-side-failed")
    return found


def under(
    servers: Servers, side: Side, traffic: Traffic, seconds: float, beats: Beats, *, asynchronous: bool
) -> tuple[list[float], dict[str, float], float]:
    """Lags in seconds, CPU seconds by part, and the row changes per second of the traffic."""
    side.forget()
    with connect(side.infos["master"]) as admin:
        admin.execute("ANALYZE")
    servers.quiet_down()
    clients = clients_of(servers, side, traffic, asynchronous=asynchronous)
    lead = min(2.0, seconds / 4)
    pgbench = clients.start("-T", str(round(seconds + lead)), "--rate", str(TRANSACTIONS))
    try:
        probe = Probe(side, partial(commits_of_postgres, asynchronous=asynchronous), beats)
        with CpuWatch(servers.roots, side.roots) as watch:
            probe.run(seconds, lead)
    finally:
        output = finish(pgbench)
    side.await_current()
    return probe.lags, watch.seconds, processed(output) * traffic.changes / round(seconds + lead)


def clients_of(servers: Servers, side: Side, traffic: Traffic, *, asynchronous: bool) -> Clients:
    """pgbench, to continue behind the rows that there are."""
    return Clients(
        side.infos["master"],
        servers.folder,
        traffic.script.format(table=mixes.TABLE),
        CLIENTS,
        first=_highest(side) * 10 // traffic.changes // 5 + 1,
        options="-c synchronous_commit=off" if asynchronous else "",
    )


def processed(output: str) -> int:
    """The number of transactions in pgbench's output."""
    return next(
        int(line.rsplit(" ", 1)[1].split("/")[0]) for line in output.splitlines() if "actually processed" in line
    )


def _highest(side: Side) -> int:
    row = side.master.execute(f"SELECT coalesce(max(id % 100000000), 0) FROM {mixes.TABLE}").fetchone()
    assert row is not None
    return int(row[0])


def _idle(servers: Servers, side: Side, seconds: float, rounds: int) -> Figure:
    """Percent of one core, of all processes we start together, and of the servers beside."""
    side.await_current()
    time.sleep(min(3.0, seconds))
    runs = []
    for number in range(rounds):
        progress.say(f"idle, round {number + 1} of {rounds}")
        with CpuWatch(servers.roots, side.roots) as watch:
            begun = time.perf_counter()
            time.sleep(seconds / rounds)
            took = time.perf_counter() - begun
        runs.append(Run(100 * sum(watch.seconds.values()) / took, took, watch.seconds))
    return Figure("idle, all processes and both servers", "% of a core", runs, less_is_better=True, at_most=IDLE_GOAL)
