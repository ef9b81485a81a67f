"""`gate`, `rejects`, `verify`, `act`, `logs` and `status`: against any Airflow that has Sluice, over its API.

What they do is what the monitor's buttons do: they start the same DAGs, with the rights of who is logged in, and wait
for the end of the run.
"""

import argparse
import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from sluice.cli import watched
from sluice.cli.airflow_api import AirflowApi, ApiRefused
from sluice.cli.console import Console
from sluice.cli.where import NONE, airflow_of
from sluice.errors import Terminal
from sluice.operate.actions import ACTIONS, Action, Incomplete, Kind, Order, Scope, ordered
from sluice.operate.api import APPLY, runs
from sluice.operate.perform import perform

EVERY_SECONDS = 2.0
POLL_SECONDS = 1.0
ENDED = ("success", "failed")
_CLEAR = "\x1b[H\x1b[J"

Finds = Callable[[argparse.Namespace], AirflowApi]


class RunFailed(Terminal):
    """The DAG that was started failed; what its log says is on the terminal."""


def named(args: argparse.Namespace) -> AirflowApi:
    """The Airflow that `--airflow` names. Raises `Terminal`."""
    found = airflow_of(args.airflow, Console()) if args.airflow else None
    if found is None:
        raise Terminal(f"Which Airflow? Name it: --airflow URL (not {NONE}); a token may be in SLUICE_AIRFLOW_TOKEN.")
    return found


def run_gate(args: argparse.Namespace, finds: Finds = named) -> int:
    """Shows, closes or opens the gate of a slave."""
    api = finds(args)
    if args.action == "show":
        closures = api.page(f"slaves/{args.prefix}/{args.slave}/state.json")["closures"]
        print("closed: " + "; ".join(closures) if closures else "open")
        return 0
    return _do(api, "hold" if args.action == "close" else "open", args, {})


def run_rejects(args: argparse.Namespace, finds: Finds = named) -> int:
    """Lists changes that were set aside, has them applied, or drops them."""
    api = finds(args)
    if args.action == "list":
        found = api.page(f"slaves/{args.prefix}/{args.slave}/state.json")
        print("\n".join([*found["rejected_changes"], found["trouble"] or f"{found['rejected']} set aside"]))
        return 1 if found["trouble"] else 0
    values = {"action": args.action, "ids": args.ids or "", "force": "on" if args.force else ""}
    return _do(api, "rejects", args, values)


def run_verify(args: argparse.Namespace, finds: Finds = named) -> int:
    """Compares a slave with its master, or repairs it; 0 where all its tables are equal in the end."""
    values = {"tables": "\n".join(args.tables), "sample": str(args.sample)}
    return _do(finds(args), "repair" if args.repair else "verify", args, values)


def run_act(args: argparse.Namespace, finds: Finds = named) -> int:
    """Does any action; without one it lists them. Raises `Incomplete`, and what the run came to."""
    if args.action is None:
        print("\n\n".join(_explained(action) for action in ACTIONS.values()))
        return 0
    action = ACTIONS.get(args.action)
    if action is None or not args.prefix:
        raise Incomplete(f"Write ./sluice act ACTION PREFIX [SLAVE]; ACTION is one of {', '.join(ACTIONS)}.")
    known = {field.name for field in action.fields if field.kind is not Kind.SLAVES}
    given = dict(text.partition("=")[::2] for text in args.set)
    if strange := sorted(given.keys() - known):
        raise Incomplete(f"--set {strange[0]}: {action.label} knows {', '.join(sorted(known)) or 'no field'}.")
    lines = {field.name for field in action.fields if field.kind is Kind.LINES}
    values = {name: text.replace(",", "\n") if name in lines else text for name, text in given.items()}
    return _perform(finds(args), ordered(action, args.prefix.upper(), tuple(args.slaves), values, args.why or ""), args)


def _explained(action: Action) -> str:
    fields = [f"    --set {field.name}=…  {field.label}. {field.hint}".rstrip()
              for field in action.fields if field.kind is not Kind.SLAVES]  # fmt: skip
    whom = "PREFIX SLAVE" if action.scope is Scope.SLAVE else "PREFIX"
    return "\n".join([f"{action.name} {whom}", textwrap.fill(action.does, 100, initial_indent="    ",
                      subsequent_indent="    "), *fields])  # fmt: skip


def run_logs(args: argparse.Namespace, finds: Finds = named) -> int:
    """The log of the apply of a slave; with `--follow` what comes, too."""
    api = finds(args)
    run = next(runs(api, APPLY, args.prefix, args.slave, active=False), None)
    if run is None:
        raise Terminal(
            f"No run of {APPLY} for {args.prefix} → {args.slave} is known: start one, or look at the prefix."
        )
    shown = 0
    while True:
        lines = api.task_log(APPLY, str(run["dag_run_id"]), "apply", _attempt(api, run, "apply")).splitlines()
        print(
            "\n".join(lines[max(shown, 0 if shown else len(lines) - args.lines) :]), end="\n" if lines[shown:] else ""
        )
        shown = len(lines)
        if not args.follow:
            return 0
        sys.stdout.flush()
        time.sleep(EVERY_SECONDS)


def run_watch(args: argparse.Namespace, finds: Finds = named) -> int:
    """All slaves, or one, as the monitor shows them; with `--watch` again every two seconds."""
    api, colours = finds(args), sys.stdout.isatty()
    one = f"slaves/{args.prefix}/{args.slave}/state.json" if args.prefix and args.slave else ""
    if args.prefix and not args.slave:
        raise Terminal("Which slave? Write ./sluice status PREFIX SLAVE, or no prefix for all.")
    while True:
        found: dict[str, Any] = api.page(one or "overview.json")
        if args.json:
            print(json.dumps(found, indent=1, ensure_ascii=False), flush=True)
        else:
            width = shutil.get_terminal_size((160, 40)).columns
            lines = (
                watched.details(found, colours=colours) if one else watched.table(found, colours=colours, width=width)
            )
            print((_CLEAR if args.watch and colours else "") + "\n".join(lines), flush=True)
        if not args.watch:
            return 0
        time.sleep(EVERY_SECONDS)


def _do(api: AirflowApi, action: str, args: argparse.Namespace, values: dict[str, str]) -> int:
    """Starts the DAG and waits for its end. Raises `RunFailed`."""
    return _perform(api, ordered(ACTIONS[action], args.prefix.upper(), (args.slave,), values, args.why or ""), args)


def _perform(api: AirflowApi, order: Order, args: argparse.Namespace) -> int:
    done = perform(api, order)
    for dag, run in done.runs:
        print(f"{dag}: {run}", file=sys.stderr, flush=True)
        if args.no_wait:
            continue
        while (state := api.run_state(dag, run)) not in ENDED:
            time.sleep(POLL_SECONDS)
        if said := _said(api, dag, run, failed=state == "failed"):
            print(said)
        if state == "failed":
            raise RunFailed(f"Run {run} of {dag} failed. All of it: {api.url}/dags/{dag}/runs/{quote(run, safe='')}")
    return 0


def _said(api: AirflowApi, dag: str, run: str, *, failed: bool) -> str:
    """What the task that decides says: its result, or the last lines of the one that failed."""
    path = f"dags/{dag}/dagRuns/{quote(run, safe='')}/taskInstances"
    if not failed:
        for task in ("decide", "verdict", "remove_first"):
            try:
                return str(api.get(f"{path}/{task}/xcomEntries/return_value")["value"])
            except ApiRefused:
                continue
        return ""
    tasks = [entry for entry in api.get(path, limit=100)["task_instances"] if entry["state"] == "failed"]
    if not tasks:
        return ""
    last = tasks[-1]
    log = api.task_log(dag, run, last["task_id"], last["try_number"], last["map_index"])
    return "\n".join([line for line in log.splitlines() if not line.startswith("::")][-5:])


def _attempt(api: AirflowApi, run: Any, task: str) -> int:
    path = f"dags/{run['dag_id']}/dagRuns/{quote(str(run['dag_run_id']), safe='')}/taskInstances/{task}"
    return int(api.get(path)["try_number"]) or 1
