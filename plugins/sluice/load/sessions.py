"""The two databases of an initial update: sessions on them, and what is kept on the slave."""

from collections.abc import Iterator
from contextlib import contextmanager

from sluice.control.blocks import BlockStore, block_map
from sluice.control.checkpoint import CheckpointStore
from sluice.control.load_owner import LoadOwner
from sluice.control.throttle import ThrottleStore
from sluice.database.session import Session
from sluice.load.update import LoadTarget, Update
from sluice.model.blocks import BlockMap
from sluice.model.connection import ConnectionInfo


@contextmanager
def on_slave(target: LoadTarget) -> Iterator[Session]:
    """A session on the slave, in autocommit; the driver's errors come out classified."""
    with _session(target.connect_slave(), target.slave_info) as session:
        yield session


@contextmanager
def on_master(update: Update) -> Iterator[Session]:
    """The same on the master."""
    with _session(update.connect_master(), update.master_info) as session:
        yield session


def checkpoints_of(target: LoadTarget, slave: Session) -> CheckpointStore:
    """The checkpoint of the slave."""
    return CheckpointStore(slave, target.prefix, target.slave.schema, target.slave.name)


def blocks_of(target: LoadTarget, slave: Session) -> BlockStore:
    """The blocks of the slave."""
    return BlockStore(slave, target.prefix, target.slave.schema, target.slave.name)


def block_map_of(target: LoadTarget, slave: Session) -> BlockMap:
    """All blocks of the slave, in one look. Raises `BlocksDamaged`."""
    return block_map(slave, target.prefix, target.slave.schema, target.slave.name)


def load_owner_of(target: LoadTarget, slave: Session) -> LoadOwner:
    """Which initial update owns the slave."""
    return LoadOwner(slave, target.prefix, target.slave.schema, target.slave.name)


def throttle_of(target: LoadTarget, slave: Session) -> ThrottleStore:
    """What the load of the slave is held to."""
    return ThrottleStore(slave, target.prefix, target.slave.schema, target.slave.name)


@contextmanager
def _session(session: Session, info: ConnectionInfo) -> Iterator[Session]:
    try:
        yield session
    finally:
        session.close()
