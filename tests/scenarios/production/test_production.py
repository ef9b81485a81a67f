"""docker-compose.yaml, run as a whole by podman: from nothing to NORMAL by two commands, through everything that dies.

Tests run in their order, on one shape. docs/production.md says which images stand in for the real ones.
"""

import json
import time
from functools import partial

import pytest

from tests.scenarios.production.compose import ComposeFailed, podman
from tests.scenarios.production.shape import Shape, until

pytestmark = pytest.mark.long

LASTING = (
    "metadata", "redis", "s3", "master", "slave", "spark-master", "spark-connect", "spark-worker-1", "spark-worker-2",
    "api-server", "scheduler", "dag-processor", "triggerer",
)  # fmt: skip


def healthy(shape: Shape, service: str) -> bool:
    good, said = shape.compose.probe(service)
    if not good:
        raise ComposeFailed(said)
    return True


def heals(shape: Shape, limit: float = 600) -> None:
    """All containers are healthy again by themselves, changes arrive, and both sides are equal."""
    for service in LASTING:  # one by one: where much waits for the CPU, some check is always late
        until(partial(healthy, shape, service), limit, f"{service} heals")
    shape.changes_arrive(limit)
    shape.is_equal()


def test_two_commands_end_in_a_loaded_slave_and_say_where_the_pages_are(shape: Shape) -> None:
    assert set(LASTING) == set(shape.compose.lasting)
    said = shape.compose.logs("welcome")
    assert "SHOP_ to dr1 is NORMAL." in said
    password = json.loads(shape.compose.exec("api-server", "cat", "/var/lib/airflow/passwords.json"))["admin"]
    assert said.splitlines()[-1].startswith(f"Sluice is at {shape.address}/sluice/, user admin. The password: docker")
    assert password not in said
    assert shape.call("GET", "/sluice/").startswith("<!doctype html>")
    shape.is_equal()


def test_a_second_up_changes_nothing(shape: Shape) -> None:
    before = shape.overview()["since"]
    assert shape.compose.run("secrets").startswith("0 files made")
    shape.compose.up()
    said = shape.compose.logs("welcome")
    assert (said.count("Loading"), said.count("Sluice is at")) == (1, 2)
    assert shape.overview()["since"] == before


def test_the_apply_is_a_query_of_the_cluster(shape: Shape) -> None:
    assert shape.applies_on().startswith("spark-worker"), shape.overview()
    assert "job_runner" not in shape.compose.exec("scheduler", "ps", "-ef"), "no apply is a child of the scheduler"


def test_changes_arrive_and_a_comparison_by_the_cluster_finds_no_difference(shape: Shape) -> None:
    shape.changes_arrive()
    shape.succeeds("resync", action="verify")
    assert shape.overview()["not_equal"] == 0


def test_the_command_works_inside_a_container(shape: Shape) -> None:
    assert "NORMAL" in shape.compose.exec("scheduler", "sluice", "status", "SHOP_", "dr1")


def test_files_are_carried_by_s3_after_an_approval(shape: Shape) -> None:
    run = shape.trigger("initial_update", transfer="files", location="s3://sluice/out")
    shape.answer("initial_update", run, "approve", "Approve")
    shape.ends("initial_update", run)
    shape.is_equal()


def test_pages_of_spark_answer_only_inside_of_their_container(shape: Shape) -> None:
    ask = "import socket; socket.create_connection(('spark-connect', {}), 5)"
    shape.compose.exec("scheduler", "python", "-c", ask.format(15002))
    refused = podman("exec", shape.compose.container("scheduler"), "python", "-c", ask.format(4040), check=False)
    assert "refused" in refused.stderr


@pytest.mark.parametrize("service", LASTING)
def test_one_container_that_is_killed_comes_back(shape: Shape, service: str) -> None:
    shape.compose.kill(service)
    heals(shape)


@pytest.mark.parametrize("service", ["scheduler", "triggerer", "api-server", "dag-processor", "metadata"])
def test_rows_flow_while_a_part_of_airflow_is_gone(shape: Shape, service: str) -> None:
    """For longer than any lease."""
    shape.compose.stop(service)
    try:
        for _ in range(4):
            shape.changes_arrive(60)
            time.sleep(10)
    finally:
        shape.compose.start(service)
    heals(shape)


def test_a_closed_gate_survives_the_death_of_redis(shape: Shape) -> None:
    """Redis would refuse to replay its transactions if the user default had no rights."""
    shape.succeeds("gate", action="close", reason="its disk is replaced")
    shape.compose.kill("redis")
    until(lambda: shape.compose.probe("redis")[0], 120, "Redis is back")
    log = shape.compose.logs("redis")
    assert "NOPERM" not in log
    mark = shape.change()
    time.sleep(20)
    assert not shape.has(mark), "the gate is open"
    shape.succeeds("gate", action="open", reason="it is back")
    until(lambda: shape.has(mark), 300, "the gate opens")


def test_all_containers_killed_at_once_come_back(shape: Shape) -> None:
    shape.compose.kill(*LASTING)
    heals(shape, 900)
    shape.succeeds("resync", action="verify")


@pytest.mark.parametrize("service", ["slave", "redis", "spark-worker-1", "spark-connect", "scheduler", "master"])
def test_a_container_without_its_network_for_minutes_comes_back(shape: Shape, service: str) -> None:
    with shape.compose.isolated(service):
        time.sleep(180)
    heals(shape, 900)


@pytest.mark.parametrize("service", ["slave", "redis"])
def test_a_full_volume_harms_nothing(shape: Shape, service: str) -> None:
    with shape.full(service):
        for _ in range(6):
            shape.change()
            time.sleep(10)
    heals(shape, 900)


def test_an_image_is_replaced_while_rows_flow(shape: Shape) -> None:
    """Part by part, Spark last."""
    with (shape.folder / "plugins" / "sluice" / "errors.py").open("a") as library:
        library.write("\n# Another release.\n")
    shape.compose.build()
    airflow = ("api-server", "scheduler", "dag-processor", "triggerer")
    for service in (*airflow, "spark-master", "spark-worker-1", "spark-worker-2", "spark-connect"):
        shape.change()
        shape.compose.recreate(service)
        shape.compose.await_healthy(service)
    heals(shape, 900)
    until(lambda: shape.applies_on().startswith("spark-worker"), 300, "the apply is a query of the cluster")
    shape.succeeds("resync", action="verify")


def test_down_keeps_the_data_and_up_goes_on(shape: Shape) -> None:
    shape.compose.down(volumes=False)
    shape.compose.up()
    heals(shape)
