"""Every bench at a tiny size on real servers: the form of its output, and its counts. Times are not checked."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devstack.postgres import PostgresServer

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]


def bench(tmp_path: Path, *arguments: str, **environment: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The last line and the details of `./sluice bench`."""
    file = tmp_path / "detail.json"
    done = subprocess.run(
        [sys.executable, "-m", "devstack.cli", "bench", *arguments, "--json", str(file)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT / 'plugins'}{os.pathsep}{ROOT}", **environment},
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    line, detail = json.loads(done.stdout.splitlines()[-1]), json.loads(file.read_text())
    assert {"name", "ours", "reference", "ratio", "unit"} <= line.keys()
    assert line["name"] == arguments[0] == detail["name"]
    assert [figure["name"] for figure in line["figures"]] == [figure["name"] for figure in detail["figures"]]
    assert detail["setting"]["machine"]["cores"]
    assert "PostgreSQL" in detail["setting"] or arguments[0] in ("redo", "binlog")
    return line, detail


def values(figure: dict[str, Any], side: str) -> list[float]:
    found = [run["value"] for run in figure["runs"][side]]
    assert all(value > 0 for value in found)
    return found


def test_drain_measures_both_sides_and_counts_their_costs(tmp_path: Path) -> None:
    line, detail = bench(tmp_path, "drain", "--scale", "0.002", "--rounds", "2", "--warm-up", "0")
    bulk, tens = detail["figures"]
    assert line["ratio"] == pytest.approx(line["ours"] / line["reference"], rel=0.01)
    for figure, changes, rows in ((bulk, 2000, 1000 - 200 + 6), (tens, 400, 200 - 40 + 6)):
        assert len(values(figure, "ours")) == len(values(figure, "reference")) == 2
        for run in figure["runs"]["ours"] + figure["runs"]["reference"]:
            assert run["detail"]["changes"] == changes == pytest.approx(run["value"] * run["seconds"])
            assert run["detail"]["rows"] == rows
        assert {"master", "slave", "driver", "Spark", "Redis"} <= figure["runs"]["ours"][0]["cpu"].keys()
        assert "driver" not in figure["runs"]["reference"][0]["cpu"]


def test_drain_of_one_side_on_a_server_of_ones_own(tmp_path: Path, postgres: PostgresServer) -> None:
    info = postgres.info()
    uri = f"postgresql://{info.user}@{info.host}:{info.port}/{info.database}"
    line, detail = bench(
        tmp_path, "drain", "--figure", "existing", "--scale", "0.001", "--rounds", "1", "--warm-up", "0",
        "--side", "ours", "--master", uri, "--slave", uri, PGPASSWORD=info.password,
    )  # fmt: skip
    assert line["ours"] > 0 and line["reference"] is None and line["ratio"] is None
    assert info.password not in json.dumps(detail)
    assert detail["setting"]["own servers"] == []
    with postgres.connect() as connection:
        left = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'sluice_bench%'").fetchall()
    assert left == [], "a bench leaves nothing behind"


def test_capture_measures_statement_and_row_triggers(tmp_path: Path) -> None:
    arguments = ("--figure", "bulk", "--figure", "whole", "--figure", "tens")
    line, detail = bench(tmp_path, "capture", "--scale", "0.002", "--rounds", "1", "--warm-up", "0", *arguments)
    assert line["ratio"] == pytest.approx(line["reference"] / line["ours"], rel=0.01), "seconds: less is better"
    assert len(detail["figures"]) == 6
    made = [figure["runs"]["ours"][0]["detail"]["changes"] for figure in detail["figures"]]
    assert made == [2000, 2000, 2000, 2000, 200, 200]


def test_load_compares_with_pipes(tmp_path: Path) -> None:
    line, detail = bench(tmp_path, "load", "--scale", "0.001", "--rounds", "1", "--warm-up", "0")
    (figure,) = detail["figures"]
    for side in ("ours", "reference"):
        assert values(figure, side) and figure["runs"][side][0]["detail"]["rows"] == 2000
    assert line["unit"] == "rows/s"


def test_a_mariadb_is_loaded_and_drained_into_and_found_equal(tmp_path: Path) -> None:
    line, detail = bench(tmp_path, "mariadb", "--scale", "0.001", "--rounds", "1", "--warm-up", "0")
    load, by_client, postgres, *lags = detail["figures"]
    assert line["unit"] == "rows/s" and load["runs"]["ours"][0]["detail"]["rows"] == 2000
    for figure in (load, by_client, postgres, *lags):
        assert values(figure, "ours") and values(figure, "reference")
    assert len(lags) == 2 and by_client["runs"]["ours"][0]["detail"]["changes"] == 1000
    assert "MariaDB" in detail["setting"]["MariaDB"]


def test_throttle_tells_what_an_application_notices_of_a_load(tmp_path: Path) -> None:
    line, detail = bench(tmp_path, "throttle", "--scale", "0.25", "--rounds", "1", "--warm-up", "0", "--figure", "rate")
    tps, p95 = detail["figures"]
    assert line["unit"] == "transactions/s" and p95["unit"] == "ms"
    for figure in (tps, p95):
        assert values(figure, "ours") and values(figure, "reference")
    assert 0 < tps["runs"]["ours"][0]["detail"]["rows_per_second"] < 200_000, "held to 100,000"


def test_lag_is_sampled_on_both_sides_under_the_traffic_that_was_asked_for(tmp_path: Path) -> None:
    arguments = ("--figure", "1000", "--figure", "idle", "--rounds", "1", "--scale", "0.07")
    _, detail = bench(tmp_path, "lag", *arguments)
    *traffic, idle = detail["figures"]
    assert len(traffic) == 4
    for figure in traffic:
        for side in ("ours", "reference"):
            (run,) = figure["runs"][side]
            assert 0 <= run["value"] <= run["detail"]["worst"]
            assert run["detail"]["samples"] > 0
            assert run["detail"]["changes_per_second"] > 0
    assert values(idle, "ours")


def test_redo_is_typed_merged_and_staged(tmp_path: Path) -> None:
    _, detail = bench(tmp_path, "redo", "--scale", "0.005", "--rounds", "1", "--warm-up", "0")
    assert len(detail["figures"]) == 4
    for figure in detail["figures"]:
        assert values(figure, "ours") and values(figure, "reference")
    assert detail["figures"][2]["runs"]["ours"][0]["detail"]["rows"] == 25_000


def test_binlog_is_read_recorded_read_again_loaded_and_applied(tmp_path: Path) -> None:
    _, detail = bench(tmp_path, "binlog", "--scale", "0.005", "--rounds", "1", "--warm-up", "0")
    assert len(detail["figures"]) == 6
    for figure in detail["figures"]:
        assert values(figure, "ours") and values(figure, "reference")
    *rates, load, p50, _ = detail["figures"]
    assert all(figure["name"].startswith("5,000 changes") for figure in rates)
    assert load["runs"]["ours"][0]["detail"]["rows"] == 10_000
    assert p50["runs"]["ours"][0]["detail"]["samples"] > 0


def test_cluster_loses_nothing_when_a_worker_is_killed(tmp_path: Path) -> None:
    _, detail = bench(tmp_path, "cluster", "--scale", "0.05", "--rounds", "1", "--warm-up", "1", "--figure", "killed")
    (figure,) = detail["figures"]
    (run,) = figure["runs"]["ours"]
    assert run["detail"]["changes"] == 50_000
    assert sum(seconds for part, seconds in run["cpu"].items() if part.startswith("worker")) > 0


def test_scale_tells_rate_and_memory(tmp_path: Path) -> None:
    _, detail = bench(tmp_path, "scale", "--scale", "0.002", "--rounds", "1", "--warm-up", "0")
    assert len(detail["figures"]) == 4 + 1 + 1 + 4 + 3
    for found in detail["figures"]:
        for run in found["runs"]["ours"]:
            assert run["detail"]["changes"] == pytest.approx(run["value"] * run["seconds"])
            assert run["detail"]["peak_bytes"] > 50_000_000, "a JVM and a driver"


def test_rest_counts_memory_and_cpu_of_all_that_runs_for_a_pair(tmp_path: Path) -> None:
    line, detail = bench(tmp_path, "rest", "--scale", "0.1", "--rounds", "1", "--warm-up", "0")
    memory, cpu = detail["figures"]
    [run] = memory["runs"]["ours"]
    assert run["detail"].keys() == {"workers of Spark", "Redis", "Spark"}
    assert min(run["detail"].values()) > 1.0 and sum(run["detail"].values()) == pytest.approx(run["value"])
    assert values(cpu, "ours")
    assert line["ratio"] is None and memory["name"] == "a pair at rest, memory"


def test_failover_tells_how_long_an_application_cannot_write(tmp_path: Path) -> None:
    line, detail = bench(tmp_path, "failover", "--scale", "0.01", "--rounds", "1", "--warm-up", "0")
    names = [figure["name"] for figure in line["figures"]]
    assert names == ["without writes", "the guard's part of it", "statements that failed"]
    (run,) = detail["figures"][0]["runs"]["ours"]
    assert run["detail"]["refused"] > 0 and run["detail"]["committed"] > 200
    assert set(run["detail"]["steps"]) >= {"verify", "prepare", "guard", "reach", "complete", "switch"}
