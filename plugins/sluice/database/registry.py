"""Vendors by name. A vendor's package and its driver are imported when it is first asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from sluice.database.control import RejectTable
from sluice.database.session import Session, SessionOptions
from sluice.database.vendor import Vendor
from sluice.domain.connection import ConnectionInfo
from sluice.domain.vendors import VENDORS
from sluice.errors import Terminal
from sluice.pair import Pair


class UnknownVendor(Terminal):
    """The configuration names a database vendor Sluice has no package for."""

    def __init__(self, vendor: str):
        super().__init__(f"{vendor!r} is no vendor Sluice knows. Known are: {', '.join(sorted(VENDORS))}.")
        self.vendor = vendor


def names() -> list[str]:
    """The vendors a configuration may name."""
    return sorted(VENDORS)


def vendor_of(name: str) -> Vendor:
    """Raises `UnknownVendor`."""
    if name not in VENDORS:
        raise UnknownVendor(name)
    module, _, member = VENDORS[name].member.partition(":")
    found: Vendor = getattr(import_module(module), member)
    return found


def rejects_of(pair: Pair, session: Session) -> RejectTable:
    """The rows of REJECTS of the pair's slave, over a session there."""
    slave = pair.slave
    return vendor_of(slave.vendor).control.RejectStore(session, pair.prefix, slave.schema, slave.name)


@contextmanager
def reach(info: ConnectionInfo, application: str, seconds: int | None = None) -> Iterator[Session]:
    """A session in autocommit mode that ends with the block.

    `seconds`: so long each statement may take. Raises `DatabaseUnreachable`, `DatabaseRefused`.
    """
    options = SessionOptions(statement_seconds=seconds)
    session = vendor_of(info.vendor).sessions.connect(info, application=application, autocommit=True, options=options)
    try:
        yield session
    finally:
        session.close()
