"""Distinguishes the lease of a dead apply from one that a living process holds elsewhere."""

import json
import os
import socket
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from sluice.airflow.apply_operator import foreign_holder
from sluice.coordination.lease import key
from sluice.model.names import Prefix
from tests.waiting import until

REPLICATION: Any = SimpleNamespace(prefix=Prefix("DEMO_"), apply=SimpleNamespace(lease=1.0))
KEY = key(Prefix("DEMO_"), "dr1")


@pytest.fixture
def client(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    return redis.from_url(redis_url)


def hold(client: Any, host: str, pid: int, seconds: float) -> None:
    client.set(KEY, json.dumps({"host": host, "pid": pid, "token": "t"}), px=int(seconds * 1000))


def test_a_lease_that_nobody_holds_has_no_foreign_holder(client: Any) -> None:
    assert foreign_holder(REPLICATION, "dr1") is None


def test_a_dead_process_of_this_host_is_known_at_once(client: Any) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    hold(client, socket.gethostname(), child.pid, 600)
    assert foreign_holder(REPLICATION, "dr1") is None
    assert client.pttl(KEY) > 0, "before the lease expired"


def test_a_zombie_counts_as_dead(client: Any) -> None:
    child = subprocess.Popen(["true"])
    until(lambda: b") Z" in Path(f"/proc/{child.pid}/stat").read_bytes())
    hold(client, socket.gethostname(), child.pid, 30)
    assert foreign_holder(REPLICATION, "dr1") is None
    child.wait()


def test_a_dead_process_elsewhere_is_known_when_its_lease_expires(client: Any) -> None:
    hold(client, "elsewhere", 1, 1.0)
    assert foreign_holder(REPLICATION, "dr1") is None


@pytest.mark.parametrize("host", ["elsewhere", socket.gethostname()])
def test_a_holder_that_renews_is_alive_and_named(client: Any, host: str) -> None:
    done = threading.Event()

    def renew() -> None:
        while not done.is_set():
            hold(client, host, os.getpid(), 1.0)
            done.wait(0.2)

    hold(client, host, os.getpid(), 1.0)
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        found = foreign_holder(REPLICATION, "dr1")
    finally:
        done.set()
        thread.join()
    assert str(found) == f"process {os.getpid()} on {host}"


def test_an_unreachable_redis_is_left_to_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_REDIS_URL", "redis://127.0.0.1:1/0")
    assert foreign_holder(REPLICATION, "dr1") is None
