"""Performs an action over Airflow's public API, with the person's rights and an entry in Airflow's audit log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sluice.errors import Terminal
from sluice.operate import api
from sluice.operate.actions import Order, conf_of
from sluice.operate.api import Api, Question, asked, is_for, require_unpaused, run_path, runs, start
from sluice.operate.open_runs import FAILED, PUT_ASIDE

APPLY_TASK = "apply"


@dataclass(frozen=True)
class Done:
    """The result: a text, and the runs, each with DAG and id."""

    text: str
    runs: tuple[tuple[str, str], ...]
    awaited: bool = True
    """Whether the action succeeds when these runs succeed; otherwise it is done already."""


@dataclass(frozen=True)
class Waiting:
    """A run's question that waits for an answer."""

    dag: str
    run: str
    question: Question


def perform(to: Api, order: Order) -> Done:
    """Performs the action. Raises `Incomplete`, `nothing-runs`, `dag-paused`, and errors of the API."""
    return _SPECIAL.get(order.action.name, _start)(to, order)


def _start(to: Api, order: Order) -> Done:
    dag = order.action.dag
    started = tuple((dag, start(to, dag, conf, order.why)) for conf in conf_of(order))
    return Done(f"{order.action.label}: started", started)


def _cancel(to: Api, order: Order) -> Done:
    canceled = [str(run["dag_run_id"]) for run in runs(to, api.UPDATE, order.prefix, order.slave, active=True)]
    if not canceled:
        raise Terminal(
            f"No initial update of {order.prefix} → {order.slave} is under way: there is none to cancel.",
            code="nothing-runs",
        )
    for run in canceled:
        # The person knows: only what the slave is now is shown.
        note = f"{order.why} ({PUT_ASIDE}a person: canceled)"
        to.call("PATCH", run_path(api.UPDATE, run), {"state": FAILED, "note": note})
    return Done("The initial update is canceled", tuple((api.UPDATE, run) for run in canceled), awaited=False)


def waiting(to: Api, prefix: str, slave: str) -> list[Waiting]:
    """The questions about a slave that wait for an answer, also those of a comparison of several pairs."""
    found = []
    for dag, run, question in asked(to, (api.UPDATE, api.RESYNC, api.FAILOVER)):
        one = to.get(run_path(dag, run))
        about = f"{prefix.upper()} → {slave}" in question.pairs or is_for(one.get("conf") or {}, prefix, slave)
        if about and one["state"] in api.ACTIVE:
            found.append(Waiting(dag, run, question))
    return found


def _approve(to: Api, order: Order) -> Done:
    chosen = order.values["question"]
    one = next((each for each in waiting(to, order.prefix, order.slave) if each.question.id == chosen), None)
    if one is None:
        raise Terminal(
            f"The question {chosen} about {order.prefix} → {order.slave} waits no more: somebody has answered it, or "
            "its run has ended. Look what waits now; nothing was done.",
            code="nothing-runs",
        )
    require_unpaused(to, one.dag)
    if order.why:
        to.call("PATCH", run_path(one.dag, one.run), {"note": order.why})
    answer = {"chosen_options": [order.values["answer"]], "params_input": {}}
    to.call("PATCH", f"{run_path(one.dag, one.run)}/taskInstances/{one.question.task}/-1/hitlDetails", answer)
    return Done(f"{order.values['answer']}: {one.question.subject}", ((one.dag, one.run),), awaited=False)


def _put_aside(to: Api, order: Order) -> Done:
    dag, run = order.values["dag"], order.values["run"]
    one = to.get(run_path(dag, run))
    if one["state"] != FAILED:
        raise Terminal(
            f"The run {run} of {dag} is {one['state']}: only one that failed can be put aside.", code="nothing-runs"
        )
    note = f"{str(one.get('note') or '')[:400]} ({PUT_ASIDE}a person: {order.why})"
    to.call("PATCH", run_path(dag, run), {"note": note.strip()[:900]})
    return Done("Put aside", ((dag, run),), awaited=False)


def _restart(to: Api, order: Order) -> Done:
    running = next(iter(runs(to, api.APPLY, order.prefix, order.slave, active=True)), None)
    if running is None:
        # A run of the apply lasts for months: nobody waits for its end.
        return replace(_start(to, order), awaited=False)
    require_unpaused(to, api.APPLY)
    run = str(running["dag_run_id"])
    body = {"dry_run": False, "dag_run_id": run, "task_ids": [APPLY_TASK], "only_failed": False,
            "reset_dag_runs": True, "note": order.why or None}  # fmt: skip
    to.call("POST", f"dags/{api.APPLY}/clearTaskInstances", body)
    return Done("The apply is started again", ((api.APPLY, run),), awaited=False)


_SPECIAL: Mapping[str, Callable[[Api, Order], Done]] = {
    "cancel": _cancel,
    "approve": _approve,
    "restart": _restart,
    "put_aside": _put_aside,
}
