"""One failover of a pair, and its sessions on both databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from redis import Redis

from sluice.control.checkpoint import CheckpointStore
from sluice.coordination.redis_checkpoint import StoredCheckpoint
from sluice.database.failover import FailoverTable
from sluice.database.registry import master_of, no_database, reach
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.checkpoint import Checkpoint, resume
from sluice.model.failover import Action, Record, Sheet
from sluice.model.position import Position
from sluice.model.vendors import VENDORS
from sluice.pair import Pair

ANSWER_SECONDS = 5
"""After so long without a connection a master counts as unreachable."""


def vendor_cannot_be_master(pair: Pair) -> Terminal:
    """The slave is of a vendor without failover."""
    able = ", ".join(name for name, facts in VENDORS.items() if facts.fails_over)
    return Terminal(
        f"{pair}: this slave cannot take over, because databases of the vendor {pair.slave_info.vendor} cannot become "
        f"the master ({pair.slave_info.server}). Fail over to a slave of {able}.",
        code="vendor-cannot-be-master",
    )


@dataclass(frozen=True)
class Failover(Pair):
    """A pair, and the choices of the form."""

    id: str
    """A step that is run again with the same id continues where it was; another failover must wait."""
    action: Action
    reverse: bool = False
    by: str = "a person"
    gap: int = 1000
    """In a forced failover: how many values each sequence skips beyond the last known one."""
    override: bool = False
    """In a forced failover: whether to continue although the master answers."""

    @classmethod
    def named(cls, pair: Pair, failover_id: str, action: Action) -> "Failover":
        """The failover with the defaults of the form. Raises `no-database` if the master is a recorded stream,
        `vendor-cannot-be-master`."""
        if pair.replication.master.stream:
            raise no_database(pair.replication.master.stream.vendor)
        if not VENDORS[pair.slave_info.vendor].fails_over:
            raise vendor_cannot_be_master(pair)
        return cls(pair.replication, pair.slave, pair.master_info, pair.slave_info, failover_id, action)

    @property
    def application(self) -> str:
        """The application name of the steps' sessions."""
        return f"sluice failover {self.prefix} {self.slave.name}"

    @property
    def apply_application(self) -> str:
        """The application name of the apply's sessions."""
        return f"sluice {self.prefix} {self.slave.name}"

    def kept(self, session: Session) -> FailoverTable:
        """The slave's row of FAILOVER."""
        support = master_of(self.slave_info.vendor).failover
        return support.FailoverStore(session, self.prefix, self.slave.schema, self.slave.name)

    def kept_sheet(self, session: Session) -> Sheet | None:
        """The master's definitions as the slave keeps them."""
        return self.kept(session).sheet()

    def record(self, session: Session, *, lock: bool = False) -> Record:
        """The slave's record of the failover, which has begun. `lock`: locks the row until the commit."""
        record = self.kept(session).read(lock=lock)
        assert record is not None, "begun before"
        return record

    def checkpoints(self, session: Session) -> CheckpointStore:
        """The slave's checkpoint."""
        return CheckpointStore.of(self, session)

    @contextmanager
    def on_slave(self) -> Iterator[Session]:
        """A session on the slave, in autocommit."""
        with reach(self.slave_info, self.application) as session:
            yield session

    @contextmanager
    def on_master(self) -> Iterator[Session]:
        """A session on the master, in autocommit. Connecting fails after `ANSWER_SECONDS`."""
        with reach(self.master_info.given_up_after(ANSWER_SECONDS), self.application) as session:
            yield session


def applied(failover: Pair, store: Redis, checkpoint: Checkpoint) -> Position | None:
    """The slave's position, from its row of CHECKPOINT or from Redis."""
    if failover.slave.checkpoint != "redis":
        return checkpoint.position
    stored = StoredCheckpoint(store, failover.prefix, failover.slave.name).read()
    return resume(checkpoint, stored)[0].position
