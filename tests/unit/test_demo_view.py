"""The output of the demo: the live view, its line for a log, and the final report."""

import io
import threading
from dataclasses import replace

import pytest
from rich.console import Console

from devstack.demo import report, view
from devstack.demo.compare import Difference, Side, Verdict
from devstack.demo.events import Event, Events
from devstack.demo.observer import Observation, TableProgress
from sluice.cli.initial_update import RunState
from sluice.model.names import TableName

LOADING = view.SlavePicture(
    name="dr1",
    observed=Observation(
        state="TRANSITION",
        tables=(TableProgress("public.pgbench_accounts", 20, 12, 600_000), TableProgress("public.[bold]odd", 1, 1, 7)),
        closures=("admin (anna, 14:02 UTC): lunch",),
        reachable=True,
    ),
    run=RunState("running", "load", "running"),
    lag=0.25,
    lag_p95=1.5,
    change_rate=980.4,
    row_rate=120_000.0,
)
PICTURE = view.Picture(
    stage="initial update of dr1",
    elapsed=83.0,
    captured_rate=1012.0,
    memory=int(2.5 * 2**30),
    slaves=(LOADING,),
    events=(Event(80.0, "kill -9 slave-dr1", "kill"), Event(81.2, "slave-dr1 is back after 1.1 s", "good")),
)


def shown(renderable: object, width: int = 110) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_before_capture_begins_no_rate_is_shown_that_traffic_would_belie() -> None:
    early = replace(PICTURE, stage="waiting for airflow-scheduler", captured_rate=None, slaves=())
    assert view.line(early) == "[  83.0 s] waiting for airflow-scheduler"
    assert "changes/s" not in shown(view.render(early))
    assert "; master 0 changes/s" in view.line(replace(early, captured_rate=0.0)), "a master that stands still is news"


def test_the_live_view_shows_state_progress_lag_gate_and_events() -> None:
    text = shown(view.render(PICTURE))
    for part in (
        "initial update of dr1   01:23   master 1,012 changes/s   memory 2.50 GB",
        "dr1 TRANSITION   lag 250 ms (p95 1.5 s)   980 changes/s",
        "initial_update running: load   cdc_apply running",
        "gate closed: admin (anna, 14:02 UTC): lunch",
        "13/21 blocks",
        "600,007 rows, 120,000/s",
        "public.pgbench_accounts",
        "public.[bold]odd",
        "01:20  kill -9 slave-dr1",
    ):
        assert part in text, text


def test_the_live_view_fits_a_narrow_terminal() -> None:
    assert all(len(line) <= 60 for line in shown(view.render(PICTURE), width=60).splitlines())


def test_a_line_for_a_log_says_the_same() -> None:
    assert view.line(PICTURE) == (
        "[  83.0 s] initial update of dr1; master 1,012 changes/s; dr1 TRANSITION, task load, "
        "blocks 13/21, 600,007 rows (120,000/s), lag 250 ms, applies 980 changes/s, "
        "gate closed: admin (anna, 14:02 UTC): lunch"
    )


def test_a_line_that_says_nothing_new_comes_only_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(view, "LINE_INTERVAL", 0.001)
    quiet = replace(PICTURE, captured_rate=None, slaves=())
    pictures = [replace(quiet, elapsed=float(at)) for at in range(20)]
    pictures.append(replace(quiet, elapsed=20.0, stage="loading"))
    shown_all = threading.Event()

    def picture() -> view.Picture:
        if len(pictures) == 1:
            shown_all.set()
            return replace(pictures[0])
        return pictures.pop(0)

    with view.Screen(picture, plain=True):
        assert shown_all.wait(60)
    lines = ["[   0.0 s] initial update of dr1", "[  15.0 s] initial update of dr1", "[  20.0 s] loading"]
    assert capsys.readouterr().out.splitlines() == lines


def test_a_load_says_its_state_and_task_once() -> None:
    loading = replace(LOADING, observed=replace(LOADING.observed, message="Initial update m__1 is loading, throttled"))
    assert "is loading" not in (text := view.line(replace(PICTURE, slaves=(loading,)))) and text.endswith("throttled")


def test_a_slave_that_cannot_be_reached_is_shown_as_such() -> None:
    away = view.SlavePicture("dr1", Observation(state="NORMAL"), RunState(answering=False), None, None, 0, 0)
    text = shown(view.render(view.Picture("replicating", 1, 0, 0, (away,))))
    assert "not reachable" in text and "Airflow does not answer" in text and "lag –" in text


def test_listeners_hear_each_event_at_once() -> None:
    heard: list[Event] = []
    events = Events(heard.append)
    events.say("one")
    events.say("two", "bad")
    assert [(event.text, event.kind) for event in heard] == [("one", "info"), ("two", "bad")]
    assert events.recent(1) == heard[-1:]


SAME, OTHER = Side(10, "a" * 32), Side(9, "b" * 32)
VERDICTS = [
    Verdict(TableName("public", "orders"), SAME, SAME),
    Verdict(
        TableName("Mixed Case", "a [b] c"),
        SAME,
        OTHER,
        "",
        (Difference("(1)", "(1,new)", "(1,old)"), Difference("(2)", "(2,x)", None)),
    ),
    Verdict(TableName("public", "gone"), SAME, None, "missing on the slave"),
]


def test_the_comparison_shows_each_table_with_both_digests() -> None:
    text = shown(report.comparison("dr1", VERDICTS))
    assert [line.split()[-1] for line in text.splitlines()[2:5]] == ["yes", "NO", "NO"]
    assert "10 / 9" in text and "10 / –" in text and '"Mixed Case"."a [b] c"' in text


def test_differing_rows_are_shown_from_both_sides() -> None:
    console = Console(file=io.StringIO(), width=110)
    report.show_differences(console, "dr1", VERDICTS)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "(1,new)" in text and "(1,old)" in text and "no such row" in text and "missing on the slave" in text
    assert "orders" not in text


def test_a_long_row_is_shown_where_it_differs() -> None:
    one, other = "x" * 5000 + "HERE" + "y" * 5000, "x" * 5000 + "THERE" + "y" * 5000
    assert "HERE" in report._shown(one, other)
    assert len(report._shown(one, other)) < 400


def test_figures_say_what_was_measured() -> None:
    console = Console(file=io.StringIO(), width=140)
    slave = report.SlaveFigures("dr1", 1_000_000, 8.0, 0.2, 0.9, 300, 990.0, 60, ("tellers 1, branches 2",), 0.95)
    figures = report.Figures(30.0, 1000.0, [slave], {"Airflow": 2**30, "Spark": 2**29}, {"rolled_back": 12}, 3)
    report.show_figures(console, figures)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for part in (
        "125,000 rows/s",
        "p50 200 ms, p95 900 ms",
        "1 of 60 looks",
        "1.50 GB",
        "rolled back 12",
        "3 times",
        "while other slaves joined, p95 950 ms",
    ):
        assert part in text, text


def verdict_on(verdicts: dict[str, list[Verdict]], problems: list[str], torn: tuple[str, ...] = ()) -> tuple[bool, str]:
    console = Console(file=io.StringIO(), width=140)
    slave = report.SlaveFigures("dr1", 1, 1.0, 0.2, 0.9, 300, 990.0, 60, torn)
    good = report.show(console, verdicts, report.Figures(30.0, 1000.0, [slave]), problems, 42)
    assert isinstance(console.file, io.StringIO)
    return good, console.file.getvalue().splitlines()[-1]


def test_only_equal_tables_and_no_problem_are_a_success() -> None:
    equal = {"dr1": VERDICTS[:1], "dr2": VERDICTS[:1]}
    assert verdict_on(equal, []) == (True, "All 1 tables are equal, row for row: master, dr1, dr2.")
    assert verdict_on({"dr1": VERDICTS}, []) == (False, "2 of 3 tables differ. To repeat: --seed 42")
    assert verdict_on(equal, ["Redis is not back"]) == (
        False,
        "All tables are equal, but see above. To repeat: --seed 42",
    )
    assert not verdict_on(equal, [], ("tellers 1, branches 2",))[0]
    assert not verdict_on({"dr1": []}, [])[0]
