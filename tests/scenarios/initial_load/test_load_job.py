"""The load as a job: its exit codes and last words, killed, stopped, canceled; over Spark Connect and on a cluster."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from devstack.spark import SparkServer
from sluice.coordination.gate import Gate
from sluice.load import steps
from sluice.load.update import Update
from sluice.model.blocks import BlockState
from sluice.model.slave_state import SlaveState
from tests.rig.endpoints import CLUSTER
from tests.rig.rig import MakePair, Rig
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def big(pair_of: MakePair, tmp_path: Path) -> Rig:
    pair = pair_of(block_rows=2_000, seconds=0.05)
    pair.master.execute("CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.orders SELECT g, repeat(md5(g::text), 4) FROM generate_series(1, 300000) g")
    pair.master.execute("CREATE TABLE public.small (id int PRIMARY KEY); INSERT INTO public.small VALUES (1)")
    pair.capture()
    return pair


class Job:
    """A running `python -m spark_jobs.load`."""

    def __init__(self, pair: Rig, update: Update, endpoint: Any, redis_url: str = "redis://127.0.0.1:1/0"):
        infos = {"m": pair.master_info, "s": pair.slave_info}
        self.secrets = {info.password for info in infos.values()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.load"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
                "SLUICE_REPLICATIONS": str(pair.replication.source.parent),
            },
        )
        assert self.process.stdin is not None
        text = {
            "prefix": "DEMO_",
            "slave": "dr1",
            "connections": {name: info.to_dict() for name, info in infos.items()},
            "redis_url": redis_url,
            "update_id": update.update_id,
            "choice": update.selection.to_dict(),
            "spark": endpoint,
        }
        self.process.stdin.write(json.dumps(text))
        self.process.stdin.close()
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines += [line.rstrip("\n") for line in self.process.stdout]

    def ended(self) -> int:
        """Waits for the end; returns its exit code. Its output contains no password."""
        code = self.process.wait(300)
        self._reader.join(30)
        assert not any(secret in line for secret in self.secrets for line in self.lines)
        return code


def stored(pair: Rig) -> dict[int, Any]:
    return {block.number: block for block in pair.blocks("orders") if block.state is BlockState.STORED}


def begun(pair: Rig) -> set[str | None]:
    """The loaders that read a block."""
    return {block.loader for block in pair.blocks("orders") if block.state is BlockState.BEGUN}


def worker_of(job: Job, port: int) -> psutil.Process:
    """A process below the job that is connected to this port."""
    for child in psutil.Process(job.process.pid).children(recursive=True):
        with suppress(psutil.Error):
            if any(link.raddr and link.raddr.port == port for link in child.net_connections()):
                return child
    raise AssertionError(f"no process of the job speaks to port {port}")


@pytest.mark.long  # killed, from one snapshot: below; killed, its blocks: test_restart.py
def test_killed_then_run_to_its_end(big: Rig, endpoint: dict[str, Any]) -> None:
    update = big.update()
    big.prepare(update)
    first = Job(big, update, endpoint)
    until(lambda: bool(stored(big)) or first.process.poll() is not None, 300)
    first.process.send_signal(signal.SIGKILL)
    assert first.ended() == -signal.SIGKILL
    before = stored(big)
    second = Job(big, update, endpoint)
    assert second.ended() == 0, "\n".join(second.lines)
    after = stored(big)
    assert {number: after[number] for number in before} == before
    big.assert_equal()
    text = "\n".join(second.lines)
    assert "DEMO_ → dr1: 2 loaders, 2 tables" in text
    assert "loaded: " in second.lines[-1]


def test_stopped_it_may_be_started_again_and_canceled_it_says_why(big: Rig, endpoint: dict[str, Any]) -> None:
    update = big.update()
    big.prepare(update)
    big.slow_down("public.orders", 0.0005)
    stopped = Job(big, update, endpoint)
    until(lambda: bool(begun(big)), 300)
    stopped.process.send_signal(signal.SIGTERM)
    assert stopped.ended() == 75, "\n".join(stopped.lines)
    assert "told to stop" in stopped.lines[-1]
    assert not any(block.state is BlockState.BEGUN for block in big.blocks())

    canceled = Job(big, update, endpoint)
    until(lambda: bool(begun(big)), 300)
    assert steps.cancel(update, big.store)
    assert canceled.ended() == 78
    assert "the slave is INCONSISTENT (Initial Update interrupted by the ADMIN)" in canceled.lines[-1]


@pytest.mark.long
def test_an_executor_and_a_worker_process_that_die_cost_their_block_and_not_the_load(big: Rig) -> None:
    update = big.update()
    big.prepare(update)
    big.slow_down("public.orders", 0.0005)
    job = Job(big, update, CLUSTER)
    until(lambda: bool(begun(big)), 300)
    worker = worker_of(job, big.master_info.port)
    seen = begun(big)
    worker.kill()
    until(lambda: begun(big) - seen != set() or job.process.poll() is not None)
    executor = next(parent for parent in worker_of(job, big.master_info.port).parents() if parent.name() == "java")
    executor.kill()
    big.full_speed()
    assert job.ended() == 0, "\n".join(job.lines)
    big.assert_equal()


@pytest.mark.long
def test_from_one_snapshot_it_begins_anew_when_killed_and_ends_in_normal_with_the_gate_open(
    big: Rig, redis_url: str, spark: SparkServer
) -> None:
    endpoint = {"remote": spark.server.url}
    update = big.update(read="snapshot")
    big.prepare(update)
    assert Gate(big.store, update.prefix, "dr1").closures()
    first = Job(big, update, endpoint, redis_url)
    until(lambda: bool(stored(big)) or first.process.poll() is not None, 300)
    first.process.send_signal(signal.SIGKILL)
    assert first.ended() == -signal.SIGKILL
    big.master.execute("UPDATE public.orders SET v = 'later' WHERE id % 1000 = 0")
    second = Job(big, update, endpoint, redis_url)
    assert second.ended() == 0, "\n".join(second.lines)
    assert any("it starts over with a new one" in line for line in second.lines)
    assert big.state() is SlaveState.NORMAL
    assert Gate(big.store, update.prefix, "dr1").closures() == []
    assert len({block.marker for block in big.blocks()}) == 1
    big.assert_equal()
    # Once more, as when it was killed before Airflow heard of its end: there is nothing to do.
    assert Job(big, update, endpoint, redis_url).ended() == 0
