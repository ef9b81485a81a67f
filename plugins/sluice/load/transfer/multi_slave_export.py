"""One export for several slaves: the master is read once, and every slave gets the folder.

One of the slaves leads: its BLOCKS decide what is read, as for a single slave. The blocks of the others are *begun*
from their start positions on (`sluice.load.steps.plan`), so that an apply waits with every change: it must not drop
one that an earlier read block lacks. When all is exported they are replaced by the leader's blocks, with their markers,
each slave in a transaction of its own. From then on no slave depends on the others.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from sluice.control.blocks import BlockStore
from sluice.control.checkpoint import CheckpointStore
from sluice.errors import SluiceError, Terminal
from sluice.load.load_ownership import LoadEnded, owner_of
from sluice.load.sessions import on_slave
from sluice.load.update import Update
from sluice.model.blocks import Block
from sluice.model.manifest import Addressee
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState

log = logging.getLogger("sluice.load")


def addressed(update: Update, tables: Iterable[TableName]) -> Addressee:
    """The slave of `update` for a manifest of `tables`. Raises `LoadEnded`, and errors of the session."""
    with on_slave(update) as slave:
        checkpoint = CheckpointStore.of(update, slave).read()
    if checkpoint is None or checkpoint.position is None:
        raise LoadEnded.of(update, checkpoint)
    places = tuple(update.placement.places(tables).items())
    return Addressee(update.slave.name, update.slave.schema, update.slave.existing_tables, checkpoint.position, places)


def adopted_by(first: Update, updates: Sequence[Update], blocks: Sequence[Block]) -> list[Addressee]:
    """Gives the `blocks` exported for the `first` slave to the others. Returns those that have them now.

    Logs why another one has not.
    """
    tables = sorted({block.table for block in blocks})
    with on_slave(first) as slave:
        states = CheckpointStore.of(first, slave).configured().tables
    left_out = {table: states.reasons.get(table, "") for table in states if table not in tables}
    addressees = []
    for update in updates:
        try:
            other = [str(table) for table in tables if update.transformation(table) != first.transformation(table)]
            if other:
                raise Terminal(
                    f"{update}: `where`, `columns` or `exit` of {', '.join(other)} are not those of the slave that the "
                    "files were written for. Start an initial update of this slave alone.",
                    code="other-rows-exported",
                )
            adopt(update, blocks, left_out)
            addressees.append(addressed(update, tables))
        except SluiceError as error:
            log.error("%s: the folder will not be for this slave: %s", update, error)
    return addressees


def adopt(update: Update, blocks: Sequence[Block], left_out: Mapping[TableName, str]) -> None:
    """Replaces the slave's begun blocks by the exported `blocks`; does nothing where that was done.

    `left_out`: tables that could not be exported → why; they are inconsistent here, too.
    Raises `LoadEnded`, `other-tables-exported`, and errors of the session.
    """
    with on_slave(update) as slave, slave.transaction():
        checkpoints = CheckpointStore.of(update, slave)
        checkpoints.read(lock=True)
        owner = owner_of(update, slave)
        if owner is None or owner.update_id != update.update_id or owner.state is not SlaveState.TRANSITION:
            raise LoadEnded.of(update, owner)
        own = BlockStore.of(update, slave).map().tables
        if not any(block.file is None for table in own.values() for block in table.blocks):
            return
        refused = {table: why for table, why in left_out.items() if table in own}
        if different := own.keys() ^ refused.keys() ^ {block.table for block in blocks}:
            raise Terminal(
                f"{update}: {', '.join(sorted(map(str, different)))} came or went while the slaves were prepared, so "
                "that the export is not whole for this one. Start an initial update of this slave alone.",
                code="other-tables-exported",
            )
        if refused:
            checkpoints.put_tables(checkpoints.configured().tables.leave_out(refused))
        store = BlockStore.of(update, slave)
        store.delete()
        store.adopt(blocks)
    log.info("%s: has the %s exported blocks as its own", update, len(blocks))
