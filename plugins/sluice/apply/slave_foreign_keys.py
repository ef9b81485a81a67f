"""Foreign keys of the slave that act in the apply's session: each must be one that the master has, too.

Where the account may not switch them off, a deletion of the master's goes on over a foreign key of the slave. That is
right where the master has a foreign key there: then no row that lives on there refers to one that is gone. Where it has
none, such rows may be, and would be lost here, unnoticed.
"""

from collections.abc import Sequence

from sluice.apply.pair_sessions import PairSessions
from sluice.database.apply import Acting
from sluice.database.placed import vendor_at
from sluice.database.registry import source_of
from sluice.database.session import Session
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.foreign_key import ForeignKey
from sluice.model.names import TableName
from sluice.pair import Pair


class UnknownCascade(Terminal):
    """A foreign key of the slave changes or deletes rows by itself, and the master has none in its place."""

    def __init__(self, pair: Pair, found: Sequence[Acting], allow: str):
        """`allow`: the statement that lets the apply's account switch triggers and foreign keys off."""
        described = "; ".join(f"{each.name} of {each.key.child}: {each.definition}" for each in found)
        super().__init__(
            f"{pair}: on {pair.slave_info.place}: rows that the master keeps could go, or change, by a foreign key "
            f"that the master does not have ({described}). On the slave, as an administrator: {allow}; or drop the "
            f"constraint there, or make it without ON DELETE and ON UPDATE; then {RESTART_APPLY}."
        )
        self.tables: tuple[TableName, ...] = tuple(each.key.child for each in found)


def require_known_actions(sessions: PairSessions, slave: Session) -> None:
    """Raises `UnknownCascade`. Call it after changes, in their transaction: no foreign key can come in between then.

    Where both of its tables are replicated; rows that are the slave's own are its owner's affair.
    """
    if sessions.replica_role:
        return
    pair = sessions.pair
    info = pair.master_info
    acting = vendor_at(pair).applying.acting(slave)
    if not acting:
        return
    changes = source_of(info.vendor).changes
    replicated = set(changes.registered(sessions.master, pair.prefix, pair.replication.master.schema))
    there = changes.foreign_keys(sessions.master, {each.key.child for each in acting})
    known = {_columns(key) for key in there}
    alone = [
        each for each in acting if {each.key.child, each.key.parent} <= replicated and _columns(each.key) not in known
    ]
    if alone:
        raise UnknownCascade(pair, alone, vendor_at(pair).sessions.allow_silence(slave))


def _columns(key: ForeignKey) -> tuple[object, ...]:
    """Between which columns it is, whatever their order."""
    return key.child, key.parent, frozenset(zip(key.columns, key.parent_columns, strict=True))
