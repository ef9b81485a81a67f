"""What an earlier demo left behind, however it ended, and how the next one gets rid of it."""

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
    """Stop what runs, and let Airflow forget the runs it would otherwise resume. Raises what `Stack.down` raises."""
    if stack.down():
        say("stopped what an earlier run had left up")
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
            say(f"forgot {count} unfinished DAG runs of an earlier demo")
    except (psycopg.Error, SluiceError) as error:
        say(f"Airflow's database is made anew, the old one is of no use: {str(error).splitlines()[0]}")
        shutil.rmtree(metadata.directory, ignore_errors=True)
        (stack.home.airflow / "secrets" / "connections.json").unlink(missing_ok=True)


def forget_replication(redis_url: str) -> None:
    """Remove the prefix' leases, gates and status from Redis. Raises `redis.RedisError`."""
    client = redis.Redis.from_url(redis_url)
    for key in client.scan_iter(f"sluice:{PREFIX}:*"):
        client.delete(key)
    client.close()
