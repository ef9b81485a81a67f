"""Finds a process outside this Airflow that holds the lease of a slave."""

import socket
import time
from collections.abc import Callable

from sluice.airflow.process_identity import ProcessIdentity
from sluice.config import Replication
from sluice.coordination import redis_store
from sluice.coordination.lease import Holder, holder, key


def foreign_holder(replication: Replication, slave: str, sleep: Callable[[float], None] = time.sleep) -> Holder | None:
    """The process that holds and renews the lease; None if there is none, or if Redis is down, for which the job waits.

    The lease of a dead process lasts until it expires. A process of this host is known to be dead by its pid, one of
    another host by waiting for the expiry.
    """
    client = redis_store.connect()
    name = key(replication.prefix, slave)
    deadline = time.monotonic() + replication.apply.lease + 1.0
    first: Holder | None = None
    while True:
        try:
            with redis_store.classified():
                current = holder(client, name)
        except redis_store.StoreUnreachable:
            return None
        if current is None or (current.host == socket.gethostname() and ProcessIdentity.of(current.pid) is None):
            return None
        if first is not None and current != first:
            return current  # another process took the lease just now
        first = current
        if time.monotonic() > deadline:
            return current
        sleep(0.5)
