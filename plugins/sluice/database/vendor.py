"""The interfaces of a vendor's package: what it does as a source of changes, as a slave, and as a master."""

from typing import Protocol

from sluice.database.accounts import Accounts, MasterContents
from sluice.database.apply import ApplyTarget
from sluice.database.broadcasts import Broadcasts, Queries
from sluice.database.capture import Capture
from sluice.database.changes import ChangeQueue, ChangeSource, ReaderClass
from sluice.database.column_types import ColumnTypes
from sluice.database.control import LoadLocks, OwnTables
from sluice.database.digests import Digester
from sluice.database.failover import FailoverSupport
from sluice.database.following import Following
from sluice.database.load import LoadTarget
from sluice.database.preflight import MasterPreflight, Preflight
from sluice.database.recorder import (
    LogQueueClass,
    LogRecorderClass,
    MergerClass,
    ReceiverClass,
    RecorderClass,
    RedoStreamClass,
    Takeover,
)
from sluice.database.row_images import RowImageCodec
from sluice.database.rows import MasterRows, Rows
from sluice.database.schema import MasterSchemas, Schemas
from sluice.database.selection import MasterSelection, RowSelection
from sluice.database.server_load import ServerLoadMeter
from sluice.database.session import Connector, Session, Sessions
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix
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

    @property
    def recorder(self) -> RecorderClass:
        """Records the changes of a database."""
        ...

    @property
    def log_recorder(self) -> LogRecorderClass:
        """Records the changes of a database from its own log."""
        ...

    @property
    def log_queue(self) -> LogQueueClass:
        """The changes of such a log with the rows of its database."""
        ...

    @property
    def merger(self) -> MergerClass:
        """Merges the output of redo threads."""
        ...

    @property
    def receiver(self) -> ReceiverClass:
        """Receives the output of one redo thread for that."""
        ...

    @property
    def takeover(self) -> Takeover:
        """Finds the position of a slave that had another source before."""
        ...

    @property
    def redo_stream(self) -> RedoStreamClass:
        """Finds the position at which rows of its master were read."""
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
