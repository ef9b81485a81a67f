"""What a person at a terminal reads and answers: lists of tables, questions, results of comparisons, remedies."""

import argparse
import ast
import json
import re
import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devstack import cli
from sluice.airflow.pages import as_data
from sluice.airflow.pages.databases import LastAnswer, SlaveData
from sluice.airflow.pages.gathering import Gathered
from sluice.airflow.pages.overview import Choice, overview
from sluice.cli import command as of_package
from sluice.cli import operate, status, watched
from sluice.cli.airflow import MADE_HERE
from sluice.cli.airflow_api import AirflowApi
from sluice.cli.arguments import tables_of
from sluice.cli.console import Console
from sluice.cli.operate import RunFailed, run_act, run_verify
from sluice.coordination.gate import ERROR, Closure
from sluice.coordination.live_state import LiveSlave, LiveState, Past
from sluice.errors import RESTART_APPLY, Terminal
from sluice.load import selection
from sluice.model.event import Event, EventKind
from sluice.model.names import Prefix, TableName
from sluice.model.reject import how_to_settle
from sluice.model.table_state import how_to_capture, how_to_load
from sluice.operate.actions import ACTIONS, Incomplete
from sluice.operate.api import detail_of
from sluice.operate.remedies import at_terminal, command, on_page
from sluice.paths import PACKAGE
from tests.errors import raises_code
from tests.unit.test_monitor import NOW, some

PAIR = ["SHOP_", "dr1"]
TABLES = ["public.orders", 'public."a, b"', "sales.*"]


@pytest.mark.parametrize(
    "given",
    [
        ["--tables", TABLES[0], "--tables", TABLES[1], "--tables", TABLES[2]],
        ["--tables", ",".join(TABLES)],
        ["--tables", ", ".join(TABLES[:2]), "--tables", TABLES[2]],
        ["--set", f"tables={','.join(TABLES)}"],
        ["--set", f"tables={TABLES[0]}", "--set", f"tables={TABLES[1]}", "--tables", TABLES[2]],
    ],
)
def test_a_list_of_tables_has_one_form_everywhere(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def performed(api: object, order: Any, args: object) -> int:
        asked[:] = order.values["tables"]
        return 0

    monkeypatch.setattr("sluice.cli.operate._perform", performed)
    for words in (["act", "verify"], ["act", "reload"], ["act", "initiate"], ["verify"]):
        if words == ["verify"] and "--set" in given:
            continue
        args = cli.parser().parse_args([*words, *PAIR, *given, "--why", "a test"])
        assert (run_verify if words == ["verify"] else run_act)(args, lambda _: None) == 0  # type: ignore[arg-type,return-value]
        assert asked == TABLES, words
    if "--set" not in given:
        assert cli.parser().parse_args(["add", "SHOP", *given]).tables == TABLES


names = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=12)


@given(st.lists(st.tuples(names, names), min_size=1, max_size=5))
def test_any_name_of_a_table_survives_a_list_with_commas(pairs: list[tuple[str, str]]) -> None:
    tables = [str(TableName(*pair)) for pair in pairs]
    assert tables_of(",".join(tables)) == tables
    assert all(selection.names(str(TableName(*pair)), TableName(*pair)) for pair in pairs)


@pytest.mark.long
@given(st.lists(st.tuples(names, names), min_size=1, max_size=5))
def test_a_remedy_names_every_table_whatever_its_name(pairs: list[tuple[str, str]]) -> None:
    import shlex

    tables = [TableName(*pair) for pair in dict.fromkeys(pairs)]
    told = at_terminal(how_to_load(Prefix("SHOP_"), "dr-1.x", tables), "OTHER_")
    words = shlex.split(told.removeprefix("Run "))
    args = cli.parser().parse_args(words[1:])
    assert (args.action, args.prefix, args.slaves) == ("reload", "SHOP_", ["dr-1.x"])
    assert sorted(args.tables) == sorted(map(str, tables))


@pytest.mark.parametrize(
    ("text", "terminal", "page"),
    [
        (how_to_capture(Prefix("ERP_")), "Run ./sluice act reconcile ERP_", "Use Reconcile tables."),
        ("Ended. Start the DAG cdc_apply.", "Ended. Run ./sluice act restart S_ a", "Ended. Use Restart apply."),
        ("Start the DAG initial_update for it.", "Run ./sluice act initiate S_ a", "Use Initiate."),
        ("then start the DAG resync.", "then run ./sluice verify S_ a", "then use Verify."),
        (
            "start the DAG resync with the action repair.",
            "run ./sluice verify S_ a --repair --why REASON",
            "use Repair.",
        ),
        (f"Fix it and {RESTART_APPLY}; wait", "Fix it and run ./sluice act restart S_ a; wait",
         "Fix it and use Restart apply; wait"),
        ("fault: run reconcile_tables.", "fault: run ./sluice act reconcile S_", "fault: use Reconcile tables."),
        ("Run resync with the action repair, then start.",
         "Run ./sluice verify S_ a --repair --why REASON, then start", "Use Repair, then start."),
        ("Run the DAG install_resources for this prefix; it", "Run ./sluice act install S_; it",
         "Use Install resources; it"),
        ("or trigger the DAG failover for slave b with the action abort.",
         "or run ./sluice act failover S_ b --set action=abort", "or use Fail over, abort."),
        ("None: trigger cdc_apply.", "None: run ./sluice act restart S_ a", "None: use Restart apply."),
        ("run the task again", "run the task again", "run the task again"),
        ("start the DAG capture_redo", "run ./sluice capture-redo S_", "start the DAG capture_redo"),
        ("Nothing to do.", "Nothing to do.", "Nothing to do."),
    ],
)  # fmt: skip
def test_a_remedy_is_a_command_at_a_terminal_and_a_button_on_a_page(text: str, terminal: str, page: str) -> None:
    assert at_terminal(text, "S_", "a") == terminal
    assert on_page(text) == page


def test_a_list_of_many_tables_becomes_one_short_command() -> None:
    many = [TableName("public", f"t{number}") for number in range(40)]
    assert at_terminal(how_to_load(Prefix("S_"), "a", many), "S_", "a") == "Run ./sluice act reload S_ a"


def test_each_command_of_a_remedy_is_understood() -> None:
    for name in ACTIONS:
        words = command(name, "S_", "a", ["x.y"] if name in ("reload", "verify", "repair") else ()).split()
        assert words[0] == "./sluice"
        args = cli.parser().parse_args(words[1:])
        assert args.prefix == "S_"
    assert "set aside" in at_terminal(how_to_settle(["public.t"]), "S_", "a")
    assert "./sluice rejects S_ a" in at_terminal(how_to_settle(["public.t"]), "S_", "a")


def texts(module: str) -> list[str]:
    """The texts of a module that its user may read: all but docstrings."""
    tree = ast.parse(module)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare
    ]


def test_a_text_names_the_command_as_it_is_typed_here() -> None:
    """An installed package has `sluice` on PATH, a checkout `./sluice`: see `paths.PROGRAM`."""
    only_in_a_checkout = {PACKAGE / "cli" / "bootstrap.py"}
    own = {"./sluice", MADE_HERE}  # PROGRAM itself, and a mark that both must find again
    modules = {file: file.read_text() for file in set(PACKAGE.rglob("*.py")) - only_in_a_checkout}
    naming = {file: texts(module) for file, module in modules.items() if "./sluice" in module}
    found = {(file, text) for file, ours in naming.items() for text in ours if "./sluice" in text and text not in own}
    assert naming and not found
    assert not [page for page in PACKAGE.rglob("*.html") if "./sluice" in page.read_text()]


CONFLICT = "public.orders: the slave has no row with the key id = 7 and more than one line"


def stopped() -> tuple[Any, Any]:
    """A slave that stopped at a conflict: its row in the overview, and all that is known of it."""
    found, known = some()
    closure = Closure(ERROR, "apply", CONFLICT, "2026-11-22T11:00:00+00:00")
    normal = known.slave(Prefix("A_"), "x")
    status_of_it = {**normal.status, "message": CONFLICT}
    slaves = {**known.slaves, (Prefix("A_"), "x"): replace(normal, status=status_of_it, closures=(closure,))}
    known = LiveState(known.masters, slaves)
    return found, known


def test_the_text_of_a_conflict_appears_once() -> None:
    found, known = stopped()
    gathered = Gathered(found, known, NOW)
    groups = overview(gathered, Choice(), NOW).groups
    row = next(one for group in groups for one in group.rows if one.pair == "A_ → x")
    events = (Event(0.0, next(iter(EventKind)), f"The apply has stopped: {CONFLICT}"),)
    whole = as_data.whole_slave(gathered, row, LastAnswer(SlaveData(), NOW), Past(events=events))
    told = "\n".join(watched.details(whole, colors=False))
    assert told.count(CONFLICT) == 1, told
    assert "NORMAL: Stopped" not in told and told.splitlines()[0] == "A_ → x: NORMAL. Stopped, see below"
    assert "./sluice act restart A_ x" in told
    listed = "\n".join(watched.table(as_data.overview(gathered, NOW), colors=False, width=200))
    assert listed.count(CONFLICT) == 1 and "NORMAL: Stopped" not in listed


def test_a_slave_that_was_never_loaded_does_not_read_as_if_it_were_missing() -> None:
    found, _ = some()
    pairs = [(one.prefix, slave) for one in found.replications for slave in one.slaves]
    none = Gathered(found, LiveState({}, {}), NOW, answers=dict.fromkeys(pairs, LastAnswer(SlaveData(), NOW)))
    text = "\n".join(watched.table(as_data.overview(none, NOW), colors=True, width=200))
    assert "UNCONFIGURED" not in text and "not loaded" in text
    assert LiveSlave().tables == {}


# -- comparisons


def table(name: str, outcome: str = "identical", **values: Any) -> dict[str, Any]:
    finding = {
        "reason": "", "rows_master": 10, "missing": 0, "extra": 0, "different": 0, "to_repair": 0, "sampled": 0,
    }  # fmt: skip
    base = {
        **finding,
        "table": name,
        "outcome": outcome,
        "repaired": 0,
        "not_repaired_because": "",
        "after_repair": None,
    }
    return {**base, **values}


def report(*tables: Mapping[str, Any]) -> list[Any]:
    return [
        {"prefix": "P_", "slave": "a", "tables": list(tables)},
        {"prefix": "P_", "slave": "b", "tables": [table("s.z")]},
    ]


def test_a_comparison_says_what_it_compared_and_where_the_report_is() -> None:
    assert operate.comparison_lines(report(table("s.t"), table("s.u")), "P_", "a", "http://x/reports/r/") == [
        "P_ → a: 2 tables, 20 rows compared: 2 identical",
        "    report: http://x/reports/r/",
    ]


def test_a_repair_says_which_rows_it_repaired() -> None:
    after = {**table("s.t"), "rows_master": 12}
    told = operate.comparison_lines(
        report(table("s.t", repaired=4959, after_repair=after), table("s.u")), "P_", "a", "r"
    )
    assert told == [
        "P_ → a: 2 tables, 22 rows compared: 2 identical; 4,959 rows repaired",
        "    s.t: 4,959 rows repaired",
        "    report: r",
    ]


def test_tables_that_differ_or_could_not_be_compared_are_named_with_the_reason() -> None:
    why = "it is not running. Start the DAG cdc_apply."
    different = table("s.t", "different", to_repair=5, missing=2, extra=1, different=2)
    told = operate.comparison_lines(
        report(different, table("s.u", "could not compare", reason=why, rows_master=0)), "P_", "a", "r"
    )
    assert told == [
        "P_ → a: 2 tables, 10 rows compared: 1 different, 1 not compared",
        "    s.t: 5 rows to repair (2 missing, 1 extra, 2 different)",
        "    s.u: not compared: it is not running. Run ./sluice act restart P_ a",
        "    report: r",
    ]
    many = [table(f"s.t{number}", "different", to_repair=1, missing=1) for number in range(30)]
    assert operate.comparison_lines(report(*many), "P_", "a", "r")[-2:] == ["    and 10 more tables", "    report: r"]


class Airflow:
    """An Airflow in which runs of several DAGs ask; it keeps the answers."""

    url = "http://airflow"

    def __init__(self, asking: Mapping[str, str], compared: bool = True) -> None:
        self.asking, self.compared = dict(asking), compared
        self.answers: list[tuple[str, str]] = []

    def get(self, path: str, **query: object) -> Any:
        words = path.split("/")
        if words[-1] == "hitlDetails":
            return {"hitl_details": [self._detail(dag) for dag in self.asking if words[1] in ("~", dag)]}
        if words[-1].startswith("of_"):
            # The daily comparison of all pairs has no pair of its own.
            return {"state": "running", "conf": {"prefix": "P_", "slave": "a"} if words[1] == FAILOVER else {}}
        if words[-1] == "return_value":
            return {"value": "http://airflow/sluice/reports/r1/"}
        return {"is_paused": False}

    def _detail(self, dag: str) -> Any:
        asks = {"task_id": "asks", "dag_id": dag, "dag_run_id": f"of_{dag}", "id": f"q-{dag}"}
        body = "- P_ → a: s.t: 5 rows\n\n[Read the report](http://x)."
        return {"task_instance": asks, "subject": self.asking[dag], "body": body}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        if path.endswith("hitlDetails"):
            self.answers.append((path.split("/")[1], body["chosen_options"][0]))
            del self.asking[path.split("/")[1]]
        return {"dag_run_id": f"of_{path.split('/')[1]}"}

    def run_state(self, dag: str, run: str) -> str:
        return "running" if dag in self.asking else "success"

    def page(self, path: str) -> Any:
        if path == "overview.json":
            slaves = [{"slave": "a", "state": "NORMAL"}, {"slave": "new", "state": "UNCONFIGURED"}]
            return {"masters": [{"prefix": "P_", "slaves": slaves}]}
        if path == "reports/r1/report.json":
            return report(table("s.t", "different", to_repair=5, missing=5))
        stop = {
            "level": "critical",
            "text": "The apply has stopped: no row.",
            "remedy": "restart",
            "tables": "",
            "question": "",
        }
        load = {
            "level": "critical",
            "text": "2 tables not loaded.",
            "remedy": "reload",
            "tables": "s.t\ns.u",
            "question": "",
        }
        return {"messages": [stop, load]}


RESYNC, FAILOVER = "resync", "failover"
ASKING = {RESYNC: "P_ → a: repair 5 rows of 1 table?", FAILOVER: "P_: make a the master?"}


def run(airflow: Airflow, *words: str) -> int:
    args = cli.parser().parse_args([*words])
    return (run_verify if words[0] == "verify" else run_act)(args, lambda _: airflow)  # type: ignore[arg-type,return-value]


@pytest.fixture
def at_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines that a person types; without any, there is no terminal."""
    lines: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: bool(lines), raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt="": lines.pop(0))
    monkeypatch.setattr("sluice.cli.operate.time.sleep", lambda _: None)
    return lines


@pytest.mark.parametrize(
    "words", [("verify", "P_", "a"), ("act", "failover", "P_", "a", "--set", "action=planned", "--why", "a test")]
)
def test_all_commands_behave_alike_at_a_question(
    words: tuple[str, ...], at_the_keyboard: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    dag = RESYNC if words[0] == "verify" else FAILOVER
    airflow = Airflow({dag: ASKING[dag]})
    with raises_code("answer-needed", match=rf"\./sluice act approve P_ a --set question=q-{dag},"):
        run(airflow, *words)
    assert ASKING[dag] in capsys.readouterr().err and airflow.answers == [], "nobody is there to answer"
    at_the_keyboard[:] = ["maybe", "y"]
    assert run(airflow, *words) == 0
    assert airflow.answers == [(dag, "Approve")]
    airflow = Airflow({dag: ASKING[dag]})
    at_the_keyboard[:] = ["n"]
    assert run(airflow, *words) == 0
    assert airflow.answers == [(dag, "Reject")]
    airflow = Airflow({dag: ASKING[dag]})
    at_the_keyboard[:] = [""]
    with raises_code("answer-needed"):
        run(airflow, *words)
    assert run(airflow, *words, "--yes") == 0
    assert airflow.answers == [(dag, "Approve")]


def test_a_question_comes_with_what_was_found_and_why_the_apply_stands(
    at_the_keyboard: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with raises_code("answer-needed"):
        run(Airflow({RESYNC: ASKING[RESYNC]}), "verify", "P_", "a")
    said = capsys.readouterr().err
    for text in ("s.t: 5 rows to repair (5 missing)", "report: http://airflow/sluice/reports/r1/",
                 "The apply has stopped: no row.", ASKING[RESYNC], "    - P_ → a: s.t: 5 rows"):  # fmt: skip
        assert said.count(text) == 1, text
    assert "](" not in said, "links are for pages"


def test_an_answer_names_its_question(at_the_keyboard: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Also if only one waits: it may be another one than that which the person read."""
    for asking in ({FAILOVER: ASKING[FAILOVER]}, ASKING):
        airflow = Airflow(asking)
        with pytest.raises(Incomplete, match=r"Which question\?(.|\n)*--set question=q-failover"):
            run(airflow, "act", "approve", "P_", "a")
        with raises_code("nothing-runs", match=r"q-former .* waits no more"):
            run(airflow, "act", "approve", "P_", "a", "--set", "question=q-former")
        assert airflow.answers == []
        assert run(airflow, "act", "approve", "P_", "a", "--no-wait", "--set", "question=q-failover") == 0
        said = capsys.readouterr()
        assert f"Approve: {ASKING[FAILOVER]}" in said.err and airflow.answers == [(FAILOVER, "Approve")]


def test_of_several_questions_the_one_is_asked_for(at_the_keyboard: list[str]) -> None:
    airflow = Airflow(ASKING)
    at_the_keyboard[:] = ["7", "2"]
    assert run(airflow, "act", "approve", "P_", "a", "--no-wait") == 0
    assert airflow.answers == [(FAILOVER, "Approve")]
    airflow = Airflow(ASKING)
    answer = ["--set", "question=q-resync", "--set", "answer=Reject"]
    assert run(airflow, "act", "approve", "P_", "a", "--no-wait", *answer) == 0
    assert airflow.answers == [(RESYNC, "Reject")], "of the daily comparison, which has no pair of its own"
    with pytest.raises(Incomplete, match="Nothing of P_ → b waits"):
        run(airflow, "act", "approve", "P_", "b")


def test_what_empties_or_stops_something_wants_a_reason(at_the_keyboard: list[str]) -> None:
    airflow = Airflow({})
    with pytest.raises(Incomplete, match=r"All tables of a are emptied or replaced.*a is NORMAL now.*--why REASON"):
        run(airflow, "act", "initiate", "P_", "a", "--no-wait")
    with pytest.raises(Incomplete, match=r"These tables of a \(s\.t\) are emptied"):
        run(airflow, "act", "initiate", "P_", "a", "--tables", "s.t", "--no-wait")
    with pytest.raises(Incomplete, match="the application cannot write"):
        run(airflow, "act", "failover", "P_", "a", "--set", "action=planned", "--no-wait")
    assert run(airflow, "act", "initiate", "P_", "a", "--no-wait", "--why", "a test") == 0
    assert run(airflow, "act", "initiate", "P_", "new", "--no-wait") == 0
    assert run(airflow, "act", "failover", "P_", "a", "--set", "action=check", "--no-wait") == 0


def test_reload_without_tables_loads_those_that_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    airflow, asked = Airflow({}), []
    monkeypatch.setattr(airflow, "call", lambda method, path, body=None: asked.append(body) or {"dag_run_id": "r"})
    assert run(airflow, "act", "reload", "P_", "a", "--no-wait") == 0
    assert asked[0]["conf"]["tables"] == ["s.t", "s.u"]
    monkeypatch.setattr(airflow, "page", lambda path: {"messages": []})
    with pytest.raises(Incomplete, match="All tables of P_ → a are loaded"):
        run(airflow, "act", "reload", "P_", "a")


def test_a_comparison_that_fails_points_at_its_lines(
    monkeypatch: pytest.MonkeyPatch, at_the_keyboard: list[str]
) -> None:
    airflow = Airflow({})
    monkeypatch.setattr(airflow, "run_state", lambda dag, run: "failed")
    monkeypatch.setattr("sluice.cli.operate.failed_task", lambda *_: ("verdict", ["different: s.t"]))
    with pytest.raises(RunFailed, match="P_ → a was not found equal to its master, see above"):
        run(airflow, "verify", "P_", "a")
    monkeypatch.setattr("sluice.cli.operate.failed_task", lambda *_: ("due", ["Start the DAG cdc_apply."]))
    with pytest.raises(RunFailed, match=r"in its task due:\n  Run ./sluice act restart P_ a"):
        run(airflow, "verify", "P_", "a")


@pytest.mark.parametrize(
    "given", ['"a b"."x*"', "a b.x*", '"a b".*', '"a b".x?', "a*.*", '"a b"."x*",a.b', str(TableName("a b", "x*"))]
)
def test_a_name_in_double_quotes_means_its_table_and_may_stand_beside_wildcards(given: str) -> None:
    assert any(selection.names(each, TableName("a b", "x*")) for each in tables_of(given))
    quoted = given.partition(",")[0].endswith('"x*"')
    assert any(selection.names(each, TableName("a b", "xy")) for each in tables_of(given)) is not quoted


def test_a_name_that_airflow_does_not_offer_is_told_without_its_schema() -> None:
    detail = "Invalid input for param slave: 'dr9' is not one of [None, 'dr1', 'dr2']\n\nFailed validating 'enum'"
    assert detail_of(json.dumps({"detail": detail})) == "There is no slave dr9. There are: dr1, dr2."


def test_the_terminal_and_the_page_are_told_the_same_tables() -> None:
    found, known = some()
    data = json.loads(json.dumps(as_data.overview(Gathered(found, known, NOW), NOW)))
    assert all(
        "tables" in message for master in data["masters"] for one in master["slaves"] for message in one["messages"]
    )
    assert status.load_command(Prefix("S_"), "a") == "Load it: ./sluice act initiate S_ a"


@pytest.mark.parametrize("parser", [cli.parser, of_package.parser], ids=["checkout", "package"])
def test_every_subcommand_finds_the_function_that_it_runs(parser: Callable[[], argparse.ArgumentParser]) -> None:
    (subcommands,) = (one for one in parser()._actions if isinstance(one, argparse._SubParsersAction))
    runs = {name: command.get_default("run") for name, command in subcommands.choices.items()}
    named = {name: run.args for name, run in runs.items() if isinstance(run, partial)}
    assert len(named) >= len(runs) - 1, "setup alone runs nothing"
    assert {name: args for name, args in named.items() if not hasattr(import_module(args[0]), args[1])} == {}


HOSTILE = "orders\x1b]0;owned\x07\x9b2J\r\x00"
"""A name that its owner gave to a table: the first part gives the window of a terminal a title."""


def test_no_name_of_a_table_commands_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by an answer of Airflow nor by an error nor by what a command says."""
    text = json.dumps({"tables": [f"public.{HOSTILE}\n"], HOSTILE: {"reason": HOSTILE, "rows": 3}}).encode()
    with socketserver.TCPServer(("127.0.0.1", 0), _answering(text)) as server:
        threading.Thread(target=server.handle_request).start()
        answer = AirflowApi(f"http://127.0.0.1:{server.server_address[1]}", token="t").page("overview.json")
    assert CONTROLS.findall(repr([answer["tables"], *answer, *answer.values()]).encode().decode("unicode_escape")) == []
    assert "orders\ufffd]0;owned" in answer["tables"][0] and answer["tables"][0].endswith("\n")

    def refused(_: argparse.Namespace) -> int:
        raise Terminal(f"public.{HOSTILE} is not there.")

    assert of_package.guarded(argparse.Namespace(run=refused)) == 1
    Console(interactive=False).say(f"loading {HOSTILE}")
    said = capsys.readouterr()
    assert CONTROLS.findall(said.out + said.err) == [] and "owned" in said.out and "owned" in said.err


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _answering(text: bytes) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    return Answering
