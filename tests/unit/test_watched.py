"""The monitor on a terminal: the text and width of a line, and the commands that show it."""

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from devstack import cli as devstack_cli
from sluice.airflow.pages import as_data
from sluice.airflow.pages.databases import LastAnswer
from sluice.airflow.pages.gathering import Gathered
from sluice.airflow.pages.message import Level, Message
from sluice.airflow.pages.overview import Choice, overview
from sluice.cli import watched
from sluice.cli.airflow_api import ApiUnreachable
from sluice.cli.arguments import arguments_of_act
from sluice.cli.operate import run_act, run_gate, run_logs
from sluice.coordination.live_state import LiveState, Past
from sluice.errors import Terminal
from sluice.model.names import prefix_meant
from sluice.operate.actions import ACTIONS, Incomplete, conf_of, ordered
from tests.unit.test_monitor import NOW, some


def data(trouble: str = "") -> Any:
    return as_data.overview(Gathered(*some(), NOW, trouble), NOW)


def test_a_slave_is_a_line() -> None:
    lines = watched.table(data(), colors=False)
    assert lines[0].split() == ["slave", "state", "behind", "changes/s", "tables", "rejects", "what", "it", "does"]
    assert lines[1].split()[:6] == ["A_", "→", "x", "NORMAL", "5.0", "s"]
    assert lines[2].startswith("✖") and "15 min" in lines[2]
    assert "disk full" in lines[3]
    assert "✖ B_ → z: The slave is INCONSISTENT: disk full. Start an initial update." in lines


def test_lines_fit_the_terminal_with_and_without_colours() -> None:
    plain = watched.table(data(), colors=False, width=60)
    assert all(len(line) <= 60 for line in plain[:4])
    coloured = watched.table(data(), colors=True, width=60)
    for code in (watched.RED, watched.GREEN, watched.YELLOW, watched.GREY, watched.PLAIN):
        coloured = [line.replace(code, "") for line in coloured]
    assert coloured == plain


def test_a_long_activity_is_on_a_line_of_its_own() -> None:
    narrow, wide = (watched.table(data(), colors=False, width=width) for width in (60, 160))
    assert "disk full" not in "".join(narrow[:2]) and len(wide) + 3 == len(narrow)
    assert any(line.strip() == "disk full" for line in narrow)


def test_trouble_stands_first() -> None:
    assert watched.table(data("Redis does not answer"), colors=False)[0] == "Redis does not answer"


def test_one_slave_is_shown_in_detail() -> None:
    found, known = some()
    (row, *_) = overview(Gathered(found, known, NOW), Choice(find="z"), NOW).groups[0].rows
    whole = as_data.whole_slave(Gathered(found, LiveState(), NOW), row, LastAnswer(None, None), Past())
    told = "\n".join(watched.details(whole, colors=False))
    assert told.startswith("B_ → z: INCONSISTENT. Disk full") and "safe mode" in told and "gate           open" in told


def test_a_command_is_for_the_tables_that_need_it() -> None:
    """Of forty tables one differs: the command is not for all of them."""
    message = as_data._message(Message("Not equal: public.t.", Level.CRITICAL, "repair", "public.t"))
    assert watched.messages("", [message], "A_", "x")[1].split() == [
        *("./sluice", "verify", "A_", "x", "--repair", "--tables", "public.t", "--why", "REASON")
    ]
    message["tables"] = "\n".join(f"public.t{number}" for number in range(40))
    assert "--tables" not in watched.messages("", [message], "A_", "x")[1]


class Overview:
    """An Airflow with one replication, and no data about its slave."""

    def __init__(self, prefix: str):
        self.prefix = prefix

    def page(self, path: str) -> dict[str, Any]:
        if path == "overview.json":
            return {"masters": [{"prefix": self.prefix}]}
        assert path == f"slaves/{self.prefix}/dr1/state.json"
        return {"closures": []}


@pytest.mark.parametrize(("typed", "prefix"), [("SHOP", "SHOP_"), ("shop", "SHOP_"), ("SHOP_", "SHOP_"), ("a2", "A2")])
def test_a_replication_is_called_by_its_prefix_or_by_its_name(
    typed: str, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    args = devstack_cli.parser().parse_args(["gate", typed, "dr1"])
    assert run_gate(args, lambda _: Overview(prefix)) == 0  # type: ignore[arg-type,return-value]
    assert capsys.readouterr().out == "open\n"


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [
        ("shop", {"SHOP_"}, "SHOP_"),
        ("SHOP_", {"SHOP_", "SHOP"}, "SHOP_"),
        ("SHOP", {"SHOP_", "SHOP"}, "SHOP"),
        ("SHOP_", {"SHOP"}, "SHOP"),
        ("shop", {"OTHER_"}, "SHOP"),
    ],
)
def test_which_prefix_is_meant(typed: str, known: set[str], meant: str) -> None:
    assert prefix_meant(typed, known) == meant


class Restarted:
    """An Airflow in which an apply is restarted, and which is unreachable for a moment."""

    def __init__(self) -> None:
        self.looks: Iterator[tuple[int, str] | Exception] = iter(
            [(1, "a\nb\nc"), (1, "a\nb\nc\nd"), ApiUnreachable("http://x", "refused"), (2, "e"), (2, "e\nf")]
        )
        self.text = ""

    def get(self, path: str, **_: Any) -> Any:
        if path.endswith("dagRuns"):
            return {"dag_runs": [{"dag_run_id": "one", "conf": {"prefix": "A_", "slave": "x"}}]}
        look = next(self.looks)
        if isinstance(look, Exception):
            raise look
        attempt, self.text = look
        return {"try_number": attempt}

    def task_log(self, *_: object) -> str:
        return self.text


def test_following_a_log_shows_all_of_it_also_after_a_restart_of_the_apply(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.cli.operate.time.sleep", lambda _: None)
    args = devstack_cli.parser().parse_args(["logs", "A_", "x", "--follow", "--lines", "2"])
    with pytest.raises(StopIteration):
        run_logs(args, lambda _: Restarted())  # type: ignore[arg-type,return-value]
    said = capsys.readouterr()
    assert said.out.split() == ["b", "c", "d", "e", "f"] and "does not answer" in said.err


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (["gate", "DEMO_", "dr1", "close", "--why", "disk"], {"action": "close", "why": "disk"}),
        (["gate", "DEMO_", "dr1"], {"action": "show", "why": None}),
        (["rejects", "DEMO_", "dr1", "drop", "7,9-12", "--why", "x"], {"ids": "7,9-12", "force": False}),
        (["verify", "DEMO_", "dr1", "--repair", "--tables", "a.b,c.*"], {"repair": True, "tables": ["a.b", "c.*"]}),
        (["logs", "DEMO_", "dr1", "--follow"], {"follow": True, "lines": 200}),
        (["status", "DEMO_", "dr1"], {"prefix": "DEMO_", "slave": "dr1", "watch": False}),
        (["status", "--watch"], {"prefix": None, "watch": True}),
    ],
)
def test_the_commands_are_understood(given: list[str], command: dict[str, Any]) -> None:
    args: argparse.Namespace = devstack_cli.parser().parse_args(given)
    assert {name: getattr(args, name) for name in command} == command


@pytest.mark.parametrize(
    ("name", "values", "conf"),
    [
        ("hold", {}, [{"prefix": "P_", "slave": "a", "action": "close", "reason": "why not"}]),
        ("verify", {}, [{"prefix": "P_", "slave": "a", "action": "verify", "tables": [], "sample": 0}]),
        (
            "rejects",
            {"action": "drop", "ids": "7"},
            [{"prefix": "P_", "slave": "a", "action": "drop", "ids": "7", "force": False}],
        ),
        (
            "initiate",
            {"tables": "x.y\n\n z.* "},
            [{"prefix": "P_", "transfer": "online", "location": None, "tables": ["x.y", "z.*"], "slave": "a"}],
        ),
        (
            "failover",
            {"action": "planned", "reverse": "on"},
            [{"prefix": "P_", "slave": "a", "action": "planned", "reverse": True, "override": False}],
        ),
        ("reconcile", {}, [{"prefix": "P_"}]),
    ],
)
def test_an_action_starts_its_dag_with_what_was_filled_in(
    name: str, values: dict[str, str], conf: list[dict[str, Any]]
) -> None:
    assert conf_of(ordered(ACTIONS[name], "P_", ("a",), values, " why\nnot ")) == conf


def test_several_slaves_get_a_run_each_and_one_export_as_files() -> None:
    online = ordered(ACTIONS["initiate"], "P_", ("a", "b"), {}, "")
    assert [conf["slave"] for conf in conf_of(online)] == ["a", "b"]
    files = ordered(ACTIONS["initiate"], "P_", ("a", "b"), {"transfer": "files", "location": "/mnt"}, "")
    assert [conf["slave"] for conf in conf_of(files)] == ["a,b"]


@pytest.mark.parametrize(
    ("name", "slaves", "values", "why", "said"),
    [
        ("hold", ("a",), {}, " ", "Say why"),
        ("initiate", (), {}, "", "choose a slave"),
        ("initiate", ("a",), {"transfer": "files"}, "", "Location of the files: missing"),
        ("initiate", ("a",), {"transfer": "pigeon"}, "", "'pigeon' is none of online, files"),
        ("rejects", ("a",), {"action": "drop"}, "x", "Numbers: missing"),
        ("verify", ("a",), {"sample": "many"}, "", "'many' is no number of rows"),
        ("reload", ("a",), {}, "x", "Tables: missing"),
        ("remove_first", ("a",), {}, "", "Say why"),
        ("uninstall", (), {"confirm": "Q_"}, "x", "type P_"),
        ("uninstall", (), {}, "x", "Confirm: missing"),
    ],
)
def test_a_form_that_lacks_something_says_what(
    name: str, slaves: tuple[str, ...], values: dict[str, str], why: str, said: str
) -> None:
    with pytest.raises(Incomplete, match=said):
        ordered(ACTIONS[name], "P_", slaves, values, why)


def test_an_action_for_one_slave_takes_no_two() -> None:
    with pytest.raises(Terminal, match="for one slave"):
        conf_of(ordered(ACTIONS["hold"], "P_", ("a", "b"), {}, "x"))


def test_each_action_can_be_done_from_a_terminal_and_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    def unreachable(args: argparse.Namespace) -> Any:
        raise AssertionError("nothing is to be done")

    def act(*words: str) -> int:
        parser = argparse.ArgumentParser()
        arguments_of_act(parser)
        return run_act(parser.parse_args(words), unreachable)

    assert act() == 0
    said = capsys.readouterr().out
    assert all(f"{name} PREFIX" in said for name in ACTIONS) and "--tables TABLES" in said
    assert "--set action=check|planned|forced|abort (default check)" in said, "a choice shows its values"
    assert "        planned: the master answers, nothing is lost" in said and "--set reverse=on" in said
    for words, why in (
        (["jump", "P_"], "no action jump. These are: initiate"),
        (["hold"], "act hold PREFIX SLAVE --why REASON"),
        (["hold", "P_", "a"], "Say why.*--why REASON"),
        (["reload", "P_", "a", "b"], "Tables: missing.*--tables …"),
        (["reload", "P_", "a", "--set", "tabels=x"], "--set tabels: Reload tables knows tables"),
        (["hold", "P_", "a", "--tables", "x.y"], "--set tables: Hold knows no field"),
        (["verify", "P_", "a", "--set", "sample=1", "--set", "sample=2"], "--set sample is given twice"),
    ):
        with pytest.raises(Incomplete, match=why):
            act(*words)
