"""The ways to read a block from the master (`initial.read` of the configuration).

committed   in a separate snapshot, whose position is its marker
snapshot    in the one snapshot that the load job keeps for all blocks (`sluice.load.load_snapshot`)
locked      in a separate snapshot, its rows locked against changes until the last of them is read

The application comes first: a block that waits for one of its locks, or would lock rows for longer than
`initial.lock_timeout`, is put back; others are read before it, and it is tried again, half as large.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sluice.database.errors import Contended, SnapshotTooOld
from sluice.database.registry import master_of
from sluice.database.rows import BlockRead, SnapshotGone
from sluice.database.session import Session
from sluice.errors import Transient
from sluice.load.update import Update
from sluice.load.worker import JobOver
from sluice.model.blocks import Block
from sluice.model.shape import TableShape

UNLOCKED_AFTER = 5
"""After so many tries a keyless table, which is one block and cannot be made smaller, is read without locks."""

_KEPT_LONGER = (
    "If that comes again, let the master keep former rows for longer than the load takes, or write `read: committed` "
    "under `initial`"
)


class BlockYielded(Transient):
    """The application has locked rows of the block, or would have to wait too long for them."""

    def __init__(self, block: Block, reason: BaseException):
        super().__init__(
            f"block {block.number} of {block.table} waits for the application: {' '.join(str(reason).split())}"
        )


class BlockTooLong(BlockYielded):
    """Reading the block took longer than the master keeps old versions of its rows."""

    def __init__(self, block: Block, reason: BaseException):
        Transient.__init__(
            self,
            f"block {block.number} of {block.table} took longer to read than the master keeps old versions of its "
            f"rows: {' '.join(str(reason).split())}",
        )
        self.block = block


class SnapshotLost(JobOver):
    """The snapshot in which all blocks are read is gone or useless: the load starts over with a new one."""

    def __init__(self, update: Update, reason: object):
        super().__init__(f"{update}: {str(reason).rstrip('.')}: the load starts over with a new snapshot.")


@contextmanager
def reading(update: Update, master: Session, shape: TableShape, block: Block) -> Iterator[BlockRead]:
    """The transaction in which a block is read: its marker, the table's shape, and whether to lock its rows.

    Raises `BlockYielded`, `SnapshotLost`, and the errors of the `with` block.
    """
    snapshot = master_of(update.master_info.vendor).rows
    if block.snapshot is not None:
        assert block.marker is not None, "planned with the snapshot"
        try:
            with snapshot.reading_exported(master, shape, block.snapshot, block.marker) as exported:
                yield exported
        except SnapshotGone as gone:
            raise SnapshotLost(update, gone) from gone
        except SnapshotTooOld as error:
            # All blocks need this snapshot, so smaller blocks would not help.
            raise SnapshotLost(update, f"{str(error).rstrip('.')}. {_KEPT_LONGER}") from error
        return
    indivisible = shape.keyless and block.tries >= UNLOCKED_AFTER
    locked = update.options.read == "locked" and not indivisible
    seconds = update.options.lock_timeout if locked else None
    read: BlockRead | None = None
    try:
        with update.queue(master).reading(shape, seconds) as read:
            yield read
    except SnapshotTooOld as error:
        raise BlockTooLong(block, error) from error
    except Contended as error:
        # After all rows are read, the error is the slave's.
        if locked and (read is None or read.open):
            raise BlockYielded(block, error) from error
        raise
