"""Applies that are killed at a given statement on the slave, each a separate process.

    python -m tests.scenarios.mariadb.killed_apply < job

The first line of standard input is the job as JSON: `connections` (of the replication DEMO_) and `redis_url`. Each
further line is a place: the number of a statement on the slave, counted from the start of an apply, and `before` or
`after`. An apply is started that kills itself there; a line answers with how its process ended. What is imported is
imported once: a process is forked for each apply.
"""

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from sluice import config
from sluice.apply.apply_loop import ApplyLoop
from sluice.coordination import redis_store
from sluice.executor import ThreadExecutor
from sluice.model.connection import ConnectionInfo
from sluice.pair import Pair
from sluice.vendors.common.session import Result
from sluice.vendors.mysql import connection, merge, sessions, tables, vendor
from sluice.vendors.mysql.connection import MySQLSession

FORKED_WITH = (connection, vendor, merge, sessions, tables)
"""What an apply imports when it is needed: here before any is forked."""


def main() -> None:
    given = json.loads(sys.stdin.readline())
    infos = {name: ConnectionInfo.from_dict(values) for name, values in given["connections"].items()}
    store = redis_store.connect(given["redis_url"])
    for line in sys.stdin:
        number, moment = line.split()
        store.delete("sluice:DEMO_:dr1:lease")  # of the one that was killed: nobody waits until it expires
        child = os.fork()
        if child == 0:
            die_at(int(number), moment == "after")
            apply(Pair.of(config.load("DEMO_"), "dr1", infos), given["redis_url"])
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else f"ended with {os.waitstatus_to_exitcode(status)}", flush=True)


def die_at(number: int, after: bool) -> None:
    """From now on the process is killed before or after its `number`-th statement on the slave."""
    run, seen = MySQLSession.run, [0]

    def counted(session: MySQLSession, query: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Result:
        seen[0] += 1
        last = seen[0] == number
        if last and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = run(session, query, params)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    MySQLSession.run = counted  # type: ignore[method-assign]


def apply(pair: Pair, redis_url: str) -> None:
    try:
        ApplyLoop(pair, redis_store.connect(redis_url), ThreadExecutor(2), threading.Event()).run()
    except BaseException:
        traceback.print_exc()
    os._exit(1)  # an apply that ends by itself has found something wrong


if __name__ == "__main__":
    main()
