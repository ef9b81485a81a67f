"""The hand that strikes, and mends when the time of a strike is over. All of it in the thread that owns the servers."""

import contextlib
import heapq
import itertools
import math
import os
import queue
import signal
import time
from collections.abc import Callable

import psycopg

from embedded.postgres import PostgresServer
from embedded.process import ProcessId, await_true, descendants
from embedded.server import Server
from tests.file_limit import limit_files
from tests.scenarios.faults.applies import Applies
from tests.scenarios.faults.plan import Fault, Plan, Strike
from tests.scenarios.faults.proxy import Ambush, Moment, Proxy, Weather
from tests.scenarios.faults.servers import Servers

FILE_LIMITS = {Fault.FULL_DISK: 1 << 20, Fault.FULL_WAL: 1 << 19}
"""Bytes."""
PROGRESS_SECONDS, SPARK_SECONDS, REDIS_SECONDS = 6.0, 25.0, 60.0
"""So long is waited for the apply to go on after a strike; where a session of Spark may have to start, longer; and
where only what was applied since the last start comes again, until something was."""
READY_SECONDS = 2.0
AMBUSH_SECONDS = 2.0
"""A strike that waits for a COMMIT falls without one after so long."""
STAGING_SECONDS = 25.0
"""So long is waited for something of Spark to kill."""
EVENTS_SECONDS = 120.0
"""In so long all must happen that must happen in a run, faults or not."""
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sluice %%' AND datname = %s"

Mend = Callable[[], None]


class Hand:
    """Carries out the strikes of a plan; `happened` tells what was done, and when, seconds after the start."""

    def __init__(
        self,
        plan: Plan,
        servers: Servers,
        applies: Applies,
        databases: dict[str, str],
        applied: Callable[[], object],
        lacking: Callable[[], list[str]],
        calm: Callable[[], None],
    ):
        """`databases`: names on master and slave. `applied()`: where the slave stands, as far as anybody saw.
        `lacking()`: what must still happen in the run. `calm()` is called before a strike that asks for it.
        """
        self.plan = plan
        self.servers = servers
        self.applies = applies
        self.databases = databases
        self._applied = applied
        self._lacking = lacking
        self._calm = calm
        self.happened: list[str] = []
        self._began = time.monotonic()
        self._mends: list[tuple[float, int, Mend]] = []
        self._order = itertools.count()
        self._frozen: dict[str, list[ProcessId]] = {}
        """Of each server that is stopped, its processes."""
        self._struck: queue.SimpleQueue[tuple[float, Mend]] = queue.SimpleQueue()
        """Mends asked for by threads of proxies."""

    def play(self, idle: Callable[[], None]) -> None:
        """All strikes, one after the other; `idle` is called every few milliseconds in between.

        Returns once all has happened that must. Raises `AssertionError` where it does not."""
        for strike in self.plan.strikes:
            if strike.calm:
                self._await_all(idle)
                self._calm()
            if not strike.hasty:
                self._await_progress(idle)
            self._wait(strike.pause, idle)
            self._strike(strike, idle)
        self._await_progress(idle)
        self._await_all(idle)
        self._wait(1.0, idle)

    def heal(self) -> None:
        """Everything runs again, and nothing is in its way."""
        for proxy in self.servers.proxies.values():
            proxy.heal()
        self._collect()
        while self._mends:
            heapq.heappop(self._mends)[2]()
        self.applies.thaw()
        self.servers.start_all()

    def say(self, what: str) -> None:
        self.happened.append(f"{time.monotonic() - self._began:6.2f} s  {what}")

    def _await_all(self, idle: Callable[[], None]) -> None:
        self._wait(EVENTS_SECONDS, idle, lambda: not self._lacking())
        if lacking := self._lacking():
            raise AssertionError(f"never within {EVENTS_SECONDS:.0f} s: {', '.join(lacking)}")

    def _await_progress(self, idle: Callable[[], None]) -> None:
        """Strikes prove little while nothing is applied: until it goes on, or for some seconds."""
        before = self._applied()
        lags = self.plan.kept == "redis"
        seconds = SPARK_SECONDS if self.plan.spark else REDIS_SECONDS if lags else PROGRESS_SECONDS
        self._wait(seconds, idle, lambda: not self._mends and self._applied() != before)

    def _wait(self, seconds: float, idle: Callable[[], None], until: Callable[[], bool] = lambda: False) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            self._collect()
            while self._mends and self._mends[0][0] <= time.monotonic():
                heapq.heappop(self._mends)[2]()
            idle()
            time.sleep(0.01)

    def _collect(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                at, mend = self._struck.get_nowait()
                heapq.heappush(self._mends, (at, next(self._order), mend))

    def _strike(self, strike: Strike, idle: Callable[[], None]) -> None:
        act = self._act(strike, idle)
        if strike.moment is Moment.NOW:
            act()
            return
        proxy = self.servers.proxies["slave"]

        def spring() -> bool:
            act()
            return strike.cut

        proxy.lie_in_wait(Ambush(strike.moment, spring))
        self._wait(AMBUSH_SECONDS, idle, lambda: not proxy.lurking)
        if proxy.sprung() is not None:
            self.say("no COMMIT came by")
            act()

    def _act(self, strike: Strike, idle: Callable[[], None]) -> Callable[[], None]:
        """What to do when the moment has come. It may run in a thread of a proxy: nothing is started there."""

        def act() -> None:
            mend = self._do(strike, idle)
            self.say(f"{strike}" + ("" if mend else "  (nothing to strike)"))
            if mend and not math.isinf(strike.seconds):
                self._struck.put((time.monotonic() + strike.seconds, mend))

        return act

    def _do(self, strike: Strike, idle: Callable[[], None]) -> Mend | None:
        """Strikes; returns how to mend it, None where there was nothing to strike."""
        fault, applies, servers = strike.fault, self.applies, self.servers
        match fault:
            case Fault.KILL_APPLY | Fault.END_APPLY:
                return self._signal_apply(signal.SIGKILL if fault is Fault.KILL_APPLY else signal.SIGTERM)
            case Fault.FREEZE_APPLY:
                applies.freeze()
                return applies.thaw
            case Fault.SECOND_APPLY | Fault.USURPED:
                return self._usurp(freeze=fault is Fault.USURPED)
            case Fault.KILL_JVM | Fault.FREEZE_JVM:
                return self._strike_part("java", idle, freeze=fault is Fault.FREEZE_JVM)
            case Fault.KILL_WORKER | Fault.FREEZE_WORKER:
                return self._strike_part("worker", idle, freeze=fault is Fault.FREEZE_WORKER)
            case Fault.FREEZE_DAEMON:
                return self._strike_part("worker", idle, freeze=True, first=True)
            case Fault.CRASH_SLAVE:
                return self._kill_server(servers.slave, signal.SIGKILL)
            case Fault.CRASH_MASTER:
                return self._kill_server(servers.master, signal.SIGKILL)
            case Fault.QUIT_SLAVE:
                return self._kill_server(servers.slave, signal.SIGQUIT)
            case Fault.QUIT_MASTER:
                return self._kill_server(servers.master, signal.SIGQUIT)
            case Fault.KILL_REDIS:
                return self._kill_server(servers.redis, signal.SIGKILL)
            case Fault.FREEZE_REDIS:
                return self._freeze(servers.redis)
            case Fault.FREEZE_SLAVE:
                return self._freeze(servers.slave)
            case Fault.FREEZE_MASTER:
                return self._freeze(servers.master)
            case Fault.FLUSH_REDIS:
                return self._redis("FLUSHALL")
            case Fault.CRASH_BACKENDS | Fault.TERMINATE_BACKENDS:
                return self._end_sessions(strike.place, kill=fault is Fault.CRASH_BACKENDS)
            case Fault.FULL_DISK | Fault.FULL_WAL:
                return self._limit_files(
                    servers.master if strike.place == "master" else servers.slave, FILE_LIMITS[fault]
                )
            case Fault.CUT | Fault.HALVE | Fault.STALL | Fault.SLOW:
                return self._spoil(servers.proxies[strike.place], strike)

    def _signal_apply(self, number: int) -> Mend | None:
        process = self.applies.current
        if process is None:
            return None
        process.send(number)
        return _nothing

    def _usurp(self, *, freeze: bool) -> Mend | None:
        """The lease is somebody else's from here on; the second apply is started when the strike is mended."""
        if freeze:
            self.applies.freeze()
        if self._redis("DEL", "sluice:DEMO_:dr1:lease") is None:
            return self.applies.thaw

        def mend() -> None:
            self.applies.start()
            self._struck.put((time.monotonic() + 1.5, self.applies.thaw))

        return mend

    def _strike_part(self, what: str, idle: Callable[[], None], *, freeze: bool, first: bool = False) -> Mend | None:
        found: list[ProcessId] = []

        def there() -> bool:
            process = self.applies.current
            found.extend(process.parts(what) if process else [])
            return bool(found)

        self._wait(STAGING_SECONDS, idle, there)
        if not found:
            return None
        # The daemon comes first, those it forked after it. The last java may be a child that the JVM is about to turn
        # into a program of another name: then what the JVM starts hangs, and the JVM answers all the same.
        struck = found[0 if first else -1]
        struck.send(signal.SIGSTOP if freeze else signal.SIGKILL)
        return (lambda: struck.send(signal.SIGCONT)) if freeze else _nothing

    def _kill_server(self, server: Server, number: int) -> Mend | None:
        process = server.process()
        if process is None:
            return None
        self._thaw(server)
        if number == signal.SIGKILL:
            server.kill()
        else:
            process.send(number)
        return lambda: self._start(server)

    def _start(self, server: Server) -> None:
        process = server.process()
        self._thaw(server)
        if process is not None:  # still shutting down
            server.kill()
        server.start(die_with_parent=True)
        self.say(f"{server.name} is up")

    def _freeze(self, server: Server) -> Mend | None:
        """All its processes: none of them answers, and none can be waited for."""
        process = server.process()
        if process is None or self._frozen.get(server.name):
            return None
        family = self._frozen[server.name] = descendants(process.pid)
        for member in family:
            member.send(signal.SIGSTOP)
        return lambda: self._thaw(server)

    def _thaw(self, server: Server) -> None:
        for member in self._frozen.pop(server.name, []):
            member.send(signal.SIGCONT)

    def _redis(self, *command: str) -> Mend | None:
        import redis

        try:
            with redis.Redis.from_url(self.servers.redis.url, socket_timeout=1.0) as client:
                client.execute_command(*command)
        except redis.RedisError:  # down or frozen by another strike
            return None
        return _nothing

    def _end_sessions(self, place: str, *, kill: bool) -> Mend | None:
        server = self.servers.master if place == "master" else self.servers.slave
        if self._frozen.get(server.name):
            return None
        try:
            with server.connect() as connection:
                pids = [pid for (pid,) in connection.execute(SESSIONS, [self.databases[place]]).fetchall()]
                if kill:
                    for pid in pids[:1]:
                        os.kill(pid, signal.SIGKILL)
                else:
                    for pid in pids:
                        connection.execute("SELECT pg_terminate_backend(%s)", [pid])
        except psycopg.Error:
            return None
        return _nothing if pids else None

    def _limit_files(self, server: PostgresServer, size: int) -> Mend | None:
        """New backends inherit it from the postmaster; those that run are told one by one."""
        process = server.process()
        if process is None:
            return None

        def limit(to: int | None) -> None:
            limit_files((each.pid for each in descendants(process.pid)), to)

        def mend() -> None:
            limit(None)
            # One that panicked may be unable to come up by itself; PostgreSQL 18 has been seen to wait for ever for
            # a process of its recovery that had failed, with a lock file that still called it ready.
            if not self._frozen.get(server.name) and not await_true(lambda: _answers(server), READY_SECONDS):
                self._start(server)

        limit(size)
        return mend

    def _spoil(self, proxy: Proxy, strike: Strike) -> Mend | None:
        match strike.fault:
            case Fault.CUT:
                return _nothing if proxy.cut() or strike.moment is not Moment.NOW else None
            case Fault.HALVE:
                proxy.weather = Weather(halve=True)
            case Fault.SLOW:
                proxy.weather = Weather(latency=0.01, bandwidth=200_000)
            case _:
                proxy.stall()
        return proxy.heal


def _answers(server: PostgresServer) -> bool:
    try:
        with server.connect():
            return True
    except psycopg.Error:
        return False


def _nothing() -> None:
    """There is nothing to mend."""
