"""An apply goes on with what its configuration file says now.

A change is noticed between two windows. The apply then ends in order, as when it is told to stop, and begins anew in
the same process: it gives the lease back, takes the next epoch, and starts in safe mode. So a change means exactly what
it means after a restart. A file with mistakes changes nothing, and is told in the log and in the status.
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
    """Applies until `stop` is set, anew whenever the configuration changes. Raises what `ApplyLoop.run` raises.

    `connections`: conn_id → how to reach it. Returns as well when the file names other connections, which only a
    new job can be given.
    """
    while (changed := ApplyLoop(pair, store, executor, stop).run()) is not None:
        try:
            pair = Pair.of(changed, pair.slave.name, connections)
        except ConnectionNotGiven:
            log.info("%s: %s names another connection: the job ends, and starts again with it", pair, changed.source)
            return
