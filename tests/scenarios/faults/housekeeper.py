"""Deletes from ITEMS what the slave has, as the task of the DAG `housekeeping` does, but again and again."""

import threading
from random import Random

import psycopg

from sluice.errors import SluiceError
from sluice.pair import Pair
from tests.direct_work import housekeeping, purge

PAUSES = (0.3, 1.5)


class Housekeeper(threading.Thread):
    """Purges until it is stopped, through crashes of both servers. `purged` counts the deleted changes."""

    def __init__(self, ends: Pair, redis_url: str, seed: int):
        super().__init__(name="housekeeper", daemon=True)
        self.purged = 0
        self.failure: BaseException | None = None
        infos = {"m": ends.master_info, "s": ends.slave_info}
        self._work = housekeeping(ends.replication, infos, redis_url)
        self._chance = Random(f"{seed} housekeeper")
        self._enough = threading.Event()

    def stop(self) -> None:
        self._enough.set()

    def run(self) -> None:
        try:
            while not self._enough.wait(self._chance.uniform(*PAUSES)):
                try:
                    self.purged += purge(self._work)
                except (SluiceError, psycopg.OperationalError, psycopg.InternalError):  # a server is down, a disk full
                    continue
        except BaseException as failure:
            self.failure = failure
