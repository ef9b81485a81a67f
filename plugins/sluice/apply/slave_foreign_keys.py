"""Checks that the master has each foreign key that acts on the slave in the apply's session.

Where the account may not switch foreign keys off, a replicated deletion cascades on the slave. Where the master has the
same foreign key, no remaining row of the master refers to the deleted one. Where it has none, such rows may remain on
the master, and the slave would lose them unnoticed.
"""

from collections.abc import Sequence

from sluice.apply.pair_sessions import PairSessions
from sluice.database.apply import Acting
from sluice.database.placed import vendor_at
from sluice.database.session import Session
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.foreign_key import ForeignKey
from sluice.pair import Pair


def unknown_cascade(pair: Pair, foreign_keys: Sequence[Acting], allow: str) -> Terminal:
    """A foreign key of the slave changes or deletes rows by itself, and the master has no such foreign key. `allow`:
    the statement that lets the apply's account switch triggers and foreign keys off.
    """
    described = "; ".join(f"{each.name} of {each.key.child}: {each.definition}" for each in foreign_keys)
    return Terminal(
        f"{pair}: on {pair.slave_info.place}: rows that the master keeps could go, or change, by a foreign key "
        f"that the master does not have ({described}). On the slave, as an administrator: {allow}; or drop the "
        f"constraint there, or make it without ON DELETE and ON UPDATE; then {RESTART_APPLY}.",
        code="unknown-cascade",
    )


def require_known_actions(sessions: PairSessions, slave: Session) -> None:
    """Raises `unknown-cascade`. Call it after changes, in their transaction: no foreign key can be added between.

    Only foreign keys between two replicated tables count.
    """
    if sessions.replica_role:
        return
    pair = sessions.pair
    acting = vendor_at(pair).applying.acting(slave)
    if not acting:
        return
    replicated = set(sessions.queue.registered())
    keys_on_master = sessions.queue.foreign_keys({each.key.child for each in acting})
    on_master = {_columns(key) for key in keys_on_master}
    unknown = [
        each
        for each in acting
        if {each.key.child, each.key.parent} <= replicated and _columns(each.key) not in on_master
    ]
    if unknown:
        raise unknown_cascade(pair, unknown, vendor_at(pair).sessions.allow_silence(slave))


def _columns(key: ForeignKey) -> tuple[object, ...]:
    """The tables and pairs of columns, in any order of the columns."""
    return key.child, key.parent, frozenset(zip(key.columns, key.parent_columns, strict=True))
