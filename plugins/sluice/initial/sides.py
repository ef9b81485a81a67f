"""The two databases of an initial update: sessions on them, and what is kept on the slave."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from sluice import vendors
from sluice.domain.blocks import BlockMap
from sluice.domain.connection import ConnectionInfo
from sluice.initial.update import LoadTarget, Update


@contextmanager
def on_slave(target: LoadTarget) -> Iterator[Connection[Any]]:
    """A session on the slave, in autocommit; the driver's errors come out classified."""
    with _session(target.connect_slave(), target.slave_info) as session:
        yield session


@contextmanager
def on_master(update: Update) -> Iterator[Connection[Any]]:
    """The same on the master."""
    with _session(update.connect_master(), update.master_info) as session:
        yield session


def checkpoints_of(target: LoadTarget, slave: Connection[Any]) -> Any:
    """The checkpoint of the slave."""
    return _kept(target, slave, "checkpoint", "CheckpointStore")


def blocks_of(target: LoadTarget, slave: Connection[Any]) -> Any:
    """The blocks of the slave."""
    return _kept(target, slave, "blocks", "BlockStore")


def block_map_of(target: LoadTarget, slave: Connection[Any]) -> BlockMap:
    """All blocks of the slave, in one look. Raises `BlocksDamaged`."""
    module = vendors.module(target.slave_info.vendor, "blocks")
    found: BlockMap = module.load(slave, target.prefix, target.slave.schema, target.slave.name)
    return found


def throttle_of(target: LoadTarget, slave: Connection[Any]) -> Any:
    """What the load of the slave is held to."""
    return _kept(target, slave, "throttle", "ThrottleStore")


@contextmanager
def _session(session: Connection[Any], info: ConnectionInfo) -> Iterator[Connection[Any]]:
    try:
        with vendors.module(info.vendor, "connection").classified(info):
            yield session
    finally:
        session.close()


def _kept(target: LoadTarget, slave: Connection[Any], noun: str, store: str) -> Any:
    module = vendors.module(target.slave_info.vendor, noun)
    return getattr(module, store)(slave, target.prefix, target.slave.schema, target.slave.name)
