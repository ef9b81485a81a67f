"""Endpoints of Spark."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_jobs.server import ConnectServer
from tests.waiting import until

CLUSTER: dict[str, Any] = {
    "master": "local-cluster[2,1,512]",
    "conf": {
        "spark.executor.memory": "512m",
        # They live for seconds: the JIT compiler would take most of their CPU.
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.authenticate.secret": "of the test",
        # As on other machines: executors have only what the job sends.
        "spark.executorEnv.PYTHONPATH": "/nowhere",
    },
}
"""A master, two workers and their executors, each a separate process, that live and die with the job."""


def secret_of(endpoint: dict[str, Any]) -> str:
    """The token of a Connect server, or the secret of a cluster."""
    remote = endpoint.get("remote", "")
    return str(remote.partition("token=")[2].partition(";")[0] or endpoint["conf"]["spark.authenticate.secret"])


@contextmanager
def like_a_cluster(
    *paths: Path, python: str = sys.executable, master: str = "local[2]", conf: Mapping[str, str] | None = None
) -> Iterator[ConnectServer]:
    """A server like a cluster's, each session with its own files. It and its workers import only from `paths`, and
    run `python`."""
    own = {"spark.python.daemon.module": "pyspark.daemon", **(conf or {})}
    isolated = dict.fromkeys(("enabled", "alwaysApplyClassloader"), "true")
    server = ConnectServer.temporary(
        master, own | {f"spark.sql.artifact.isolation.{name}": on for name, on in isolated.items()}
    )
    try:
        server.prepare()
        found = {**server.environment(), "PYTHONPATH": ":".join(map(str, paths)), "PYSPARK_PYTHON": python}
        with open(server.log, "wb") as output:
            child = server.spawn(output, environment=found, dies=True)
        until(lambda: server.listens() or child.poll() is not None)
        assert child.poll() is None, server.log.read_text()
        yield server
    finally:
        server.remove()
