"""The memory of an apply stays flat over many windows of many changes."""

import gc
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rig.rig import Rig

WINDOWS, ROWS = 120, 20_000
MOST_MB = 40
"""Growth after the first third. Memory grows in steps of 12 MB or so, and not with each window."""


def resident() -> float:
    """The memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


@pytest.mark.long
@pytest.mark.parametrize("staged", [True, False], ids=["staged", "in the driver"])
def test_windows_of_twenty_thousand_key_changes_leave_no_memory_behind(staged: bool, rig: Callable[..., Rig]) -> None:
    """Each has keys that no window had before: what is kept by statement or key would grow."""
    pair = rig(
        "CREATE TABLE public.orders (id bigint PRIMARY KEY, note text)", stage=ROWS // 2 if staged else 10 * ROWS
    )
    pair.master.execute(f"INSERT INTO public.orders SELECT g, 'a note' FROM generate_series(1, {ROWS}) g".encode())
    sizes = []
    windows = WINDOWS if staged else WINDOWS // 3
    with pair.apply():
        pair.await_current()
        for number in range(windows):
            pair.master.execute(f"UPDATE public.orders SET id = id + {ROWS}".encode())
            pair.await_current()
            if number % 5 == 0:
                gc.collect()
                sizes.append((number, resident()))
                print(f"{number} {sizes[-1][1]:.1f} MB", flush=True)
            if number % 50 == 49:
                pair.master.execute("DELETE FROM public.demo_items")  # as the purge does
                pair.master.execute("VACUUM public.demo_items, public.orders")
                pair.slave.execute("VACUUM public.orders")
    assert pair.differences() == {}
    settled = [(number, size) for number, size in sizes if number >= windows // 3]
    slope = statistics.linear_regression(*zip(*settled, strict=True)).slope
    print(f"{settled[-1][1] - settled[0][1]:.1f} MB more in {windows} windows, {slope * 1000:.1f} kB a window")
    assert settled[-1][1] - settled[0][1] < MOST_MB
