"""An admin holds a slave back: the gate's closure `admin`, kept beyond Redis.

Redis says it, where every apply looks each turn; CHECKPOINT on the slave keeps it (column `closed`). An apply commits
nothing while it stands there, and puts it back into Redis when Redis has lost it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from sluice.config import SlaveConfig
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.gate import ADMIN, Gate
from sluice.database.registry import vendor_of
from sluice.errors import SluiceError, Transient
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix


class NotKept(Transient):
    """The gate is closed in Redis only."""

    def __init__(self, prefix: Prefix, slave: str, reason: object):
        super().__init__(
            f"{prefix} → {slave}: the gate is closed, but in Redis only: {reason} "
            "Close it again when that is mended; until then emptying Redis opens it."
        )


class AdminClosure:
    """Closes and opens the gate of one slave for an admin. `info`: how to reach the slave."""

    def __init__(self, store: "redis.Redis", prefix: Prefix, slave: SlaveConfig, info: ConnectionInfo):
        self.gate = Gate(store, prefix, slave.name)
        self.prefix = prefix
        self.slave = slave
        self.info = info

    def close(self, by: str, reason: str) -> None:
        """When it returns, nothing is being applied: a transaction under way has ended.

        Raises `StoreUnreachable`, nothing being closed then, and `NotKept`.
        """
        closure = self.gate.close(ADMIN, by, reason)
        try:
            with self._checkpoints() as checkpoints:
                configured = checkpoints.read() is not None
                if configured:
                    checkpoints.upgrade()
                    checkpoints.close(closure.text())
        except SluiceError as error:
            raise NotKept(self.prefix, self.slave.name, error) from error
        if not configured:
            raise NotKept(self.prefix, self.slave.name, "the slave has no checkpoint before its initial update.")

    def open(self) -> bool:
        """False where no admin had closed it. Raises `StoreUnreachable`, and what tells that the slave is down: the
        gate stays closed then.
        """
        with self._checkpoints() as checkpoints:
            found = checkpoints.read()
            kept = bool(found and found.closed)
            if kept:
                checkpoints.close("")
        # Redis afterwards: an apply that starts meanwhile may have put it back before the row's lock was ours.
        return self.gate.open(ADMIN) or kept

    @contextmanager
    def _checkpoints(self) -> Iterator[CheckpointStore]:
        """The slave's checkpoint, in a transaction that no crash undoes."""
        driver = vendor_of(self.info.vendor).sessions
        connection = driver.connect(self.info, application=f"sluice {self.prefix} gate", autocommit=True)
        try:
            with connection.transaction(durable=True):
                yield CheckpointStore(connection, self.prefix, self.slave.schema, self.slave.name)
        finally:
            connection.close()
