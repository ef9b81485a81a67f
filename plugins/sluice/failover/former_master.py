"""A former master that comes back after a forced failover: what only it has, and how it is kept apart.

Its last changes may never have arrived at the new master, and applications may still write to it. So it is made to
refuse writes, its state is INCONSISTENT, and its rows are listed until a person starts an initial update of it.
"""

import logging
from dataclasses import dataclass

from sluice.control.checkpoint import CheckpointStore
from sluice.counted import counted
from sluice.database import registry
from sluice.database.failover import MasterGuard
from sluice.database.registry import master_of
from sluice.database.session import Session
from sluice.database.vendor import Master
from sluice.failover.attempt import Failover
from sluice.model.failover import Action, Phase, Record, passed
from sluice.model.position import Window
from sluice.model.slave_state import SlaveState

log = logging.getLogger("sluice.failover")

MOST = 1_000
"""Changes of a table that are listed."""
DECIDED = (SlaveState.INITIAL, SlaveState.TRANSITION, SlaveState.NORMAL)
"""States that only a person's initial update leads to."""


@dataclass(frozen=True)
class FormerMaster:
    """The database that was the master before a forced failover."""

    failover: Failover
    record: Record
    """On the new master."""
    session: Session
    schema: str
    """Of the resources."""
    server: str
    new_server: str

    @property
    def vendor(self) -> Master:
        return master_of(self.failover.slave_info.vendor)

    @property
    def guard(self) -> MasterGuard:
        return self.vendor.failover.Guard(self.session, self.failover.prefix, self.schema)

    @property
    def checkpoints(self) -> CheckpointStore:
        return CheckpointStore(self.session, self.failover.prefix, self.schema, self.failover.slave.name)

    def only_here(self) -> list[str]:
        """The changes that it captured and the new master lacks, a line each."""
        queue = self.vendor.queue(self.session, self.failover.prefix, self.schema)
        now = queue.take()
        window, lines = Window(registry.parse_position(self.record.last), now), list[str]()
        for table in sorted(queue.captured()):
            items = queue.changes_of(window, table, MOST + 1)
            for action, new, old in items[:MOST]:
                rows = [str(self.vendor.images.row(text)) for text in (old, new) if text and action != "TRUNCATE"]
                lines.append(f"{action} {table}" + (f": {' → '.join(rows)}" if rows else ""))
            if len(items) > MOST:
                lines.append(f"… and more changes of {table}")
        return lines


def found(failover: Failover, master: Session, slave: Session) -> FormerMaster | None:
    """The former master, if a forced failover left it and no initial update of it has begun since.

    The configuration in force may be that of before the failover, or that of after it.
    """
    sides = (
        (slave, failover.slave.schema, failover.slave_info.server),
        (master, failover.replication.master.schema, failover.master_info.server),
    )
    vendor = master_of(failover.slave_info.vendor)
    for (new, new_schema, new_server), (former, schema, server) in (sides, sides[::-1]):
        record = vendor.failover.FailoverStore(new, failover.prefix, new_schema, failover.slave.name).read()
        if record is None or record.action is not Action.FORCED or not passed(record.phase, Phase.SWITCHED):
            continue
        if vendor.capture(former, failover.prefix, schema).installed() is None:
            return None
        one = FormerMaster(failover, record, former, schema, server, new_server)
        checkpoint = one.checkpoints.read()
        return None if checkpoint is not None and checkpoint.state in DECIDED else one
    return None


def keep_apart(failover: Failover) -> str:
    """Makes a former master that has come back refuse writes, and its state INCONSISTENT. Returns what a person has to
    decide; empty without a former master."""
    with failover.on_slave() as slave, failover.on_master() as master:
        one = found(failover, master, slave)
        if one is None:
            return ""
        if not all(table.refuses for table in one.guard.tables()):
            one.guard.claim(one.record.id, failover.slave.name)
            one.guard.move_claim(one.record.id, ["guarded"], "switched")
            one.guard.close(f"{one.new_server} is the master since failover {one.record.id}")
            log.warning("%s: the former master %s refuses writes from now on", failover, one.server)
        number = len(one.only_here())
        text = (
            f"The former master {one.server} has {counted(number, 'change')} that the master {one.new_server} lacks. "
            "The DAG failover, action check, lists them. Take over what is needed, then trigger initial_update of the "
            "former master, which discards them."
        )
        checkpoints = one.checkpoints
        checkpoint = checkpoints.read()
        if checkpoint is None or checkpoint.message != text:
            with one.session.transaction():
                checkpoints.ensure()
                if checkpoints.configured(lock=True).state is not SlaveState.MASTER:
                    checkpoints.move(SlaveState.INITIAL)
                checkpoints.move(SlaveState.INCONSISTENT, text)
    return text
