"""Calls of the commands to Airflow's public API: connections, and runs of a pair's DAGs."""

import json
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from sluice.cli.airflow_api import AirflowApi, ApiRefused
from sluice.errors import SluiceError, Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
from sluice.operate.api import ACTIVE, APPLY, CAPTURE, UPDATE

MADE_HERE = "Made by ./sluice add"
"""The description of a connection that `remove` may delete."""
FORM_SECONDS = 150.0
"""How long a new file may take to reach the forms of the DAGs, which Airflow parses every half minute."""
LOG_LINES = 15
NOISE = (
    "::", "GitWildMatchPattern", "DAG bundles loaded", "Filling up the DagBag", "Worker startup parse", "/",
    "Task failed with exception",
)  # fmt: skip
"""Beginnings of lines in every task's log that are not about the task."""


def connection(api: AirflowApi, conn_id: str) -> Mapping[str, object] | None:
    """A connection without its secrets; None if there is none."""
    connections = api.get("connections", limit=1000)["connections"]
    return next((entry for entry in connections if entry["connection_id"] == conn_id), None)


def require_free(api: AirflowApi, conn_id: str, info: ConnectionInfo) -> None:
    """Raises `connection-in-use` if a connection with this id leads to another database."""
    present = connection(api, conn_id)
    if present is None:
        return
    expected = (info.host, info.port, info.database, info.user)
    if (present["host"], present["port"], present["schema"], present["login"]) != expected:
        address = f"{present['login']}@{present['host']}:{present['port']}/{present['schema']}"
        raise Terminal(
            f"Airflow has a connection {conn_id!r} already, to {address}, not to {info.server}. Delete it (Admin, "
            "Connections), or choose another name for the replication or the slave.",
            code="connection-in-use",
        )


def write_connection(api: AirflowApi, conn_id: str, info: ConnectionInfo) -> None:
    """Creates or overwrites a connection; the password is in the body of the request."""
    entity = {
        "connection_id": conn_id,
        "conn_type": info.vendor,
        "description": MADE_HERE,
        "host": info.host,
        "port": info.port,
        "schema": info.database,
        "login": info.user,
        "password": info.password,
        **({"extra": json.dumps(dict(info.options))} if info.options else {}),
    }
    if connection(api, conn_id) is None:
        api.call("POST", "connections", entity)
    else:
        api.call("PATCH", f"connections/{quote(conn_id, safe='')}", entity)


def delete_connection(api: AirflowApi, conn_id: str) -> bool:
    """Deletes a connection of `write_connection`; False if it is a person's, or missing."""
    present = connection(api, conn_id)
    if present is None or present.get("description") != MADE_HERE:
        return False
    api.call("DELETE", f"connections/{quote(conn_id, safe='')}")
    return True


def printed(conn_id: str, info: ConnectionInfo) -> str:
    """The command with which a person creates the connection, without the password."""
    given = {"type": info.vendor, "host": info.host, "port": info.port, "schema": info.database, "login": info.user}
    if info.options:
        given["extra"] = json.dumps(dict(info.options))
    options = [f"--conn-{name}={value}" for name, value in given.items()]
    return shlex.join(["airflow", "connections", "add", conn_id, *options])


def end_runs(api: AirflowApi, prefix: Prefix, slaves: Sequence[str], *, capture: bool = False) -> list[str]:
    """Marks active runs of the pairs as failed, first applies, then updates, which ends their jobs; returns a list.
    `capture`: also those that read the master's log."""
    ended = []
    for dag in (APPLY, UPDATE, *([CAPTURE] if capture else [])):
        for run in active_runs(api, dag):
            named = [name.strip() for name in str((run.get("conf") or {}).get("slave", "")).split(",")]
            if _is_of(run, prefix) and (dag == CAPTURE or set(named) & set(slaves)):
                api.call("PATCH", f"dags/{dag}/dagRuns/{quote(run['dag_run_id'], safe='')}", {"state": "failed"})
                ended.append(f"{dag}, run {run['dag_run_id']}")
    return ended


def _is_of(run: Mapping[str, Any], prefix: Prefix) -> bool:
    return str((run.get("conf") or {}).get("prefix", "")).upper() == str(prefix)


def active_runs(api: AirflowApi, dag: str) -> Iterable[Mapping[str, Any]]:
    """Runs of a DAG that have not ended."""
    runs: list[Mapping[str, object]] = api.get(f"dags/{dag}/dagRuns", state=list(ACTIVE), limit=100)["dag_runs"]
    return runs


def failed_task(api: AirflowApi, dag: str, run_id: str) -> tuple[str, list[str]]:
    """The first failed task of a run, and the last lines of its log; an empty name without such a task or log."""
    path = f"dags/{dag}/dagRuns/{quote(run_id, safe='')}"
    try:
        instances = api.get(f"{path}/taskInstances", limit=100, state=["failed"])["task_instances"]
        failed = [entry for entry in instances if entry["state"] == "failed"]
        if not failed:
            return "", ["No task of it failed: it was ended by a person, or by Airflow."]
        first = min(failed, key=lambda entry: str(entry.get("end_date") or ""))
        text = api.task_log(dag, run_id, first["task_id"], first["try_number"], first["map_index"])
    except SluiceError as failure:
        return "", [f"Its log could not be read: {failure}"]
    return first["task_id"], [line for line in text.splitlines() if line.strip() and not line.startswith(NOISE)][
        -LOG_LINES:
    ]


def start_update(api: AirflowApi, prefix: Prefix, slave: str) -> str:
    """Triggers `initial_update` once Airflow knows the pair; returns the run's id. Raises `replication-not-offered`.

    `slave`: its name, or several between commas.
    """
    return _started(api, UPDATE, prefix, {"slave": slave})


def start_capture(api: AirflowApi, prefix: Prefix) -> str | None:
    """Triggers `capture_redo` once Airflow knows the replication; None if a run of it is active already. Raises
    `replication-not-offered`."""
    if any(_is_of(run, prefix) for run in active_runs(api, CAPTURE)):
        return None
    return _started(api, CAPTURE, prefix, {})


def _started(api: AirflowApi, dag: str, prefix: Prefix, conf: Mapping[str, str]) -> str:
    deadline = time.monotonic() + FORM_SECONDS
    _read_again(api, dag)
    while True:
        try:
            return api.trigger(dag, {"prefix": str(prefix), **conf})
        except ApiRefused as error:
            # Airflow checks params against the DAG's file as last parsed.
            if error.status != 400:
                raise
            if time.monotonic() > deadline:
                raise Terminal(
                    f"Airflow at {api.url} does not offer {prefix} after {FORM_SECONDS:.0f} s. Does it read the "
                    "folder that the file is in (SLUICE_REPLICATIONS)? Its import errors name mistakes of files.",
                    code="replication-not-offered",
                ) from error
        time.sleep(1.0)


def _read_again(api: AirflowApi, dag: str) -> None:
    """Asks Airflow to parse the DAG's file now."""
    try:
        token = api.get(f"dags/{dag}")["file_token"]
        api.call("PUT", f"parseDagFile/{quote(str(token), safe='')}")
    except SluiceError:
        return  # Airflow does so a little later
