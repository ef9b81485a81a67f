"""What operating needs of Airflow: its public API, logged in as the person who operates."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from sluice.errors import Terminal

APPLY, UPDATE, GATE, RESYNC, REJECTS = "cdc_apply", "initial_update", "gate", "resync", "rejects"
RECONCILE, INSTALL = "reconcile_tables", "install_resources"
REMOVE, UNINSTALL = "remove_transaction", "uninstall_resources"
BROADCAST = "broadcast"
ACTIVE = ("queued", "running")
LISTED = 100


class Api(Protocol):
    """Airflow's public API (`/api/v2`)."""

    def get(self, path: str, **query: Any) -> Any:
        """GET. Raises `Terminal` where Airflow refuses it, `Transient` where it does not answer."""
        ...

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Any other call, likewise."""
        ...


class NothingRuns(Terminal):
    """There is no run to act upon."""


def start(api: Api, dag: str, conf: Mapping[str, Any], why: str) -> str:
    """Starts a run of a DAG; its id. `why` is kept as the run's note, and in Airflow's audit log."""
    body = {"logical_date": None, "conf": dict(conf), "note": why or None}
    return str(api.call("POST", f"dags/{dag}/dagRuns", body)["dag_run_id"])


def runs(api: Api, dag: str, prefix: str, slave: str, *, active: bool) -> Iterator[Mapping[str, Any]]:
    """Runs of the DAG for a pair, newest first. `active`: those alone that have not ended."""
    chosen = {"state": list(ACTIVE)} if active else {}
    found = api.get(f"dags/{dag}/dagRuns", order_by="-run_after", limit=LISTED, **chosen)
    for run in found["dag_runs"]:
        conf = run.get("conf") or {}
        named = conf.get("slave") or ""
        names = named if isinstance(named, list) else [name.strip() for name in str(named).split(",")]
        if str(conf.get("prefix", "")).upper() == prefix.upper() and slave in names:
            yield run


def run_path(dag: str, run_id: str) -> str:
    """Of a run in the API."""
    return f"dags/{dag}/dagRuns/{quote(run_id, safe='')}"
