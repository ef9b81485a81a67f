"""A bench is never silent for long."""

import argparse
import threading
from types import SimpleNamespace

import pytest

import benchmarks
from benchmarks import progress
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run


def test_a_long_step_is_named_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    shown = progress.Progress("lag", quiet_seconds=0.02)
    seen = threading.Event()
    said = ""
    with shown.shown():
        shown.say("round 1 of 3")
        while said.count("lag: still: round 1 of 3") < 2:
            seen.wait(0.01)
            said += capsys.readouterr().err
    assert said.splitlines()[0].endswith("lag: starts")


def test_each_bench_says_that_it_starts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(args: argparse.Namespace) -> Report:
        progress.say("a step")
        return Report(args.name, [] if args.figure else [Figure("f", "s", [Run(1.0, 1.0, {})])])

    monkeypatch.setattr("benchmarks.report.show", lambda report, args: None)
    monkeypatch.setattr("importlib.import_module", lambda name: SimpleNamespace(run=run))
    assert benchmarks.run(argparse.Namespace(name="drain", figure=["nothing"])) == 2
    assert "drain has no figure nothing" in capsys.readouterr().err
    assert benchmarks.run(argparse.Namespace(name="drain", figure=[])) == 0
    assert [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "drain: starts",
        "drain: a step",
    ]


def test_each_run_of_a_side_is_named_before_and_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    alternate("drain", {"ours": lambda: Run(5.0, 1.0, {})}, 2, 1)
    said = capsys.readouterr().err
    for text in ("drain, warm-up, ours", "drain, run 1 of 2, ours", "drain, run 2 of 2, ours: 5 in 1.000 s"):
        assert text in said
