"""A session on the folder of a recorded stream, with the part of a session that reading changes needs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import LiteralString

from sluice.database.registry import no_database
from sluice.database.session import PLAIN, Rows, Session, SessionOptions
from sluice.model.connection import ConnectionInfo
from sluice.model.vendors import STREAM
from sluice.vendors.stream.files import Files


class StreamSession:
    """Holds the indexes of the files. Nothing is written, so transactions have no effect."""

    vendor = STREAM

    def __init__(self, folder: Path):
        self.files = Files(folder)
        self.secured: tuple[Path, int] | None = None
        """A file, and how far it is known to be on disk."""
        self.closed = False
        self.broken = False

    def __enter__(self) -> "StreamSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(
        self, query: LiteralString | bytes, params: Sequence[object] | Mapping[str, object] | None = None, /
    ) -> Rows:
        """Raises `no-database`: no server can run statements."""
        raise no_database(STREAM)

    def execute_many(self, query: LiteralString, rows: Sequence[Mapping[str, object]], /) -> None:
        """Raises `no-database`."""
        raise no_database(STREAM)

    @contextmanager
    def transaction(
        self, *, durable: bool | None = None, first: Callable[[], object] | None = None
    ) -> Iterator[object]:
        if first is not None:
            first()
        yield None

    def expect_idle(self) -> None:
        """Always true."""

    def ping(self) -> None:
        """Raises `StreamUnreachable`."""
        self.files.names()

    def clock(self) -> datetime:
        return datetime.now(UTC)

    def limit_lock_waits(self, seconds: float) -> None:
        """Does nothing, since nothing is locked."""

    def close(self) -> None:
        self.closed = True


class StreamSessions:
    """Opens folders: the part of `sluice.database.session.Sessions` that a source without a server has."""

    def connect(
        self,
        info: ConnectionInfo,
        *,
        application: str,
        autocommit: bool = False,
        options: SessionOptions = PLAIN,
    ) -> Session:
        """Raises `StreamUnreachable`."""
        session = StreamSession(Path(info.database))
        session.ping()
        return session


def files_of(session: Session) -> Files:
    """The files of a session from `StreamSessions`."""
    assert isinstance(session, StreamSession)
    return session.files
