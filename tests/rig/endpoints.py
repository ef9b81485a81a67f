"""Endpoints of Spark as in the input of a job."""

from typing import Any

CLUSTER: dict[str, Any] = {
    "master": "local-cluster[2,1,512]",
    "conf": {
        "spark.executor.memory": "512m",
        "spark.authenticate.secret": "of the test",
        # As on other machines: executors have only what the job sends.
        "spark.executorEnv.PYTHONPATH": "/nowhere",
    },
}
"""A master, two workers and their executors, each a process of its own, that live and die with the job."""


def secret_of(endpoint: dict[str, Any]) -> str:
    """The token of a Connect server, or the secret of a cluster."""
    remote = endpoint.get("remote", "")
    return str(remote.partition("token=")[2].partition(";")[0] or endpoint["conf"]["spark.authenticate.secret"])
