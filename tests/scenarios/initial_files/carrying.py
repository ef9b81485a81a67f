"""An initial update as files, step by step, without Airflow and Spark."""

import shutil
from collections.abc import Callable
from pathlib import Path

from sluice.load import steps
from sluice.load.load_job import LoadJob
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.exporter import export_worker
from sluice.load.transfer.transfer_folder import TransferFolder
from sluice.load.update import Update
from sluice.load.worker import LoadReport
from sluice.model.location import Location, S3Access
from sluice.model.manifest import Manifest
from tests.rig.loaders import in_threads
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_load.shop import make_shop

KEY = bytes(range(32))


def prepare(pair: Rig, update: Update) -> None:
    """Runs all steps up to TRANSITION, with the gate closed."""
    pair.capture()
    steps.begin(update, pair.store)
    steps.create_tables(update)
    steps.plan(update, pair.store, transfer_steps.QUEUEING)


def export(
    update: Update, carried: TransferFolder, loaders: int = 2, stopped: Callable[[], bool] = lambda: False
) -> list[LoadReport]:
    """Runs an export job with its loaders in threads."""
    with LoadJob(update) as job:
        return in_threads(
            job, lambda name, failed: export_worker(update, name, carried, lambda: failed() or stopped()), loaders
        )


def exported(
    pair: Rig, update: Update, out: Location, access: S3Access | None = None, key: bytes | None = None
) -> tuple[TransferFolder, Manifest]:
    """Runs everything until the folder is complete."""
    prepare(pair, update)
    carried = transfer_steps.folder_of(update, out, access or S3Access(), key)
    export(update, carried)
    return carried, transfer_steps.seal(update, carried)


def moved(carried: TransferFolder, to: Path) -> TransferFolder:
    """Copies the folder to another location, as a person does."""
    to.mkdir(exist_ok=True)
    shutil.move(carried.location.path, to)
    return TransferFolder(Location.parse(str(to / carried.location.name)), carried.access, carried.key)


def location(folder: Path) -> Location:
    folder.mkdir(exist_ok=True)
    return Location.parse(str(folder))


def shop(pair_of: MakePair) -> Rig:
    pair = pair_of(block_rows=500, seconds=0.02)
    make_shop(pair)
    return pair
