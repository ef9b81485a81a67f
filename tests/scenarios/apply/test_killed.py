"""The apply as a process of its own: killed at random moments under traffic, the slave ends equal.

While it runs a reader on the slave checks that what it sees is a state the master had: every
transaction of the traffic keeps the sum of all balances at zero, on every table at once.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from sluice.vendors.postgres.connection import connect
from tests.scenarios.apply.rig import Rig

REPOSITORY = Path(__file__).resolve().parents[3]
TABLES = """
CREATE TABLE public.a (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE public.b (id int PRIMARY KEY, place int UNIQUE DEFERRABLE INITIALLY IMMEDIATE, balance bigint NOT NULL);
CREATE TABLE public.log (delta bigint, note text);
"""
SUM = (
    "SELECT (SELECT coalesce(sum(balance), 0) FROM public.a) + (SELECT coalesce(sum(balance), 0) FROM public.b)"
    " + (SELECT coalesce(sum(delta), 0) FROM public.log)"
)


class Traffic(threading.Thread):
    """Transactions that move amounts between tables, change keys, insert and delete; some are rolled back."""

    def __init__(self, rig: Rig, seed: int):
        super().__init__(daemon=True)
        self.chance = random.Random(seed)
        self.connection = connect(rig.pair.master_info, application="traffic")
        self.enough = threading.Event()
        self.transactions = 0

    def run(self) -> None:
        while not self.enough.is_set():
            for _ in range(self.chance.randint(1, 8)):
                self._move()
            if self.chance.random() < 0.1:
                self.connection.rollback()
            else:
                self.connection.commit()
                self.transactions += 1

    def _move(self) -> None:
        amount, key = self.chance.randint(1, 100), self.chance.randint(1, 300)
        execute = self.connection.execute
        upsert = (
            "INSERT INTO public.{} (id, balance) VALUES (%s, %s)"
            " ON CONFLICT (id) DO UPDATE SET balance = {}.balance + %s"
        )
        choice = self.chance.random()
        if choice < 0.6:
            execute(upsert.format("a", "a"), [key, amount, amount])
            execute(upsert.format("b", "b"), [key + 1, -amount, -amount])
        elif choice < 0.75:
            execute(upsert.format("a", "a"), [key, amount, amount])
            execute("INSERT INTO public.log VALUES (%s, %s)", [-amount, "x"])
        elif choice < 0.85:
            execute("WITH gone AS (DELETE FROM public.b WHERE id = %s RETURNING balance)"
                    " INSERT INTO public.log SELECT balance, E'gone\\n' FROM gone", [key])  # fmt: skip
        elif choice < 0.95:
            execute("UPDATE public.a SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM public.a WHERE id = %s)",
                    [-key, key, -key])  # fmt: skip
        else:
            execute("DELETE FROM public.log WHERE ctid = (SELECT min(ctid) FROM public.log) AND delta = 0")


class Watcher(threading.Thread):
    """Reads the slave all the time and keeps every sum that is not zero."""

    def __init__(self, rig: Rig):
        super().__init__(daemon=True)
        self.connection = connect(rig.pair.slave_info, application="watcher", autocommit=True)
        self.enough = threading.Event()
        self.looks = 0
        self.torn: list[int] = []

    def run(self) -> None:
        while not self.enough.is_set():
            row = self.connection.execute(SUM).fetchone()
            assert row is not None
            self.looks += 1
            if row[0] != 0:
                self.torn.append(row[0])
            self.enough.wait(0.005)


def start(rig: Rig) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'plugins'}"}
    job = subprocess.Popen(
        [sys.executable, "-m", "spark_jobs.apply"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=REPOSITORY,
        env=environment,
        start_new_session=True,
    )
    assert job.stdin is not None
    infos = {"m": rig.pair.master_info.to_dict(), "s": rig.pair.slave_info.to_dict()}
    json.dump(
        {"prefix": "DEMO_", "slave": "dr1", "connections": infos, "redis_url": rig.redis_url,
         "spark": {"master": "local[2]"}}, job.stdin,
    )  # fmt: skip
    job.stdin.close()
    return job


def kill(job: "subprocess.Popen[str]") -> None:
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_moments_it_goes_on_and_ends_equal(rig: Callable[..., Rig], seed: int) -> None:
    pair = rig(TABLES, interval=1.0)
    chance = random.Random(seed)
    traffic, watcher = Traffic(pair, seed), Watcher(pair)
    traffic.start()
    watcher.start()
    job = start(pair)
    try:
        for _ in range(4):
            before = pair.checkpoint
            pair.await_that(lambda before=before: pair.checkpoint.changes > before.changes + 50, 60)  # type: ignore[misc]
            time.sleep(chance.random() * 0.4)
            kill(job)
            # Also inside a transaction: the server may still be rolling it back when the next one starts.
            job = start(pair)
        traffic.enough.set()
        traffic.join()
        pair.await_current(60)
    finally:
        traffic.enough.set()
        kill(job)
    watcher.enough.set()
    watcher.join()
    assert pair.differences() == {}
    assert watcher.torn == [], "every state a reader sees is a state the master had"
    assert watcher.looks > 50
    assert traffic.transactions > 50
    assert isinstance(traffic.connection, psycopg.Connection)
