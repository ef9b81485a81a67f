"""A small client of Airflow's public API (`/api/v2`), with the standard library only."""

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sluice.errors import Terminal, Transient
from sluice.log_texts import plain
from sluice.operate.api import detail_of

ANSWER_SECONDS = 30.0
"""Time-out of a request."""
MONITOR = "/sluice/"


class ApiUnreachable(Transient):
    """The server does not answer, or answers with a server error."""

    def __init__(self, url: str, reason: object) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"Airflow at {url} does not answer: {reason}. Is it started, and is that its address?")


class ApiRefused(Terminal):
    """Airflow refused the request."""

    def __init__(self, method: str, url: str, status: int, answer: str) -> None:
        self.status = status
        super().__init__(_words(method, url, status, detail_of(answer)))


def _words(method: str, url: str, status: int, detail: str) -> str:
    parts = urllib.parse.urlsplit(url)
    airflow = f"{parts.scheme}://{parts.netloc}"
    if status == 401 or "JWT" in detail:
        return f"Airflow at {airflow} does not know you ({detail}): log in again, or give a token that has not run out."
    if status == 403:
        return f"Airflow at {airflow} does not let you do that ({method} {parts.path}): {detail}."
    if parts.path.startswith(MONITOR) and status == 404:
        if detail == "Not Found":
            return f"Airflow at {airflow} has no monitor of Sluice: its plugins are not installed there, or are older."
        return detail
    return f"Airflow at {airflow} refuses that ({status}, {method} {parts.path}): {detail}"


class AirflowApi:
    """Calls as a user or with a token; without either only public pages. Thread-safe."""

    def __init__(
        self, url: str, user: str | None = None, password: str | None = None, token: str | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self._user, self._password = user, password
        self._token = token
        self._lock = threading.Lock()

    def health(self) -> dict[str, Any]:
        """`{"scheduler": {"status", "latest_scheduler_heartbeat"}, …}`."""
        return dict(self._send("GET", "/api/v2/monitor/health", None, None, 5.0))

    def get(self, path: str, **query: object) -> Any:
        """GET below `/api/v2`, e.g. `get("dags", limit=5)`."""
        return self.call("GET", path + ("?" + urllib.parse.urlencode(query, doseq=True) if query else ""))

    def call(self, method: str, path: str, body: object = None) -> Any:
        """One call below `/api/v2`; logs in first, and again when the token has expired.

        Raises `ApiUnreachable`, `ApiRefused`.
        """
        return self._logged_in(method, "/api/v2/" + path.lstrip("/"), body)

    def page(self, path: str) -> Any:
        """A JSON page of the monitor (`/sluice/`), e.g. `page("overview.json")`. Raises as `call`."""
        return self._logged_in("GET", MONITOR + path, None)

    def trigger(self, dag: str, conf: Mapping[str, object], run_id: str | None = None) -> str:
        """Starts a run; returns its id."""
        body: dict[str, object] = {"logical_date": None, "conf": dict(conf)}
        if run_id is not None:
            body["dag_run_id"] = run_id
        return str(self.call("POST", f"dags/{dag}/dagRuns", body)["dag_run_id"])

    def run_state(self, dag: str, run_id: str) -> str:
        """queued, running, success or failed."""
        return str(self.get(f"dags/{dag}/dagRuns/{urllib.parse.quote(run_id, safe='')}")["state"])

    def task_states(self, dag: str, run_id: str) -> Iterator[tuple[str, int, str | None]]:
        """(task id, map index, state) of each task instance of a run."""
        answer = self.get(f"dags/{dag}/dagRuns/{urllib.parse.quote(run_id, safe='')}/taskInstances", limit=100)
        for entry in answer["task_instances"]:
            yield entry["task_id"], entry["map_index"], entry["state"]

    def task_log(self, dag: str, run_id: str, task: str, attempt: int, map_index: int = -1) -> str:
        """The text of a task's log, one line an event."""
        run = urllib.parse.quote(run_id, safe="")
        path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}"
        content = self.get(path, map_index=map_index, full_content="true")["content"]
        return "\n".join(entry if isinstance(entry, str) else str(entry.get("event", "")) for entry in content)

    def await_dags(self, dags: Iterable[str], timeout: float = 60.0) -> None:
        """Waits until the DAGs can be triggered: a healthy Airflow may not have parsed them yet.

        Raises `ApiRefused` with the import errors if they do not appear.
        """
        awaited, deadline = set(dags), time.monotonic() + timeout
        while True:
            awaited -= {entry["dag_id"] for entry in self.get("dags", limit=100)["dags"]}
            if not awaited:
                return
            if time.monotonic() > deadline:
                errors = [f"{e['filename']}: {e['stack_trace']}" for e in self.get("importErrors")["import_errors"]]
                missing = f"DAGs {sorted(awaited)} did not appear in {timeout:.0f} s. Import errors: {errors or 'none'}"
                raise ApiRefused("GET", self.url + "/api/v2/dags", 404, missing)
            time.sleep(0.5)

    def set_connections(self, connections: Iterable[Mapping[str, object]]) -> None:
        """Creates connections, or overwrites those of the same `connection_id`."""
        action = {"action": "create", "action_on_existence": "overwrite", "entities": [dict(c) for c in connections]}
        answer = self.call("PATCH", "connections", {"actions": [action]})
        if errors := (answer.get("create") or {}).get("errors"):
            raise ApiRefused("PATCH", self.url + "/api/v2/connections", 400, json.dumps(errors))

    def _logged_in(self, method: str, address: str, body: object) -> object:
        try:
            return self._send(method, address, body, self._login())
        except ApiRefused as refused:
            if refused.status != 401 or self._user is None:
                raise
            return self._send(method, address, body, self._login(again=True))

    def _login(self, *, again: bool = False) -> str | None:
        with self._lock:
            if self._user is not None and (self._token is None or again):
                credentials = {"username": self._user, "password": self._password}
                self._token = str(self._send("POST", "/auth/token", credentials, None)["access_token"])
            return self._token

    def _send(self, method: str, path: str, body: object, token: str | None, timeout: float | None = None) -> Any:
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with _opener.open(request, timeout=timeout or ANSWER_SECONDS) as response:
                text = response.read()
                return _plain(json.loads(text)) if text else None
        except urllib.error.HTTPError as error:
            answer = plain(error.read().decode(errors="replace"))
            if error.code >= 500:
                raise ApiUnreachable(self.url, f"{error.code} {answer[:300]}") from error
            raise ApiRefused(method, self.url + path, error.code, answer) from error
        except (OSError, ValueError) as error:
            raise ApiUnreachable(self.url, getattr(error, "reason", error)) from error


def _plain(answer: Any) -> Any:
    """A part of an answer of the API, with texts that are fit for a terminal."""
    if isinstance(answer, dict):
        return {plain(name): _plain(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [_plain(value) for value in answer]
    return plain(answer) if isinstance(answer, str) else answer


# Without the environment's proxy, which must not be used for the loopback address.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
