"""A worker whose files' location was never reached ends with the reason; one that reached it waits for outages."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from sluice.load import worker
from sluice.load.worker import BlockWorker, SlaveNotReady
from sluice.model.blocks import Block
from sluice.model.location import Location
from sluice.model.names import TableName
from sluice.storage.folder import LocationUnreachable, LocationUnusable

BUCKET = Location.parse("s3://bucket/out")


@dataclass
class Exporting(BlockWorker):
    """A worker that has stored `reached` blocks before the location no longer answers."""

    reached: int
    tried: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(cast(Any, "DEMO_ → dr1"), "loader", lambda: False)

    def _release_block(self) -> None: ...
    def _open(self) -> None: ...
    def _idle(self) -> None: ...
    def _rest(self, reason: SlaveNotReady) -> None: ...

    def _throttled(self) -> bool:
        return False

    def _finished(self) -> bool:
        return False

    def _claim(self) -> Block:
        return Block(TableName("public", "t"), len(self.tried) + 1, None, None)

    def _transfer(self, block: Block) -> None:
        self.tried.append(block.number)
        if len(self.tried) > self.reached:
            raise LocationUnreachable(BUCKET, "Could not connect to the endpoint URL")
        self.report.blocks += 1


def test_a_location_that_was_never_reached_ends_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WAIT_SECONDS", 0.3)
    never = Exporting(0)
    with pytest.raises(LocationUnusable, match=r"s3://bucket/out: .* Could not connect .* executors of Spark must"):
        never.run()
    assert len(never.tried) > 1, "an outage of a moment ends nothing"


def test_an_outage_after_that_is_transient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WAIT_SECONDS", 0.3)
    once = Exporting(2)
    with pytest.raises(LocationUnreachable):
        once.run()
    assert once.report.blocks == 2
