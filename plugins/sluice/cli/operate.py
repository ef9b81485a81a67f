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
from collections.abc import Callable, Mapping
from urllib.parse import quote

from sluice.cli import watched
from sluice.cli.airflow import failed_task
from sluice.cli.airflow_api import AirflowApi, ApiRefused, ApiUnreachable
from sluice.cli.console import Console
from sluice.cli.where import NONE, airflow_of
from sluice.errors import Terminal
from sluice.model.names import prefix_meant
from sluice.operate.actions import ACTIONS, Action, Incomplete, Kind, Order, Scope, ordered
from sluice.operate.api import APPLY, FAILOVER, RESYNC, questions, run_path, runs
from sluice.operate.perform import perform

EVERY_SECONDS = 2.0
POLL_SECONDS = 1.0
RESULTS = ("decide", "verdict", "remove_first", "collect")
"""Tasks that return the result of a run."""
RESULTS_OF_FAILOVER = ("abort", "follow", "switch_over", "check")
ENDED = ("success", "failed")
WIDE = 160
"""Columns of output that is no terminal."""
_CLEAR = "\x1b[H\x1b[J"

Finds = Callable[[argparse.Namespace], AirflowApi]


class RunFailed(Terminal):
    """The started run failed; the message has the end of its log."""


def named(args: argparse.Namespace) -> AirflowApi:
    """The Airflow of `--airflow`. Raises `Terminal`."""
    api = airflow_of(args.airflow, Console()) if args.airflow else None
    if api is None:
        raise Terminal(f"Which Airflow? Name it: --airflow URL (not {NONE}); a token may be in SLUICE_AIRFLOW_TOKEN.")
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
        print("\n".join([*state["rejected_changes"], state["trouble"] or f"{state['rejected']} set aside"]))
        return 1 if state["trouble"] else 0
    values = {"action": args.action, "ids": args.ids or "", "force": "on" if args.force else ""}
    return _do(api, "rejects", args, values)


def run_verify(args: argparse.Namespace, finds: Finds = named) -> int:
    """Compares a slave with its master, or repairs it; 0 if all its tables are equal at the end."""
    values = {"tables": "\n".join(args.tables), "sample": str(args.sample)}
    return _do(_airflow_of(args, finds), "repair" if args.repair else "verify", args, values)


def run_act(args: argparse.Namespace, finds: Finds = named) -> int:
    """Does any action, or lists all of them. Raises `Incomplete`, `RunFailed`."""
    if args.action is None:
        print("\n\n".join(_explained(action) for action in ACTIONS.values()))
        return 0
    action = ACTIONS.get(args.action)
    if action is None:
        raise Incomplete(f"There is no action {args.action}. These are: {', '.join(ACTIONS)}.")
    if not args.prefix:
        raise Incomplete(f"Which replication? Write ./sluice act {_usage(action)}.")
    known = {field.name for field in action.fields if field.kind is not Kind.SLAVES}
    given = dict(text.partition("=")[::2] for text in args.set)
    if strange := sorted(given.keys() - known):
        raise Incomplete(f"--set {strange[0]}: {action.label} knows {', '.join(sorted(known)) or 'no field'}.")
    lines = {field.name for field in action.fields if field.kind is Kind.LINES}
    values = {name: text.replace(",", "\n") if name in lines else text for name, text in given.items()}
    # Report missing values before contacting Airflow, unless it is needed to find the prefix.
    api = None if args.prefix.endswith("_") else _airflow_of(args, finds)
    order = _ordered(action, args, tuple(args.slaves), values)
    return _perform(api or finds(args), order, args)


def _explained(action: Action) -> str:
    fields = [f"    --set {field.name}=…  {field.label}. {field.hint}".rstrip()
              for field in action.fields if field.kind is not Kind.SLAVES]  # fmt: skip
    return "\n".join([_usage(action), textwrap.fill(action.does, 100, initial_indent="    ",
                      subsequent_indent="    "), *fields])  # fmt: skip


def _usage(action: Action) -> str:
    whom = "PREFIX SLAVE" if action.scope is Scope.SLAVE else "PREFIX"
    return f"{action.name} {whom}" + (" --why REASON" if action.why_required else "")


def run_logs(args: argparse.Namespace, finds: Finds = named) -> int:
    """Prints the log of a slave's apply; `--follow` goes on, also with the next apply."""
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
        raise Terminal(f"{pair}: no apply was ever started. Start one: ./sluice act restart {pair}")
    run_id = str(run["dag_run_id"])
    task = api.get(f"{run_path(APPLY, run_id)}/taskInstances/apply")
    attempt = int(task["try_number"]) or 1
    return (run_id, attempt), api.task_log(APPLY, run_id, "apply", attempt).splitlines()


def run_watch(args: argparse.Namespace, finds: Finds = named) -> int:
    """Prints all slaves, or one, as in the monitor; with `--watch` every two seconds."""
    api, terminal = _airflow_of(args, finds), sys.stdout.isatty()
    while True:
        try:
            text = _state_text(api, args, colours=terminal)
        except ApiUnreachable as outage:
            if not args.watch:
                raise
            text = f"{outage} Asked again every {EVERY_SECONDS:.0f} s."
        print((_CLEAR if args.watch and terminal else "") + text, flush=True)
        if not args.watch:
            return 0
        time.sleep(EVERY_SECONDS)


def _state_text(api: AirflowApi, args: argparse.Namespace, *, colours: bool) -> str:
    """All slaves, those of a prefix, or one, as text or as JSON."""
    state = api.page(_state_of(args) if args.slave else "overview.json")
    if args.prefix and not args.slave:
        known = [master["prefix"] for master in state["masters"]]
        if args.prefix.upper() not in known:
            raise Terminal(f"{args.prefix} is not configured; these are: {', '.join(known) or 'none'}.")
        state["masters"] = [master for master in state["masters"] if master["prefix"] == args.prefix.upper()]
    if args.json:
        return json.dumps(state, indent=1, ensure_ascii=False)
    width = shutil.get_terminal_size((160, 40)).columns if sys.stdout.isatty() else WIDE
    if args.slave:
        return "\n".join(watched.details(state, colours=colours))
    return "\n".join(watched.table(state, colours=colours, width=width))


def _state_of(args: argparse.Namespace) -> str:
    return f"slaves/{quote(args.prefix, safe='')}/{quote(args.slave, safe='')}/state.json"


def _do(api: AirflowApi, action: str, args: argparse.Namespace, values: dict[str, str]) -> int:
    """Starts the DAG and waits for its end. Raises `RunFailed`."""
    return _perform(api, _ordered(ACTIONS[action], args, (args.slave,), values), args)


def _ordered(action: Action, args: argparse.Namespace, slaves: tuple[str, ...], values: Mapping[str, str]) -> Order:
    """As `actions.ordered`. Raises `Incomplete`, with the option that is missing."""
    try:
        return ordered(action, args.prefix.upper(), slaves, values, args.why or "")
    except Incomplete as lack:
        if lack.field != "why" and "set" not in args:
            raise
        raise Incomplete(f"{lack} Write {'--why REASON' if lack.field == 'why' else f'--set {lack.field}=…'}") from None


def _perform(api: AirflowApi, order: Order, args: argparse.Namespace) -> int:
    done = perform(api, order)
    print(done.text, file=sys.stderr)
    pages = {(dag, run): f"{api.url}/dags/{dag}/runs/{quote(run, safe='')}" for dag, run in done.runs}
    for (dag, run), page in pages.items():
        print(f"{dag}: {page}", file=sys.stderr, flush=True)
        if args.no_wait or not done.awaited:
            continue
        try:
            state = _end_of(api, order, dag, run)
        except KeyboardInterrupt:
            print("The run goes on.", file=sys.stderr)
            raise
        if state == "failed":
            task, lines = failed_task(api, dag, run)
            text = "\n".join(f"  {line}" for line in lines)
            raise RunFailed(f"The run of {dag} failed{f' in its task {task}' if task else ''}:\n{text}")
        print(_result(api, dag, run) or f"{order.action.label}: done")
    return 0


def _end_of(api: AirflowApi, order: Order, dag: str, run: str) -> str:
    """Waits for the end of a run, also during an outage of Airflow; returns `success` or `failed`. Prints the run's
    questions. Raises `RunFailed` for the question of a comparison, whose result is known then.
    """
    away, requested = False, False
    while True:
        try:
            if (state := api.run_state(dag, run)) in ENDED:
                return state
            away = False
            for question in [] if requested else questions(api, dag, run):
                requested = True
                answer = f"Answer: ./sluice act approve {order.prefix} {order.slaves[0]}"
                if dag == RESYNC:
                    raise RunFailed(f"{question.subject} {_different(api, order)}{answer}")
                text = f"{question.subject} {answer}"
                print(text, file=sys.stderr, flush=True)
        except ApiUnreachable as outage:
            if not away:
                print(f"{outage} The run is not lost; waiting for its end.", file=sys.stderr, flush=True)
            away = True
        time.sleep(POLL_SECONDS)


def _different(api: AirflowApi, order: Order) -> str:
    """Which tables differ, as the monitor says it."""
    place = f"slaves/{quote(order.prefix, safe='')}/{quote(order.slaves[0], safe='')}/state.json"
    return "".join(f"{message['text']} " for message in api.page(place)["messages"] if message["remedy"] == "repair")


def _result(api: AirflowApi, dag: str, run: str) -> str:
    """The result of the deciding task; empty without one."""
    for task in RESULTS_OF_FAILOVER if dag == FAILOVER else RESULTS:
        try:
            return str(api.get(f"{run_path(dag, run)}/taskInstances/{task}/xcomEntries/return_value")["value"])
        except ApiRefused:
            continue
    return ""
