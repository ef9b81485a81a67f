"""The process that keeps a stack running: `python -m devstack.supervisor HOME`, started by `./sluice up`.

SIGTERM stops all services and ends it. At SIGHUP it reads the blueprint again and starts new services.
It writes `run/supervisor.json` (its own process) and, after each change, `run/services.json` (the services' reports).
"""

import fcntl
import json
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from devstack.blueprint import Blueprint
from devstack.home import Home
from devstack.leftovers import end_all, end_processes
from devstack.process import ProcessId
from devstack.runner import Runner, State
from devstack.secret import write_private
from devstack.services import Services, mark_environment

log = logging.getLogger("sluice.supervisor")

# Rotation of the services' logs. Their processes keep them open, so each is copied and then truncated.


MAX_BYTES = 20 << 20
KEPT = 2


def rotate(folder: Path, max_bytes: int = MAX_BYTES) -> list[Path]:
    """Rotates every `*.log` that is larger than `max_bytes`, and returns them.

    All writers append (O_APPEND), so they continue at the start. Lines written between copy and truncation are lost.
    """
    rotated = []
    for file in folder.glob("*.log"):
        try:
            if file.stat().st_size > max_bytes:
                _rotate(file)
                rotated.append(file)
        except OSError as error:  # e.g. a full disk, which must not end the supervisor
            log.error("%s could not be rotated: %s", file, error)
    return rotated


def _rotate(file: Path) -> None:
    for number in range(KEPT, 1, -1):
        older = file.with_name(f"{file.name}.{number - 1}")
        if older.exists():
            older.replace(file.with_name(f"{file.name}.{number}"))
    temporary = file.with_name(f"{file.name}.1")
    temporary.touch(mode=0o600)
    shutil.copyfile(file, temporary)
    with open(file, "r+b") as opened:
        opened.truncate(0)


ROTATE_INTERVAL = 10.0


class Supervisor:
    """Starts and stops the runners of a stack."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.runners: dict[str, Runner] = {}
        self._wake = threading.Event()
        self._stop = self._reload = False
        self._writing = threading.Lock()

    def run(self) -> None:
        """Runs until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        end_all(self.home)  # of a killed supervisor: this process cannot become their parent
        write_private(self.home.supervisor, json.dumps(_own().to_dict()))
        mark_environment(self.home)
        self.start_services()
        while not self._stop:
            self._wake.wait(ROTATE_INTERVAL)
            self._wake.clear()
            if self._reload and not self._stop:
                self._reload = False
                self.start_services()
            rotate(self.home.logs)
        self.stop_services()

    def start_services(self) -> None:
        """Starts every service of the blueprint that has no runner yet."""
        blueprint = Blueprint.read(self.home.blueprint) or Blueprint()
        services = Services(self.home, blueprint)
        for service in services.all():
            if service.name not in self.runners:
                runner = Runner(service, self.home.log(service.name), self.is_running, self.write_reports)
                self.runners[service.name] = runner
        self.write_reports()
        for runner in self.runners.values():
            if runner.ident is None:
                runner.start()

    def is_running(self, name: str) -> bool:
        return self.runners[name].report.state is State.RUNNING

    def stop_services(self) -> None:
        """Stops Airflow, then the jobs that it started, then the databases that both use."""
        tiers = sorted({runner.service.tier for runner in self.runners.values()}, reverse=True)
        for tier in tiers:
            log.info("stopping %s", ", ".join(r.name for r in self.runners.values() if r.service.tier == tier))
            if tier == min(tiers):
                used = [runner.report.process for runner in self.runners.values() if runner.service.tier == tier]
                for killed in end_processes(self.home, {process.pid for process in used if process}):
                    log.warning("pid %d did not end by itself and was killed", killed.pid)
            _in_parallel(runner for runner in self.runners.values() if runner.service.tier == tier)
        self.home.services.unlink(missing_ok=True)
        self.home.supervisor.unlink(missing_ok=True)
        log.info("stopped")

    def write_reports(self) -> None:
        """Writes the state of all services."""
        with self._writing:
            reports = [runner.report.to_dict() for runner in list(self.runners.values())]
            try:
                write_private(self.home.services, json.dumps(reports, indent=1), synced=False)
            except OSError as error:  # e.g. a full disk; the services stay watched
                log.error("the states could not be written: %s", error)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self._stop = True
        self._wake.set()


def _own() -> ProcessId:
    own = ProcessId.of(os.getpid())
    assert own is not None
    return own


def _in_parallel(runners: Iterable[Runner]) -> None:
    threads = [threading.Thread(target=runner.stop) for runner in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    """Supervises the stack of the home in the only argument. Returns 1 when another supervisor runs."""
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(message)s")
    home = Home(sys.argv[1])
    home.create()
    with open(home.run / "supervisor.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.error("another supervisor holds %s", home.root)
            return 1
        Supervisor(home).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
