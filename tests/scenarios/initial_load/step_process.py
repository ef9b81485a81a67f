"""One step of an initial update in its own process, to be killed: a pickled `Errand` on stdin."""

import pickle
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluice.coordination import redis_store
from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.loader import load_worker
from sluice.load.throttle import Throttle
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.exporter import export_worker
from sluice.load.transfer.importer import import_worker
from sluice.load.update import Update
from sluice.model.location import Location, S3Access


@dataclass(frozen=True)
class Errand:
    """The step to run, and its input."""

    step: str
    update: Update
    redis_url: str
    location: str


def work(errand: Errand) -> None:
    update = errand.update

    def begun_anew() -> Any:
        return steps.begin(update, redis_store.connect(errand.redis_url))

    def by_two(worker: Callable[[str], Any]) -> None:
        with LoadJob(update) as job, Throttle(update, 2):
            other = threading.Thread(target=worker, args=[job.loader(2)], daemon=True)
            other.start()
            worker(job.loader(1))
            other.join()

    def folder() -> Any:
        return transfer_steps.folder_of(update, Location.parse(errand.location), S3Access(), None)

    def importing() -> None:
        # Sealed, the folder is found by its name.
        place = Location.parse(errand.location)
        from sluice.load.transfer.transfer_folder import TransferFolder
        from sluice.storage.opening import open_location

        carried = TransferFolder(place.below(open_location(place, S3Access()).folders()[-1]), S3Access(), None)
        manifest = carried.manifest()
        by_two(lambda loader: import_worker(update, loader, carried, manifest))

    {
        "begin": begun_anew,
        "create_tables": lambda: steps.create_tables(update),
        "plan": lambda: steps.plan(update, redis_store.connect(errand.redis_url)),
        "load": lambda: by_two(lambda loader: load_worker(update, loader)),
        "export": lambda: by_two(lambda loader: export_worker(update, loader, folder())),
        "import": importing,
        "finish": lambda: steps.finish(update),
    }[errand.step]()


if __name__ == "__main__":
    work(pickle.load(sys.stdin.buffer))
