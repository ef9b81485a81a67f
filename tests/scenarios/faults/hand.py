"""Carries out the strikes of a plan, and fixes them when their time is over; all in the servers' own thread."""

import math
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pymysql

from devstack.mariadb import MariaDBServer
from devstack.postgres import PostgresServer
from devstack.process import await_true, descendants
from devstack.server import Server
from tests.file_limit import limit_files
from tests.scenarios.faults.applies import Applies
from tests.scenarios.faults.plan import Fault, Plan, Strike
from tests.scenarios.faults.servers import Servers
from workload.faults.freezer import Freezer
from workload.faults.proxy import Ambush, Moment, Proxy, Weather
from workload.faults.striker import Fix, Striker, nothing

FILE_LIMITS = {Fault.FULL_DISK: 1 << 20, Fault.FULL_WAL: 1 << 19}
"""Bytes."""
SPARK_FILES = 1 << 16
"""Less than the archive of the library, which new executors and new sessions bring along."""
SPARK_DISK_FULL = "its disk is full"
"""In an apply's log, of Spark."""
PROGRESS_SECONDS = 240.0
"""In so long the apply must continue after a strike, and Spark stage again where a run has it."""
STRIKE_SECONDS = 300.0
"""In so long a strike must hit something."""
RESTART_SECONDS = 5.0
"""So much later Spark's server is started again."""
DAEMON, EXECUTOR = "spark_jobs.worker_daemon", "CoarseGrainedExecutorBackend"
READY_SECONDS = 2.0
EVENTS_SECONDS = 300.0
"""In so long all must happen that must happen in a run, faults or not."""
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sluice %%' AND datname = %s"
SESSIONS_OF_MARIADB = "SELECT id FROM information_schema.processlist WHERE user <> 'root' AND db = %s"

TOO_LARGE = b"File too large"
"""In a server's log, of a write beyond the limit."""


class Hand:
    """Carries out the strikes of a plan; `happened` tells what was done, and when, seconds after the start.

    Each strike hits: one that finds its server down, say, is tried again, and bad connections and limits on files last
    until something meets them. After each that is not followed by a hasty one a reader has seen something applied. So a
    busy machine makes a run longer, and not weaker.
    """

    def __init__(
        self,
        plan: Plan,
        servers: Servers,
        applies: Applies,
        databases: dict[str, str],
        applied: Callable[[], object],
        lacking: Callable[[], list[str]],
        calm: Callable[[], None],
        kill_load: Callable[[], bool],
        idle: Callable[[], None],
    ):
        """`databases`: names on master and slave. `applied()`: where the slave stands, as far as anybody saw.
        `lacking()`: what must still happen in the run. `calm()` is called before a strike that asks for it.
        `kill_load()` kills the process that loads; whether there was one. `idle()` is called every few milliseconds.
        """
        self.plan = plan
        self.servers = servers
        self.applies = applies
        self.databases = databases
        self._applied = applied
        self._lacking = lacking
        self._calm = calm
        self._kill_load = kill_load
        self.happened: list[str] = []
        self._began = time.monotonic()
        self._striker = Striker(idle)
        self._freezer = Freezer()
        """Of servers."""

    def play(self) -> None:
        """All strikes, one after the other. Returns once all has happened that must.

        Raises `AssertionError` where it does not, where a strike finds nothing to hit, and where nothing is applied
        after one.
        """
        for strike in self.plan.strikes:
            if strike.calm:
                self._await_all()
                self._calm()
            if not strike.hasty:
                self._await_progress()
            self._striker.wait(strike.pause)
            if strike.calm:
                # One window may still have taken the checkpoint to the slave. What follows it comes again.
                self._await_progress()
                self._await_progress()
            self._strike(strike)
        self._await_progress()
        self._await_all()
        self._striker.wait(1.0)

    def heal(self) -> None:
        """Repairs everything that was struck."""
        for proxy in self.servers.proxies.values():
            proxy.heal()
        self._striker.mend_all()
        self.applies.thaw()
        self.servers.start_all()

    def say(self, what: str) -> None:
        self.happened.append(f"{time.monotonic() - self._began:6.2f} s  {what}")

    def _await_all(self) -> None:
        if not self._striker.wait(EVENTS_SECONDS, lambda: not self._lacking()):
            raise AssertionError(f"never within {EVENTS_SECONDS:.0f} s: {', '.join(self._lacking())}")

    def _await_progress(self) -> None:
        """Waits until all is fixed and a reader saw the slave advance: strikes prove little before that."""
        wait = self._striker.wait
        wait(PROGRESS_SECONDS, lambda: self._striker.fixed)
        before = self._applied()
        if not wait(PROGRESS_SECONDS, lambda: self._applied() != before):
            raise AssertionError(f"nothing is applied for {PROGRESS_SECONDS:.0f} s, though all is fixed")
        staged = self.applies.staged
        if self.plan.spark and not wait(PROGRESS_SECONDS, lambda: self.applies.staged > staged):
            raise AssertionError(f"Spark stages nothing for {PROGRESS_SECONDS:.0f} s, though all is fixed")

    def _strike(self, strike: Strike) -> None:
        """Repeats a strike until it hits. Raises `AssertionError` if it never does."""
        met = self._meeting(strike)
        fix = self._striker.hit(lambda: self._try(strike), STRIKE_SECONDS)
        if fix is None:
            raise AssertionError(f"in {STRIKE_SECONDS:.0f} s there was nothing to strike: {strike}")
        hit = self._striker.wait(STRIKE_SECONDS, met)
        if not math.isinf(strike.seconds):
            self._striker.later(strike.seconds, fix)
        if not hit:
            raise AssertionError(f"nothing met it in {STRIKE_SECONDS:.0f} s: {strike}")

    def _try(self, strike: Strike) -> Fix | None:
        """Strikes at the strike's moment; returns how to fix it, or None if there was nothing to strike."""
        if strike.moment is Moment.NOW:
            return self._act(strike)
        acted: list[Fix | None] = []
        proxy = self.servers.proxies["slave"]

        def spring() -> bool:
            """Runs in a thread of the proxy: it must not start servers, which end with the thread that starts them."""
            acted.append(self._act(strike))
            return strike.cut

        proxy.lie_in_wait(Ambush(strike.moment, spring))
        self._striker.wait(STRIKE_SECONDS, lambda: bool(acted))
        proxy.lie_in_wait(None)
        return acted[0] if acted else None

    def _act(self, strike: Strike) -> Fix | None:
        fix = self._do(strike)
        if fix is not None:
            self.say(str(strike))
        return fix

    def _meeting(self, strike: Strike) -> Callable[[], bool]:
        """Returns a check whether something met the strike since: at a COMMIT its connection does."""
        if strike.fault in FILE_LIMITS:
            log = self._postgres(strike.place).log
            # The limit is the log's too: what the server says must find room there.
            os.truncate(log, 0)
            return lambda: TOO_LARGE in log.read_bytes()
        if strike.fault is Fault.FULL_SPARK:
            said = self.applies.said(SPARK_DISK_FULL)
            return lambda: self.applies.said(SPARK_DISK_FULL) > said
        if strike.fault in (Fault.HALVE, Fault.STALL, Fault.SLOW):
            proxy = self.servers.proxies[strike.place]
            before = proxy.met
            return lambda: proxy.met > before
        return lambda: True

    def _postgres(self, place: str) -> PostgresServer:
        server = self.servers.master if place == "master" else self.servers.slave
        assert isinstance(server, PostgresServer)
        return server

    def _do(self, strike: Strike) -> Fix | None:
        """Strikes; returns how to fix it, or None if there was nothing to strike."""
        fault, applies, servers = strike.fault, self.applies, self.servers
        match fault:
            case Fault.KILL_APPLY | Fault.END_APPLY:
                return self._signal_apply(signal.SIGKILL if fault is Fault.KILL_APPLY else signal.SIGTERM)
            case Fault.FREEZE_APPLY:
                return applies.thaw if applies.freeze() else None
            case Fault.KILL_LOAD:
                return nothing if self._kill_load() else None
            case Fault.SECOND_APPLY | Fault.USURPED:
                return self._usurp(freeze=fault is Fault.USURPED)
            case Fault.KILL_JVM | Fault.FREEZE_JVM:
                return self._strike_spark("SparkSubmit", strike, freeze=fault is Fault.FREEZE_JVM)
            case Fault.KILL_WORKER | Fault.FREEZE_WORKER:
                return self._strike_spark(DAEMON, strike, freeze=fault is Fault.FREEZE_WORKER, last=True)
            case Fault.FREEZE_DAEMON:
                return self._strike_spark(DAEMON, strike, freeze=True)
            case Fault.KILL_EXECUTOR:
                return self._kill_executors(1)
            case Fault.FULL_SPARK:
                return self._fill_disk_of_spark()
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
                if strike.place == "slave" and isinstance(servers.slave, MariaDBServer):
                    return self._end_sessions_of_mariadb(servers.slave)
                return self._end_sessions(strike.place, kill=fault is Fault.CRASH_BACKENDS)
            case Fault.FULL_DISK | Fault.FULL_WAL:
                return self._limit_files(self._postgres(strike.place), FILE_LIMITS[fault])
            case Fault.CUT | Fault.HALVE | Fault.STALL | Fault.SLOW:
                return self._spoil(servers.proxies[strike.place], strike)

    def _signal_apply(self, number: int) -> Fix | None:
        process = self.applies.current
        return nothing if process is not None and process.send(number) else None

    def _usurp(self, *, freeze: bool) -> Fix | None:
        """Gives the lease to another holder; the second apply is started when the strike is fixed."""
        if freeze and not self.applies.freeze():
            return None
        if self._redis("DEL", "sluice:DEMO_:dr1:lease") is None:
            self.applies.thaw()
            return None

        def fix() -> None:
            self.applies.start()
            self._striker.later(1.5, self.applies.thaw)

        return fix

    def _strike_spark(self, word: str, strike: Strike, *, freeze: bool, last: bool = False) -> Fix | None:
        """Strikes the first process of Spark of this kind, or the last: a daemon comes before the workers that it
        forked."""
        found = self.servers.spark_parts(word)
        if len(found) <= int(last):
            return None
        struck = found[-1 if last else 0]
        struck.send(signal.SIGSTOP if freeze else signal.SIGKILL)
        if last:
            return (lambda: struck.send(signal.SIGCONT)) if freeze else nothing
        if not freeze or math.isinf(strike.seconds):
            # Who watches over it starts it again, or a person does.
            self._striker.later(RESTART_SECONDS, self.servers.restart_spark)
            return nothing
        return lambda: struck.send(signal.SIGCONT)

    def _fill_disk_of_spark(self) -> Fix | None:
        """Fills the disk, so that the next execution finds no room for the library's archive."""
        if not self.servers.spark_parts(EXECUTOR):
            return None
        self.servers.limit_spark(SPARK_FILES)
        self._kill_executors(None)
        return lambda: self.servers.limit_spark(resource.RLIM_INFINITY)

    def _kill_executors(self, count: int | None) -> Fix | None:
        """Kills so many executors, None for all."""
        found = self.servers.spark_parts(EXECUTOR)[:count]
        for process in found:
            process.send(signal.SIGKILL)
        return nothing if found else None

    def _kill_server(self, server: Server, number: int) -> Fix | None:
        process = server.process()
        if process is None:
            return None
        self._freezer.thaw(server.name)
        if number == signal.SIGKILL:
            server.kill()
        else:
            process.send(number)
        return lambda: self._start(server)

    def _start(self, server: Server) -> None:
        process = server.process()
        self._freezer.thaw(server.name)
        if process is not None:  # still shutting down
            server.kill()
        server.start(die_with_parent=True)
        self.say(f"{server.name} is up")

    def _freeze(self, server: Server) -> Fix | None:
        process = server.process()
        if process is None or self._freezer.holds(server.name):
            return None
        self._freezer.freeze(server.name, descendants(process.pid))
        return lambda: self._freezer.thaw(server.name)

    def _redis(self, *command: str) -> Fix | None:
        import redis

        try:
            with redis.Redis.from_url(self.servers.redis.url, socket_timeout=1.0) as client:
                client.execute_command(*command)
        except redis.RedisError:  # down or frozen by another strike
            return None
        return nothing

    def _end_sessions(self, place: str, *, kill: bool) -> Fix | None:
        server = self._postgres(place)
        if self._freezer.holds(server.name):
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
        return nothing if pids else None

    def _end_sessions_of_mariadb(self, server: MariaDBServer) -> Fix | None:
        if self._freezer.holds(server.name):
            return None
        try:
            with server.connect() as connection, connection.cursor() as cursor:
                cursor.execute(SESSIONS_OF_MARIADB, [self.databases["slave"]])
                numbers = [number for (number,) in cursor.fetchall()]
                for number in numbers:
                    with suppress(pymysql.err.OperationalError):  # it has ended by itself
                        cursor.execute("KILL %s", [number])
        except (pymysql.Error, OSError):
            return None
        return nothing if numbers else None

    def _limit_files(self, server: PostgresServer, size: int) -> Fix | None:
        """Limits files: new backends inherit the limit from the postmaster; running ones get it one by one."""
        process = server.process()
        if process is None:
            return None

        def limit(to: int | None) -> None:
            limit_files((each.pid for each in descendants(process.pid)), to)

        def fix() -> None:
            limit(None)
            # One that panicked may be unable to come up by itself; PostgreSQL 18 has been seen to wait forever for
            # a process of its recovery that had failed, with a lock file that still called it ready.
            if not self._freezer.holds(server.name) and not await_true(lambda: _answers(server), READY_SECONDS):
                self._start(server)

        limit(size)
        return fix

    def _spoil(self, proxy: Proxy, strike: Strike) -> Fix | None:
        match strike.fault:
            case Fault.CUT:
                return nothing if proxy.cut() or strike.moment is not Moment.NOW else None
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
