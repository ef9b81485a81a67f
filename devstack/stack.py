"""The stack as a program uses it: start it, ask for its state, add slaves, kill services, stop it.

    stack = Stack(slaves=["dr1"])
    stack.up()
    stack.airflow.api().trigger("initial_update", {"prefix": "DEMO_", "slave": "dr1"})
    stack.kill("master")     # the supervisor starts it again
    stack.down()

Every call may be repeated.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from devstack.account import Account, require_enterable, service_account
from devstack.airflow import Airflow
from devstack.blueprint import Blueprint, Wanted, replications_folder
from devstack.home import REPOSITORY, Home
from devstack.leftovers import any_left, end_all, kill_supervisor, read_process
from devstack.mariadb import ensure_installed
from devstack.ports import is_free, port_in_use
from devstack.postgres import PostgresServer
from devstack.postgres_programs import programs
from devstack.postgres_releases import NEWEST
from devstack.process import ProcessId, await_true
from devstack.runner import Report, State
from devstack.services import DATABASE, Services
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo

UP_TIMEOUT = 300.0
DOWN_TIMEOUT = 120.0
GIVEN_UP_AFTER = 3
"""Failed starts of a service after which `up` gives up. The supervisor itself continues trying."""

OPTIONS = {"airflow": "--airflow-port PORT", "master": "--master-port PORT", "redis": "--redis-port PORT"}
"""Options of `./sluice up` that choose ports, for messages. Other ports have `--port SERVICE=PORT`."""


def stack_not_up(home: Path) -> Terminal:
    """The stack does not run."""
    return Terminal(f"The stack of {home} is not up: start it with ./sluice up", code="stack-not-up")


def service_did_not_start(service: str, reason: str, log: Path) -> Terminal:
    """A service or the supervisor could not be started."""
    return Terminal(f"{service} could not be started: {reason}\nIts log is {log}", code="service-did-not-start")


def stack_must_be_down(what: str) -> Terminal:
    """The change is impossible while the stack runs."""
    return Terminal(
        f"{what} can change only while the stack is down: run ./sluice down, then ./sluice up again.",
        code="stack-must-be-down",
    )


def unknown_service(name: str, known: Iterable[str]) -> Terminal:
    """The stack has no service of that name."""
    return Terminal(f"There is no service '{name}'; there are: {', '.join(known)}.", code="unknown-service")


@dataclass(frozen=True)
class StackStatus:
    """The state of the supervisor and of all services."""

    supervisor: ProcessId | None
    services: list[Report]
    leftovers: bool
    """Whether processes run without a supervisor. The next `up` or `down` ends them."""

    @property
    def is_up(self) -> bool:
        states = {report.state for report in self.services}
        return self.supervisor is not None and states == {State.RUNNING}


class Stack:
    """The stack of one home. Parts that are not given are as they were at the last `up`."""

    def __init__(self, home: Path | str | None = None, **wanted: Unpack[Wanted]) -> None:
        """Raises `blueprint-unreadable`, `bad-slave-name`, `unknown-service` for a port."""
        self.home = Home(home)
        wanted["replications"] = replications_folder(wanted.get("replications"))
        self.blueprint = Blueprint.of(Blueprint.read(self.home.blueprint), wanted)
        known = ["airflow", "master", "redis", "spark", "metadata", "mariadb"]
        known += [f"slave-{name}" for name in self.blueprint.slaves]
        for unknown in set(wanted.get("ports") or ()) - set(known):
            raise unknown_service(unknown, known)

    # -- its parts

    @property
    def services(self) -> Services:
        return Services(self.home, self.blueprint)

    @property
    def master(self) -> PostgresServer:
        return self.services.master

    @property
    def slaves(self) -> dict[str, PostgresServer]:
        return self.services.slaves

    @property
    def airflow(self) -> Airflow:
        return self.services.airflow

    @property
    def redis_url(self) -> str:
        return self.services.redis.url

    def connection(self, place: str) -> ConnectionInfo:
        """Returns the database `demo` of `master` or of a slave, as its owner. The Airflow connections `demo_*`
        agree."""
        return self.services.connection(place)

    def administration(self, place: str) -> ConnectionInfo:
        """Returns the same database, as its server's administrator."""
        return self.services.server(place).info(DATABASE)

    @property
    def replications(self) -> tuple[Path, ...]:
        """The folders of the configuration: the demo's, which has precedence, and the user's own."""
        own = (self.home.replications,) if any(self.home.replications.glob("*")) else ()
        return (*own, Path(self.blueprint.replications))

    def environment(self) -> dict[str, str]:
        """Returns the environment of programs that belong to the stack, e.g. writers. `down` finds and ends them."""
        return {**os.environ, **self.services.exports()}

    # -- its life

    def up(self, say: Callable[[str], None] = lambda line: None) -> None:
        """Starts all services that do not run, and returns when all run. A first start that fails stops them again.

        `say` receives a line at each step. Raises `service-did-not-start`, `stack-must-be-down`, `port-in-use`,
        `postgres-release-differs`,
        `postgres-missing`, `state-folder-unusable`, `folder-not-enterable`, `no-service-account`.
        """
        if self.blueprint.mariadb:
            ensure_installed()
        account = service_account()  # not in the supervisor, whose questions and errors nobody would see
        require_enterable(self.home.root, account)
        self.home.create()
        with self.home.lock():
            supervisor = read_process(self.home.supervisor)
            before = Blueprint.read(self.home.blueprint) if supervisor else None
            if supervisor and before and self._runs_already(before):
                return
            if supervisor and before:
                self._require_additions_only(before)
            else:
                self._prepare(account)
            self.blueprint.write(self.home.blueprint)
            self.home.use_configuration(Path(self.blueprint.replications))
            began = time.monotonic()
            if supervisor:
                supervisor.send(signal.SIGHUP)
            else:
                supervisor = self._start_supervisor()
            try:
                self._await_running(supervisor, began, say)
                if self.blueprint.airflow:
                    self.services.register_connections()
            except BaseException:
                if before is None:
                    self._end(say)
                raise

    def down(self, say: Callable[[str], None] = lambda line: None) -> bool:
        """Stops everything and returns when no process is left. Returns False when nothing ran."""
        if not self.home.run.exists():
            return False
        with self.home.lock():
            return self._end(say)

    def status(self) -> StackStatus:
        """Returns the state of all services. It does not wait for the lock."""
        supervisor = read_process(self.home.supervisor)
        if supervisor is None:
            return StackStatus(None, [], self.home.root.exists() and any_left(self.home))
        return StackStatus(supervisor, self._reports(), False)

    def add_slave(self, name: str, say: Callable[[str], None] = lambda line: None) -> PostgresServer:
        """Adds a slave to a running stack: server, database, role, Airflow connection. The other services continue."""
        self._require_up()
        self.blueprint = (Blueprint.read(self.home.blueprint) or self.blueprint).with_slave(name)
        self.up(say)
        return self.slaves[name]

    def kill(self, service: str) -> ProcessId:
        """Sends SIGKILL to a service's main process. The supervisor starts the service again.

        Returns the killed process. Raises `stack-not-up`, `unknown-service`, `service-did-not-start` when the service
        has none.
        """
        report = self._report(service)
        if report.process is None:
            raise service_did_not_start(service, f"it is {report.state}: {report.message}", self.home.log(service))
        report.process.send(signal.SIGKILL)
        return report.process

    def await_running(self, service: str, timeout: float = 120.0, after: ProcessId | None = None) -> Report:
        """Waits until a service runs, as another process than `after` if that is given. Raises
        `service-did-not-start`.
        """
        if not await_true(lambda: self.runs(service, after), timeout, 0.1):
            report = self._report(service)
            raise service_did_not_start(service, f"it is {report.state}: {report.message}", self.home.log(service))
        return self._report(service)

    def runs(self, service: str, after: ProcessId | None = None) -> bool:
        """Whether it runs now, as another process than `after` if that is given."""
        report = self._report(service)
        return report.state is State.RUNNING and (after is None or report.process != after)

    def _report(self, service: str) -> Report:
        self._require_up()
        reports = {report.name: report for report in self._reports()}
        if service not in reports:
            raise unknown_service(service, reports)
        return reports[service]

    def _reports(self) -> list[Report]:
        try:
            return [Report.read(values) for values in json.loads(self.home.services.read_text())]
        except FileNotFoundError:
            return []

    def _require_up(self) -> None:
        if read_process(self.home.supervisor) is None:
            raise stack_not_up(self.home.root)

    def _runs_already(self, before: Blueprint) -> bool:
        return before == self.blueprint and self.status().is_up

    def _require_additions_only(self, before: Blueprint) -> None:
        if any(before.ports.get(name) != port for name, port in self.blueprint.ports.items()):
            if all(self._current_port(name) == port for name, port in self.blueprint.ports.items()):
                return
            raise stack_must_be_down("A port")
        if before.postgres != self.blueprint.postgres:
            raise stack_must_be_down("PostgreSQL's release")
        if before.airflow != self.blueprint.airflow:
            raise stack_must_be_down("Whether Airflow runs")

    def _current_port(self, name: str) -> int | None:
        reported = "airflow-api-server" if name == "airflow" else name
        return next((report.port for report in self._reports() if report.name == reported), None)

    def _prepare(self, account: Account | None) -> None:
        """Ends leftovers and raises what can be known before anything starts, such as a port in use."""
        if any_left(self.home):
            end_all(self.home)
        self.home.require_space()
        for release in {self.blueprint.postgres, NEWEST}:
            programs(account, release)
        for server in (self.master, *self.slaves.values()):
            server.require_release()
        for name, port in self.blueprint.ports.items():
            if not is_free(port):
                raise port_in_use(name, port, OPTIONS.get(name, f"--port {name}=PORT"))

    def _start_supervisor(self) -> ProcessId:
        log = self.home.log("supervisor")
        with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as output:
            path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "plugins")])
            child = subprocess.Popen(
                [sys.executable, "-m", "devstack.supervisor", str(self.home.root)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        ready = await_true(lambda: read_process(self.home.supervisor) is not None or child.poll() is not None, 60.0)
        supervisor = read_process(self.home.supervisor)
        if supervisor is None:
            if child.poll() is None:
                child.kill()
            reason = log.read_text(errors="replace")[-1500:] if ready else "it did not report in 60 s"
            raise service_did_not_start("The supervisor", reason, log)
        return supervisor

    def _await_running(self, supervisor: ProcessId, began: float, say: Callable[[str], None]) -> None:
        wanted = {service.name for service in self.services.all()}
        reported: dict[str, State] = {}
        while True:
            reports = [report for report in self._reports() if report.name in wanted]
            for report in reports:
                if reported.get(report.name) is not report.state and report.state is not State.WAITING:
                    reported[report.name] = report.state
                    say(_progress(report, time.monotonic() - began))
                if report.state is State.BACKING_OFF and report.failures >= GIVEN_UP_AFTER:
                    raise service_did_not_start(report.name, report.message, self.home.log(report.name))
            running = {report.name for report in reports if report.state is State.RUNNING}
            if running == wanted:
                return
            if not supervisor.alive():
                raise service_did_not_start("The supervisor", "it ended", self.home.log("supervisor"))
            if time.monotonic() - began > UP_TIMEOUT:
                late = min(wanted - running)
                state = next((report.state for report in reports if report.name == late), "unknown to the supervisor")
                raise service_did_not_start(late, f"still {state} after {UP_TIMEOUT:.0f} s", self.home.log(late))
            time.sleep(0.1)

    def _end(self, say: Callable[[str], None]) -> bool:
        supervisor = read_process(self.home.supervisor)
        if supervisor is None and not any_left(self.home):
            return False
        if supervisor is not None:
            say("stopping all services")
            supervisor.send(signal.SIGTERM)
            if not await_true(lambda: not supervisor.alive(), DOWN_TIMEOUT, 0.1):
                say(f"the supervisor (pid {supervisor.pid}) did not stop in {DOWN_TIMEOUT:.0f} s and is killed")
                kill_supervisor(self.home)
        if any_left(self.home):
            say("ending processes that were left without a supervisor")
            end_all(self.home)
        return True


def _progress(report: Report, seconds: float) -> str:
    details: dict[State, Any] = {
        State.RUNNING: f"on port {report.port}" if report.port else "",
        State.BACKING_OFF: report.message.splitlines()[0] if report.message else "",
    }
    return f"{seconds:6.1f} s  {report.name:<22} {report.state:<12} {details.get(report.state, '')}".rstrip()
