"""A strike hits, or the run fails: a strike without effect proves nothing."""

import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
import redis

from devstack.postgres import PostgresServer
from devstack.process import ProcessId, await_true
from spark_jobs.session import one_line
from tests.scenarios.faults import hand as hands
from tests.scenarios.faults.applies import Applies
from tests.scenarios.faults.hand import EXECUTOR, FILE_LIMITS, SPARK_FILES, Hand
from tests.scenarios.faults.plan import Fault, Strike, plan
from tests.scenarios.faults.servers import Servers
from workload.faults.proxy import Moment
from workload.faults.striker import never, nothing


def hand_of(
    servers: Servers,
    folder: Path,
    *strikes: Strike,
    applied: Callable[[], object] = time.monotonic,
    idle: Callable[[], None] = nothing,
) -> Hand:
    """A hand without an apply."""
    chosen = replace(plan(1), strikes=strikes)
    databases = {"master": "postgres", "slave": "postgres"}
    return Hand(chosen, servers, Applies({}, folder), databases, applied, list, nothing, never, idle)


@pytest.mark.long
def test_a_strike_at_a_server_that_is_down_is_tried_again_until_it_hits(servers: Servers, tmp_path: Path) -> None:
    turns = iter(range(1_000_000))

    def idle() -> None:
        if next(turns) == 30:
            servers.redis.start(die_with_parent=True)

    servers.redis.kill()
    hand = hand_of(servers, tmp_path, Strike(0.0, Fault.FLUSH_REDIS, hasty=True), idle=idle)
    hand.play()
    assert [said.split("  ")[-1] for said in hand.happened] == ["already after 0.00 s: FLUSHALL in Redis at once"]
    assert next(turns) > 30


@pytest.mark.one_in(3)
@pytest.mark.parametrize("strike", [
    Strike(0.0, Fault.KILL_APPLY),
    Strike(0.0, Fault.FREEZE_APPLY),
    Strike(0.0, Fault.KILL_APPLY, Moment.BEFORE_COMMIT),
    Strike(0.0, Fault.KILL_JVM),
    Strike(0.0, Fault.KILL_EXECUTOR),
    Strike(0.0, Fault.FULL_SPARK),
    Strike(0.0, Fault.KILL_LOAD),
    Strike(0.0, Fault.CUT, place="slave"),
    Strike(0.0, Fault.HALVE, place="redis", seconds=0.1),
    Strike(0.0, Fault.STALL, place="master", seconds=0.1),
    Strike(0.0, Fault.FULL_DISK, place="slave", seconds=0.1),
    Strike(0.0, Fault.TERMINATE_BACKENDS, place="master"),
], ids=str)  # fmt: skip
def test_a_strike_that_nothing_meets_fails_the_run(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strike: Strike
) -> None:
    monkeypatch.setattr(hands, "STRIKE_SECONDS", 0.3)
    hand = hand_of(servers, tmp_path, strike)
    try:
        with pytest.raises(AssertionError, match="nothing"):
            hand.play()
    finally:
        hand.heal()


def test_a_bad_connection_lasts_until_something_meets_it(servers: Servers, tmp_path: Path) -> None:
    turns = iter(range(1_000_000))
    with redis.Redis.from_url(servers.redis_url) as client:
        client.ping()

        def idle() -> None:
            if next(turns) == 30:
                with pytest.raises(redis.ConnectionError):
                    client.execute_command("PING", retry=None)

        halved = Strike(0.0, Fault.HALVE, place="redis", seconds=0.01)
        hand_of(servers, tmp_path, halved, idle=idle).play()
        assert client.ping()
    assert next(turns) > 30


@pytest.mark.long
def test_a_limit_on_files_is_met_though_the_servers_log_is_larger(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hands, "STRIKE_SECONDS", 10.0)
    slave = servers.slave
    assert isinstance(slave, PostgresServer)
    with open(slave.log, "ab") as log:
        log.write(b"\n" * FILE_LIMITS[Fault.FULL_DISK])
    with slave.connect() as connection:
        connection.execute("CREATE TABLE large AS SELECT repeat(n::text, 60) FROM generate_series(1, 1000) AS n")

        def idle() -> None:
            with suppress(psycopg.Error):
                connection.execute("INSERT INTO large SELECT * FROM large LIMIT 1000")

        hand = hand_of(servers, tmp_path, Strike(0.0, Fault.FULL_DISK, place="slave", seconds=0.1), idle=idle)
        try:
            hand.play()
        finally:
            hand.heal()
            connection.execute("DROP TABLE large")


@pytest.fixture
def cluster(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A stand-in for a Connect server and its two executors: processes that only wait."""
    words = ("SparkSubmit", EXECUTOR, EXECUTOR)
    started = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", word]) for word in words]

    def family() -> list[ProcessId]:
        return [found for process in started if process.poll() is None and (found := ProcessId.of(process.pid))]

    monkeypatch.setattr(servers, "_spark", SimpleNamespace(family=family))
    # Popen returns while the kernel still makes the new image, whose command line is empty until then.
    assert await_true(lambda: len(servers.spark_parts(EXECUTOR)) == 2, 60)
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_one_of_sparks_executors_is_killed(
    servers: Servers, tmp_path: Path, cluster: list[subprocess.Popen[bytes]]
) -> None:
    hand_of(servers, tmp_path, Strike(0.0, Fault.KILL_EXECUTOR)).play()
    server, one, other = cluster
    assert one.wait(10) == -signal.SIGKILL and server.poll() is None and other.poll() is None


def test_the_disk_of_spark_is_full_until_an_apply_says_so(
    servers: Servers, tmp_path: Path, cluster: list[subprocess.Popen[bytes]]
) -> None:
    server, *executors = cluster
    turns = iter(range(1_000_000))
    limits: list[int] = []

    def idle() -> None:
        if next(turns) == 30:
            limits.append(resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[0])
            (tmp_path / "apply-1.log").write_text(f"Spark: {one_line(OSError('No space left on device'))}")

    hand = hand_of(servers, tmp_path, Strike(0.0, Fault.FULL_SPARK, seconds=0.01, hasty=True), idle=idle)
    hand.play()
    assert next(turns) > 30 and limits == [SPARK_FILES]
    assert [executor.wait(10) for executor in executors] == [-signal.SIGKILL] * 2
    assert resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_run_in_which_nothing_is_applied_after_a_strike_fails(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hands, "PROGRESS_SECONDS", 0.3)
    hand = hand_of(servers, tmp_path, Strike(0.0, Fault.FLUSH_REDIS, hasty=True), applied=lambda: "the same")
    with pytest.raises(AssertionError, match="nothing is applied"):
        hand.play()
