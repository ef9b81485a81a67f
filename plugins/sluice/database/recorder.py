"""Writing the changes of a master where another replication reads them, as its source."""

import threading
from pathlib import Path
from typing import Protocol

from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix


class Recorder(Protocol):
    """Goes on where the last one ended."""

    recorded: int
    """Changes, since this recorder began."""

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; outages are waited for. Raises `Terminal`."""
        ...

    def record_once(self) -> object:
        """What is there by now; the end of the source then. Raises `SluiceError`."""
        ...


class Merger(Protocol):
    """Merges the output of a master's redo threads into a source. Goes on where the last one ended."""

    merged: int
    """Transactions of the master, since this merge began."""

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; outages are waited for. Raises `Terminal`."""
        ...

    def merge_once(self) -> int:
        """All that can be merged by now; how many transactions wait for other threads. Raises `SluiceError`."""
        ...


class MergerClass(Protocol):
    """`root`: where the threads' folders are. `exact_names`: names are not made lower-case.

    `silent_seconds`: so long a thread may say nothing while transactions of others wait for it.
    """

    def __call__(
        self, root: Path, folder: Path, prefix: Prefix, *, exact_names: bool, silent_seconds: float
    ) -> Merger: ...


class RecorderClass(Protocol):
    """`schema`: where the replication's resources are on the master."""

    def __call__(self, info: ConnectionInfo, prefix: Prefix, schema: str, folder: Path) -> Recorder: ...
