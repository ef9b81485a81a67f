"""A user's own session of Spark, whose Python workers lack the library: Sluice sends it along."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.feeds.conftest import MakeRig

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import json, sys
given = json.loads(sys.stdin.read())
sys.path[:0] = given["paths"]
from pyspark.sql import SparkSession
from sluice.model.connection import ConnectionInfo
from spark_jobs.sources import register
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
missing = spark.range(1).mapInArrow(lambda batches: [__import__("sluice")] and batches, "id long")
try:
    missing.collect()
except Exception as error:
    assert "No module named 'sluice'" in str(error), error
else:
    raise AssertionError("the workers have the library already")
register(spark, "DEMO_", {"m": ConnectionInfo.from_dict(given["info"])})
rows = spark.read.format("sluice").option("table", "public.orders").option("partitionRows", 300).load()
print("rows", rows.filter("id > 10").count())
"""


@pytest.mark.long
def test_a_session_without_spark_connect_brings_the_library_along(master: MakeRig, tmp_path: Path) -> None:
    rig = master(
        "CREATE TABLE public.orders (id int PRIMARY KEY); INSERT INTO public.orders SELECT generate_series(1, 1000)"
    )
    given = {"paths": [str(ROOT), str(ROOT / "plugins")], "info": rig.master_info.to_dict()}
    # A session of Connect in this process leaves its settings in the environment.
    left_out = ("PYTHONPATH", "SPARK_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], input=json.dumps(given), capture_output=True, text=True, check=False,
        cwd=tmp_path, env={**environment, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rows 990" in done.stdout
