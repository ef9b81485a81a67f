"""The stack as a program uses it: brought up, asked, added to, hurt and taken down.

    stack = Stack(slaves=["dr1"])
    stack.up()
    stack.airflow.api().trigger("initial_update", {"prefix": "DEMO_", "slave": "dr1"})
    stack.kill("master")     # the supervisor starts it again
    stack.down()

Every call may be repeated: what is done already stays as it is.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devstack.account import Account, require_enterable, service_account
from devstack.airflow import Airflow
from devstack.blueprint import Blueprint
from devstack.home import REPOSITORY, Home
from devstack.leftovers import any_left, end_all, kill_supervisor, read_process
from devstack.mariadb import ensure_installed
from devstack.ports import PortInUse, is_free
from devstack.postgres import PostgresServer
from devstack.postgres_programs import programs
from devstack.postgres_releases import NEWEST
from devstack.process import ProcessId, await_true
from devstack.runner import Report, State
from devstack.services import DATABASE, Services, replications_folder
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo

UP_TIMEOUT = 300.0
DOWN_TIMEOUT = 120.0
GIVEN_UP_AFTER = 3
"""Failed starts of a service before `up` gives up; the supervisor itself never does."""

OPTIONS = {"airflow": "--airflow-port PORT", "master": "--master-port PORT", "redis": "--redis-port PORT"}
"""Of `./sluice up`, for messages; other ports are given as `--port SERVICE=PORT`."""


class StackNotUp(Terminal):
    """Something was asked of a stack that does not run."""

    def __init__(self, home: Path) -> None:
        self.home = home
        super().__init__(f"The stack of {home} is not up: start it with ./sluice up")


class UpFailed(Terminal):
    """A service, or the supervisor, could not be started."""

    def __init__(self, service: str, reason: str, log: Path) -> None:
        self.service, self.reason, self.log = service, reason, log
        super().__init__(f"{service} could not be started: {reason}\nIts log is {log}")


class MustBeDown(Terminal):
    """A change that a running stack cannot follow."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} can change only while the stack is down: run ./sluice down, then ./sluice up again.")


class UnknownService(Terminal):
    """A name that no service of the stack has."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        super().__init__(f"There is no service '{name}'; there are: {', '.join(known)}.")


@dataclass(frozen=True)
class StackStatus:
    """What runs."""

    supervisor: ProcessId | None
    services: list[Report]
    leftovers: bool
    """Something runs without a supervisor: the next `up` or `down` ends it."""

    @property
    def is_up(self) -> bool:
        """Whether every service runs."""
        states = {report.state for report in self.services}
        return self.supervisor is not None and states == {State.RUNNING}


class Stack:
    """The stack of one home. What is not given is as it was at the last `up`."""

    def __init__(
        self,
        home: Path | str | None = None,
        *,
        slaves: Iterable[str] | None = None,
        airflow: bool | None = None,
        ports: Mapping[str, int] | None = None,
        replications: Path | str | None = None,
        durable: bool | None = None,
        postgres: int | None = None,
        mariadb: bool | None = None,
    ) -> None:
        """`slaves`: names; `ports`: by service (`airflow`, `master`, `redis`, `slave-<name>`), others chosen free;
        `postgres`: the release of master and slaves. `mariadb`: whether a MariaDB server runs, too.
        """
        self.home = Home(home)
        remembered = Blueprint.read(self.home.blueprint)
        wanted = remembered or Blueprint()
        for name in slaves or ():
            wanted = wanted.with_slave(name) if remembered else wanted
        if slaves is not None and not remembered:
            wanted = replace(wanted, slaves=tuple(slaves))
        if airflow is not None:
            wanted = replace(wanted, airflow=airflow)
        if durable is not None:
            wanted = replace(wanted, durable=durable)
        if postgres is not None:
            wanted = replace(wanted, postgres=postgres)
        if mariadb is not None:
            wanted = replace(wanted, mariadb=mariadb)
        if ports:
            known = [
                "airflow",
                "master",
                "redis",
                "spark",
                "metadata",
                "mariadb",
                *(f"slave-{name}" for name in wanted.slaves),
            ]
            for unknown in set(ports) - set(known):
                raise UnknownService(unknown, known)
            wanted = replace(wanted, ports={**wanted.ports, **ports})
        if folder := replications_folder(str(replications) if replications else None):
            wanted = replace(wanted, replications=folder)
        self.blueprint = wanted

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
        """The database `demo` of `master` or of a slave, as its owner: what the Airflow connections `demo_*` say."""
        return self.services.connection(place)

    def administration(self, place: str) -> ConnectionInfo:
        """The same database, as its server's administrator."""
        return self.services.server(place).info(DATABASE)

    @property
    def replications(self) -> tuple[Path, ...]:
        """The folders of the configuration, the first with precedence: what a demo made, and the user's own."""
        own = (self.home.replications,) if any(self.home.replications.glob("*")) else ()
        return (*own, Path(self.blueprint.replications))

    def environment(self) -> dict[str, str]:
        """For programs that belong to the stack, e.g. writers: they find it, and `down` finds and ends them."""
        return {**os.environ, **self.services.exports()}

    # -- its life

    def up(self, say: Callable[[str], None] = lambda line: None) -> None:
        """Start what does not run and return when everything does; what `up` began and could not finish is ended.

        `say` receives a line at each step. Raises `UpFailed`, `MustBeDown`, `PortInUse`, `WrongRelease`,
        `BinariesMissing`, `HomeUnusable`, `NotEnterable`, `NoServiceAccount`.
        """
        if self.blueprint.mariadb:
            ensure_installed()
        account = service_account()  # here rather than in the supervisor, so that what is said is seen
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
        """Stop everything and return when no process is left; False when nothing ran."""
        if not self.home.run.exists():
            return False
        with self.home.lock():
            return self._end(say)

    def status(self) -> StackStatus:
        """What runs, without waiting for anybody."""
        supervisor = read_process(self.home.supervisor)
        if supervisor is None:
            return StackStatus(None, [], self.home.root.exists() and any_left(self.home))
        return StackStatus(supervisor, self._reports(), False)

    def add_slave(self, name: str, say: Callable[[str], None] = lambda line: None) -> PostgresServer:
        """One more slave of a running stack: server, database, role, Airflow connection. Others do not notice."""
        self._require_up()
        self.blueprint = (Blueprint.read(self.home.blueprint) or self.blueprint).with_slave(name)
        self.up(say)
        return self.slaves[name]

    def kill(self, service: str) -> ProcessId:
        """SIGKILL a service's main process, as an accident would; the supervisor starts it again.

        Returns what was killed. Raises `StackNotUp`, `UnknownService`.
        """
        report = self._report(service)
        if report.process is None:
            raise UpFailed(service, f"it is {report.state}: {report.message}", self.home.log(service))
        report.process.send(signal.SIGKILL)
        return report.process

    def await_running(self, service: str, timeout: float = 120.0, after: ProcessId | None = None) -> Report:
        """Wait until a service runs (as another process than `after`, where given)."""

        if not await_true(lambda: self.runs(service, after), timeout, 0.1):
            report = self._report(service)
            raise UpFailed(service, f"it is {report.state}: {report.message}", self.home.log(service))
        return self._report(service)

    def runs(self, service: str, after: ProcessId | None = None) -> bool:
        """Whether it runs now (as another process than `after`, where given)."""
        report = self._report(service)
        return report.state is State.RUNNING and (after is None or report.process != after)

    # -- steps of the above

    def _report(self, service: str) -> Report:
        self._require_up()
        reports = {report.name: report for report in self._reports()}
        if service not in reports:
            raise UnknownService(service, reports)
        return reports[service]

    def _reports(self) -> list[Report]:
        try:
            return [Report.read(values) for values in json.loads(self.home.services.read_text())]
        except FileNotFoundError:
            return []

    def _require_up(self) -> None:
        if read_process(self.home.supervisor) is None:
            raise StackNotUp(self.home.root)

    def _runs_already(self, before: Blueprint) -> bool:
        return before == self.blueprint and self.status().is_up

    def _require_additions_only(self, before: Blueprint) -> None:
        if any(before.ports.get(name) != port for name, port in self.blueprint.ports.items()):
            if all(self._current_port(name) == port for name, port in self.blueprint.ports.items()):
                return
            raise MustBeDown("A port")
        if before.postgres != self.blueprint.postgres:
            raise MustBeDown("PostgreSQL's release")
        if before.airflow != self.blueprint.airflow:
            raise MustBeDown("Whether Airflow runs")

    def _current_port(self, name: str) -> int | None:
        reported = "airflow-api-server" if name == "airflow" else name
        return next((report.port for report in self._reports() if report.name == reported), None)

    def _prepare(self, account: Account | None) -> None:
        """What can be known before anything starts: leftovers, permissions, and the commonest mistake, a taken port."""
        if any_left(self.home):
            end_all(self.home)
        self.home.require_space()
        for release in {self.blueprint.postgres, NEWEST}:
            programs(account, release)
        for server in (self.master, *self.slaves.values()):
            server.require_release()
        for name, port in self.blueprint.ports.items():
            if not is_free(port):
                raise PortInUse(name, port, OPTIONS.get(name, f"--port {name}=PORT"))

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
            raise UpFailed("The supervisor", reason, log)
        return supervisor

    def _await_running(self, supervisor: ProcessId, began: float, say: Callable[[str], None]) -> None:
        wanted = {service.name for service in self.services.all()}
        said: dict[str, State] = {}
        while True:
            reports = [report for report in self._reports() if report.name in wanted]
            for report in reports:
                if said.get(report.name) is not report.state and report.state is not State.WAITING:
                    said[report.name] = report.state
                    say(_progress(report, time.monotonic() - began))
                if report.state is State.BACKING_OFF and report.failures >= GIVEN_UP_AFTER:
                    raise UpFailed(report.name, report.message, self.home.log(report.name))
            running = {report.name for report in reports if report.state is State.RUNNING}
            if running == wanted:
                return
            if not supervisor.alive():
                raise UpFailed("The supervisor", "it ended", self.home.log("supervisor"))
            if time.monotonic() - began > UP_TIMEOUT:
                late = min(wanted - running)
                state = next((report.state for report in reports if report.name == late), "unknown to the supervisor")
                raise UpFailed(late, f"still {state} after {UP_TIMEOUT:.0f} s", self.home.log(late))
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
