"""`monitor`: how long the monitor's overview takes over an open connection, from a Redis that knows that many slaves.

Each slave follows its master with an hour of history and twenty verified tables; every tenth has something to say. What
is asked of Redis is asked again for each page. Airflow is no part of it: its guard decides before who may look.
"""

import argparse
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import redis
import uvicorn

from benchmarks import machine
from benchmarks.progress import alternate
from benchmarks.report import Figure, Report, Run
from devstack.redis import RedisServer
from sluice.airflow.pages import gathering
from sluice.airflow.pages.access import Visitor
from sluice.airflow.pages.application import application
from sluice.coordination import lease
from sluice.coordination.lease import Holder
from sluice.coordination.records import History, Status
from sluice.coordination.verification_log import LastComparison, VerificationLog
from sluice.model.apply_status import ApplyStatus
from sluice.model.names import Prefix
from sluice.model.sample import Sample
from sluice.operate.actions import DAGS
from sluice.operate.open_runs import Airflow

QUIET = Airflow(asked=True, scheduler=datetime(9999, 1, 1, tzinfo=UTC))
"""Nothing runs in Airflow, which is no part of this."""
AIMS = {"500": (500, 200.0), "100": (100, 200.0)}
"""Figures: how many slaves, and the milliseconds that are aimed at."""
OF_A_MASTER = 25
TABLES = 20


def run(args: argparse.Namespace) -> Report:
    """A page a run, its milliseconds."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        store = RedisServer(Path(folder) / "redis", settings={"appendonly": "no"})
        store.start(die_with_parent=True)
        try:
            for name in args.figure or tuple(AIMS):
                slaves, aim = AIMS[name]
                with serving(Path(folder) / name, store.url, slaves) as url, httpx.Client(timeout=60) as client:
                    runs = alternate(name, {"ours": lambda: _page(client, url)}, args.rounds, args.warm_up)
                title = f"overview of {slaves} slaves"
                figures.append(Figure(title, "ms", runs["ours"], less_is_better=True, at_most=aim))
        finally:
            store.stop()
    return Report("monitor", figures, machine.describe())


def _page(client: httpx.Client, url: str) -> Run:
    began, used = time.perf_counter(), time.process_time()
    answer = client.get(url).raise_for_status()
    seconds, used = time.perf_counter() - began, time.process_time() - used
    return Run(1000 * seconds, seconds, {"page": used}, {"bytes": len(answer.content)})


@contextmanager
def serving(folder: Path, store_url: str, slaves: int) -> Iterator[str]:
    """The address of an overview with that many slaves."""
    names = [(Prefix(f"P{number // OF_A_MASTER}_"), f"dr{number}") for number in range(slaves)]
    _configure(folder, names)
    with redis.Redis.from_url(store_url, decode_responses=True) as client:
        client.flushdb()
        for number, (prefix, slave) in enumerate(names):
            _remember(client, prefix, slave, number)
    os.environ |= {"SLUICE_REPLICATIONS": str(folder), "SLUICE_REDIS_URL": store_url, "SLUICE_HOME": str(folder)}
    gathering.FRESH_SECONDS = 0.0
    visitor = Visitor("bench", frozenset(DAGS), True, "")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pages = application(lambda: folder, lambda: visitor, lambda: QUIET)
    server = uvicorn.Server(uvicorn.Config(pages, "127.0.0.1", port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(30)


def _configure(folder: Path, names: list[tuple[Prefix, str]]) -> None:
    folder.mkdir()
    for prefix in dict.fromkeys(prefix for prefix, _ in names):
        slaves = {slave: {"conn_id": slave} for own, slave in names if own == prefix}
        text = {"prefix": str(prefix), "master": {"conn_id": "m"}, "slaves": slaves, "tables": {"public.*": {}}}
        (folder / f"{prefix}.yaml").write_text(json.dumps(text))  # JSON is YAML


def _remember(client: "redis.Redis", prefix: Prefix, slave: str, number: int) -> None:
    """The status of an apply."""
    now = datetime.now(UTC)
    minute = int(time.time() // 60)
    status: ApplyStatus = {
        "state": "NORMAL", "activity": "applying", "safe_mode": "off", "message": "", "at": now.isoformat(),
        "current_as_of": now.isoformat(), "since": (now - timedelta(hours=31)).isoformat(), "rate": 100.0,
        "set_aside": ["public.orders"] if number % 10 == 0 else [],
    }  # fmt: skip
    Status(client, prefix, slave).write(status)
    client.set(lease.key(prefix, slave), json.dumps(asdict(Holder("host", 4711, "token"))))
    for back in range(60, 0, -1):
        History(client, prefix, slave).add(Sample(minute - back, 0.5, 6_000))
    verified = VerificationLog(client, prefix, slave)
    tables = [f"public.t{table}" for table in range(TABLES)]
    verified.expect(tables, now.isoformat())
    for table in tables:
        seen: LastComparison = {"outcome": "identical", "checked": now.isoformat(), "run": "daily", "rows": 1_000}
        verified.write(table, {**seen, "time": now.isoformat(), "position": ""})
