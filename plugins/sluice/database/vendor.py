"""What a vendor's package offers to services."""

from typing import Protocol

from sluice.database.accounts import Accounts, MasterContents
from sluice.database.apply import ApplyTarget
from sluice.database.broadcasts import Broadcasts, Queries
from sluice.database.capture import Capture
from sluice.database.changes import ChangeQueue, ChangeSource
from sluice.database.column_types import ColumnTypes
from sluice.database.control import LoadLocks, OwnTables
from sluice.database.digests import Digester
from sluice.database.failover import FailoverSupport
from sluice.database.following import Following
from sluice.database.load import LoadTarget
from sluice.database.preflight import Preflight
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
    """What an apply needs of where changes come from. Each part is imported when it is first asked for."""

    def position(self, text: str) -> Position:
        """A position of this source, back from its text. Raises `ValueError`."""
        ...

    @property
    def sessions(self) -> Connector: ...

    @property
    def changes(self) -> ChangeSource: ...

    @property
    def images(self) -> RowImageCodec:
        """How its changes carry rows."""
        ...

    @property
    def types(self) -> ColumnTypes:
        """What the types of its columns are. Vendors that share them return the same object."""
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

    @property
    def broadcasts(self) -> Broadcasts: ...

    @property
    def digests(self) -> Digester: ...

    @property
    def changes(self) -> ChangeQueue: ...

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

    @property
    def capture(self) -> Capture: ...

    @property
    def failover(self) -> FailoverSupport: ...

    @property
    def accounts(self) -> Accounts: ...

    @property
    def contents(self) -> MasterContents: ...

    def located(self, url: str | None) -> ConnectionInfo:
        """The database that a URL names. What it leaves open, and the password, come from the environment, as the
        vendor's own programs read it. Raises `BadAddress`, `PasswordShown`.
        """
        ...

    @property
    def server_load(self) -> ServerLoadMeter: ...
