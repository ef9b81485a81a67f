"""The printed result of a demo: the comparison's table, the differing rows, the figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from devstack.demo.compare import Side, Verdict
from devstack.demo.view import seconds, size

SHOWN = 300
"""The number of characters that are shown of a differing row."""


@dataclass(frozen=True)
class SlaveFigures:
    """Figures of one slave. Lags are in seconds."""

    name: str
    load_rows: int
    load_seconds: float
    lag_p50: float | None
    lag_p95: float | None
    lag_samples: int
    applied_rate: float
    """Changes a second during the traffic."""
    looks: int
    half_transactions: Sequence[str] = ()
    """Half transactions that a reader of the NORMAL slave saw."""
    joining_p95: float | None = None
    """The lag while other slaves joined, or None when none did."""


@dataclass(frozen=True)
class Figures:
    """Figures of the whole demo."""

    traffic_seconds: float
    captured_rate: float
    """Row changes a second on the master, over the same time."""
    slaves: Sequence[SlaveFigures]
    memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes by part at the largest total."""
    tally: Mapping[str, int] = field(default_factory=dict)
    kills: int = 0


def show(
    console: Console, verdicts: Mapping[str, Sequence[Verdict]], figures: Figures, problems: Sequence[str], seed: int
) -> bool:
    """Prints everything. `verdicts` are by slave. Returns whether all tables are equal and nothing else failed."""
    for slave, of_slave in verdicts.items():
        console.print(comparison(slave, of_slave))
        show_differences(console, slave, of_slave)
    show_figures(console, figures)
    console.print()
    half_transactions = [
        f"{slave.name}: a reader saw half a transaction: {slave.half_transactions[0]}"
        for slave in figures.slaves
        if slave.half_transactions
    ]
    wrong = [*problems, *half_transactions]
    for problem in wrong:
        console.print(problem, style="bold red", markup=False, highlight=False)
    everything = [verdict for of_slave in verdicts.values() for verdict in of_slave]
    unequal = sum(not verdict.equal for verdict in everything)
    if unequal:
        message = f"{unequal} of {len(everything)} tables differ. To repeat: --seed {seed}"
    elif wrong:
        message = f"All tables are equal, but see above. To repeat: --seed {seed}"
    else:
        tables = len(next(iter(verdicts.values()), ()))
        message = f"All {tables} tables are equal, row for row: master, {', '.join(verdicts)}."
    good = bool(everything) and not unequal and not wrong
    console.print(message, style="bold green" if good else "bold red", highlight=False)
    return good


def comparison(slave: str, verdicts: Sequence[Verdict]) -> Table:
    """Returns a row for each table."""
    table = Table(title=f"master and {slave}", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("table", "left"),
        ("rows", "right"),
        ("digest master", "left"),
        ("digest slave", "left"),
        ("equal", "left"),
    ):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for verdict in verdicts:
        equal = Text("yes", "green") if verdict.equal else Text("NO", "bold red")
        table.add_row(Text(str(verdict.table)), _rows(verdict), _digest(verdict.master), _digest(verdict.slave), equal)
    return table


def show_differences(console: Console, slave: str, verdicts: Sequence[Verdict]) -> None:
    """Prints both sides of the first differing rows of each unequal table."""
    for verdict in verdicts:
        if verdict.equal:
            continue
        console.print(Text(f"\n{verdict.table} differs on {slave}. {verdict.problem}", "bold red"))
        for difference in verdict.differences:
            console.print(Text(f"  key    {difference.key[:SHOWN]}"))
            console.print(Text(f"  master {_shown(difference.master, difference.slave)}"))
            console.print(Text(f"  {slave:<6} {_shown(difference.slave, difference.master)}"))


def show_figures(console: Console, figures: Figures) -> None:
    """Prints load, changes, lag and memory."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    over = f"over {figures.traffic_seconds:.0f} s"
    grid.add_row("changes on the master", f"{figures.captured_rate:,.0f}/s {over}")
    for slave in figures.slaves:
        rate = slave.load_rows / slave.load_seconds if slave.load_seconds else 0
        grid.add_row(
            f"load of {slave.name}", f"{slave.load_rows:,} rows in {slave.load_seconds:.1f} s: {rate:,.0f} rows/s"
        )
        grid.add_row(f"changes on {slave.name}", f"{slave.applied_rate:,.0f}/s {over}")
        lag = f"p50 {seconds(slave.lag_p50)}, p95 {seconds(slave.lag_p95)}, of {slave.lag_samples:,} heartbeats"
        if slave.joining_p95 is not None:
            lag += f"; while other slaves joined, p95 {seconds(slave.joining_p95)}"
        grid.add_row(f"lag of {slave.name}", lag + " (commit on the master until visible on the slave)")
        half_transactions = f"{len(slave.half_transactions)} of {slave.looks:,} looks" + (
            f", e.g. {slave.half_transactions[0]}" if slave.half_transactions else ""
        )
        grid.add_row(
            f"half transactions seen on {slave.name}",
            Text(half_transactions, "bold red" if slave.half_transactions else ""),
        )
    if figures.memory:
        parts = sorted(figures.memory.items(), key=lambda part: -part[1])
        listed = ", ".join(f"{name} {size(value)}" for name, value in parts)
        grid.add_row("memory at most", f"{size(sum(figures.memory.values()))}: {listed}")
    if figures.tally:
        grid.add_row(
            "the writer", ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in figures.tally.items())
        )
    if figures.kills:
        grid.add_row("killed", f"{figures.kills} times")
    console.print()
    console.print(grid)


def _rows(verdict: Verdict) -> str:
    rows = dict.fromkeys(f"{side.rows:,}" if side else "–" for side in (verdict.master, verdict.slave))
    return " / ".join(rows)


def _digest(side: Side | None) -> str:
    return side.digest[:16] if side else "–"


def _shown(text: str | None, other: str | None) -> str:
    """Returns a row's text. A long one begins shortly before its first difference from the other side."""
    if text is None:
        return "– no such row –"
    start = 0
    if other is not None and max(len(text), len(other)) > SHOWN:
        same = next(
            (i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other))
        )
        start = max(0, same - 40)
    shown = text[start : start + SHOWN]
    return ("…" if start else "") + repr(shown)[1:-1] + ("…" if start + SHOWN < len(text) else "")
