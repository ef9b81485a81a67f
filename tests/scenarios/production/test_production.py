"""docker-compose.yaml, run as a whole by Docker: from nothing to NORMAL by two commands, through everything that dies.

Tests run in their order, on one shape. docs/production.md says which images stand in for the real ones.
"""

import time

import pytest

from tests.scenarios.production.docker import CommandFailed
from tests.scenarios.production.shape import ADDRESS, Shape, until

pytestmark = pytest.mark.long

LASTING = (
    "metadata", "redis", "s3", "master", "slave", "spark-master", "spark-connect", "spark-worker-1", "spark-worker-2",
    "api-server", "scheduler", "dag-processor", "triggerer",
)  # fmt: skip


def test_two_commands_end_in_a_loaded_slave_and_say_where_the_pages_are(shape: Shape) -> None:
    assert set(LASTING) == set(shape.compose.lasting)
    assert "SHOP_ to dr1 is NORMAL." in shape.said
    assert f"Sluice is at {ADDRESS}/sluice/, user admin. The password: docker compose exec" in shape.said
    assert shape.password() not in shape.said
    assert shape.call("GET", "/sluice/").startswith("<!doctype html>")
    shape.is_equal()


def test_a_second_up_changes_nothing(shape: Shape) -> None:
    before = shape.overview()["since"]
    assert "0 files made" in shape.compose("run", "--rm", "secrets")
    assert "Loading" not in shape.up()
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
    with pytest.raises(CommandFailed, match="refused"):
        shape.compose.exec("scheduler", "python", "-c", ask.format(4040))


@pytest.mark.parametrize("service", LASTING)
def test_one_container_that_is_killed_comes_back(shape: Shape, service: str) -> None:
    shape.compose.kill(service)
    shape.heals()


def test_all_containers_killed_at_once_come_back(shape: Shape) -> None:
    shape.compose.kill(*LASTING)
    shape.heals()
    shape.succeeds("resync", action="verify")


def test_the_machine_loses_its_power(shape: Shape) -> None:
    """The daemon is gone as well, starts later, and starts all containers in an order of its own."""
    shape.daemon.cut_power()
    shape.daemon.start()
    shape.heals()
    shape.succeeds("resync", action="verify")


@pytest.mark.parametrize("service", ["scheduler", "triggerer", "api-server", "dag-processor", "metadata"])
def test_rows_flow_while_a_part_of_airflow_is_gone(shape: Shape, service: str) -> None:
    """For longer than any lease."""
    shape.compose("stop", service)
    try:
        for _ in range(4):
            shape.changes_arrive(60)
            time.sleep(10)
    finally:
        shape.compose("start", service)
    shape.heals()


def test_a_closed_gate_survives_the_death_of_redis(shape: Shape) -> None:
    """Redis would refuse to replay its transactions if the user default had no rights."""
    shape.succeeds("gate", action="close", reason="its disk is replaced")
    shape.compose.kill("redis")
    until(lambda: "redis" not in shape.compose.unhealthy(), 120, "Redis is back")
    assert "NOPERM" not in shape.compose.logs("redis")
    mark = shape.change()
    time.sleep(20)
    assert not shape.has(mark), "the gate is open"
    shape.succeeds("gate", action="open", reason="it is back")
    until(lambda: shape.has(mark), 300, "the gate opens")


@pytest.mark.parametrize("service", ["slave", "redis", "spark-worker-1", "spark-connect", "scheduler", "master"])
def test_a_container_without_its_network_for_minutes_comes_back(shape: Shape, service: str) -> None:
    with shape.compose.isolated(service):
        time.sleep(180)
    shape.heals()


@pytest.mark.parametrize("service", ["slave", "redis", "metadata"])
def test_a_full_volume_harms_nothing(shape: Shape, service: str) -> None:
    with shape.full(service):
        for _ in range(6):
            shape.change()
            time.sleep(10)
    shape.heals()


def test_an_image_is_replaced_while_rows_flow(shape: Shape) -> None:
    """In the order of docs/production.md. Meanwhile a reader of the slave sees only states of the master."""
    with (shape.folder / "plugins" / "sluice" / "errors.py").open("a") as library:
        library.write("\n# Another release.\n")
    old = shape.images()
    shape.compose.build()
    with shape.watched_transfers():
        shape.compose("up", "--detach", "--no-deps", "airflow-init")
        shape.compose("up", "--detach", "--no-deps", "api-server", "scheduler", "dag-processor", "triggerer")
        shape.heals()
        shape.compose("up", "--detach")
        shape.heals()
        until(lambda: shape.applies_on().startswith("spark-worker"), 300, "the apply is a query of the cluster")
    new = shape.images()
    ours = set(LASTING) - {"metadata", "redis", "s3", "master", "slave"}
    assert {name for name in LASTING if old[name] != new[name]} == ours
    shape.succeeds("resync", action="verify")


def test_down_keeps_the_data_and_up_goes_on(shape: Shape) -> None:
    shape.compose("down")
    shape.up()
    shape.heals()
