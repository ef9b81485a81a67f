"""The report of a bench: figures, each with the runs of both sides, as a table, as one line of JSON, as a file."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Run:
    """One measurement of one side."""

    value: float
    """In the unit of the figure."""
    seconds: float
    cpu: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds by part."""
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """One comparison. A side is its median run; `ratio` above 1 says that ours is better."""

    name: str
    unit: str
    ours: Sequence[Run]
    reference: Sequence[Run] = ()
    of: str = ""
    """The reference."""
    less_is_better: bool = False
    goal: float | None = None
    """The ratio that is aimed at."""
    at_most: float | None = None
    """Or the value of ours."""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """None with one side alone."""
        ours, reference = middle(self.ours), middle(self.reference)
        if not ours or not reference:
            return None
        return reference / ours if self.less_is_better else ours / reference

    def line(self) -> dict[str, Any]:
        """The keys that every bench answers with."""
        return {
            "name": self.name,
            "ours": rounded(middle(self.ours)),
            "reference": rounded(middle(self.reference)),
            "ratio": rounded(self.ratio),
            "unit": self.unit,
        }


@dataclass(frozen=True)
class Report:
    """All figures of a bench; the first one is its answer."""

    name: str
    figures: Sequence[Figure]
    setting: Mapping[str, Any] = field(default_factory=dict)
    """Machine, versions, settings."""

    def line(self) -> dict[str, Any]:
        """One object: the first figure under the bench's name, all of them in `figures`."""
        return {**self.figures[0].line(), "name": self.name, "figures": [figure.line() for figure in self.figures]}

    def to_dict(self) -> dict[str, Any]:
        figures = [{**asdict(figure), **figure.line(), "runs": _runs(figure)} for figure in self.figures]
        return {**self.line(), "figures": figures, "setting": dict(self.setting)}


def middle(runs: Sequence[Run]) -> float | None:
    """The median value."""
    return median(run.value for run in runs) if runs else None


def rounded(value: float | None) -> float | None:
    """Four digits that mean something."""
    return None if value is None else float(f"{value:.4g}")


def show(report: Report, args: argparse.Namespace) -> None:
    """The table, the file, and last the line for programs."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(table(report))
    shown: list[Mapping[str, float]] = []
    for figure in report.figures:
        for side, runs in (("ours", figure.ours), ("reference", figure.reference)):
            # Some figures share their runs, the two percentiles of a lag for one.
            if runs and runs[0].cpu and runs[0].cpu not in shown:
                shown.append(runs[0].cpu)
                console.print(f"{figure.name}, CPU seconds, {side}: {costs(runs)}")
        if figure.note:
            console.print(f"{figure.name}: {figure.note}")
    if args.json:
        Path(args.json).write_text(json.dumps(report.to_dict(), indent=1, default=str) + "\n")
    print(json.dumps(report.line()), flush=True)


def table(report: Report) -> Table:
    """For people: one row a figure, the runs beside the median."""
    made = Table(title=f"bench {report.name}")
    for column in ("figure", "unit", "ours", "runs", "reference", "runs", "ratio", "aim"):
        made.add_column(column, justify="left" if column in ("figure", "unit") else "right")
    for figure in report.figures:
        made.add_row(
            figure.name, figure.unit, text(middle(figure.ours)), range_of_runs(figure.ours),
            text(middle(figure.reference)) + (f" ({figure.of})" if figure.of else ""), range_of_runs(figure.reference),
            "" if figure.ratio is None else f"{figure.ratio:.2f}", aim(figure),
        )  # fmt: skip
    return made


def aim(figure: Figure) -> str:
    """The aim, and whether it was met."""
    ours = middle(figure.ours)
    if figure.at_most is not None:
        reached = None if ours is None else ours <= figure.at_most
        return f"≤ {text(figure.at_most)} {figure.unit.split(' ')[0]}{_MARK[reached]}"
    if figure.goal is None:
        return ""
    reached = None if figure.ratio is None else figure.ratio >= figure.goal
    return f"ratio ≥ {figure.goal:.2g}{_MARK[reached]}"


_MARK = {None: "", True: " ✓", False: " ✗"}


def text(value: float | None) -> str:
    """A number of a table."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def range_of_runs(runs: Sequence[Run]) -> str:
    """The least and the most of several."""
    values = [run.value for run in runs]
    return f"{text(min(values))} – {text(max(values))}" if len(values) > 1 else ""


def costs(runs: Sequence[Run]) -> str:
    """Medians of the CPU seconds of each part."""
    parts = {part for run in runs for part in run.cpu}
    by_part = {part: median(run.cpu.get(part, 0.0) for run in runs) for part in parts}
    return ", ".join(f"{part} {value:.2f}" for part, value in sorted(by_part.items(), key=lambda item: -item[1]))


def _runs(figure: Figure) -> dict[str, list[dict[str, Any]]]:
    return {"ours": [asdict(run) for run in figure.ours], "reference": [asdict(run) for run in figure.reference]}
