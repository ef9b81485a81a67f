"""The interfaces of a vendor's package: what it does as a source of changes, as a slave, and as a master."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sluice.database.accounts import Accounts, MasterContents
from sluice.database.apply import ApplyTarget
from sluice.database.broadcasts import Broadcasts, Queries
from sluice.database.capture import Capture
from sluice.database.change_log import ChangeLogClass, RowsBesideLog
from sluice.database.changes import ChangeQueue, ChangeSource, ReaderClass
from sluice.database.column_types import ColumnTypes
from sluice.database.control import LoadLocks, OwnTables
from sluice.database.digests import Digester
from sluice.database.failover import FailoverSupport
from sluice.database.following import Following
from sluice.database.load import LoadTarget, ServerLoadMeter
from sluice.database.preflight import MasterPreflight, Preflight
from sluice.database.recorder import LogRecorder, MergeOptions, Merger, Receiver, Recorder, RedoStream
from sluice.database.row_images import RowImageCodec
from sluice.database.rows import MasterRows, MasterSelection, Rows, RowSelection
from sluice.database.schema import MasterSchemas, Schemas
from sluice.database.session import Connector, Session, Sessions
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position


class Source(Protocol):
    """A source of changes, as an apply needs it. Each part is imported at its first use."""

    def position(self, text: str) -> Position:
        """Parses a position of this source. Raises `ValueError`."""
        ...

    @property
    def sessions(self) -> Connector: ...

    def queue(self, session: Session, prefix: Prefix, schema: str) -> ChangeSource:
        """The queue of a prefix. `schema`: of its DbResources, if the source is a database."""
        ...

    @property
    def reader(self) -> ReaderClass: ...

    @property
    def images(self) -> RowImageCodec:
        """Reads the row images of its changes."""
        ...

    @property
    def types(self) -> ColumnTypes:
        """The types of its columns. Vendors that share them return the same object."""
        ...


class RecordedSource(Source, Protocol):
    """Recorded changes, with what writes them. Each part is imported at its first use."""

    def recorder(self, info: ConnectionInfo, prefix: Prefix, schema: str, folder: Path) -> Recorder:
        """Records the changes that triggers capture. `schema`: where the replication's resources are on the master."""
        ...

    def log_recorder(
        self,
        info: ConnectionInfo,
        prefix: Prefix,
        folder: Path,
        covers: Callable[[TableName], bool],
        change_log: ChangeLogClass,
    ) -> LogRecorder:
        """Records the changes of a database from its own log. `covers`: which of its tables."""
        ...

    def log_queue(self, session: Session, prefix: Prefix, schema: str, rows: RowsBesideLog) -> ChangeQueue:
        """The changes of such a log with the rows of its database. `session`: on the stream's folder."""
        ...

    def merger(self, root: Path, folder: Path, prefix: Prefix, options: MergeOptions) -> Merger:
        """Merges the output of redo threads, whose folders are in `root`."""
        ...

    def receiver(self, address: tuple[str, int], database: str, folder: Path, begin: int | None) -> Receiver:
        """Receives the output of one redo thread for that. `address`: where the program of the thread listens.
        `database`: as its configuration names it. `begin`: the SCN from which a thread that never began is read."""
        ...

    def takeover(self, connection: Session, position: Position) -> Position | None:
        """The place in this source that covers what a position of another source covers; None for one of its own.

        Raises `other-source`, `Terminal` if the source has no such place, `Transient` if it has none yet.
        """
        ...

    def redo_stream(self, folder: Path) -> RedoStream:
        """The stream in `folder`, for reading rows of its master."""
        ...


class Target(Protocol):
    """A database system as a slave. Each part is imported at its first use."""

    @property
    def sessions(self) -> Sessions: ...

    @property
    def types(self) -> ColumnTypes:
        """The types of its columns."""
        ...

    def own_tables(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> OwnTables:
        """Sluice's own tables of one slave."""
        ...

    @property
    def load_locks(self) -> LoadLocks: ...

    @property
    def applying(self) -> ApplyTarget: ...

    @property
    def following(self) -> Following: ...

    @property
    def queries(self) -> Queries: ...

    @property
    def digests(self) -> Digester: ...

    @property
    def rows(self) -> Rows: ...

    @property
    def schemas(self) -> Schemas: ...

    @property
    def selection(self) -> RowSelection: ...

    @property
    def load_target(self) -> LoadTarget: ...

    @property
    def preflight(self) -> Preflight: ...

    @property
    def accounts(self) -> Accounts: ...

    def located(self, url: str | None) -> ConnectionInfo:
        """The database that a URL names. Missing parts, and the password, come from the environment, as for the
        vendor's own programs. Raises `BadAddress`, `PasswordShown`.
        """
        ...


class Master(Source, Target, Protocol):
    """A database system whose changes are captured by triggers; it can be a slave as well."""

    @property
    def sessions(self) -> Sessions: ...

    def queue(self, session: Session, prefix: Prefix, schema: str) -> ChangeQueue: ...

    def capture(self, session: Session, prefix: Prefix, schema: str) -> Capture:
        """The DbResources of a prefix in `schema`."""
        ...

    def broadcasts(self, session: Session, prefix: Prefix, schema: str) -> Broadcasts | None:
        """None: the vendor has none."""
        ...

    @property
    def rows(self) -> MasterRows: ...

    @property
    def schemas(self) -> MasterSchemas: ...

    @property
    def selection(self) -> MasterSelection: ...

    @property
    def preflight(self) -> MasterPreflight: ...

    @property
    def contents(self) -> MasterContents: ...

    @property
    def failover(self) -> FailoverSupport: ...

    @property
    def server_load(self) -> ServerLoadMeter: ...
