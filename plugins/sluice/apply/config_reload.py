"""Restarts the apply, in the same process, when its configuration file changes.

The apply notices a change between two windows. It then ends as when it is told to stop, and starts again with a new
epoch and in safe mode, so the change has the same effect as a restart of the process. A file with mistakes changes
nothing; log and status show the mistakes.
"""

import logging
import threading
from collections.abc import Mapping

import redis

from sluice.apply.apply_loop import ApplyLoop
from sluice.executor import Executor
from sluice.model.connection import ConnectionInfo
from sluice.pair import ConnectionNotGiven, Pair

log = logging.getLogger("sluice.apply")


def keep_applying(
    pair: Pair,
    connections: Mapping[str, ConnectionInfo],
    store: redis.Redis,
    executor: Executor,
    stop: threading.Event,
) -> None:
    """Applies until `stop` is set, and restarts whenever the configuration changes. Raises as `ApplyLoop.run`.

    `connections`: conn_id → how to reach it. Also returns when the file names a connection that is not among them,
    or another place to run: only a new job gets it.
    """
    loop = ApplyLoop(pair, store, executor, stop)
    while (changed := loop.run()) is not None:
        if changed.apply.runs_on != pair.replication.apply.runs_on:
            log.info("%s: it runs on %s from now on: the job ends, and starts there", pair, changed.apply.runs_on)
            return
        try:
            pair = Pair.of(changed, pair.slave.name, connections)
        except ConnectionNotGiven:
            log.info("%s: %s names another connection: the job ends, and starts again with it", pair, changed.source)
            return
        loop = ApplyLoop(pair, store, executor, stop, logged_in=loop.outages.logged_in)
