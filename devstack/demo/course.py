"""The steps of a demo, from empty folders to the comparison."""

import argparse
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import FrameType

import psycopg

from devstack.demo import compare, compare_vendors, master, report, slave, start, strikes
from devstack.demo.accounts import APPLICATION, DATABASE, OWNER, PREFIX, SCHEMA
from devstack.demo.compare import Captured, Counted
from devstack.demo.heartbeat import Heartbeat
from devstack.demo.logged_traffic import LoggedTraffic
from devstack.demo.memory import MemoryWatch
from devstack.demo.strikes import Killer
from devstack.demo.traffic import Choice, Traffic, TrafficFailed
from devstack.demo.view import Picture, Screen
from devstack.demo.waiting import Replica, Waiting
from devstack.process import await_true
from devstack.services import MARIADB
from devstack.stack import Stack
from sluice.errors import SluiceError
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.operate.api import APPLY, UPDATE
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.source.queue import PostgresQueue

POLL = 0.1


class Course:
    """One demo. `run` returns its exit status."""

    master = "master"
    """The place of the master."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.scale: int = args.scale or (30 if args.chaos else 10)
        self.seed: int = args.seed if args.seed is not None else random.randrange(10_000)
        self.names = slave_names(args.slaves, args.slave)
        self.stage = "starting"
        self.screen = Screen(self.picture, args.plain)
        self.events = self.screen.events
        self.replicas: list[Replica] = []
        self.stack = self._stack()
        self.memory = MemoryWatch(self.stack.home.root)
        self.heartbeat: Heartbeat | None = None
        self.traffic: Traffic | LoggedTraffic | None = None
        self.captured: Counted | None = None
        self.killer: Killer | None = None
        self.waiting = Waiting(self.stack, self.replicas, self.events)
        self.plan = strikes.plan(self.seed)
        self.problems: list[str] = []
        self._until: float | None = None
        self._is_up = False

    def run(self) -> int:
        """Runs all steps. Raises Sluice's errors after stopping what it started."""
        start.require_disk(self.stack.home.root, self.scale, 1 + len(self.names))
        previous = signal.signal(signal.SIGTERM, _interrupt)
        finished = False
        try:
            with self.screen:
                self.events.say(f"seed {self.seed}" + (", with chaos" if self.args.chaos else ""))
                self.prepare()
                self.load(self.replicas[0])
                self.join_others()
                traffic_began, traffic_ended = self.replicate()
                final = self.stop_traffic()
                self.catch_up(final)
                verdicts = self.compare_tables()
            finished = True
            return self.conclude(verdicts, traffic_began, traffic_ended)
        finally:
            with contextlib.suppress(SluiceError):  # the first error says more
                self._stop_threads()
            if self.args.once or not finished:
                self._end(keep=self._is_up and not self.args.once and not _interrupted())
            signal.signal(signal.SIGTERM, previous)

    # -- its steps

    def prepare(self) -> None:
        """Starts the servers, makes the master, waits for Airflow, and starts the traffic: before, nobody captures it,
        and it would only slow the start."""
        say = self.events.say
        self.stage = "starting the servers"
        self.stack.home.create()
        os.environ["SLUICE_HOME"] = str(self.stack.home.root)
        os.environ["SLUICE_REDIS_URL"] = self.stack.redis_url
        start.clear(self.stack, say)
        first = self.names[0]
        start.write(self.stack.home.replications, self.names, self._configured_master())
        self.stack.blueprint = replace(
            self.stack.blueprint,
            slaves=() if first == MARIADB else (first,),
            mariadb=MARIADB in (self.master, first),
            mariadb_log=self.master == MARIADB,
            airflow=True,
        )
        self.memory.start()
        start.start(self.stack, [self.master, first], self._make_master, self.scale, self.events.say, self._enter)
        self._is_up = True
        self.stack.airflow.api().await_dags([UPDATE, APPLY])
        say(f"Airflow is ready at {self.stack.airflow.url}")
        self._start_traffic()
        self._add_replica(self.names[0])

    def load(self, replica: Replica) -> None:
        """Runs the initial update of one slave until its state is NORMAL and the apply runs."""
        self.stage = f"initial update of {replica.name}"
        self.waiting.retry(replica.update.trigger, "starting the initial update")
        replica.update.start()
        struck = self._strike_while_loading(replica)
        self.waiting.until(f"State NORMAL of {replica.name}", lambda: self._is_normal(replica), replica.progress)
        if struck is not None:
            struck.join()
        self.events.say(f"{replica.name} is NORMAL, {APPLY} runs", "good")

    def join_others(self) -> None:
        """Adds the other slaves, one after the other, while the first replicates."""
        first = self.replicas[0]
        began = time.monotonic()
        for name in self.names[1:]:
            self.stage = f"adding {name}"
            self.stack.add_slave(name)
            slave.make(self.stack.slaves[name])
            self._add_replica(name)
            self.load(self.replicas[-1])
        if len(self.names) > 1:
            first.joining = (began, time.monotonic())

    def replicate(self) -> tuple[float, float]:
        """Lets the traffic continue for --seconds, and until the last strike. Returns when that began and ended."""
        self.stage = "replicating"
        began = time.monotonic()
        self._until = began + self.args.seconds
        striking = None
        if self.args.chaos and self.killer is not None:
            killer = self.killer
            striking = threading.Thread(target=lambda: killer.run(self.plan.apply, lambda: True), daemon=True)
            striking.start()
        while time.monotonic() < self._until or (striking is not None and striking.is_alive()):
            self.waiting.raise_failures()
            time.sleep(POLL)
        self._until = None
        return began, time.monotonic()

    def stop_traffic(self) -> Position:
        """Stops the traffic and returns the master's last position."""
        self.stage = "stopping the traffic"
        assert self.heartbeat is not None and self.traffic is not None
        self.heartbeat.stop()
        try:
            self.traffic.stop()
        except TrafficFailed as failed:  # the slave is compared nevertheless
            self.problems.append(str(failed))
        self.events.say("traffic stopped")
        final: list[Position] = []
        self.waiting.retry(lambda: final.append(self._position()), "reading the master's position")
        return final[0]

    def catch_up(self, final: Position) -> None:
        """Waits until every slave has applied all changes."""
        self.stage = "waiting until the slaves are current"
        for replica in self.replicas:
            self.waiting.until(f"A current {replica.name}", partial(replica.covers, final), replica.progress)
            self.events.say(f"{replica.name} is current", "good")

    def compare_tables(self) -> dict[str, list[compare.Verdict]]:
        """Compares all tables, slave by slave."""
        self.stage = "comparing"
        tables = self._tables()
        of_master = self.stack.administration(self.master)
        verdicts: dict[str, list[compare.Verdict]] = {}
        for replica in self.replicas:
            verdicts[replica.name] = []
            alike = replica.info.vendor == of_master.vendor
            compared = compare.compare if alike else compare_vendors.compare
            for verdict in compared(of_master, replica.info, tables):
                verdicts[replica.name].append(verdict)
                self.stage = f"comparing {replica.name}: {len(verdicts[replica.name])} of {len(tables)} tables"
        return verdicts

    def conclude(self, verdicts: dict[str, list[compare.Verdict]], began: float, ended: float) -> int:
        """Prints the verdicts and the figures. Returns 0 if all tables are equal and nothing else failed, else 1."""
        assert self.captured is not None and self.traffic is not None
        figures = report.Figures(
            traffic_seconds=ended - began,
            captured_rate=self.captured.rate(began, ended),
            slaves=[replica.figures(began, ended) for replica in self.replicas],
            memory=self.memory.peak,
            tally=self.traffic.tally,
            kills=self.killer.kills if self.killer else 0,
        )
        problems = [*self.problems, *(self.killer.problems if self.killer else [])]
        good = report.show(self.screen.console, verdicts, figures, problems, self.seed)
        if not self.args.once:
            print(self._addresses(), flush=True)
        return 0 if good else 1

    # -- the picture

    def picture(self) -> Picture:
        """Returns what the screen shows now."""
        now = time.monotonic()
        return Picture(
            stage=self.stage,
            elapsed=now - self.events.began,
            captured_rate=self.captured.rate(now - 5, now) if self.captured and self.captured.any else None,
            memory=sum(self.memory.now.values()),
            slaves=[replica.picture() for replica in self.replicas],
            events=self.events.recent(20),
            remaining=max(0.0, self._until - now) if self._until else None,
        )

    def _enter(self, stage: str) -> None:
        self.stage = stage

    # -- parts of the steps

    def _stack(self) -> Stack:
        named = {"airflow": self.args.airflow_port, "master": self.args.master_port, "redis": self.args.redis_port}
        return Stack(ports={name: port for name, port in named.items() if port}, postgres=self.args.postgres)

    def _configured_master(self) -> Mapping[str, object] | None:
        """The master in the configuration; None: that of DEMO.yaml."""
        return None

    def _make_master(self) -> None:
        master.make(self.stack.master, self.scale, portable=self.stack.blueprint.mariadb)

    def _tables(self) -> list[TableName]:
        """The tables that are compared."""
        with self.stack.master.connect(DATABASE) as connection:
            return compare.tables(connection, OWNER)

    def _start_traffic(self) -> None:
        self.heartbeat = Heartbeat(self.stack.services.server(self.master).info(DATABASE, OWNER))
        self.heartbeat.start()
        self._start_writers()

    def _start_writers(self) -> None:
        choice = Choice(self.args.rate, self.scale, self.seed, portable=self.stack.blueprint.mariadb)
        self.traffic = traffic = Traffic(self.stack.master, choice, self.stack.environment())
        traffic.start()
        self.captured = Captured(self.stack.master)
        self.captured.start()
        threading.Thread(target=self._administer, name="administrator", daemon=True).start()
        changes = traffic.mix.changes + traffic.writer_rate
        self.events.say(f"traffic starts; its aim is {changes:,.0f} row changes a second")

    def _add_replica(self, name: str) -> None:
        assert self.heartbeat is not None
        replica = Replica(name, self.stack, self.heartbeat.beats)
        replica.start()
        self.replicas.append(replica)
        if self.killer is None and self.args.chaos:
            self.killer = Killer(
                self.stack,
                lambda: [entry.name for entry in self.replicas],
                self._is_loaded,
                lambda name, at: self._replica(name).meter.follows(at),
                self.seed,
                self.events,
            )

    def _strike_while_loading(self, replica: Replica) -> threading.Thread | None:
        """Starts the strikes on the first load, in a thread that waits until blocks are read."""
        if self.killer is None or replica is not self.replicas[0]:
            return None
        killer = self.killer

        def strike() -> None:
            await_true(lambda: replica.observer.latest.begun > 0 or self._is_normal(replica), 3600, 0.02)
            killer.run(self.plan.load, lambda: not self._is_normal(replica))

        thread = threading.Thread(target=strike, name="chaos", daemon=True)
        thread.start()
        return thread

    def _is_loaded(self, name: str) -> bool:
        observed = self._replica(name).observer.latest
        return bool(observed.blocks) and observed.stored == observed.blocks

    def _replica(self, name: str) -> Replica:
        return next(entry for entry in self.replicas if entry.name == name)

    def _is_normal(self, replica: Replica) -> bool:
        run = replica.update.latest
        return replica.observer.latest.state == "NORMAL" and run.state == "success" and run.apply == "running"

    def _position(self) -> Position:
        """Raises Sluice's errors and psycopg's."""
        info = self.stack.master.info(DATABASE)
        with connect(info, application=f"{APPLICATION} position", autocommit=True) as connection:
            return PostgresQueue(connection, Prefix(PREFIX), SCHEMA).take()

    def _administer(self) -> None:
        """Makes the event triggers as soon as the replication is installed; only a superuser can."""
        while self.traffic is not None and self.traffic.running:
            with contextlib.suppress(psycopg.Error):
                if master.make_event_triggers(self.stack.master):
                    self.events.say("the administrator made event triggers: DDL is noticed at once")
                    return
            time.sleep(0.3)

    def _stop_threads(self) -> None:
        self.memory.stop()
        if self.captured is not None:
            self.captured.stop()
        for replica in self.replicas:
            replica.stop()
        if self.heartbeat is not None:
            self.heartbeat.stop()
        if self.traffic is not None and self.traffic.running:
            self.traffic.stop()

    def _end(self, keep: bool) -> None:
        """Stops everything, unless `keep`: then it keeps running, so that a person can look at it."""
        if keep:
            print(
                f"\nEverything keeps running, to be looked at; ./sluice down ends it.\n{self._addresses()}",
                flush=True,
            )
        else:
            print("stopping everything", flush=True)
            self.stack.down()

    def _addresses(self) -> str:
        airflow = self.stack.airflow
        return (
            f"\nAirflow   {airflow.url}   user {airflow.user}   password {airflow.password}\n"
            "Write to the master and see it arrive: ./sluice status --secrets has the addresses. ./sluice down ends "
            "everything."
        )


def slave_names(count: int, vendor: str) -> list[str]:
    """Returns the slaves' names in the order in which they join. A MariaDB slave is the first, named `mariadb`."""
    if vendor == MARIADB:
        return [MARIADB, *(f"dr{number}" for number in range(1, count))]
    return [f"dr{number}" for number in range(1, count + 1)]


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _interrupted() -> bool:
    return isinstance(sys.exc_info()[1], KeyboardInterrupt)
