"""Writing the changes of a master where another replication reads them, as its source."""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from sluice.database.change_log import LogPlace
from sluice.model.names import TableName
from sluice.model.position import Moment, Position


class Recorder(Protocol):
    """Continues where the last one ended."""

    recorded: int
    """Changes, since this recorder began."""

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; outages are waited for. Raises `Terminal`."""
        ...

    def record_once(self) -> object:
        """Records what there is now. Returns the end of the source. Raises `SluiceError`."""
        ...


class Merger(Protocol):
    """Merges the output of a master's redo threads into a source. Continues where the last one ended."""

    merged: int
    """Transactions of the master, since this merge began."""

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; outages are waited for. Raises `Terminal`."""
        ...

    def merge_once(self) -> int:
        """Merges everything that is possible now. Returns how many transactions wait for other threads. Raises
        `SluiceError`."""
        ...


@dataclass(frozen=True)
class MergeOptions:
    """The options of a merge."""

    exact_names: bool = False
    """Names are not lower-cased."""
    silent_seconds: float = 900.0
    """How many seconds a thread may be silent while transactions of others wait for it."""
    frees: bool = False
    """Files that are no longer needed are deleted."""
    ends_at: Collection[int] = ()
    """SCNs at which a transaction of the source ends, for slaves that continue there."""


DEFAULTS = MergeOptions()


class RedoStream(Protocol):
    """The stream of a master's merged redo, for readers of the master's rows beside it."""

    def moment(self, resetlogs: int) -> Moment:
        """The end of the stream, and the SCN as of which the master shows exactly that. `resetlogs`: RESETLOGS_ID of
        the master.

        Raises `DataLost` if the stream belongs to another one, or has lost changes, `Transient` if it ends between two
        commits of one SCN.
        """
        ...

    def secure(self, position: Position) -> None:
        """The stream is on the disk up to `position`."""
        ...

    def begins(self) -> int:
        """The SCN with which it begins: what was committed up to there is not in it, and no transaction that began
        before it. Raises `Transient` while there is nothing."""
        ...

    def incarnations(self) -> Collection[int]:
        """RESETLOGS_ID of those whose redo is in it. Raises `Transient` while there is nothing."""
        ...

    def threads(self) -> Collection[int]:
        """Redo threads of the newest of them that are in it, or are waited for. Raises `Transient` while there is
        nothing."""
        ...

    def complete_from(self) -> int | None:
        """The SCN at which every transaction that began before the stream had ended; None if unknown."""
        ...

    def keep_complete_from(self, scn: int) -> None:
        """Stores this SCN permanently. Raises `Transient`."""
        ...

    def keys(self) -> Mapping[TableName, tuple[str, ...]]:
        """The tables whose changes come, with the columns of their keys in the order in which changes have them."""
        ...


class Receiver(Protocol):
    """Receives the output of one redo thread, and puts it on the disk."""

    messages: int
    """Since it began."""
    last_heard: float
    """When anything came last, on the monotonic clock; 0 before that."""
    durable: tuple[int, int] | None
    """SCN and index up to which all is on the disk."""
    ddl: int
    """The SCN of the last change of a definition that came and was not passed on; 0 for none. It outlives a crash."""
    sequence: int
    """The sequence of the log from which the last checkpoint came; 0 before that."""
    time: float
    """Seconds since the epoch on the master, of the last checkpoint; 0 before that."""

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; connects again whenever the connection ends. Raises `Terminal`."""
        ...

    def passed_on(self, ddl: int) -> None:
        """Records that the programs of all other threads have the tables after the DDL at that SCN."""
        ...


class LogRecorder(Recorder, Protocol):
    """Records a database's own log."""

    place: LogPlace | None
    """Up to where the log is recorded; None before the first connection."""
    current_as_of: float
    """All that was committed by then is recorded; in seconds since the epoch."""
    outage: str
    """Why nothing is recorded just now; empty if something is."""
    kept_seconds: float | None
    """After so long the server deletes a file of its log; None: never, or it is not known."""
