"""One initial update: which master, which slave, and by which name it is known."""

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from sluice.configuration.model import SlaveConfig
from sluice.configuration.options import InitialOptions
from sluice.configuration.placement import Placement
from sluice.database.changes import ChangeQueue
from sluice.database.errors import LockNotAvailable
from sluice.database.lock_waits import READ_SECONDS
from sluice.database.registry import master_of, vendor_of
from sluice.database.session import PLAIN, Session, SessionOptions
from sluice.load.selection import Selection
from sluice.model.connection import ConnectionInfo
from sluice.model.names import Prefix, TableName
from sluice.pair import OfSlave, Pair


class LoadTarget(OfSlave, Protocol):
    """The slave of an initial update, and the update's id: all that storing blocks needs."""

    @property
    def update_id(self) -> str: ...

    @property
    def loader_application(self) -> str:
        """Names the sessions that read and write blocks."""

    def connect_slave(self, application: str | None = None, *, durable: bool = True) -> Session:
        """An autocommit connection to the slave. Raises `DatabaseUnreachable`, `DatabaseRefused`.

        `durable`: whether its commits wait for the slave's disk, unless the slave's settings decide it.
        """
        ...


@dataclass(frozen=True)
class Update(Pair):
    """The input of every step of an initial update. It is sent to Spark's executors, passwords included."""

    update_id: str
    """A step that is run again with the same id continues where it was; another id must wait."""

    selection: Selection = field(default_factory=Selection)
    """The choices of the update's form."""

    @classmethod
    def named(cls, pair: Pair, update_id: str, selection: Selection | None = None) -> "Update":
        """The update of that name, its options as `selection` has them and else as configured.

        Raises `names-differ`.
        """
        replication, master = pair.replication, pair.place_of_rows()
        if selection is not None and selection.read is not None:
            replication = replace(replication, initial=replace(replication.initial, read=selection.read))
        slave = pair.slave
        if selection is not None and selection.partial:
            # Blocks replace the rows of their range; all other rows of the tables stay.
            slave = replace(slave, existing_tables="keep")
        return cls(replication, slave, master, pair.slave_info, update_id, selection or Selection())

    @property
    def options(self) -> InitialOptions:
        return self.replication.initial

    @property
    def application(self) -> str:
        """Names the sessions of the steps on both databases."""
        return self.update_application

    @property
    def loader_application(self) -> str:
        """The same for the sessions that read and write blocks."""
        return _loader_application(self)

    def may_leave_out(self, tables: Iterable[TableName]) -> bool:
        """Whether `on_error` lets all others continue without any of `tables`."""
        rules = (self.replication.rule(table) for table in tables)
        return "stop" not in ((rule.on_error if rule is not None else None) or self.slave.on_error for rule in rules)

    def connect_master(self, application: str | None = None, options: SessionOptions = PLAIN) -> Session:
        """An autocommit connection to the master. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
        return _connect(self.master_info, application or self.application, options)

    def queue(self, master: Session) -> ChangeQueue:
        """The master's queue, over a session there."""
        return master_of(self.master_info.vendor).queue(master, self.prefix, self.replication.master.schema)

    def connect_slave(self, application: str | None = None, *, durable: bool = True) -> Session:
        """An autocommit connection to the slave. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
        options = SessionOptions(durable=durable, origin=str(self.prefix))
        return _connect(self.slave_info, application or self.application, options)


@dataclass(frozen=True)
class SlaveAlone:
    """A `LoadTarget` on the slave's own machine, which does not know the master."""

    prefix: Prefix
    slave: SlaveConfig
    slave_info: ConnectionInfo
    update_id: str
    placement: Placement

    @property
    def loader_application(self) -> str:
        return _loader_application(self)

    def connect_slave(self, application: str | None = None, *, durable: bool = True) -> Session:
        options = SessionOptions(durable=durable, origin=str(self.prefix))
        return _connect(self.slave_info, application or self.loader_application, options)

    def __str__(self) -> str:
        return f"{self.prefix} → {self.slave.name}"


def _loader_application(target: LoadTarget) -> str:
    return f"sluice load {target.prefix} {target.slave.name}"


def _connect(info: ConnectionInfo, application: str, options: SessionOptions) -> Session:
    sessions = vendor_of(info.vendor).sessions
    session = sessions.connect(info, application=application, autocommit=True, options=replace(options, loads=True))
    sessions.end_with_client(session)
    return session


@contextmanager
def on_slave(target: LoadTarget) -> Iterator[Session]:
    """A session on the slave, in autocommit."""
    with closing(target.connect_slave()) as session:
        yield session


@contextmanager
def on_master(update: Update) -> Iterator[Session]:
    """A session on the master, in autocommit. Raises `LockNotAvailable` with the tables that a session has locked, or
    waits to, instead of waiting for them."""
    with closing(update.connect_master(options=SessionOptions(lock_seconds=READ_SECONDS))) as session:
        try:
            yield session
        except LockNotAvailable as error:
            raise _naming_locked(update, session, error) from error


def _naming_locked(update: Update, master: Session, error: LockNotAvailable) -> LockNotAvailable:
    vendor = master_of(update.master_info.vendor)
    locked = vendor.schemas.locked(master, list(update.queue(master).captured()))
    if not locked:
        return error
    listed = ", ".join(map(str, sorted(locked)))
    return LockNotAvailable(
        f"{update}: a transaction on {update.master_info.server} has locked {listed}, or waits to, so that definitions "
        "there cannot be read. It is tried again; to continue at once, end that transaction, or what it waits for."
    )
