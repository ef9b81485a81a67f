"""The two databases of an initial update: sessions on them, and what is kept on the slave."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sluice import vendors
from sluice.database.session import Session
from sluice.domain.blocks import BlockMap
from sluice.domain.connection import ConnectionInfo
from sluice.initial.update import LoadTarget, Update


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


def checkpoints_of(target: LoadTarget, slave: Session) -> Any:
    """The checkpoint of the slave."""
    return _kept(target, slave, "checkpoint", "CheckpointStore")


def blocks_of(target: LoadTarget, slave: Session) -> Any:
    """The blocks of the slave."""
    return _kept(target, slave, "blocks", "BlockStore")


def block_map_of(target: LoadTarget, slave: Session) -> BlockMap:
    """All blocks of the slave, in one look. Raises `BlocksDamaged`."""
    module = vendors.module(target.slave_info.vendor, "blocks")
    found: BlockMap = module.load(slave, target.prefix, target.slave.schema, target.slave.name)
    return found


def throttle_of(target: LoadTarget, slave: Session) -> Any:
    """What the load of the slave is held to."""
    return _kept(target, slave, "throttle", "ThrottleStore")


@contextmanager
def _session(session: Session, info: ConnectionInfo) -> Iterator[Session]:
    try:
        yield session
    finally:
        session.close()


def _kept(target: LoadTarget, slave: Session, noun: str, store: str) -> Any:
    module = vendors.module(target.slave_info.vendor, noun)
    return getattr(module, store)(slave, target.prefix, target.slave.schema, target.slave.name)
