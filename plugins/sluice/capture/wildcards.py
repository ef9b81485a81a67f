"""Decides which tables are captured as soon as the application creates them, if the master reports them in that
transaction.

All others join by `reconcile_tables`, which first checks what could stop a slave; here nothing is checked.
"""

import logging

from sluice.configuration.model import Replication
from sluice.configuration.rule import TableRule
from sluice.database.capture import Line
from sluice.database.registry import master_of
from sluice.database.session import Session

log = logging.getLogger(__name__)


def note(connection: Session, replication: Replication) -> None:
    """Tells the master what the configuration's wildcards mean; in a separate transaction."""
    endpoint = replication.master
    keyed = any(slave.checkpoint == "redis" for slave in replication.slaves.values())
    capture = master_of(connection.vendor).capture(connection, replication.prefix, endpoint.schema)
    with connection.transaction():
        if capture.note_wildcards(lines(replication), keyed=keyed):
            log.info("%s: what wildcards mean is noted on the master", replication.prefix)


def lines(replication: Replication) -> list[Line]:
    """The lines of the configuration in the order in which they count.

    Left to reconcile_tables: tables with their own lines, tables that slaves get otherwise than the master has them,
    whose columns may not be what an expression needs, and all where a slave of another vendor could lack their types.
    """
    slaves = replication.slaves.values()
    if any(slave.vendor != replication.master.vendor for slave in slaves):
        return []
    rules = sorted(replication.tables, key=lambda rule: rule.pattern.precision, reverse=True)
    transformed = [rule for own in (rules, *(slave.tables for slave in slaves)) for rule in own if rule.transformation]
    return [*(Line(rule.pattern) for rule in transformed), *map(_line, rules)]


def _line(rule: TableRule) -> Line:
    captured = rule.replicate and rule.pattern.wildcard
    return Line(rule.pattern, rule.actions if captured else frozenset(), rule.debug)
