"""The hand that kills: carries out the strikes of a plan, and reports when what was killed is back."""

import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import psutil

from devstack.demo.chaos import Strike, Victim
from devstack.demo.events import Events
from devstack.process import ProcessId, await_true, session
from devstack.services import Services
from devstack.stack import Stack
from sluice.errors import SluiceError

START = 30.0
"""Seconds to wait for a driver that is just being started, to have something to kill."""
RECOVERY = 120.0
"""Seconds in which what was killed must be back."""


class Hand:
    """Kills parts of a stack. `slaves` are those that replicate now."""

    def __init__(
        self,
        stack: Stack,
        slaves: Callable[[], Sequence[str]],
        loaded: Callable[[str], bool],
        follows: Callable[[str, float], bool],
        seed: int,
        events: Events,
    ) -> None:
        """`loaded(slave)`: its load is through, the driver need not come back. `follows(slave, time)`: it shows
        something that was committed on the master after that time, of `time.monotonic`."""
        self.stack, self.events = stack, events
        self._slaves, self._loaded, self._follows = slaves, loaded, follows
        self._random = Random(f"{seed} hand")
        self._recoveries: list[threading.Thread] = []
        self._down: set[str] = set()
        self.kills = 0
        self.problems: list[str] = []

    def play(self, strikes: Sequence[Strike], going_on: Callable[[], bool]) -> None:
        """Carry the strikes out, one after the other, as long as `going_on`."""
        for strike in strikes:
            until = time.monotonic() + strike.pause
            while time.monotonic() < until:
                if not going_on():
                    return
                time.sleep(min(0.05, max(0.0, until - time.monotonic())))
            self.strike(strike)

    def strike(self, strike: Strike) -> None:
        """One kill; what is down already is not killed again before it is back."""
        slave = self._random.choice(list(self._slaves()))
        if strike.victim in (Victim.LOAD, Victim.APPLY):
            self._strike_job(strike, slave)
        else:
            service = {
                Victim.AIRFLOW: f"airflow-{strike.detail}",
                Victim.SLAVE: Services.service_of(slave),
                Victim.MASTER: "master",
                Victim.REDIS: "redis",
                Victim.SPARK: "spark",
            }[strike.victim]
            self._strike_service(service)

    def settle(self) -> None:
        """Wait until everything killed is back; `problems` names what is not."""
        for thread in self._recoveries:
            thread.join(RECOVERY)

    def _strike_service(self, service: str) -> None:
        if not self._await_up(service):
            return
        try:
            killed = self.stack.kill(service)
        except SluiceError as error:
            self._down.discard(service)
            self.events.say(f"{service}: not killed, {error}")
            return
        self._killed(service, service, lambda: self._service_is_back(service, killed))

    def _service_is_back(self, service: str, killed: ProcessId) -> bool:
        try:
            self.stack.await_running(service, RECOVERY, after=killed)
        except SluiceError as error:
            self.problems.append(str(error))
            return False
        return True

    def _strike_job(self, strike: Strike, slave: str) -> None:
        kind = "load" if strike.victim is Victim.LOAD else "apply"
        name = f"{kind} job of {slave}"
        if not self._await_up(name):
            return
        found: list[tuple[ProcessId, ProcessId]] = []

        def runs() -> bool:
            job = running_job(self.stack.home.jobs, kind, slave)
            target = job and driver_of(job)
            if job is not None and target is not None:
                found.append((job, target))
            return bool(found)

        await_true(lambda: runs() or (kind == "load" and self._loaded(slave)), START, 0.05)
        if not found:
            self._down.discard(name)
            self.events.say(f"{name}: nothing to kill, it does not run any more")
            return
        job, target = found[0]
        at = time.monotonic()
        target.send(signal.SIGKILL)
        self._killed(name, name, lambda: self._job_is_back(kind, slave, job, at))

    def _job_is_back(self, kind: str, slave: str, killed: ProcessId, at: float) -> bool:
        """A load: another one runs, or it is through. An apply: changes arrive again, by whatever process."""

        def back() -> bool:
            if kind == "apply":
                return self._follows(slave, at)
            job = running_job(self.stack.home.jobs, kind, slave)
            return (job is not None and job != killed) or self._loaded(slave)

        if not await_true(back, RECOVERY, 0.1):
            self.problems.append(
                f"the {kind} of {slave} did not go on within {RECOVERY:.0f} s after its job was killed"
            )
            return False
        return True

    def _await_up(self, name: str) -> bool:
        """Wait until the last kill of the same thing is over, and take the next one's place."""
        if not await_true(lambda: name not in self._down, RECOVERY, 0.1):
            return False
        self._down.add(name)
        return True

    def _killed(self, name: str, shown: str, back: Callable[[], bool]) -> None:
        self.kills += 1
        self.events.say(f"kill -9 {shown}", "kill")
        began = time.monotonic()

        def watch() -> None:
            if back():
                self.events.say(f"{name} is back after {time.monotonic() - began:.1f} s", "good")
            else:
                self.events.say(f"{name} is not back after {time.monotonic() - began:.0f} s", "bad")
            self._down.discard(name)

        thread = threading.Thread(target=watch, name=f"recovery of {name}", daemon=True)
        thread.start()
        self._recoveries.append(thread)


def running_job(folder: Path, kind: str, slave: str) -> ProcessId | None:
    """The runner of the newest live job of a kind for a slave, from the registry of jobs."""
    found: list[tuple[float, ProcessId]] = []
    for file in folder.glob("*.json"):
        try:
            values = json.loads(file.read_text())
            process = ProcessId(int(values["pid"]), float(values["started"]))
            wanted = (values["kind"], values["slave"]) == (kind, slave)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if wanted and not file.with_suffix(".result").exists() and process.alive():
            found.append((float(values.get("launched", 0)), process))
    return max(found, key=lambda entry: entry[0])[1] if found else None


def driver_of(runner: ProcessId) -> ProcessId | None:
    """The Python process of a job, found in the session that its runner leads; None before it is there."""
    for process in session(runner.pid):
        with contextlib.suppress(psutil.Error):
            command = psutil.Process(process.pid).cmdline()
            if process.pid != runner.pid and any("spark_jobs." in part for part in command):
                return process
    return None
