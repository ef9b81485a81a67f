"""The master that a reader reads, and what its columns are."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sluice.configuration.model import Replication
from sluice.database.changes import ChangeQueue, ChangeReader
from sluice.database.column_types import LogicalColumn
from sluice.database.registry import master_of, no_database
from sluice.database.session import Session
from sluice.database.vendor import Master as MasterVendor
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.model.shape import TableShape
from sluice.model.vendors import BINLOG, STREAM


def table_not_replicated(prefix: Prefix, table: TableName, captured: Sequence[TableName]) -> Terminal:
    """The changes of the table that a reader names are not captured."""
    some = ", ".join(map(str, captured[:20])) or "none"
    return Terminal(
        f"{prefix} captures no table {table}; it captures {some}. Name one of these as schema.table, as the "
        "database stores it, or add the table to the replication's file and start the DAG reconcile_tables.",
        code="table-not-replicated",
    )


@dataclass(frozen=True)
class Master:
    """The master that a reader reads. It is sent to Spark's executors with the password; never log it whole."""

    prefix: Prefix
    schema: str
    """The schema of the resources."""
    info: ConnectionInfo
    feeds: tuple[str, ...] = ()
    """The named readers that the replication has."""

    @classmethod
    def of(cls, replication: Replication, info: ConnectionInfo) -> "Master":
        """`info`: the connection `replication.master` names. Raises `no-database` for a recorded stream."""
        of = replication.master
        if of.stream and of.capture != BINLOG:
            raise no_database(STREAM)
        master_of(of.vendor)
        folder = of.stream.database if of.stream else ""
        masked = replace(info, mask=replication.verify.mask, trusts_owners=of.allow_owner_code, stream=folder)
        return cls(replication.prefix, of.schema, masked, replication.feeds)

    @property
    def vendor(self) -> MasterVendor:
        return master_of(self.info.vendor)

    def queue(self, session: Session) -> ChangeQueue:
        return self.vendor.queue(session, self.prefix, self.schema)

    def reader(self) -> ChangeReader:
        """Of the changes, which are in a folder where the master's log is recorded."""
        folder = self.info.stream
        info = ConnectionInfo(STREAM, "", 0, folder, "", "") if folder else self.info
        return self.vendor.reader(info, self.prefix, self.schema, application=self.application)

    @property
    def application(self) -> str:
        """Names the sessions on the master."""
        return f"sluice {self.prefix} feed"

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session in autocommit that ends with the block."""
        opened = self.vendor.sessions.connect(self.info, application=self.application, autocommit=True)
        try:
            yield opened
        finally:
            opened.close()

    def shape(self, session: Session, table: TableName) -> TableShape:
        """The shape of a captured table. Raises `table-not-replicated`."""
        captured = self.queue(session).registered()
        shape = self.vendor.rows.shape(session, table) if table in captured else None
        if shape is None:
            raise table_not_replicated(self.prefix, table, captured)
        return shape

    def columns(self, session: Session, shape: TableShape) -> tuple[LogicalColumn, ...]:
        """The replicated columns of a table, in no vendor's words."""
        defined = self.vendor.schemas.types(session, [shape.table])
        types = self.vendor.types
        return tuple(
            LogicalColumn(column.name, types.logical(column.type, defined), column.key > 0)
            for column in shape.replicated
        )

    def check_feed(self, feed: str) -> None:
        """Raises `unknown-feed`."""
        if feed not in self.feeds:
            raise Terminal(
                f"Replication {self.prefix} has no feed {feed!r}; it has {', '.join(self.feeds) or 'none'}. Use one "
                "of these, or add it under feeds in the replication's file.",
                code="unknown-feed",
            )
