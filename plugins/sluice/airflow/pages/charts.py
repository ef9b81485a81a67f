"""Computes the SVG paths of curves, which templates draw."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sluice.model.sample import Sample

LEAST_TOP = 1.0
"""The value at the upper edge is never lower, so that small values look small."""


@dataclass(frozen=True)
class Curve:
    """A curve in a box of `width` × `height`, whose zero is at the bottom."""

    width: int
    height: int
    line: str
    """Path of the line; minutes without a value leave gaps."""
    area: str
    """Path of the area below it."""
    top: float
    """The value at the upper edge; 0 without values."""
    last: float | None


@lru_cache(maxsize=4_096)
def curve(
    samples: tuple[Sample, ...],
    value: Callable[[Sample], float | None],
    last: int,
    *,
    minutes: int = 60,
    width: int = 120,
    height: int = 24,
) -> Curve:
    """The values of the `minutes` until `last`, in minutes since the epoch. A page shows the same for a minute."""
    points = [
        (one.minute - last + minutes, number)
        for one in samples
        if last - minutes <= one.minute <= last and (number := value(one)) is not None
    ]
    top = max([LEAST_TOP, *(number for _, number in points)]) if points else 0.0
    runs: list[list[tuple[float, float]]] = []
    previous = None
    for minute, number in points:
        at = (round(minute / minutes * width, 1), round(height - number / top * (height - 2) - 1, 1))
        if previous is not None and minute - previous == 1:
            runs[-1].append(at)
        else:
            runs.append([at])
        previous = minute
    line = "".join(_path(run) for run in runs)
    area = "".join(f"{_path(run)}L{run[-1][0]} {height}L{run[0][0]} {height}Z" for run in runs if len(run) > 1)
    return Curve(width, height, line, area, top, points[-1][1] if points else None)


def _path(run: Sequence[tuple[float, float]]) -> str:
    first, *rest = run
    # A single point becomes a short stroke: a path without length would be invisible.
    rest = rest or [(first[0] + 0.5, first[1])]
    return f"M{first[0]} {first[1]}" + "".join(f"L{x} {y}" for x, y in rest)


def _lag(one: Sample) -> float | None:
    return one.lag


def _rate(one: Sample) -> float | None:
    return one.changes / 60


def lag_curve(samples: Sequence[Sample], now: float, **box: int) -> Curve:
    """In seconds. `box`: see `curve`."""
    return curve(tuple(samples), _lag, int(now // 60), **box)


def rate_curve(samples: Sequence[Sample], now: float, **box: int) -> Curve:
    """In changes a second. `box`: see `curve`."""
    return curve(tuple(samples), _rate, int(now // 60), **box)
