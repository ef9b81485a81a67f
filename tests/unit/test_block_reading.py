"""A block whose rows the master no longer has as of the start of its reading."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.database.errors import SnapshotTooOld
from sluice.load import loader, read_modes
from sluice.load.read_modes import BlockTooLong, BlockYielded, SnapshotLost
from sluice.load.update import Update
from sluice.model.blocks import Block
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.shape import TableShape

TABLE = TableName("SHOP", "ORDERS")
UPDATE = cast(
    Update,
    SimpleNamespace(
        master_info=SimpleNamespace(vendor="oracle"),
        options=SimpleNamespace(read="committed"),
        prefix=Prefix("DEMO_"),
        replication=SimpleNamespace(master=SimpleNamespace(schema="")),
    ),
)


class Rows:
    """The rows of a master whose undo is lost in the middle of a block."""

    @contextmanager
    def reading(self, *_: Any) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(open=False)

    reading_exported = reading


@pytest.fixture(autouse=True)
def master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_modes, "master_of", lambda _: SimpleNamespace(rows=Rows()))
    monkeypatch.setattr(UPDATE, "queue", lambda _: Rows(), raising=False)


def read(block: Block) -> None:
    """Yields rows until the undo is lost."""
    with read_modes.reading(UPDATE, cast(Any, None), TableShape(TABLE, ()), block):
        raise SnapshotTooOld("db1: ORA-01555: snapshot too old")


def test_a_block_in_a_snapshot_of_its_own_comes_again_half_as_large() -> None:
    with pytest.raises(BlockTooLong, match=r"block 3 of .* took longer to read .* ORA-01555") as told:
        read(Block(TABLE, 3))
    assert isinstance(told.value, BlockYielded), "which gives way, and halves with each try"
    assert [loader.after_tries(100, tries) for tries in (1, 2, 7)] == [50, 25, 1]


def test_in_the_snapshot_of_all_blocks_no_size_helps_and_the_load_starts_over() -> None:
    with pytest.raises(SnapshotLost, match=r"ORA-01555: snapshot too old\. If that comes again, .* `read: committed`"):
        read(Block(TABLE, 3, snapshot="scn 7", marker=cast(Position, object())))
