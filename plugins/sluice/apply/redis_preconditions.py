"""Checks, when applying starts, what `checkpoint: redis` demands: changes may be applied twice there."""

from collections.abc import Sequence

from sluice.apply.pair_sessions import PairSessions
from sluice.apply.schema_history import KeyNeeded
from sluice.database.placed import vendor_at
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.checkpoint import Checkpoint
from sluice.model.names import TableName
from sluice.pair import Pair


class TriggersAct(Terminal):
    """Foreign keys and triggers of the slave would act on repeated changes."""

    def __init__(self, pair: Pair, tables: Sequence[TableName], allow: str):
        """`allow`: the statement that lets the apply's account switch them off."""
        super().__init__(
            f"{pair}: with checkpoint: redis changes may come twice, and on {', '.join(map(str, tables))} foreign keys "
            "or triggers of the slave act on each: rows that live on could go with a parent that is replaced. On "
            f"the slave, as an administrator: {allow}; or set checkpoint: slave; then {RESTART_APPLY}."
        )


def require_repeatable(sessions: PairSessions, checkpoint: Checkpoint) -> None:
    """Raises `KeyNeeded` and `TriggersAct` with all tables concerned. Tables that are left out do not count."""
    pair = sessions.pair
    assert checkpoint.position is not None
    tables = [table for table in sessions.queue.registered() if table not in checkpoint.tables]
    sessions.schema_history.load(tables, checkpoint.position, checkpoint.slice_key or 0)
    if keyless := sessions.schema_history.keyless():
        raise KeyNeeded(pair, keyless)
    if sessions.replica_role:
        return
    with sessions.slave_transaction() as slave:
        on_slave = vendor_at(pair).rows.shapes(slave, tables)
        acting = [table for table in on_slave if sessions.merger.targets[table].watched]
        allow = vendor_at(pair).sessions.allow_silence(slave)
    if acting:
        raise TriggersAct(pair, acting, allow)
