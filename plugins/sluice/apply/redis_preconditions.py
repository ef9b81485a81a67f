"""Checks, when applying starts, what `checkpoint: redis` demands: changes may be applied twice there."""

from sluice.apply.pair_sessions import PairSessions
from sluice.apply.schema_history import key_needed
from sluice.database.placed import vendor_at
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.checkpoint import Checkpoint


def require_repeatable(sessions: PairSessions, checkpoint: Checkpoint) -> None:
    """Raises `key-needed` and `triggers-active` with all tables concerned. Tables that are left out do not count."""
    pair = sessions.pair
    assert checkpoint.position is not None
    tables = [table for table in sessions.queue.registered() if table not in checkpoint.tables]
    sessions.schema_history.load(tables, checkpoint.position, checkpoint.slice_key or 0)
    if keyless := sessions.schema_history.keyless():
        raise key_needed(pair, keyless)
    if sessions.replica_role:
        return
    with sessions.slave_transaction() as slave:
        on_slave = vendor_at(pair).rows.shapes(slave, tables)
        acting = [table for table in on_slave if sessions.merger.targets[table].watched]
        allow = vendor_at(pair).sessions.allow_silence(slave)
    if acting:
        raise Terminal(
            f"{pair}: with checkpoint: redis changes may come twice, and on {', '.join(map(str, acting))} foreign keys "
            "or triggers of the slave act on each: rows that live on could go with a parent that is replaced. On "
            f"the slave, as an administrator: {allow}; or set checkpoint: slave; then {RESTART_APPLY}.",
            code="triggers-active",
        )
