"""Vendors by name. A vendor's package and its driver are imported at their first use."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

from sluice.database.change_log import ChangeLogClass
from sluice.database.redo_files import ArchivedLogs, DiskGroups
from sluice.database.session import Session, SessionOptions
from sluice.database.vendor import Master, RecordedSource, Source, Target
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.position import Position
from sluice.model.vendors import (
    FIRST,
    LOGGED_MASTERS,
    MASTERS,
    SOURCES,
    STREAM,
    VENDORS,
)


class UnknownVendor(Terminal):
    """The configuration names a vendor that Sluice has no package for."""

    def __init__(self, vendor: str):
        super().__init__(f"{vendor!r} is no vendor Sluice knows. Known are: {', '.join(sorted(VENDORS))}.")


def driver_missing(vendor: str, module: str) -> Terminal:
    """The driver of a vendor is not installed: a package of Sluice has it as an extra."""
    return Terminal(
        f"{module}, the driver of {vendor}, is not installed where this process runs. Install it there: "
        f"pip install 'sluice-replication[{vendor}]'.",
        code="driver-missing",
    )


def names() -> list[str]:
    """The vendors a configuration may name."""
    return sorted(VENDORS)


def no_database(name: str) -> Terminal:
    """The master of a replication is only a source of changes, not a database."""
    return Terminal(
        f"The master's changes come from a recorded {name}: there is no database to read rows from, to install "
        "anything in or to compare with. What works with it, and how a slave begins: docs/stream.md.",
        code="no-database",
    )


def not_a_master(name: str) -> Terminal:
    """The vendor serves as slave only."""
    return Terminal(
        f"{name} is for slaves only: changes are not captured there, and a slave there cannot become the master. "
        f"Name a connection of another vendor for the master: {', '.join(MASTERS)}.",
        code="not-a-master",
    )


def master_of(name: str) -> Master:
    """Raises `not-a-master`, `UnknownVendor`, `no-database`, `driver-missing`."""
    vendor = vendor_of(name)
    if name in LOGGED_MASTERS:
        return cast(Master, _member(VENDORS[name].logged_master))
    if name not in MASTERS:
        raise not_a_master(name)
    return cast(Master, vendor)


def vendor_of(name: str) -> Target:
    """Raises `UnknownVendor`, `no-database`, `driver-missing`."""
    if name in SOURCES:
        raise no_database(name)
    if name not in VENDORS:
        raise UnknownVendor(name)
    try:
        vendor: Target = _member(VENDORS[name].member)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("sluice"):
            raise
        raise driver_missing(name, missing.name or str(missing)) from missing
    return vendor


def source_of(name: str) -> Source:
    """The source of changes of this name: a vendor, or one of `SOURCES`. Raises `UnknownVendor`."""
    if name not in SOURCES:
        return master_of(name)
    source: Source = _member(SOURCES[name])
    return source


def has_rows(name: str) -> bool:
    """Whether the source of changes is a database with rows."""
    return name not in SOURCES


def recorded_source() -> RecordedSource:
    """The recorded streams."""
    source: RecordedSource = _member(SOURCES[STREAM])
    return source


def archived_logs(info: ConnectionInfo, application: str) -> ArchivedLogs:
    """A master's archived redo logs. Raises `DatabaseError`."""
    read: Callable[[Session], ArchivedLogs] = _member(VENDORS[info.vendor].archived_logs)
    with reach(info, application) as session:
        return read(session)


def disk_groups(info: ConnectionInfo) -> DiskGroups:
    """The files in a master's own storage, over the instance that `info` names."""
    made: Callable[[ConnectionInfo], DiskGroups] = _member(VENDORS[info.vendor].disk_groups)
    return made(info)


def change_log(vendor: str) -> ChangeLogClass | None:
    """What reads the log of a vendor's servers; None where changes are captured otherwise."""
    member = VENDORS[vendor].change_log
    made: ChangeLogClass | None = _member(member) if member else None
    return made


def _member(place: str) -> Any:
    module, _, member = place.partition(":")
    return getattr(import_module(module), member)


@contextmanager
def reach(info: ConnectionInfo, application: str, seconds: int | None = None) -> Iterator[Session]:
    """A session in autocommit mode that ends with the block.

    `seconds`: the time limit of each statement. Raises `DatabaseUnreachable`, `DatabaseRefused`.
    """
    options = SessionOptions(statement_seconds=seconds)
    session = vendor_of(info.vendor).sessions.connect(info, application=application, autocommit=True, options=options)
    try:
        yield session
    finally:
        session.close()


def parse_position(text: str) -> Position:
    """Reads a position from its text, stored on a slave of any vendor, in Redis, or in an answer.

    The text has its vendor under `vendor`; PostgreSQL's texts, which are older, do not. Raises `ValueError` for other
    text, `UnknownVendor`.
    """
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"{text!r} is no position")
    return source_of(str(values.get("vendor", FIRST))).position(text)
