"""The calls of Airflow's public API that the actions need, made as the person who acts."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol
from urllib.parse import quote

from sluice.errors import Terminal

APPLY, UPDATE, GATE, RESYNC, REJECTS = "cdc_apply", "initial_update", "gate", "resync", "rejects"
RECONCILE, INSTALL = "reconcile_tables", "install_resources"
REMOVE, UNINSTALL = "remove_transaction", "uninstall_resources"
BROADCAST, FAILOVER, NOTIFY, CAPTURE = "broadcast", "failover", "notify", "capture_redo"
ACTIVE = ("queued", "running")
LISTED = 100
"""Runs per page of Airflow's list, at most."""


class Api(Protocol):
    """Airflow's public API (`/api/v2`)."""

    def get(self, path: str, **query: object) -> Any:
        """GET. Raises `Terminal` if Airflow refuses it, `Transient` if it does not answer."""
        ...

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Any other method; raises as `get`."""
        ...


def require_unpaused(api: Api, dag: str) -> None:
    """Raises `dag-paused`."""
    if api.get(f"dags/{dag}")["is_paused"]:
        raise Terminal(
            f"Nothing was done: the DAG {dag} is paused in Airflow, so none of its runs continues. Unpause it (Dags, "
            f"{dag}, the switch beside its name), then do this again.",
            code="dag-paused",
        )


def start(api: Api, dag: str, conf: Mapping[str, object], why: str) -> str:
    """Starts a run of a DAG; returns its id. `why`: its note, also in Airflow's audit log. Raises `dag-paused`."""
    require_unpaused(api, dag)
    body = {"logical_date": None, "conf": dict(conf), "note": why or None}
    return str(api.call("POST", f"dags/{dag}/dagRuns", body)["dag_run_id"])


def runs(api: Api, dag: str, prefix: str, slave: str, *, active: bool) -> Iterator[Mapping[str, Any]]:
    """Runs of the DAG for a pair, newest first. `active`: only those that have not ended."""
    chosen = {"order_by": "-run_after", "conf_contains": slave, **({"state": list(ACTIVE)} if active else {})}
    for offset in count(0, LISTED):
        page = api.get(f"dags/{dag}/dagRuns", limit=LISTED, offset=offset, **chosen)["dag_runs"]
        yield from (run for run in page if is_for(run.get("conf") or {}, prefix, slave))
        if len(page) < LISTED:
            return


def is_for(conf: Mapping[str, object], prefix: str, slave: str) -> bool:
    named = conf.get("slave") or ""
    names = named if isinstance(named, list) else [name.strip() for name in str(named).split(",")]
    return str(conf.get("prefix", "")).upper() == prefix.upper() and slave in names


@dataclass(frozen=True)
class Question:
    """An open question of a run to a person."""

    task: str
    subject: str
    body: str = ""
    """More about it, in Markdown."""
    id: str = ""
    """Of the asking task, in this run; another question has another one."""

    @property
    def pairs(self) -> frozenset[str]:
        """The pairs that a comparison of all asks about: its subject begins with them."""
        names, asks, _ = self.subject.rpartition(": repair ")
        return frozenset(names.split(", ")) if asks else frozenset()


def questions(api: Api, dag: str, run_id: str) -> list[Question]:
    """The open questions of a run."""
    details = api.get(f"{run_path(dag, run_id)}/hitlDetails", response_received="false")["hitl_details"]
    return [_question(one) for one in details]


def asked(api: Api, dags: Collection[str]) -> list[tuple[str, str, Question]]:
    """The open questions of all runs of some DAGs, with DAG and run."""
    details = api.get("dags/~/dagRuns/~/hitlDetails", response_received="false", limit=LISTED)["hitl_details"]
    return [
        (str(one["task_instance"]["dag_id"]), str(one["task_instance"]["dag_run_id"]), _question(one))
        for one in details
        if one["task_instance"]["dag_id"] in dags
    ]


def _question(one: Mapping[str, Any]) -> Question:
    asks = one["task_instance"]
    return Question(str(asks["task_id"]), str(one["subject"]), str(one.get("body") or ""), str(asks.get("id") or ""))


def detail_of(answer: str) -> str:
    """The reason in a refusal of Airflow, without the schema of the param."""
    try:
        detail = json.loads(answer)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = answer
    reason = str(detail).partition("\n\nFailed validating")[0].strip()
    if found := _NOT_OFFERED.fullmatch(reason):
        offered = found["offered"].removeprefix("None, ").replace("'", "") or "none"
        reason = f"There is no {found['param']} {found['value']}. There are: {offered}."
    return reason[:1000]


_NOT_OFFERED = re.compile(r"Invalid input for param (?P<param>\w+): '(?P<value>.*)' is not one of \[(?P<offered>.*)\]")
"""Airflow's words about a value that the form of a DAG does not offer."""


def run_path(dag: str, run_id: str) -> str:
    """The path of a run in the API."""
    return f"dags/{dag}/dagRuns/{quote(run_id, safe='')}"
