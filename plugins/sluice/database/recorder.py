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


class RecorderClass(Protocol):
    """`schema`: where the replication's resources are on the master."""

    def __call__(self, info: ConnectionInfo, prefix: Prefix, schema: str, folder: Path) -> Recorder: ...
