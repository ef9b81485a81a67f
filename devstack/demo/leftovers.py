"""Removes what an earlier demo left: running processes, unfinished DAG runs, keys in Redis."""

import shutil
from collections.abc import Callable

import psycopg
import redis

from devstack import airflow as airflow_settings
from devstack.demo.accounts import PREFIX
from devstack.stack import Stack
from sluice.errors import SluiceError

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
        say(f"Airflow's database is made anew, because the old one does not work: {str(error).splitlines()[0]}")
        shutil.rmtree(metadata.directory, ignore_errors=True)
        (stack.home.airflow / "secrets" / "connections.json").unlink(missing_ok=True)


def forget_replication(redis_url: str) -> None:
    """Deletes the prefix' leases, gates and status from Redis. Raises `redis.RedisError`."""
    client = redis.Redis.from_url(redis_url)
    for key in client.scan_iter(f"sluice:{PREFIX}:*"):
        client.delete(key)
    client.close()
