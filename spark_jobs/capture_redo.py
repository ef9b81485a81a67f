"""Captures one master from its own logs: `python -m spark_jobs.capture_redo < input.json`. Runs until SIGTERM."""

import sys
import threading
from functools import partial

from sluice import config
from sluice.coordination import redis_store
from sluice.database.registry import archived_logs
from sluice.model.vendors import BINLOG
from sluice.redo.supervisor import Supervisor
from spark_jobs.job import JobInput, main


def run(job: JobInput, stop: threading.Event) -> None:
    replication = config.load(job.prefix)
    conn_id = replication.redo.conn_id if replication.redo is not None else None
    archived = None
    if conn_id is not None:
        archived = partial(archived_logs, job.connections[conn_id], f"sluice {job.prefix} redo")
    database = job.connections[replication.master.conn_id] if replication.master.capture == BINLOG else None
    Supervisor(replication, redis_store.connect(job.redis_url), archived, database=database).run(stop)


if __name__ == "__main__":
    sys.exit(main(run))
