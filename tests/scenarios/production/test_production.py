"""docker-compose.yaml, run as a whole by Docker: from nothing to NORMAL by two commands, power cut, upgrade, restore.

Tests run in their order, on one shape. docs/production.md says which images stand in for the real ones.
"""

import re

import pytest

from tests.scenarios.production.docker import CommandFailed
from tests.scenarios.production.shape import ADDRESS, Shape, until

pytestmark = pytest.mark.long

STATEFUL = {"metadata", "redis", "s3", "master", "slave"}
PASSWORD = "PGPASSWORD=$(cat /run/secrets/metadata_password)"
ERROR = re.compile(r"\[(error|critical)|\b(ERROR|FATAL|CRITICAL)\b|^[EF]\d{4} |Traceback")
BEFORE_ITS_TABLES = 'relation "log" does not exist'
"""Airflow notes its command that makes them."""


def test_two_commands_end_in_a_loaded_slave_and_say_where_the_pages_are(shape: Shape) -> None:
    *_, state, pages = [line for line in shape.said.splitlines() if line.startswith("welcome-1 ")]
    assert state.endswith("SHOP_ to dr1 is NORMAL.")
    assert f"Sluice is at {ADDRESS}/sluice/, user admin. The password: docker compose exec" in pages
    assert shape.password() not in shape.said
    assert shape.call("GET", "/sluice/").startswith("<!doctype html>")
    shape.is_equal()


def test_a_second_up_changes_nothing(shape: Shape) -> None:
    before = shape.overview()["since"]
    assert "0 files made" in shape.compose("run", "--rm", "secrets")
    assert "Loads the slave" not in shape.up()
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
    assert "usage: sluice " in shape.compose.exec("scheduler", "sluice", "--help"), "as it is typed there"


def test_no_log_has_an_error(shape: Shape) -> None:
    logs = {service: shape.compose.logs(service, 20_000).splitlines() for service in shape.compose.states()}
    assert all(logs.values())
    assert [
        f"{service}: {line[:300]}"
        for service, lines in logs.items()
        for line in lines
        if ERROR.search(line) and BEFORE_ITS_TABLES not in line
    ] == []


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


def test_all_containers_killed_at_once_come_back(shape: Shape) -> None:
    shape.compose.kill(*shape.compose.lasting)
    shape.heals()
    shape.succeeds("resync", action="verify")


def test_the_machine_loses_its_power(shape: Shape) -> None:
    """The daemon is gone as well, starts later, and starts all containers in its own order."""
    shape.daemon.cut_power()
    shape.daemon.start()
    shape.heals()
    shape.succeeds("resync", action="verify")


def test_an_image_is_replaced_while_rows_flow(shape: Shape) -> None:
    """In the order of docs/production.md. Meanwhile a reader of the slave sees only states of the master."""
    with (shape.folder / "plugins" / "sluice" / "errors.py").open("a") as library:
        library.write("\n# Another release.\n")
    old = shape.images()
    shape.compose("build")
    with shape.watched_transfers():
        shape.compose("up", "--detach", "--no-deps", "airflow-init")
        shape.compose("up", "--detach", "--no-deps", "api-server", "scheduler", "dag-processor", "triggerer")
        shape.works()
        shape.compose("up", "--detach")
        shape.works()
        until(lambda: shape.applies_on().startswith("spark-worker"), 300, "the apply is a query of the cluster")
    shape.is_equal()
    new = shape.images()
    assert {name for name in shape.compose.lasting if old[name] == new[name]} == STATEFUL
    shape.succeeds("resync", action="verify")


def test_down_keeps_the_data_and_up_goes_on(shape: Shape) -> None:
    shape.compose("down")
    shape.up()
    shape.heals()


def test_secrets_databases_and_a_dump_of_the_metadata_are_all_that_must_be_kept(shape: Shape) -> None:
    """By the commands of docs/production.md."""
    before = shape.runs()
    backup = shape.compose.exec("metadata", "sh", "-c", f"{PASSWORD} pg_dump -U airflow airflow")
    shape.compose("down")
    shape.lose("metadata", "airflow", "sluice", "redis", "s3", "spark")
    shape.compose("up", "--detach", "--wait", "metadata")
    restore = f"{PASSWORD} psql -q -v ON_ERROR_STOP=1 -U airflow airflow"
    shape.compose.exec("metadata", "sh", "-c", restore, text=backup)
    assert "NORMAL" in shape.up()
    shape.heals()
    assert shape.runs() >= before
    shape.succeeds("resync", action="verify")


def test_own_databases_take_the_place_of_the_example_by_two_lines(shape: Shape) -> None:
    example = shape.folder / "include" / "docker" / "replications" / "SHOP.yaml"
    (shape.folder / "own").mkdir()
    (shape.folder / "own" / "OWN.yaml").write_text(example.read_text().replace("SHOP_", "OWN_"))
    (shape.folder / ".env").write_text("SLUICE_REPLICATIONS=./own\nSLUICE_EXAMPLE=0\n")
    try:
        said = shape.up()
        assert "Sluice is at" in said and "SHOP_" not in said
        assert not {"master", "slave"} & shape.compose.states().keys()
        shown = shape.call("GET", "/sluice/overview.json")["masters"]
        assert [one["prefix"] for one in shown] == ["OWN_"]
    finally:
        (shape.folder / ".env").unlink()
    shape.up()
    shape.heals()
