"""The interface of a vendor's package."""

from typing import Protocol

from sluice.database.accounts import Accounts, MasterContents
from sluice.database.apply import ApplyTarget
from sluice.database.broadcasts import Broadcasts, Queries
from sluice.database.capture import Capture
from sluice.database.changes import LARGEST_CHANGE, ChangeQueue, ChangeReader, ChangeSource
from sluice.database.column_types import ColumnTypes
from sluice.database.control import LoadLocks, OwnTables
from sluice.database.digests import Digester
from sluice.database.failover import FailoverSupport
from sluice.database.following import Following
from sluice.database.load import LoadTarget
from sluice.database.preflight import Preflight
from sluice.database.recorder import MergerClass, ReceiverClass, RecorderClass, RedoStreamClass, Takeover
from sluice.database.row_images import RowImageCodec
from sluice.database.rows import RowSource
from sluice.database.schema import Schemas
from sluice.database.selection import RowSelection
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

    def reader(
        self,
        info: ConnectionInfo,
        prefix: Prefix,
        schema: str,
        *,
        application: str = "sluice",
        largest: int = LARGEST_CHANGE,
    ) -> ChangeReader:
        """`largest`: bytes above which a source that can tell leaves the contents of a change out."""
        ...

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


class Vendor(Source, Protocol):
    """One database system, as master and as slave."""

    @property
    def sessions(self) -> Sessions: ...

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

    def broadcasts(self, session: Session, prefix: Prefix, schema: str) -> Broadcasts | None:
        """None: the vendor has none."""
        ...

    @property
    def digests(self) -> Digester: ...

    def queue(self, session: Session, prefix: Prefix, schema: str) -> ChangeQueue: ...

    @property
    def rows(self) -> RowSource: ...

    @property
    def schemas(self) -> Schemas: ...

    @property
    def selection(self) -> RowSelection: ...

    @property
    def load_target(self) -> LoadTarget: ...

    @property
    def preflight(self) -> Preflight: ...

    def capture(self, session: Session, prefix: Prefix, schema: str) -> Capture:
        """The DbResources of a prefix in `schema` of a master."""
        ...

    @property
    def failover(self) -> FailoverSupport: ...

    @property
    def accounts(self) -> Accounts: ...

    @property
    def contents(self) -> MasterContents: ...

    def located(self, url: str | None) -> ConnectionInfo:
        """The database that a URL names. Missing parts, and the password, come from the environment, as for the
        vendor's own programs. Raises `BadAddress`, `PasswordShown`.
        """
        ...

    @property
    def server_load(self) -> ServerLoadMeter: ...
