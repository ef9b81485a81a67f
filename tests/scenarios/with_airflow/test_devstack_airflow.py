"""The whole stack, Airflow included."""

import stat
import subprocess
from pathlib import Path

import pytest

from devstack.commands import pairs
from devstack.stack import Stack
from sluice.cli.airflow_api import AirflowApi, ApiRefused
from spark_jobs.endpoint import Endpoint
from spark_jobs.session import SparkExecutor
from tests.library import command, copied
from tests.scenarios.demo.sockets import KINDS, Watch
from tests.stacks import until


def test_every_component_shows_a_heartbeat(stack: Stack) -> None:
    healthy = dict.fromkeys(("metadatabase", "scheduler", "triggerer", "dag_processor"), "healthy")
    until(lambda: {n: part["status"] for n, part in stack.airflow.api().health().items()} == healthy, 300)


def test_only_the_generated_login_opens_the_api(stack: Stack) -> None:
    assert stack.airflow.api().get("version")["version"].startswith("3.")
    with pytest.raises(ApiRefused) as raised:
        AirflowApi(stack.airflow.url, "admin", "admin").get("connections")
    assert raised.value.status == 401
    with pytest.raises(ApiRefused):
        AirflowApi(stack.airflow.url).get("connections")


def test_airflow_knows_master_slaves_and_spark(stack: Stack) -> None:
    found = {c["connection_id"]: c for c in stack.airflow.api().get("connections")["connections"]}
    assert {"demo_master", "demo_dr1", "spark_default"} <= set(found)
    assert found["demo_dr1"]["port"] == stack.connection("dr1").port
    assert (found["spark_default"]["conn_type"], found["spark_default"]["host"]) == ("spark_connect", "localhost")
    assert found["spark_default"]["port"] == stack.services.spark.port
    assert stack.connection("dr1").password not in str(found)


def test_a_connection_that_a_person_changed_stays_changed(stack: Stack) -> None:
    api = stack.airflow.api()
    api.call("PATCH", "connections/spark_default?update_mask=host", _spark("spark://elsewhere"))
    stack.services.register_connections()
    assert api.get("connections/spark_default")["host"] == "spark://elsewhere"
    api.call("PATCH", "connections/spark_default?update_mask=host", _spark("localhost"))


def test_a_new_slave_is_known_to_airflow_at_once(stack: Stack) -> None:
    stack.add_slave("dr2")
    assert stack.airflow.api().get("connections/demo_dr2")["port"] == stack.slaves["dr2"].port


def test_status_shows_a_replication_whose_connections_a_person_made(stack: Stack) -> None:
    own = stack.home.root.parent / "own"
    own.mkdir()
    (own / "OWN.yaml").write_text(
        "prefix: OWN_\nmaster: {conn_id: own_master}\nslaves: {eu: {conn_id: own_eu}, us: {conn_id: own_us}}\n"
        "tables: {'public.*': {}}\n"
    )
    Stack(stack.home.root, replications=own).up()
    for name, place in (("own_master", "master"), ("own_eu", "dr1")):
        info = stack.connection(place)
        entry = {"connection_id": name, "conn_type": "postgres", "host": info.host, "port": info.port}
        entry |= {"schema": info.database, "login": info.user, "password": info.password}
        stack.airflow.api().set_connections([entry])
    shown = pairs(Stack(stack.home.root))
    assert any(line.startswith("DEMO_ from demo_master") for line in shown), "the demo's own file stays in force"
    of_master = f"OWN_ from own_master ({stack.connection('master').address}): nothing is installed on the master yet"
    assert shown[shown.index(of_master) :][:3] == [
        of_master,
        "OWN_ → eu: not loaded yet. Load it: ./sluice act initiate OWN_ eu",
        "OWN_ → us: Airflow has no connection 'own_us': add it under Admin, Connections.",
    ]
    assert "Airflow has no connection 'own_us'" in shown[-1], "as the monitor says it"


@pytest.mark.long
def test_another_machine_shows_the_status_over_the_api_alone(stack: Stack, tmp_path: Path) -> None:
    library = copied(tmp_path)
    passwords = tmp_path / "pgpass"
    entries = [stack.connection(place) for place in ("master", "dr1")]
    passwords.write_text("".join(f"{one.host}:{one.port}:*:{one.user}:{one.password}\n" for one in entries))
    passwords.chmod(0o600)
    own = tmp_path / "replications"
    own.mkdir()
    (own / "LEFT.yaml").write_text(
        "prefix: LEFT_\nmaster: {conn_id: demo_master}\nslaves: {eu: {conn_id: demo_dr1}, us: {conn_id: nowhere}}\n"
        "tables: {'public.*': {}}\n"
    )
    token = stack.airflow.api()._login()
    assert token
    given = {"SLUICE_AIRFLOW_TOKEN": token, "SLUICE_REDIS_URL": stack.redis_url, "PGPASSFILE": str(passwords)}
    arguments = ("status", "--airflow", stack.airflow.url, "--replications", str(own))
    shown = subprocess.run(**command(library, *arguments, **given), capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-3:] == [
        f"LEFT_ from demo_master ({stack.connection('master').address}): nothing is installed on the master yet",
        "LEFT_ → eu: not loaded yet. Load it: ./sluice act initiate LEFT_ eu",
        "LEFT_ → us: Airflow has no connection 'nowhere': add it under Admin, Connections.",
    ]


def test_no_socket_answers_without_credentials(stack: Stack) -> None:
    supervisor = stack.status().supervisor
    assert supervisor is not None
    wanted = {kind.name for kind in KINDS} - {"Spark's workers"}  # which end with their share of the work
    with Watch(stack.home, supervisor.pid) as watch:
        until(lambda: watch.seen >= wanted or watch.answered)
    assert watch.answered == []


@pytest.mark.long
def test_a_killed_scheduler_comes_back_with_all_its_workers_replaced(stack: Stack) -> None:
    before = stack.await_running("airflow-scheduler").restarts
    killed = stack.kill("airflow-scheduler")
    report = stack.await_running("airflow-scheduler", 60.0, after=killed)
    assert report.restarts == before + 1
    assert stack.airflow.api().health()["scheduler"]["status"] == "healthy"


@pytest.mark.long
def test_a_killed_spark_comes_back_warm_at_the_same_address(stack: Stack) -> None:
    before = stack.await_running("spark", 180.0).restarts
    address, killed = stack.services.spark.server.url, stack.kill("spark")
    assert stack.await_running("spark", 180.0, after=killed).restarts == before + 1
    assert stack.services.spark.server.url == address
    executor = SparkExecutor("sluice test", Endpoint(address))
    assert executor.map(lambda number: number, 2) == [0, 1]
    executor.stop()


def test_no_secret_is_on_a_command_line_or_in_a_file_that_others_can_read(stack: Stack) -> None:
    folder = stack.home.airflow / "secrets"
    secrets = [path.read_text().strip() for path in folder.iterdir() if path.suffix != ".json"]
    secrets.append(stack.services.spark.token)
    secrets += [stack.connection("dr1").password, stack.services.metadata.info().password, stack.redis_url]
    assert len(secrets) >= 7
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = entry.read_bytes().decode(errors="replace")
        except OSError:
            continue
        assert not any(secret in text for secret in secrets)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    for log in stack.home.logs.glob("*.log"):
        assert not any(secret in log.read_text(errors="replace") for secret in secrets), log


def _spark(host: str) -> dict[str, str]:
    return {"connection_id": "spark_default", "conn_type": "spark_connect", "host": host}
