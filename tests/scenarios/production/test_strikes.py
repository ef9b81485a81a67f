"""What of docker-compose.yaml dies, hangs, fills up or gets another time heals by itself.

One part after the other, on the shape that test_production.py brought up.
"""

import contextlib
import time

import pytest

from tests.scenarios.production.shape import Shape, until

pytestmark = pytest.mark.long

LASTING = (
    "metadata", "redis", "s3", "master", "slave", "spark-master", "spark-connect", "spark-worker-1", "spark-worker-2",
    "api-server", "scheduler", "dag-processor", "triggerer",
)  # fmt: skip


def test_each_lasting_part_is_struck(shape: Shape) -> None:
    assert set(LASTING) == set(shape.compose.lasting)


@pytest.mark.parametrize("service", LASTING)
def test_one_container_that_is_killed_comes_back(shape: Shape, service: str) -> None:
    shape.compose.kill(service)
    shape.heals()


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


@pytest.mark.parametrize("emptied", [False, True])
def test_a_closed_gate_survives_the_death_of_redis(shape: Shape, emptied: bool) -> None:
    """Redis would refuse to replay its transactions if the user default had no rights. Without its files, the slave's
    copy counts."""
    shape.succeeds("gate", action="close", reason="its disk is replaced")
    if emptied:
        shape.compose("rm", "--stop", "--force", "redis")
        shape.lose("redis")
        shape.compose("up", "--detach", "redis")
    else:
        shape.compose.kill("redis")
    until(lambda: "redis" not in shape.compose.unhealthy(), 120, "Redis is back")
    assert "NOPERM" not in shape.compose.logs("redis")
    mark = shape.change()
    time.sleep(20)
    assert not shape.has(mark), "the gate is open"
    shape.succeeds("gate", action="open", reason="it is back")
    until(lambda: shape.has(mark), 300, "the gate opens")


@pytest.mark.parametrize("services", [("scheduler", "spark-worker-1"), ("slave", "spark-connect"), ("master", "redis")])
def test_containers_without_their_network_for_five_minutes_come_back(shape: Shape, services: tuple[str, str]) -> None:
    """Two at once, far from each other: longer than Spark waits for a silent executor, and than any lease."""
    with contextlib.ExitStack() as cut:
        for service in services:
            cut.enter_context(shape.compose.isolated(service))
        mark = shape.change()
        time.sleep(300)
        assert not shape.has(mark) or not {"master", "slave"} & set(services), "the network is gone"
    shape.heals()


@pytest.mark.parametrize("service", ["slave", "redis", "metadata"])
def test_a_full_volume_harms_nothing(shape: Shape, service: str) -> None:
    with shape.full(service):
        for _ in range(6):
            shape.change()
            time.sleep(10)
    shape.heals()


def test_the_clock_is_moved_by_an_hour_and_back(shape: Shape) -> None:
    with shape.movable_clock() as move:
        shape.heals()
        for seconds in (3600, 0):
            move(seconds)
            time.sleep(60)  # longer than the shortest lease and heartbeat
            now = float(shape.query("slave", "SELECT extract(epoch FROM now())"))
            assert abs(now - time.time() - seconds) < 60, "the slave's clock is moved"
            shape.heals()
            shape.succeeds("resync", action="verify")
