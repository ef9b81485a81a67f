"""A process that verifies or repairs one table, and that can be killed and frozen.

On stdin the input of a job (`spark_jobs.job`), and: `action`; `silent`, `wait` and `idle`, seconds that replace those
of the product; `hold`: whether each digest first waits for the advisory lock `HELD`, which the test holds. On stdout
one JSON object.
"""

import json
import os
import sys
import threading
import time
from typing import Any

from sluice import config
from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.pair import Pair
from sluice.vendors.postgres import digester
from sluice.verify import apply_client, pinned_sessions, resync
from sluice.verify.compare import CompareOptions
from sluice.verify.resync import Action
from spark_jobs.job import JobInput

HELD = 4711


def main() -> None:
    job = JobInput.read(sys.stdin.read())
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    extra = job.extra
    pinned_sessions.SILENT_SECONDS, pinned_sessions.IDLE_SECONDS = extra["silent"], extra["idle"]
    pinned_sessions.PING_SECONDS = extra["idle"] / 4
    apply_client.WAIT_SECONDS = extra["wait"]
    resync.ROWS_A_REQUEST = 2
    if extra["hold"]:
        digester.TableDigest.of_blocks = _held  # type: ignore[method-assign]
    pair = Pair.of(config.load(job.prefix), job.slave, job.connections)
    store = redis_store.connect(job.redis_url)
    result = resync.resync(pair, store, TableName("public", "t"), CompareOptions(), Action(extra["action"]), None)
    told = {
        "outcome": str(result.outcome), "reason": (result.after or result.finding).reason, "repaired": result.repaired,
        "refused": result.refused, "faults": result.finding.faults,
    }  # fmt: skip
    print(json.dumps(told), flush=True)


_of_blocks = digester.TableDigest.of_blocks


def _held(self: Any, connection: Any, part: Any) -> Any:
    connection.execute("SELECT pg_advisory_lock_shared(%s)", [HELD])
    return _of_blocks(self, connection, part)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main()
