"""`gate`, `rejects`, `verify`, `act`, `logs` and `status`, over the API of any Airflow that has Sluice.

They do the same as the monitor's buttons: start the same DAGs, with the rights of the logged-in person. Then they wait
for the end of the run.
"""

import argparse
import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from sluice.cli import watched
from sluice.cli.airflow import failed_task
from sluice.cli.airflow_api import AirflowApi, ApiRefused, ApiUnreachable
from sluice.cli.arguments import tables_of
from sluice.cli.console import Console
from sluice.cli.where import NONE, airflow_of
from sluice.counted import counted
from sluice.errors import Terminal
from sluice.model.names import prefix_meant
from sluice.operate.actions import ACTIONS, MAY_LOSE, Action, Field, Incomplete, Kind, Order, Scope, loses, ordered
from sluice.operate.api import APPLY, FAILOVER, RESYNC, Question, questions, run_path, runs
from sluice.operate.perform import perform, waiting
from sluice.operate.remedies import at_terminal
from sluice.paths import PROGRAM
from sluice.verify.report_types import Report, TableReport

# The lines about a run of `resync`: what it compared and repaired, and where its report is. Pure.

LISTED = 20
"""Tables that differ, were repaired, or could not be compared, at most."""
OUTCOMES = {"identical": "identical", "different": "different", "could not compare": "not compared"}


def comparison_lines(reports: Sequence[Report], prefix: str, slave: str, address: str) -> list[str]:
    """`reports`: the run's, of which those of the pair are shown. `address`: of the report's page."""
    tables = [table for one in reports if (one["prefix"], one["slave"]) == (prefix, slave) for table in one["tables"]]
    findings = [line for table in tables if (line := _line(table, prefix, slave))]
    more = [f"    and {counted(len(findings) - LISTED, 'more table')}"] if len(findings) > LISTED else []
    return [f"{prefix} → {slave}: {_summary(tables)}", *findings[:LISTED], *more, f"    report: {address}"]


def _summary(tables: Sequence[TableReport]) -> str:
    if not tables:
        return "no table to compare"
    outcomes = [table["outcome"] for table in tables]
    counts = [f"{outcomes.count(one)} {words}" for one, words in OUTCOMES.items() if one in outcomes]
    rows = sum((table["after_repair"] or table)["rows_master"] for table in tables)
    sampled = ", of samples" if any(table["sampled"] for table in tables) else ""
    repaired = sum(table["repaired"] for table in tables)
    fixed = f"; {counted(repaired, 'row')} repaired" if repaired else ""
    return f"{counted(len(tables), 'table')}, {counted(rows, 'row')} compared{sampled}: {', '.join(counts)}{fixed}"


def _line(table: TableReport, prefix: str, slave: str) -> str:
    """What a person has to know of a table; empty if it was equal from the beginning."""
    last = table["after_repair"] or table
    parts = []
    if table["repaired"]:
        parts.append(f"{counted(table['repaired'], 'row')} repaired")
    if table["outcome"] == "could not compare":
        parts.append(f"not compared: {last['reason'] or table['reason']}")
    elif table["outcome"] != "identical":
        kinds = [f"{last[kind]:,} {kind}" for kind in ("missing", "extra", "different") if last[kind]]
        parts.append(f"{counted(last['to_repair'], 'row')} to repair ({', '.join(kinds)})" if kinds else "different")
    if table["not_repaired_because"]:
        parts.append(table["not_repaired_because"])
    return at_terminal(f"    {table['table']}: {'; '.join(parts)}", prefix, slave) if parts else ""


EVERY_SECONDS = 2.0
POLL_SECONDS = 1.0
RESULTS = ("decide", "verdict", "remove", "collect")
"""Tasks that return the result of a run."""
RESULTS_OF_FAILOVER = ("abort", "follow", "switch_over", "check")
ENDED = ("success", "failed")
STOPPED = ("restart", "open")
"""The remedies of an apply that does not apply."""
WIDE = 160
"""Columns of output that is no terminal."""
_CLEAR = "\x1b[H\x1b[J"

Finds = Callable[[argparse.Namespace], AirflowApi]


class RunFailed(Terminal):
    """The started run failed; the message has the end of its log."""


def answer_needed(order: Order, question: Question) -> Terminal:
    """The run waits for a person's answer, and nobody gave one here."""
    pair = f"{order.prefix} {order.slaves[0]}"
    return Terminal(
        f"The run waits for an answer. Give it: {PROGRAM} act approve {pair} --set question={question.id}, to "
        "reject it with --set answer=Reject besides; or on the monitor's page of the slave.",
        code="answer-needed",
    )


def named(args: argparse.Namespace) -> AirflowApi:
    """The Airflow of `--airflow`. Raises `Terminal`."""
    api = airflow_of(args.airflow, Console()) if args.airflow else None
    if api is None:
        raise Terminal(
            f"Which Airflow? Name it: --airflow URL (not {NONE}); a token may be in SLUICE_AIRFLOW_TOKEN.",
            code="airflow-needed",
        )
    return api


def _airflow_of(args: argparse.Namespace, finds: Finds) -> AirflowApi:
    """The Airflow; sets `args.prefix` to the prefix configured there: SHOP may be SHOP_. Raises `Terminal`."""
    api = finds(args)
    if args.prefix and not args.prefix.endswith("_"):
        args.prefix = prefix_meant(args.prefix, [master["prefix"] for master in api.page("overview.json")["masters"]])
    return api


def run_gate(args: argparse.Namespace, finds: Finds = named) -> int:
    """Shows, closes or opens the gate of a slave."""
    api = _airflow_of(args, finds)
    if args.action == "show":
        closures = api.page(_state_of(args))["closures"]
        print("closed: " + "; ".join(closures) if closures else "open")
        return 0
    return _do(api, "hold" if args.action == "close" else "open", args, {})


def run_rejects(args: argparse.Namespace, finds: Finds = named) -> int:
    """Lists, applies or drops changes that were set aside."""
    api = _airflow_of(args, finds)
    if args.action == "list":
        state = api.page(_state_of(args))
        count = counted(state["rejected"], "change") if state["rejected"] else "nothing"
        print("\n".join([*state["rejected_changes"], state["trouble"] or f"{count} set aside"]))
        return 1 if state["trouble"] else 0
    values = {"action": args.action, "ids": args.ids or "", "force": "on" if args.force else ""}
    return _do(api, "rejects", args, values)


def run_verify(args: argparse.Namespace, finds: Finds = named) -> int:
    """Compares a slave with its master, or repairs it; 0 if all its tables are equal at the end."""
    values = {"tables": "\n".join(args.tables), "sample": str(args.sample)}
    return _do(_airflow_of(args, finds), "repair" if args.repair else "verify", args, values)


def run_act(args: argparse.Namespace, finds: Finds = named) -> int:
    """Does any action, or lists all of them. Raises `Incomplete`, `RunFailed`, `answer-needed`."""
    if args.action is None:
        print("\n\n".join(_explained(action) for action in ACTIONS.values()))
        return 0
    action = ACTIONS.get(args.action)
    if action is None:
        raise Incomplete(f"There is no action {args.action}. These are: {', '.join(ACTIONS)}.")
    if not args.prefix:
        raise Incomplete(f"Which replication? Write {PROGRAM} act {_usage(action)}.")
    values = _values(action, args)
    slaves = tuple(args.slaves)
    # Report missing values before contacting Airflow, unless it is needed to find the prefix or what is not loaded.
    api = None if args.prefix.endswith("_") else _airflow_of(args, finds)
    if action.name == "reload" and not values.get("tables") and len(slaves) == 1:
        api = api or finds(args)
        values["tables"] = _not_loaded(api, args.prefix.upper(), slaves[0])
    if action.name == "approve" and not values.get("question"):
        api = api or finds(args)
        values["question"] = _chosen_question(api, args.prefix.upper(), slaves)
    if action.name in MAY_LOSE and not args.why:
        api = api or finds(args)
        lost = loses(action, values, _states(api, args.prefix.upper(), slaves))
    else:
        lost = ""
    order = _ordered(action, args, slaves, values, lost)
    api = api or finds(args)
    if action.name == "approve":
        _show_question(api, order)
    return _perform(api, order, args)


def _states(api: AirflowApi, prefix: str, slaves: Sequence[str]) -> dict[str, str]:
    """The states of some slaves."""
    masters = {master["prefix"]: master["slaves"] for master in api.page("overview.json")["masters"]}
    return {one["slave"]: one["state"] for one in masters.get(prefix, ()) if one["slave"] in slaves}


def _values(action: Action, args: argparse.Namespace) -> dict[str, str]:
    """The fields of `--set` and `--tables`. Raises `Incomplete`."""
    kinds = {field.name: field.kind for field in action.fields if field.kind is not Kind.SLAVES}
    given = [text.partition("=")[::2] for text in args.set] + [("tables", name) for name in args.tables]
    values: dict[str, str] = {}
    for name, text in given:
        if name not in kinds:
            raise Incomplete(f"--set {name}: {action.label} knows {', '.join(sorted(kinds)) or 'no field'}.")
        if kinds[name] is Kind.LINES:
            values[name] = "\n".join([*values.get(name, "").splitlines(), *tables_of(text)])
        elif name in values:
            raise Incomplete(f"--set {name} is given twice.", name)
        else:
            values[name] = text
    return values


def _not_loaded(api: AirflowApi, prefix: str, slave: str) -> str:
    """The tables of a slave that are not loaded and that no run loads, one a line. Raises `Incomplete`."""
    messages = api.page(_page_of(prefix, slave))["messages"]
    if tables := next((one["tables"] for one in messages if one["remedy"] == "reload"), ""):
        return str(tables)
    raise Incomplete(f"All tables of {prefix} → {slave} are loaded, or are being loaded. Name those to load again:"
                     " --tables schema.table.", "tables")  # fmt: skip


def _chosen_question(api: AirflowApi, prefix: str, slaves: Sequence[str]) -> str:
    """The question that a person chooses of those that wait. Raises `Incomplete` without a terminal, and if none waits.

    Nobody answers a question that he was not shown, so a single one is no exception.
    """
    if len(slaves) != 1:
        raise Incomplete("Answer is for one slave: choose one.")
    found = waiting(api, prefix, slaves[0])
    if not found:
        raise Incomplete(
            f"Nothing of {prefix} → {slaves[0]} waits for an answer: files of a transfer are not written yet, no "
            "comparison and no failover has asked, or somebody has answered."
        )
    lines = [line for number, one in enumerate(found, 1) for line in (f"{number}  {one.question.subject}",
             f"   {PROGRAM} act approve {prefix} {slaves[0]} --set question={one.question.id}")]  # fmt: skip
    console = Console()
    if not console.interactive:
        raise Incomplete("\n".join(["Which question? Add --set question=… of one of them:", *lines]), "question")
    print("\n".join(lines))
    numbers = [str(number) for number in range(1, len(found) + 1)]
    answer = console.ask("Which one", "--set question=…", fault=lambda one: "" if one in numbers else "A number above.")
    return found[int(answer) - 1].question.id


def _show_question(api: AirflowApi, order: Order) -> None:
    for one in waiting(api, order.prefix, order.slave):
        if one.question.id == order.values["question"]:
            print("\n".join(_texts(one.question)), file=sys.stderr)


def _texts(question: Question) -> list[str]:
    """The question with its details; links are for pages."""
    return [question.subject, *(f"    {line}" for line in watched.evidence(question.body))]


def _explained(action: Action) -> str:
    does = textwrap.fill(action.does, 100, initial_indent="    ", subsequent_indent="    ")
    fields = [_field(field) for field in action.fields if field.kind is not Kind.SLAVES]
    return "\n".join([_usage(action), does, *(f"    {field}" for field in fields)])


def _field(field: Field) -> str:
    """An option of an action, with its values."""
    if field.kind is Kind.LINES:
        usual = "" if field.required else "; without: all"
        return f"--tables TABLES  schema.table, with * for anything; several with commas{usual}"
    if field.kind is Kind.FLAG:
        return f"--set {field.name}=on  {field.label}"
    usual = f" (default {field.default})" if field.default else ""
    if field.kind is Kind.CHOICE:
        labels = [text if text.startswith(value) else f"{value}: {text}" for value, text in field.choices]
        lines = labels if labels != list(dict(field.choices)) else []
        return "\n        ".join([f"--set {field.name}={'|'.join(dict(field.choices))}{usual}", *lines])
    return f"--set {field.name}=…  {field.label}{usual}. {field.hint}".rstrip()


def _usage(action: Action) -> str:
    whom = "PREFIX SLAVE" if action.scope is Scope.SLAVE else "PREFIX"
    return f"{action.name} {whom}" + (" --why REASON" if action.why_required else "")


def run_logs(args: argparse.Namespace, finds: Finds = named) -> int:
    """Prints the log of a slave's apply; `--follow` continues, also with the next apply."""
    api = _airflow_of(args, finds)
    seen: tuple[str, int] | None = None
    shown = 0
    while True:
        try:
            start, lines = _log(api, args)
        except ApiUnreachable as outage:
            if seen is None or not args.follow:
                raise
            print(outage, file=sys.stderr, flush=True)
        else:
            if seen is None:
                shown = max(0, len(lines) - args.lines)
            elif start != seen:
                shown = 0
            for line in lines[shown:]:
                print(line)
            seen, shown = start, len(lines)
        if not args.follow:
            return 0
        sys.stdout.flush()
        time.sleep(EVERY_SECONDS)


def _log(api: AirflowApi, args: argparse.Namespace) -> tuple[tuple[str, int], list[str]]:
    """The latest start of the apply, by run and attempt, and the lines of its log."""
    run = next(runs(api, APPLY, args.prefix, args.slave, active=False), None)
    if run is None:
        pair = f"{api.page(_state_of(args))['prefix']} {args.slave}"
        raise Terminal(
            f"{pair}: no apply was ever started. Start one: {PROGRAM} act restart {pair}", code="apply-never-started"
        )
    run_id = str(run["dag_run_id"])
    task = api.get(f"{run_path(APPLY, run_id)}/taskInstances/apply")
    attempt = int(task["try_number"]) or 1
    return (run_id, attempt), api.task_log(APPLY, run_id, "apply", attempt).splitlines()


def run_watch(args: argparse.Namespace, finds: Finds = named) -> int:
    """Prints all slaves, or one, as in the monitor; with `--watch` every two seconds."""
    api, terminal = _airflow_of(args, finds), sys.stdout.isatty()
    while True:
        try:
            text = _state_text(api, args, colors=terminal)
        except ApiUnreachable as outage:
            if not args.watch:
                raise
            text = f"{outage} Asked again every {EVERY_SECONDS:.0f} s."
        print((_CLEAR if args.watch and terminal else "") + text, flush=True)
        if not args.watch:
            return 0
        time.sleep(EVERY_SECONDS)


def _state_text(api: AirflowApi, args: argparse.Namespace, *, colors: bool) -> str:
    """All slaves, those of a prefix, or one, as text or as JSON."""
    state = api.page(_state_of(args) if args.slave else "overview.json")
    if args.prefix and not args.slave:
        known = [master["prefix"] for master in state["masters"]]
        if args.prefix.upper() not in known:
            raise Terminal(
                f"{args.prefix} is not configured; these are: {', '.join(known) or 'none'}.", code="unknown-replication"
            )
        state["masters"] = [master for master in state["masters"] if master["prefix"] == args.prefix.upper()]
    if args.json:
        return json.dumps(state, indent=1, ensure_ascii=False)
    width = shutil.get_terminal_size((160, 40)).columns if sys.stdout.isatty() else WIDE
    if args.slave:
        return "\n".join(watched.details(state, colors=colors))
    return "\n".join(watched.table(state, colors=colors, width=width))


def _state_of(args: argparse.Namespace) -> str:
    return _page_of(args.prefix, args.slave)


def _page_of(prefix: str, slave: str) -> str:
    return f"slaves/{quote(prefix, safe='')}/{quote(slave, safe='')}/state.json"


def _do(api: AirflowApi, action: str, args: argparse.Namespace, values: dict[str, str]) -> int:
    """Starts the DAG and waits for its end. Raises `RunFailed`."""
    return _perform(api, _ordered(ACTIONS[action], args, (args.slave,), values), args)


def _ordered(
    action: Action, args: argparse.Namespace, slaves: tuple[str, ...], values: Mapping[str, str], lost: str = ""
) -> Order:
    """As `actions.ordered`. Raises `Incomplete`, with the option that is missing."""
    try:
        return ordered(action, args.prefix.upper(), slaves, values, args.why or "", lost)
    except Incomplete as issue:
        if issue.field != "why" and "set" not in args:
            raise
        missing = {"why": "--why REASON", "tables": "--tables …"}.get(issue.field, f"--set {issue.field}=…")
        raise Incomplete(f"{issue} Write {missing}") from None


def _perform(api: AirflowApi, order: Order, args: argparse.Namespace) -> int:
    done = perform(api, order)
    print(done.text, file=sys.stderr)
    pages = {(dag, run): f"{api.url}/dags/{dag}/runs/{quote(run, safe='')}" for dag, run in done.runs}
    # Who answers a question wants to know what comes of it.
    awaited = done.awaited or order.action.name == "approve"
    for (dag, run), page in pages.items():
        print(f"{dag}: {page}", file=sys.stderr, flush=True)
        if args.no_wait or not awaited:
            continue
        try:
            state = _end_of(api, order, dag, run, Console(yes=args.yes))
        except KeyboardInterrupt:
            print("The run continues.", file=sys.stderr)
            raise
        found = _compared(api, order, run) if dag == RESYNC else []
        print("\n".join(found), end="\n" if found else "", flush=True)
        if state == "failed":
            raise RunFailed(_failure(api, order, dag, run, bool(found)))
        if not found:
            print(_result(api, dag, run) or f"{order.action.label}: done")
    return 0


def _failure(api: AirflowApi, order: Order, dag: str, run: str, compared: bool) -> str:
    task, lines = failed_task(api, dag, run)
    if compared and task in ("", "verdict"):
        return f"{order.prefix} → {order.slave} was not found equal to its master, see above."
    text = "\n".join(f"  {at_terminal(line, order.prefix, order.slaves[0] if order.slaves else '')}" for line in lines)
    return f"The run of {dag} failed{f' in its task {task}' if task else ''}:\n{text}"


def _compared(api: AirflowApi, order: Order, run: str) -> list[str]:
    """What the run has compared and repaired; nothing before its report is written."""
    try:
        path = f"{run_path(RESYNC, run)}/taskInstances/write_report/xcomEntries/return_value"
        address = str(api.get(path)["value"])
        reports = api.page(f"reports/{quote(address.rstrip('/').rpartition('/')[2])}/report.json")
    except ApiRefused:
        return []
    return comparison_lines(reports, order.prefix, order.slave, address)


def _end_of(api: AirflowApi, order: Order, dag: str, run: str, console: Console) -> str:
    """Waits for the end of a run, also during an outage of Airflow; returns `success` or `failed`. Asks the run's
    questions. Raises `answer-needed`.
    """
    away, answered = False, False
    while True:
        try:
            if (state := api.run_state(dag, run)) in ENDED:
                return state
            away = False
            # An answer takes a moment to be seen.
            for question in [] if answered or order.action.name == "approve" else questions(api, dag, run):
                answered = True
                _answer(api, order, dag, run, question, console)
        except ApiUnreachable as outage:
            if not away:
                print(f"{outage} The run is not lost; waiting for its end.", file=sys.stderr, flush=True)
            away = True
        time.sleep(POLL_SECONDS)


def _answer(api: AirflowApi, order: Order, dag: str, run: str, question: Question, console: Console) -> None:
    """Asks the person, and sends the answer. Raises `answer-needed` without a terminal, and for no answer now."""
    found = [*_compared(api, order, run), *_stopped(api, order)] if dag == RESYNC else []
    print("\n".join([*found, *_texts(question)]), file=sys.stderr, flush=True)
    if not (console.yes or console.interactive):
        raise answer_needed(order, question)
    chosen = "y" if console.yes else ""
    while chosen not in ("y", "n"):
        chosen = input("Approve? [y/n, Enter: not now] ").strip().lower()[:1]
        if not chosen:
            raise answer_needed(order, question)
    values = {"answer": "Approve" if chosen == "y" else "Reject", "question": question.id}
    print(perform(api, ordered(ACTIONS["approve"], order.prefix, order.slaves, values, order.why)).text,
          file=sys.stderr, flush=True)  # fmt: skip


def _stopped(api: AirflowApi, order: Order) -> list[str]:
    """Why the apply does not apply now: a comparison may be about rows that are only late."""
    messages = api.page(_page_of(order.prefix, order.slave))["messages"]
    return [at_terminal(one["text"], order.prefix, order.slave) for one in messages if one["remedy"] in STOPPED]


def _result(api: AirflowApi, dag: str, run: str) -> str:
    """The result of the deciding task; empty without one."""
    for task in RESULTS_OF_FAILOVER if dag == FAILOVER else RESULTS:
        try:
            return str(api.get(f"{run_path(dag, run)}/taskInstances/{task}/xcomEntries/return_value")["value"])
        except ApiRefused:
            continue
    return ""
