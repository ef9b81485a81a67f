"""`drain`: changes wait on the master; how long from letting them go until the slave shows the last of them.

Ours: the gate is closed while they are made, then opened; the apply is the long-running one, Spark a server that is up.
The reference: PostgreSQL's logical replication on the same servers, its subscription disabled and enabled. Both sides
begin each run with tables emptied by a replicated TRUNCATE, vacuumed, dirty pages written. After each run both tables
are compared. The figure `process` is the same by Spark's executors, beside the apply process alone; `transformed` is a
table with a filter and a renamed column, `exit` one with a user exit, beside the same table as it is.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from benchmarks import machine
from benchmarks.cpu import CpuWatch
from benchmarks.machine import MemoryWatch
from benchmarks.native import Native
from benchmarks.ours import Ours
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import Servers
from benchmarks.side import Side
from sluice.errors import Terminal
from workload import mixes
from workload.mixes import Mix, Work

NATIVE = "logical replication"
NEVER = 1_000_000_000
"""A value of `stage_above`: more changes than there are."""
TRANSFORMED = "{where: amount > -100000 AND status <> 'none', columns: {customer: {rename: client}}}"
RENAMED = f"ALTER TABLE {mixes.TABLE} RENAME COLUMN customer TO client"
"""All rows are kept, so that both tables can be compared as they are."""
EXIT = "{exit: benchmarks.user_exit:unchanged}"


def goals(scale: float) -> dict[str, tuple[Mix, float | None]]:
    """Figures of this bench, each with the ratio that is aimed at."""

    def size(full: int) -> int:
        return max(200, int(full * scale) // 100 * 100)

    large, small = size(1_000_000), size(200_000)
    transaction = max(10, min(10_000, large // 100))
    return {
        "bulk": (Mix("bulk", large, transaction if transaction != 10 else 11), 1.2),
        "tens": (Mix("tens", small, 10), 1.0),
        "existing": (Mix("existing", large, transaction if transaction != 10 else 11, existing=True), None),
    }


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when a slave differs from its master."""
    chosen = {name: mix for name, mix in goals(args.scale).items() if name in (args.figure or ("bulk", "tens"))}
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(args))
        figures = [beside(servers, args) for name, beside in BESIDE.items() if name in (args.figure or ())]
        sides: dict[str, Side] = {}
        if chosen and args.side != "reference":
            ours = sides["ours"] = Ours(servers, args, mixes.DDL)
            stack.callback(ours.close)
            ours.start()
        if chosen and args.side != "ours":
            native = sides["reference"] = Native(servers, mixes.DDL)
            stack.callback(native.close)
        figures += [measure(servers, sides, mix, goal, args) for mix, goal in chosen.values()]
        setting = {
            **machine.describe(),
            **servers.describe(),
            **{name: side.describe() for name, side in sides.items()},
        }
    return Report("drain", figures, setting)


def _process(servers: Servers, args: argparse.Namespace) -> Figure:
    """The drain in bulk by Spark's executors, and by an apply that leaves nothing to Spark."""
    mix = goals(args.scale)["bulk"][0]

    def side(name: str) -> Ours:
        # Every run of the executors is staged, however small its scale is.
        above = mix.changes // 100 if name == "executors" else NEVER
        return Ours(servers, args, mixes.DDL, stage_above=above)

    runs = _in_turn(servers, args, mix, ("executors", "process"), side)
    title = f"{mix.title}, by executors"
    return Figure(title, "changes/s", runs["executors"], runs["process"], "the apply process alone", goal=0.7)


def _transformed(servers: Servers, args: argparse.Namespace) -> Figure:
    """The drain in bulk of a table with `where` and a renamed column, and of the same table as it is."""
    return _beside_plain(servers, args, "where and rename", TRANSFORMED, RENAMED)


def _exit(servers: Servers, args: argparse.Namespace) -> Figure:
    """The same with a user exit that changes nothing: the cost of calling one."""
    return _beside_plain(servers, args, "a user exit", EXIT, "")


def _beside_plain(servers: Servers, args: argparse.Namespace, what: str, rule: str, of_slave: str) -> Figure:
    """`rule`: the configuration of the table; `of_slave`: computes the slave's rows from the master's."""
    mix = goals(args.scale)["bulk"][0]

    def side(name: str) -> Ours:
        if name == "plain":
            return Ours(servers, args, mixes.DDL)
        return Ours(servers, args, mixes.DDL, rule=rule, of_slave=of_slave)

    runs = _in_turn(servers, args, mix, ("transformed", "plain"), side)
    title = f"{mix.title}, with {what}"
    return Figure(title, "changes/s", runs["transformed"], runs["plain"], "the same table as it is", goal=0.7)


def _in_turn(
    servers: Servers, args: argparse.Namespace, mix: Mix, names: tuple[str, str], side: Callable[[str], Ours]
) -> dict[str, list[Run]]:
    """Runs of two applies that are configured differently, one after the other on the same servers, in turn."""
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(-args.warm_up, args.rounds):
        for name in names if number % 2 else reversed(names):
            ours = side(name)
            try:
                ours.start()
                if ours.options.get("stage_above", NEVER) < NEVER:
                    ours.attach()
                found = alternate(f"drain {name}", {"ours": partial(drain, servers, ours, mix)}, 1, 0)["ours"]
            finally:
                ours.close()
            runs[name] += found if number >= 0 else []
    return runs


BESIDE = {"process": _process, "transformed": _transformed, "exit": _exit}
"""Figures whose reference is an apply of ours."""


def measure(servers: Servers, sides: dict[str, Side], mix: Mix, goal: float | None, args: argparse.Namespace) -> Figure:
    """One mix on both sides."""
    runs = alternate(
        f"drain {mix.name}",
        {name: lambda side=side: drain(servers, side, mix) for name, side in sides.items()},  # type: ignore[misc]
        args.rounds,
        args.warm_up,
    )
    return Figure(mix.title, "changes/s", runs.get("ours", []), runs.get("reference", []), NATIVE, goal=goal)


def drain(servers: Servers, side: Side, work: Work, during: Callable[[], None] = lambda: None) -> Run:
    """One run of one side. `during` is called again and again while it drains. Raises `bench-side-failed`."""
    empty(side, work)
    work.prepare(side.master)
    side.await_current()
    side.forget()
    side.hold()
    mark = f"run of {time.time_ns()}"
    side.master.execute("SET synchronous_commit = off")  # the making is not what is measured
    changed = work.write(side.master, mark)
    if changed != work.changes:
        raise Terminal(
            f"{side.name}: {changed} changes were made where {work.changes} were meant", code="bench-side-failed"
        )
    for connection in (side.master, side.slave):
        # As autovacuum does it, which is off here. ANALYZE alone touched all pages of a million changes, and few of ten
        # millions: who reads a page first after a checkpoint writes it to the WAL, for the sake of its hint bits.
        connection.execute("VACUUM ANALYZE")
    servers.quiet_down()

    def arrived() -> bool:
        during()
        return mixes.shows(side.slave, mark)

    with CpuWatch(servers.roots, side.roots) as cpu, MemoryWatch(side.roots) as memory:
        begun = time.perf_counter()
        side.release()
        side.await_that(arrived, "the last change is on the slave")
        seconds = time.perf_counter() - begun
    side.await_current()
    rows = 0
    for table in work.tables:
        found = [mixes.digest(connection, table) for connection in (side.master, side.slave)]
        if found[0] != found[1]:
            raise Terminal(
                f"{side.name}: {table} of the slave differs from the master: {found}", code="bench-side-failed"
            )
        rows += found[0][0]
    detail = {"changes": changed, "rows": rows, "peak_bytes": memory.peak}
    return Run(work.changes / seconds, seconds, cpu.seconds, detail)


def empty(side: Side, work: Work) -> None:
    """Fresh tables on both: by the way that changes go."""
    side.release()
    side.master.execute(f"TRUNCATE {', '.join(work.tables)}".encode())
    side.await_current()
