"""One export for several slaves: the master is read once, and every slave gets the folder.

One of the slaves leads: its BLOCKS say what is to be read, as for a slave alone. Those of the others are held as
*begun* from their start positions on (`sluice.load.steps.plan`), so that an apply waits with every change instead
of dropping what a block read earlier does not hold. When all is exported they become the leader's blocks, with their
markers, each slave in a transaction of its own. From there on no slave knows of the others.
"""

import logging
from collections.abc import Iterable, Sequence

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


class OtherTables(Terminal):
    """A slave was prepared for other tables than those that were exported."""

    def __init__(self, update: Update, tables: Sequence[str]):
        super().__init__(
            f"{update}: {', '.join(tables)} came or went while the slaves were prepared, so that the export "
            "is not whole for this one. Start an initial update of this slave alone."
        )
        self.tables = tuple(tables)


class OtherRows(Terminal):
    """A slave gets tables otherwise than the one for which they were exported."""

    def __init__(self, update: Update, tables: Sequence[str]):
        super().__init__(
            f"{update}: `where`, `columns` or `exit` of {', '.join(tables)} are not those of the slave that the "
            "files were written for. Start an initial update of this slave alone."
        )
        self.tables = tuple(tables)


def addressed(update: Update, tables: Iterable[TableName]) -> Addressee:
    """The slave of `update` as a manifest of `tables` names it. Raises `LoadEnded`, and errors of the connection."""
    with on_slave(update) as slave:
        found = CheckpointStore.of(update, slave).read()
    if found is None or found.position is None:
        raise LoadEnded.of(update, found)
    places = tuple(update.placement.places(tables).items())
    return Addressee(update.slave.name, update.slave.schema, update.slave.existing_tables, found.position, places)


def adopted_by(first: Update, updates: Sequence[Update], blocks: Sequence[Block]) -> list[Addressee]:
    """Those of the slaves that have the `blocks` exported for the `first` one as their own now; why another one has not
    is logged.
    """
    tables = sorted({block.table for block in blocks})
    found = []
    for update in updates:
        try:
            other = [str(table) for table in tables if update.transformation(table) != first.transformation(table)]
            if other:
                raise OtherRows(update, other)
            adopt(update, blocks)
            found.append(addressed(update, tables))
        except SluiceError as error:
            log.error("%s: the folder will not be for this slave: %s", update, error)
    return found


def adopt(update: Update, blocks: Sequence[Block]) -> None:
    """The blocks held for the slave become the exported `blocks`; nothing where they are so already.

    Raises `LoadEnded`, `OtherTables`, and errors of the connection.
    """
    with on_slave(update) as slave, slave.transaction():
        CheckpointStore.of(update, slave).read(lock=True)
        owner = owner_of(update, slave)
        if owner is None or owner.update_id != update.update_id or owner.state is not SlaveState.TRANSITION:
            raise LoadEnded.of(update, owner)
        own = BlockStore.of(update, slave).map().tables
        if not any(block.file is None for table in own.values() for block in table.blocks):
            return
        if different := own.keys() ^ {block.table for block in blocks}:
            raise OtherTables(update, sorted(map(str, different)))
        store = BlockStore.of(update, slave)
        store.delete()
        store.adopt(blocks)
    log.info("%s: has the %s exported blocks as its own", update, len(blocks))
