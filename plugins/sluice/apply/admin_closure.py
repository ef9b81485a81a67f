"""An admin's closure of the gate, kept in Redis and on the slave.

An apply reads the gate in Redis in every turn. CHECKPOINT on the slave (column `closed`) keeps the closure durably: an
apply commits nothing while it is there, and restores it in Redis where Redis has lost it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from sluice.configuration.model import SlaveConfig
from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.gate import ADMIN, Gate
from sluice.database.registry import vendor_of
from sluice.errors import SluiceError, Transient
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix


def closure_not_stored(prefix: Prefix, slave: str, reason: object) -> Transient:
    """The closure is in Redis, but not on the slave."""
    return Transient(
        f"{prefix} → {slave}: the gate is closed, but in Redis only: {reason} "
        "Close it again when that is fixed; until then emptying Redis opens it.",
        code="closure-not-stored",
    )


class AdminClosure:
    """Closes and opens the gate of one slave for an admin. `info`: how to reach the slave."""

    def __init__(self, store: "redis.Redis", prefix: Prefix, slave: SlaveConfig, info: ConnectionInfo):
        self.gate = Gate(store, prefix, slave.name)
        self.prefix = prefix
        self.slave = slave
        self.info = info

    def close(self, by: str, reason: str) -> None:
        """Closes the gate, and returns when the apply's open transaction has ended.

        Raises `StoreUnreachable`, then nothing is closed, and `closure-not-stored`.
        """
        closure = self.gate.close(ADMIN, by, reason)
        try:
            with self._checkpoints() as checkpoints:
                configured = checkpoints.read() is not None
                if configured:
                    checkpoints.upgrade()
                    checkpoints.close(closure.text())
        except SluiceError as error:
            raise closure_not_stored(self.prefix, self.slave.name, error) from error
        if not configured:
            raise closure_not_stored(
                self.prefix, self.slave.name, "the slave has no checkpoint before its initial update."
            )

    def open(self) -> bool:
        """Opens the gate; False if no admin had closed it. The gate stays closed when this raises.

        Raises `StoreUnreachable`, `DatabaseUnreachable`, `DatabaseRefused`.
        """
        with self._checkpoints() as checkpoints:
            checkpoint = checkpoints.read()
            kept = bool(checkpoint and checkpoint.closed)
            if kept:
                checkpoints.close("")
        # Redis last: before we had the row's lock, an apply that started may have restored the closure there.
        return self.gate.open(ADMIN) or kept

    @contextmanager
    def _checkpoints(self) -> Iterator[CheckpointStore]:
        """The slave's checkpoint, in a durable transaction."""
        driver = vendor_of(self.info.vendor).sessions
        connection = driver.connect(self.info, application=f"sluice {self.prefix} gate", autocommit=True)
        try:
            with connection.transaction(durable=True):
                yield CheckpointStore(connection, self.prefix, self.slave.schema, self.slave.name)
        finally:
            connection.close()
