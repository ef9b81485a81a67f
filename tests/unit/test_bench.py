"""Counts and reports of the benches, without any server."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import cpu, progress, report
from benchmarks.arguments import BENCHES
from benchmarks.capture import Bulk
from benchmarks.drain import goals
from benchmarks.machine import MemoryWatch
from benchmarks.report import Figure, Report, Run
from devstack import cli
from tests.waiting import until
from workload.mixes import Mix, _ranges

ROOT = Path(__file__).resolve().parents[2]


def runs(*values: float) -> list[Run]:
    return [Run(value, 1.0) for value in values]


def test_a_side_is_its_median_run_and_more_is_better() -> None:
    figure = Figure("f", "changes/s", runs(100, 300, 200), runs(50, 100, 1000))
    assert figure.line() == {"name": "f", "ours": 200.0, "reference": 100.0, "ratio": 2.0, "unit": "changes/s"}


def test_the_ratio_is_inverted_if_less_is_better() -> None:
    assert Figure("f", "s", runs(0.5), runs(2.0), less_is_better=True).ratio == 4.0


@pytest.mark.parametrize("figure", [Figure("f", "s", runs(1.0)), Figure("f", "s", [], runs(1.0))])
def test_one_side_alone_has_no_ratio(figure: Figure) -> None:
    assert figure.line()["ratio"] is None


@given(st.lists(st.floats(0.001, 1e7), min_size=1), st.lists(st.floats(0.001, 1e7), min_size=1), st.booleans())
def test_the_ratio_is_above_one_exactly_when_ours_is_better(ours: list[float], other: list[float], less: bool) -> None:
    figure = Figure("f", "s", runs(*ours), runs(*other), less_is_better=less)
    mine, theirs = report.middle(figure.ours), report.middle(figure.reference)
    assert mine and theirs and figure.ratio is not None
    assert (figure.ratio > 1) == (mine < theirs if less else mine > theirs) or abs(figure.ratio - 1) < 1e-9


def test_the_last_line_and_the_file_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Report(
        "drain", [Figure("a", "s", runs(1, 2, 3), runs(4)), Figure("b", "s", runs(5))], {"machine": {"cores": 2}}
    )
    file = tmp_path / "detail.json"
    report.show(made, argparse.Namespace(json=str(file)))
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["name"], said["ours"], said["reference"], said["ratio"], said["unit"]) == ("drain", 2.0, 4.0, 0.5, "s")
    assert [figure["name"] for figure in said["figures"]] == ["a", "b"]
    detail = json.loads(file.read_text())
    assert [run["value"] for run in detail["figures"][0]["runs"]["ours"]] == [1, 2, 3]
    assert detail["setting"] == {"machine": {"cores": 2}}


def test_an_aim_is_a_ratio_or_a_value_and_is_said_to_be_met() -> None:
    assert report.aim(Figure("f", "s", runs(2.0), runs(1.0), goal=1.2)) == "ratio ≥ 1.2 ✓"
    assert report.aim(Figure("f", "s", runs(1.0), runs(1.0), goal=1.2)) == "ratio ≥ 1.2 ✗"
    assert report.aim(Figure("f", "s", runs(0.3), at_most=0.2)) == "≤ 0.2 s ✗"
    assert report.aim(Figure("f", "s", runs(1.0))) == ""


def test_sides_take_turns_and_warm_up_runs_do_not_count() -> None:
    order: list[str] = []

    def measure(side: str) -> Run:
        order.append(side)
        return Run(float(len(order)), 1.0)

    found = progress.alternate("f", {"a": lambda: measure("a"), "b": lambda: measure("b")}, 3, 1)
    assert order == ["b", "a", "a", "b", "b", "a", "a", "b"]
    assert {side: [run.value for run in taken] for side, taken in found.items()} == {"a": [3, 6, 7], "b": [4, 5, 8]}


BUSY = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


@pytest.mark.long
def test_cpu_time_of_children_that_ended_is_counted_once() -> None:
    inner = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\n{BUSY}"
    waiting = f"{inner}\nimport os\nprint(sum(os.times()[:4]), flush=True)\nsys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", waiting], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        with cpu.CpuWatch(lambda: {"part": process.pid}) as watch:
            assert process.stdout is not None
            used = float(process.stdout.readline())
        assert 0.55 < watch.seconds["part"] < used + 0.1
    finally:
        process.kill()
        process.wait()


def seconds(pid: int) -> float:
    used = cpu.spent(pid)
    assert used is not None
    return used.seconds


@pytest.mark.parametrize("ends", ["SIG_DFL", "SIG_IGN"])
def test_what_a_child_had_used_before_is_not_counted_when_it_ends_meanwhile(ends: str) -> None:
    lines = [
        "import signal, subprocess, sys, time",
        f"command = [sys.executable, '-c', {BUSY + 'print(flush=True); input()'!r}]",
        "child = subprocess.Popen(command, stdin=subprocess.PIPE)",
        f"signal.signal(signal.SIGCHLD, signal.{ends})",
        "input()",
        "child.stdin.close(); child.wait()",
        "print('ended', flush=True); input()",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "\n"
        with cpu.CpuWatch(lambda: {"part": process.pid}) as watch:
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ended\n"
        assert 0 <= watch.seconds["part"] < 0.25
    finally:
        process.kill()
        process.wait()


def test_a_part_inside_another_is_counted_for_itself() -> None:
    outer = f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {BUSY + 'time.sleep(60)'!r}])\n"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{outer}print(child.pid, flush=True)\nsys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        until(lambda: seconds(child) >= 0.25)
        before = seconds(process.pid)
        parts = cpu.by_part({"outer": process.pid, "inner": child})
        assert parts["inner"].keys() == {child} and parts["inner"][child].seconds >= 0.25
        assert parts["outer"].keys() == {process.pid}
        assert before <= parts["outer"][process.pid].seconds <= seconds(process.pid), "without what the child used"
    finally:
        for pid in cpu.below(process.pid):
            subprocess.run(["kill", "-9", str(pid)], check=True)
        process.wait()


def test_the_peak_of_memory_is_that_of_the_whole_family() -> None:
    touched = "x = bytearray(80_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1\n"
    held = touched + "print('done', flush=True)\nimport time; time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", held], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with MemoryWatch(lambda: {"part": process.pid}) as watch:
            pass
        assert 80_000_000 < watch.peak < 160_000_000
    finally:
        process.kill()
        process.wait()


@given(st.integers(0, 500), st.integers(1, 100))
def test_pieces_cover_every_number_once(count: int, size: int) -> None:
    pieces = _ranges(count, size)
    assert [number for low, high in pieces for number in range(low, high + 1)] == list(range(1, count + 1))
    assert all(high - low < size for low, high in pieces)


@given(st.floats(0.0001, 3))
def test_mixes_of_any_size_have_transactions_of_the_right_kind(scale: float) -> None:
    for name, (mix, _) in goals(scale).items():
        assert mix.changes % 100 == 0 and mix.changes >= 200
        assert (mix.transaction == 10) == (name == "tens"), "what decides how they are made"
    assert isinstance(Bulk(scale).mix, Mix) and Bulk(scale).mix.transaction != 10


def test_every_bench_has_its_module_and_help_names_it() -> None:
    text = cli.parser()._subparsers._group_actions[0].choices["bench"].format_help()  # type: ignore[union-attr,index,call-overload]
    for name in BENCHES:
        assert (ROOT / "benchmarks" / f"{name}.py").exists()
        assert name in text


@pytest.mark.parametrize(
    "wrong", [["nothing"], ["drain", "--rounds", "0"], ["drain", "--scale", "-1"], ["drain", "--warm-up", "x"]]
)
def test_misuse_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        cli.parser().parse_args(["bench", *wrong])
    assert refused.value.code == 2


def test_passwords_are_no_part_of_a_report() -> None:
    """A report has names and settings; a field of a login would show in the details."""
    names: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            names.update(value)
            for inner in value.values():
                walk(inner)

    from benchmarks import machine

    walk(Report("x", [Figure("f", "s", runs(1.0))], machine.describe()).to_dict())
    assert not {"password", "redis_url"} & names
