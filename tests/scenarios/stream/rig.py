"""A recorded stream, and an apply that replays it into a slave."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from sluice import config
from sluice.coordination import redis_store
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.pair import Pair
from sluice.vendors.postgres.connection import connect
from sluice.vendors.stream.position import StreamPosition
from sluice.vendors.stream.recorder import Recorder
from sluice.vendors.stream.session import StreamSession
from sluice.vendors.stream.source import StreamQueue
from tests.rig.rig import Rig
from tests.waiting import DEADLINE_SECONDS

CONFIG = """
prefix: REC_
master: {capture: stream, location: LOCATION}
slaves:
  dr1: {conn_id: s, schema: public, on_drop: drop, OPTIONS}
tables: {"public.*": {}, '"My Schema".*': {}}
apply: {lease: 2.0, checkpoint_interval: 0.1, max_batch_changes: BATCH, stage_above: STAGE}
"""


class Replay(Rig):
    """The slave of a recorded stream. `master`: what the stream was recorded from, or its expected rows."""

    folder: Path

    @classmethod
    def of(
        cls,
        folder: Path,
        slave: ConnectionInfo,
        master: psycopg.Connection[Any],
        redis_url: str,
        *,
        tables: str = "",
        batch: int = 1_000_000,
        stage: int = 20_000,
        options: str = "checkpoint: slave",
    ) -> "Replay":
        """`tables`: DDL that makes the slave's tables. `options`: of the slave, as YAML has them."""
        text = CONFIG
        values = {"LOCATION": str(folder), "BATCH": str(batch), "STAGE": str(stage), "OPTIONS": options}
        for word, value in values.items():
            text = text.replace(word, value)
        (Path(os.environ["SLUICE_REPLICATIONS"]) / "REC.yaml").write_text(text)
        pair = Pair.of(config.load("REC_"), "dr1", {"s": slave})
        made = cls(
            pair, redis_url, redis_store.connect(redis_url), master, connect(slave, application="test", autocommit=True)
        )
        made.folder = folder
        if tables:
            made.slave.execute(tables.encode())
        return made

    @property
    def end(self) -> StreamPosition:
        """The current end of the stream."""
        return StreamQueue(StreamSession(self.folder), self.pair.prefix, "").take()

    def await_current(self, seconds: float = DEADLINE_SECONDS) -> None:
        now = self.end
        self.await_that(lambda: bool((here := self.at) and here.covers_all_of(now)), seconds)

    @property
    def at(self) -> StreamPosition | None:
        """The slave's position; None before it has begun."""
        if not self.checkpoints.exists():
            return None
        found = self.checkpoints.read()
        if found is None or found.catching_up:
            return None
        return StreamPosition.of(found.position) if found.position is not None else None

    def tables(self, connection: psycopg.Connection[Any]) -> list[TableName]:
        return [table for table in super().tables(connection) if not table.name.startswith("rec_")]


def recorder(rig: Rig, folder: Path, **options: Any) -> Recorder:
    """The recorder of a rig's master."""
    return Recorder(rig.pair.master_info, rig.pair.prefix, "public", folder, **options)


@contextmanager
def replayed(replay: Replay) -> Iterator[None]:
    """Runs an apply until it has reached the stream's end."""
    with replay.apply():
        yield
        replay.await_current()
