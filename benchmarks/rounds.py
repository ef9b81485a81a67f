"""Both sides in turn: what a machine does meanwhile, and how warm it is, meets both alike."""

from collections.abc import Callable, Mapping

from benchmarks import progress
from benchmarks.report import Run

Measure = Callable[[], Run]


def alternate(name: str, sides: Mapping[str, Measure], rounds: int, warm_up: int) -> dict[str, list[Run]]:
    """`rounds` runs of each side, after `warm_up` that do not count; the side that goes first changes each time."""
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    for number in range(-warm_up, rounds):
        order = list(sides.items())
        for side, measure in order if number % 2 == 0 else reversed(order):
            kind = "warm-up" if number < 0 else f"run {number + 1} of {rounds}"
            progress.say(f"{name}, {kind}, {side}")
            run = measure()
            progress.say(f"{name}, {kind}, {side}: {run.value:,.4g} in {run.seconds:.3f} s")
            if number >= 0:
                runs[side].append(run)
    return runs
