"""Export and import as the Spark job that Airflow starts, through S3 and encrypted."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluice.load.transfer import transfer_steps
from sluice.load.transfer.encryption import MAGIC
from sluice.load.update import Update
from sluice.model.location import Location, S3Access
from tests.rig.endpoints import secret_of
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_files.carrying import KEY, prepare, shop

ROOT = Path(__file__).resolve().parents[3]


def run(pair: Rig, update: Update, folder: Location, s3: S3Access, step: str, endpoint: dict[str, Any]) -> None:
    """Runs `python -m spark_jobs.load` to its end; its output contains no secret."""
    key = base64.b64encode(KEY).decode()
    told: dict[str, Any] = {
        "prefix": "DEMO_",
        "slave": "dr1",
        "connections": {"m": pair.master_info.to_dict(), "s": pair.slave_info.to_dict()},
        "redis_url": "redis://127.0.0.1:1/0",
        "spark": endpoint,
        "update_id": update.update_id,
        "files": {"step": step, "folder": str(folder), "s3": s3.to_dict(), "key": key},
    }
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.load"],
        cwd=ROOT, input=json.dumps(told), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}",
            "SLUICE_REPLICATIONS": str(pair.replication.source.parent),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    secrets = (key, s3.secret, pair.slave_info.password, secret_of(endpoint))
    assert not any(secret in done.stdout for secret in secrets)


@pytest.mark.long
def test_a_job_exports_and_another_one_imports(pair_of: MakePair, s3: S3Access, endpoint: dict[str, Any]) -> None:
    pair = shop(pair_of)
    update = pair.update()
    prepare(pair, update)
    carried = transfer_steps.folder_of(update, Location.parse("s3://carried/by-spark"), s3, KEY)
    run(pair, update, carried.location, s3, "export", endpoint)
    assert pair.checkpoints.read().message == transfer_steps.WAITING.format(carried.location)  # type: ignore[union-attr]
    manifest = transfer_steps.examine(update, carried)
    assert manifest.encrypted
    assert all(next(carried.folder.read(name)).startswith(MAGIC) for name in carried.folder.sizes())
    run(pair, update, carried.location, s3, "import", endpoint)
    assert transfer_steps.left_to_import(update) == 0
    pair.assert_equal()
