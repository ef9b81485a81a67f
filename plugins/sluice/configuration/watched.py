"""Reads the file of a replication, and those that it points at, again when one of them has changed."""

from dataclasses import replace
from pathlib import Path

from sluice import config
from sluice.configuration.model import Replication

Mark = tuple[int, int, int]


class WatchedFile:
    """The files of one replication; `again` is cheap while nothing changes."""

    def __init__(self, replication: Replication):
        self._replication = replication
        self._read_at: tuple[Mark | None, ...] = ()

    def again(self) -> Replication | None:
        """The replication as its file has it now; None if the file has not changed since the last call.

        The first call always reads it. Raises as `config.load`, once a change.
        """
        marks = tuple(mark(file) for file in (self._replication.source, *self._replication.points_at))
        if marks == self._read_at:
            return None
        self._read_at = marks
        self._replication = config.again(self._replication)
        return self._replication


def used_by_apply(replication: Replication, slave: str) -> tuple[object, ...]:
    """The part of the configuration that the apply of a slave uses, for comparison after a change of the file.

    Raises `UnknownSlave`.
    """
    of_apply = replace(replication.slave(slave), existing_tables="", initial_files_location=None)
    of_all = replication.master, replication.apply, replication.tables, replication.ddl, replication.replicate
    return of_apply, *of_all


def mark(file: Path) -> Mark | None:
    """A value that changes with the file, even if it is replaced."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
