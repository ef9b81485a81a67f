"""`scale`: the drain of our side where there is much of something, beside its own rate with a million changes waiting.

    waiting   ten thousand to ten million changes          width   rows of ten bytes to ten megabytes
    tables    one to a thousand tables, alike or not        hot     one row changed a million times
    one       one transaction of five million changes

Each figure tells the most memory that driver, JVM and Python workers had together.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from benchmarks import machine, progress
from benchmarks.drain import drain
from benchmarks.ours import Ours
from benchmarks.report import Figure, Report, Run
from benchmarks.servers import Servers
from workload import mixes
from workload.mixes import TABLE, Connection, Mix, Work, add_mark, set_mark

FIGURES = ("waiting", "tables", "width", "hot", "one")
FLAT = 0.8
"""Ratio of every number of waiting changes to a million of them."""


@dataclass(frozen=True)
class Marked:
    """Changes after which the row of the mark is changed, of which nothing but that row is there before."""

    changes: int
    title: str

    @property
    def tables(self) -> Sequence[str]:
        return (TABLE,)

    def prepare(self, connection: Connection) -> None:
        add_mark(connection)


@dataclass(frozen=True)
class ManyTables(Marked):
    """Inserts, as many into each of several tables, a transaction each."""

    count: int

    @property
    def tables(self) -> Sequence[str]:
        return (TABLE, *(f"public.t{number}" for number in range(1, self.count)))

    def write(self, connection: Connection, mark: str) -> int:
        done = 0
        each, rest = divmod(self.changes - 1, self.count)
        for number, table in enumerate(self.tables):
            rows = each + (number < rest)
            done += connection.execute(
                f"INSERT INTO {table} SELECT {mixes.VALUES} FROM generate_series(1, {rows}) AS s (i)".encode()
            ).rowcount
        return done + set_mark(connection, mark)


@dataclass(frozen=True)
class WideRows(Marked):
    """Rows with a text of `size` bytes, in transactions of 64 MB or 10,000 rows."""

    size: int

    @property
    def tables(self) -> Sequence[str]:
        return (TABLE, "public.wide")

    def write(self, connection: Connection, mark: str) -> int:
        done, batch = 0, max(1, min(10_000, (64 << 20) // self.size))
        while done < self.changes - 1:
            last = min(done + batch, self.changes - 1)
            # Nothing in it repeats: what is wide is mostly compressed already.
            pieces = f"SELECT md5(i || '.' || j) AS piece FROM generate_series(0, {self.size // 32}) AS t (j)"
            text = f"(SELECT left(string_agg(piece, ''), {self.size}) FROM ({pieces}) p)"
            done += connection.execute(
                f"INSERT INTO public.wide SELECT i, {text} FROM generate_series({done + 1}, {last}) AS s (i)".encode()
            ).rowcount
        return done + set_mark(connection, mark)


@dataclass(frozen=True)
class HotRow(Marked):
    """The one row is changed over and over, in transactions of 10,000."""

    def write(self, connection: Connection, mark: str) -> int:
        connection.execute(f"""
            DO $$ BEGIN
                FOR k IN 1..{self.changes - 1} LOOP
                    UPDATE {TABLE} SET amount = k % 1000000 WHERE id = {mixes.MARK};
                    IF k % 10000 = 0 THEN COMMIT; END IF;
                END LOOP;
            END $$""")
        return self.changes - 1 + set_mark(connection, mark)


@dataclass(frozen=True)
class OneTransaction(Marked):
    """Everything in one transaction."""

    def write(self, connection: Connection, mark: str) -> int:
        with connection.transaction():
            done = connection.execute(
                f"INSERT INTO {TABLE} SELECT {mixes.VALUES} FROM generate_series(1, {self.changes - 1}) AS s (i)"
            ).rowcount
            return done + set_mark(connection, mark)


def run(args: argparse.Namespace) -> Report:
    """Raises `bench-side-failed` when a slave differs from its master."""
    wanted = args.figure or FIGURES
    figures: list[Figure] = []
    with Servers(args) as servers:
        with _side(servers, args, mixes.DDL) as ours:
            million = Mix("bulk", _size(1_000_000, args), max(11, _size(1_000_000, args) // 100))
            base = _runs(servers, ours, million, args)
            if "waiting" in wanted:
                for full, times in ((10_000, 1), (100_000, 1), (10_000_000, 10)):
                    # Of ten millions in one piece the updates would come after slices that hold the inserts alone.
                    transaction = max(11, min(10_000, _size(full, args) // times // 100))
                    mix = Mix("bulk", _size(full // times, args) * times, transaction, times=times)
                    figures.append(_figure(mix.title, _runs(servers, ours, mix, args), base, FLAT))
                figures.append(_figure(million.title, base, base, None))
            if "hot" in wanted:
                hot = HotRow(_size(1_000_000, args), f"one row changed {_size(1_000_000, args):,} times")
                figures.append(_figure(hot.title, _runs(servers, ours, hot, args), base))
            if "one" in wanted:
                one = OneTransaction(_size(5_000_000, args), f"one transaction of {_size(5_000_000, args):,} inserts")
                figures.append(_figure(one.title, _runs(servers, ours, one, args), base))
        if "width" in wanted:
            with _side(servers, args, f"{mixes.DDL}; CREATE TABLE public.wide (id int PRIMARY KEY, v text)") as ours:
                for size, rows in ((10, 200_000), (1_000, 100_000), (100_000, 2_000), (10_000_000, 20)):
                    count = max(3, int(rows * args.scale))
                    wide = WideRows(count, f"{count:,} rows of {size:,} bytes", size)
                    runs = _runs(servers, ours, wide, args)
                    volume = f", {size * count / median(run.seconds for run in runs) / 1e6:,.0f} MB/s"
                    figures.append(_figure(wide.title, runs, base, more=volume))
        if "tables" in wanted:
            counts = sorted({max(1, min(count, int(1000 * args.scale))) for count in (1, 10, 100, 1000)})
            for count, alike in (*((count, True) for count in counts), (counts[-1], False)):
                # Tables of the same columns are reduced together.
                columns = [f"LIKE {TABLE} INCLUDING ALL" + ("" if alike else f", x{n} int") for n in range(count)]
                copies = "".join(f"; CREATE TABLE public.t{n} ({columns[n]})" for n in range(1, count))
                with _side(servers, args, mixes.DDL + copies) as ours:
                    changes = _size(200_000, args)
                    title = (
                        f"{changes:,} inserts into {count:,} tables{'' if alike else ', no two of the same columns'}"
                    )
                    many = ManyTables(changes, title, count)
                    figures.append(_figure(many.title, _runs(servers, ours, many, args), base))
        setting = {**machine.describe(), **servers.describe()}
    return Report("scale", figures, setting)


@contextmanager
def _side(servers: Servers, args: argparse.Namespace, tables: str) -> Iterator[Ours]:
    ours = Ours(servers, args, tables)
    try:
        ours.start()
        yield ours
    finally:
        ours.close()


def _runs(servers: Servers, ours: Ours, work: Work, args: argparse.Namespace) -> list[Run]:
    runs = []
    for number in range(-args.warm_up, args.rounds):
        run = drain(servers, ours, work)
        peak = f"{run.detail['peak_bytes'] / 1e6:,.0f} MB"
        progress.say(f"{work.title}: {run.value:,.4g} changes/s in {run.seconds:.3f} s, {peak}")
        if number >= 0:
            runs.append(run)
    return runs


def _figure(title: str, runs: list[Run], base: list[Run], goal: float | None = None, *, more: str = "") -> Figure:
    note = f"at most {max(run.detail['peak_bytes'] for run in runs) / 1e6:,.0f} MB{more}"
    return Figure(title, "changes/s", runs, base, "a million waiting", goal=goal, note=note)


def _size(full: int, args: argparse.Namespace) -> int:
    return max(200, int(full * args.scale) // 100 * 100)
