"""Starts a demo's servers, and makes the databases of master and first slave while Airflow still starts."""

import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psycopg
import redis
import yaml

from devstack import airflow as airflow_settings
from devstack.demo import slave
from devstack.demo.accounts import PREFIX
from devstack.leftovers import read_process
from devstack.process import await_true
from devstack.runner import State
from devstack.services import MARIADB
from devstack.stack import UP_TIMEOUT, Stack
from sluice.errors import SluiceError, Terminal

# The demo's configuration: `DEMO.yaml` of this folder with a line for each of its slaves.

OF_VENDOR: dict[str, dict[str, object]] = {
    # MariaDB stores arrays, ranges and the like as texts.
    MARIADB: {"vendor": "mysql", "lossy_columns": "*.*.*"},
}
"""Additional settings in a slave's line, by the slave's name."""
SOURCE = Path(__file__).with_name("DEMO.yaml")
HEADER = "# Each ./sluice demo writes this file from devstack/demo/DEMO.yaml.\n"


def write(folder: Path, slaves: Iterable[str], master: Mapping[str, object] | None = None) -> Path:
    """Writes DEMO.yaml for these slaves into the folder, and returns its path. `master`: another one than its own."""
    values = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    if master is not None:
        values |= {"master": dict(master), "tables": {"public.*": {}}}
    template = next(iter(values["slaves"].values()))
    values["slaves"] = {name: {**template, "conn_id": f"demo_{name}", **OF_VENDOR.get(name, {})} for name in slaves}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "DEMO.yaml"
    file.write_text(HEADER + yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return file


# Removes what an earlier demo left: running processes, unfinished DAG runs, keys in Redis.

UNFINISHED = "DELETE FROM dag_run WHERE state IN ('queued', 'running')"


def clear(stack: Stack, say: Callable[[str], None]) -> None:
    """Stops what runs, and deletes unfinished DAG runs, which Airflow would resume. Raises the errors of
    `Stack.down`."""
    if stack.down():
        say("stopped what an earlier run had left running")
    metadata = stack.services.metadata
    if not (metadata.data / "PG_VERSION").exists():
        return
    try:
        metadata.start()
        try:
            with metadata.connect(airflow_settings.DATABASE) as connection:
                count = connection.execute(UNFINISHED).rowcount
        finally:
            metadata.stop()
        if count:
            say(f"deleted {count} unfinished DAG runs of an earlier demo")
    except (psycopg.Error, SluiceError) as error:
        say(f"Airflow's database is made again, because the old one does not work: {str(error).splitlines()[0]}")
        shutil.rmtree(metadata.directory, ignore_errors=True)
        (stack.home.airflow / "secrets" / "connections.json").unlink(missing_ok=True)


def forget_replication(redis_url: str) -> None:
    """Deletes the prefix' leases, gates and status from Redis. Raises `redis.RedisError`."""
    client = redis.Redis.from_url(redis_url)
    for key in client.scan_iter(f"sluice:{PREFIX}:*"):
        client.delete(key)
    client.close()


POLL = 0.1
SPARE_BYTES, BYTES_A_SCALE = 2 << 30, 80 << 20


def require_disk(folder: Path, scale: int, databases: int) -> None:
    """Raises `disk-too-small` when that many databases of the scale, with logs and queue, could fill the disk."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free, needed = shutil.disk_usage(existing).free, SPARE_BYTES + scale * BYTES_A_SCALE * databases
    if free < needed:
        raise Terminal(
            f"The disk of {folder} has {free >> 20:,} MB free, and this demo may need {needed >> 20:,} MB: choose a"
            f" smaller --scale, or another folder with SLUICE_HOME.",
            code="disk-too-small",
        )


def start(
    stack: Stack,
    needed: Sequence[str],
    make: Callable[[], None],
    scale: int,
    say: Callable[[str], None],
    enter: Callable[[str], None],
) -> None:
    """Starts everything, and returns when all runs. `needed`: the places of master and first slave; `make` makes the
    master in its server.

    It calls `enter` with the name of each stage. Raises the errors of
    `Stack.up`, `PgbenchFailed`, and the errors of psycopg and PyMySQL, after stopping everything.
    """
    with ThreadPoolExecutor(2) as pool:
        up = pool.submit(stack.up, lambda text: None)
        try:
            _make_databases(stack, needed, make, up, pool, enter)
            say(f"the master has its tables: pgbench's in scale {scale}, and the writer's")
            while not up.done():
                missing = [entry.name for entry in stack.status().services if entry.state is not State.RUNNING]
                enter("waiting for " + (", ".join(missing) or "Airflow"))
                time.sleep(POLL)
            up.result()
        except BaseException:
            _abandon(stack, up)
            raise


def _make_databases(
    stack: Stack,
    needed: Sequence[str],
    make: Callable[[], None],
    up: Future[None],
    pool: ThreadPoolExecutor,
    enter: Callable[[str], None],
) -> None:
    """Makes the databases as soon as their servers run; Airflow takes longer."""
    services = {"redis", *map(stack.services.service_of, needed)}

    def ready() -> bool:
        return up.done() or services.issubset(e.name for e in stack.status().services if e.state is State.RUNNING)

    await_true(ready, UP_TIMEOUT, POLL)
    if up.done():
        up.result()
    enter("making the master")
    forget_replication(stack.redis_url)
    prepared = pool.submit(slave.make, stack.services.server(needed[-1]))
    make()
    prepared.result()


def _abandon(stack: Stack, up: Future[None]) -> None:
    """Ends a start that another step made useless: it stops the supervisor, and `up` then fails."""
    reported = None
    while not up.done():
        supervisor = read_process(stack.home.supervisor)
        if supervisor and supervisor != reported:
            supervisor.send(signal.SIGTERM)
            reported = supervisor
        time.sleep(POLL)
