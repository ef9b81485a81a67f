"""The arithmetic of `benchmarks.capacity` gives what was measured, and grows as it must."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.capacity import Costs, Shape, needs, turns
from benchmarks.pair_costs import cpu

COSTS = Costs()


def by_part(shape: Shape) -> dict[str, float]:
    return {need.part: need.needs for need in needs(shape, COSTS)}


def test_a_measured_pair_costs_what_was_measured() -> None:
    """One pair with 157 transactions a second, 60 s: CPU of its containers, less that of an idle one, and requests."""
    found = by_part(Shape(1, 157, 0, 1))
    assert found["CPU of applies"] == pytest.approx(0.3085, rel=0.1)
    assert found["one master"] == pytest.approx(0.194, rel=0.1)
    assert found["one slave"] == pytest.approx(0.0507, rel=0.1)
    assert found["Redis"] / COSTS.redis_request == pytest.approx(140, rel=0.1)


@given(st.integers(1, 1000), st.floats(0, 1e6))
def test_twice_the_pairs_with_twice_the_changes_need_twice_as_much(pairs: int, changes: float) -> None:
    one, two = by_part(Shape(pairs, changes, 1, 1)), by_part(Shape(2 * pairs, 2 * changes, 2, 1))
    for part in ("CPU of applies", "slots of Spark", "Redis", "triggerer", "memory of applies"):
        assert two[part] == pytest.approx(2 * one[part])


@given(st.floats(0.1, 1e5), st.floats(1, 10))
def test_more_changes_never_need_less(changes: float, more: float) -> None:
    assert by_part(Shape(1, changes * more, 0, 1))["one master"] >= by_part(Shape(1, changes, 0, 1))["one master"]
    assert turns(COSTS, changes) <= changes


def test_the_first_bound_comes_first() -> None:
    found = needs(Shape(500, 100_000, 10, 2), COSTS)
    assert [need.times for need in found] == sorted((need.times for need in found), reverse=True)
    assert all(len(need.moved_by) == 2 for need in found)


@pytest.mark.parametrize(
    ("files", "folder"),
    [
        ({"cpuacct/docker/4f2a/cpuacct.usage": "5000000\n", "cpu/docker/4f2a/cpu.stat": "nr_periods 0\n"}, "version 1"),
        ({"system.slice/docker-4f2a.scope/cpu.stat": "usage_usec 5000\nuser_usec 4000\n"}, "version 2"),
    ],
)
def test_the_cpu_of_a_container_is_what_its_cgroup_counts(tmp_path: Path, files: dict[str, str], folder: str) -> None:
    for name, text in files.items():
        (tmp_path / folder / name).parent.mkdir(parents=True)
        (tmp_path / folder / name).write_text(text)
    assert cpu({"redis": "4f2a"}, str(tmp_path / folder)) == {"redis": 5_000_000}
    with pytest.raises(SystemExit, match="'master'"):
        cpu({"redis": "4f2a", "master": "99"}, str(tmp_path / folder))
