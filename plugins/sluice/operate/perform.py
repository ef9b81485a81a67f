"""Performs an action over Airflow's public API, with the person's rights and an entry in Airflow's audit log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sluice.operate import api
from sluice.operate.actions import Incomplete, Order, conf_of
from sluice.operate.api import Api, NothingRuns, Question, questions, require_unpaused, run_path, runs, start

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
    """Performs the action. Raises `Incomplete`, `NothingRuns`, `DagPaused`, and errors of the API."""
    return _SPECIAL.get(order.action.name, _start)(to, order)


def _start(to: Api, order: Order) -> Done:
    dag = order.action.dag
    started = tuple((dag, start(to, dag, conf, order.why)) for conf in conf_of(order))
    return Done(f"{order.action.label}: started", started)


def _cancel(to: Api, order: Order) -> Done:
    cancelled = [str(run["dag_run_id"]) for run in runs(to, api.UPDATE, order.prefix, order.slave, active=True)]
    if not cancelled:
        raise NothingRuns(f"No initial update of {order.prefix} → {order.slave} is under way: there is none to cancel.")
    for run in cancelled:
        to.call("PATCH", run_path(api.UPDATE, run), {"state": "failed", "note": order.why})
    return Done("The initial update is cancelled", tuple((api.UPDATE, run) for run in cancelled), awaited=False)


def waiting(to: Api, prefix: str, slave: str) -> list[Waiting]:
    """The questions about a slave that wait for an answer."""
    return [
        Waiting(dag, str(run["dag_run_id"]), question)
        for dag in (api.UPDATE, api.RESYNC, api.FAILOVER)
        for run in runs(to, dag, prefix, slave, active=True)
        for question in questions(to, dag, str(run["dag_run_id"]))
    ]


def _approve(to: Api, order: Order) -> Done:
    chosen = order.values["run"]
    found = [one for one in waiting(to, order.prefix, order.slave) if chosen in ("", one.run)]
    if not found:
        of_run = f" in the run {chosen}" if chosen else ""
        raise NothingRuns(
            f"Nothing of {order.prefix} → {order.slave} waits for an answer{of_run}: files of a transfer are not "
            "written yet, no comparison and no failover has asked, or somebody has answered."
        )
    if len(found) > 1:
        listed = "; ".join(f"{one.question.subject} (run {one.run})" for one in found)
        raise Incomplete(f"Several questions wait: {listed}. Say in which run the one is that you answer.", "run")
    (one,) = found
    require_unpaused(to, one.dag)
    if order.why:
        to.call("PATCH", run_path(one.dag, one.run), {"note": order.why})
    answer = {"chosen_options": [order.values["answer"]], "params_input": {}}
    to.call("PATCH", f"{run_path(one.dag, one.run)}/taskInstances/{one.question.task}/-1/hitlDetails", answer)
    return Done(f"{order.values['answer']}: {one.question.subject}", ((one.dag, one.run),), awaited=False)


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


_SPECIAL: Mapping[str, Callable[[Api, Order], Done]] = {"cancel": _cancel, "approve": _approve, "restart": _restart}
