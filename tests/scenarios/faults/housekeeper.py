"""Deletes from ITEMS what the slave has, as the DAG `housekeeping` does, but again and again."""

import threading
from random import Random

import psycopg

from sluice.domain.names import Prefix
from sluice.errors import SluiceError
from sluice.vendors.postgres import position, purge
from sluice.vendors.postgres.checkpoint import CheckpointStore
from sluice.vendors.postgres.connection import connect
from tests.scenarios.apply.rig import Rig

PREFIX = Prefix("DEMO_")
PAUSES = (0.3, 1.5)


class Housekeeper(threading.Thread):
    """Purges until stopped, through crashes of both servers. `purged` counts what went."""

    def __init__(self, rig: Rig, seed: int):
        super().__init__(name="housekeeper", daemon=True)
        self.purged = 0
        self.failure: BaseException | None = None
        self._pair = rig.pair
        self._chance = Random(f"{seed} housekeeper")
        self._enough = threading.Event()

    def stop(self) -> None:
        self._enough.set()

    def run(self) -> None:
        try:
            while not self._enough.wait(self._chance.uniform(*PAUSES)):
                try:
                    self._purge()
                except (SluiceError, psycopg.OperationalError, psycopg.InternalError):  # a server is down, a disk full
                    continue
        except BaseException as failure:
            self.failure = failure

    def _purge(self) -> None:
        with connect(self._pair.master_info, application="housekeeper", autocommit=True) as master:
            now = position.take(master, PREFIX, "public")
            with connect(self._pair.slave_info, application="housekeeper", autocommit=True) as slave:
                store = CheckpointStore(slave, PREFIX, "public", "dr1")
                checkpoint = store.read()
                store.secure()
            assert checkpoint is not None and checkpoint.position is not None
            self.purged += purge.purge(master, PREFIX, "public", [now, checkpoint.position])
