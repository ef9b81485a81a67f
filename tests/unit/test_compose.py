"""docker-compose.yaml conforms to the compose specification and to the rules of production."""

import contextlib
import json
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from jsonschema.validators import validator_for

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOT = {"secrets", "airflow-init", "welcome"}


def specification_errors(document: Any) -> list[str]:
    file = resources.files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    schema = json.loads(file.read_text(encoding="utf-8"))
    validator = validator_for(schema)
    validator.check_schema(schema)
    return [f"{list(error.absolute_path)}: {error.message}" for error in validator(schema).iter_errors(document)]


def names(entries: list[Any]) -> set[str]:
    return {entry["source"] if isinstance(entry, dict) else entry for entry in entries}


def test_holds_to_the_compose_specification() -> None:
    assert specification_errors(COMPOSE) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["services", "redis", "imgae"], "redis:8"),
        (["services", "redis", "healthcheck", "intervall"], "10s"),
        (["services", "redis", "restart"], 3),
        (["volums"], {}),
    ],
)
def test_the_specification_would_notice_a_mistake(path: list[str], value: Any) -> None:
    document = yaml.safe_load(TEXT)
    target = document
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    assert specification_errors(document)


def test_holds_every_part_of_the_production_shape() -> None:
    commands = {name: service.get("command", []) for name, service in SERVICES.items()}
    for part in ("api-server", "scheduler", "dag-processor", "triggerer"):
        assert part in commands[part]
    assert commands["airflow-init"] == ["db", "migrate"]
    assert "org.apache.spark.deploy.master.Master" in commands["spark-master"]
    workers = [name for name, command in commands.items() if "org.apache.spark.deploy.worker.Worker" in command]
    assert len(workers) == 2
    assert {"spark_jobs.connect_server", "spark://spark-master:7077"} <= set(commands["spark-connect"])
    assert (ROOT / "spark_jobs" / "connect_server.py").exists()
    images = {name: service["image"] for name, service in SERVICES.items()}
    assert images["redis"].startswith("redis:")
    assert "-s3" in commands["s3"]
    assert {images[name].split(":")[0] for name in ("metadata", "master", "slave")} == {"postgres"}


def test_airflow_and_spark_run_from_one_image_with_the_locked_packages() -> None:
    built = {name: service for name, service in SERVICES.items() if "build" in service}
    assert {service["image"] for service in built.values()} == {"${SLUICE_IMAGE:-sluice}:${SLUICE_VERSION:-latest}"}
    assert {"scheduler", "triggerer", "spark-master", "spark-connect", "spark-worker-1", "spark-worker-2"} <= set(built)
    assert {service["pull_policy"] for service in built.values()} == {"never"}
    recipe = (ROOT / built["scheduler"]["build"]["dockerfile"]).read_text()
    assert "--no-deps --require-hashes -r /tmp/requirements.lock" in recipe
    assert "USER 50000" in recipe
    for source in re.findall(r"^COPY (\S+)", recipe, re.MULTILINE):
        assert (ROOT / source).exists(), f"the image copies {source}, which is not there"


def test_foreign_images_are_pinned() -> None:
    for name, service in SERVICES.items():
        if "build" not in service:
            assert re.fullmatch(r"[\w./-]+:\d[\w.-]*", service["image"]), name


def test_everything_lasting_is_watched_and_restarted() -> None:
    for name, service in SERVICES.items():
        if name in ONE_SHOT:
            assert service["restart"] == "no"
        else:
            assert service["restart"] == "unless-stopped", name
            assert service["healthcheck"]["test"], name


def test_a_part_that_starts_slowly_does_not_end_up() -> None:
    """`up` gives up where something is unhealthy, and what waits for it stays created."""
    checks = [service["healthcheck"] for name, service in SERVICES.items() if name not in ONE_SHOT]
    assert {check.get("start_period") for check in checks} == {"900s"}


def test_a_service_waits_only_for_services_with_a_health_check() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            assert needed in SERVICES, name
            if how["condition"] == "service_completed_successfully":
                assert needed in ONE_SHOT
            else:
                assert how["condition"] == "service_healthy"
                assert "healthcheck" in SERVICES[needed]


@pytest.mark.parametrize("kind", ["secrets", "networks", "volumes"])
def test_declared_and_used_names_are_the_same(kind: str) -> None:
    used: set[str] = set()
    for service in SERVICES.values():
        entries = names(service.get(kind, []))
        if kind == "volumes":
            entries = {re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", entry).split(":")[0] for entry in entries}
            for folder in (entry for entry in entries if entry.startswith(".")):
                assert folder == "./.secrets" or (ROOT / folder).exists()
            entries = {entry for entry in entries if not entry.startswith((".", "/"))}
        used |= entries
    assert used == set(COMPOSE[kind])


def test_no_secret_stands_in_the_file_or_in_an_environment() -> None:
    for name, service in SERVICES.items():
        for variable, value in (service.get("environment") or {}).items():
            if re.search(r"PASSWORD|SECRET_KEY|JWT_SECRET|FERNET|CONN(_ASYNC)?(_|$)|TOKEN", variable):
                from_file = variable.endswith(("_FILE", "_CMD"))
                assert from_file, f"{name}: {variable}"
            assert not re.search(r"://[^/\s]*:[^/\s]*@", str(value)), f"{name}: {variable}"
        assert "password" not in " ".join(service.get("command", [])).lower(), name
    for secret in COMPOSE["secrets"].values():
        assert set(secret) == {"file"}
        assert secret["file"].startswith("${SLUICE_SECRETS:-./.secrets}/")


@pytest.mark.long
def test_airflow_writes_no_password_into_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It would write those that it makes itself."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    assert "logins.py" in " ".join(SERVICES["api-server"]["entrypoint"])
    file = tmp_path / "passwords.json"
    file.write_text('{"admin": "known"}')
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "admin:admin, anna:op,ben:viewer")
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(file))
    for _ in range(2):
        subprocess.run([sys.executable, ROOT / "include/docker/logins.py"], check=True)
        SimpleAuthManager().init()
    passwords = json.loads(file.read_text())
    assert passwords["admin"] == "known" and set(passwords) == {"admin", "anna", "ben"}
    assert file.stat().st_mode & 0o077 == 0
    written = "".join(capfd.readouterr())
    assert "Password for user" not in written
    assert not [user for user, password in passwords.items() if password in written]


def test_no_command_of_compose_needs_a_variable() -> None:
    read = re.sub(r"(?m)^ *#.*", "", TEXT)
    assert re.findall(r"(?<!\$)\$(?!\$|\{\w+:-)", read) == []


def made_secrets(folder: Path) -> "subprocess.CompletedProcess[str]":
    """What the service `secrets` does, but for the owners, who only root can set."""
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "chown").write_text("#!/bin/sh\nexit 0\n")
    (programs / "chown").chmod(0o755)
    script = str(ROOT / "include" / "docker" / "secrets.sh")
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(["sh", script, str(folder)], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.long
def test_every_secret_is_made_for_its_reader_and_never_twice(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    done = made_secrets(folder)
    assert done.returncode == 0, done.stderr
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert set(files) == set(COMPOSE["secrets"]) | {"ca.key"}
    assert {file.name for file in folder.iterdir() if file.stat().st_mode & 0o077} == {
        name for name in files if name.endswith(".crt")
    }
    single = {"metadata_password", "metadata_url", "fernet_key", "jwt_secret", "redis_url", "spark_token"}
    assert not any(files[name].endswith(b"\n") for name in single)
    connections = yaml.safe_load(files["connections.yaml"])
    assert connections["shop_master"]["password"].encode() == files["sluice_master_password"]
    assert connections["spark_default"]["password"].encode() == files["spark_token"]
    assert urlsplit(files["redis_url"].decode()).password in files["redis.acl"].decode().split("user sluice")[1]  # type: ignore[operator]
    assert len({content for name, content in files.items() if "password" in name}) == 5

    (folder / "fernet_key").unlink()  # as from an earlier release, which did not need it
    (folder / "connections.yaml").chmod(0o644)  # as a person writes it
    assert made_secrets(folder).returncode == 0
    assert (folder / "connections.yaml").stat().st_mode & 0o777 == 0o400
    again = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {name for name in files if again[name] != files[name]} == {"fernet_key"}


@pytest.mark.long
def test_a_certificate_that_was_removed_is_made_again_by_the_same_authority(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    assert made_secrets(folder).returncode == 0
    before = (folder / "redis.crt").read_bytes()
    (folder / "redis.crt").unlink()
    ours = (folder / "ca.crt").read_bytes()
    (folder / "ca.crt").chmod(0o644)
    (folder / "ca.crt").write_bytes(ours + (folder / "s3.crt").read_bytes())  # as a person adds another authority
    assert made_secrets(folder).returncode == 0
    assert (folder / "redis.crt").read_bytes() != before
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    for name, host in {"redis": "redis", "spark-connect": "spark-connect", "master": "master"}.items():
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(to_client, to_server, server_hostname=host)
        server = own.wrap_bio(to_server, to_client, server_side=True)
        for side in (client, server, client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
        assert client.version() == "TLSv1.3"


def test_no_newline_at_the_end_of_a_secret_becomes_part_of_it(tmp_path: Path) -> None:
    """Airflow takes the output of such a command as it is."""
    commands = {
        value
        for service in SERVICES.values()
        for name, value in (service.get("environment") or {}).items()
        if name.endswith("_CMD")
    }
    assert len(commands) == 5
    (tmp_path / "secret").write_text("word\n\n")
    for command in commands:
        there = re.sub(r"/run/secrets/\w+", str(tmp_path / "secret"), command.replace("$$", "$"))
        arguments = shlex.split(there)
        assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout == "word"


def test_the_build_sends_no_secret() -> None:
    allowed = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    recipe = (ROOT / SERVICES["scheduler"]["build"]["dockerfile"]).read_text()
    assert allowed == set(re.findall(r"^COPY (\S+)", recipe, re.MULTILINE))
    assert ".secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_each_part_has_only_its_own_secrets() -> None:
    database = {"metadata_url", "metadata_url_async"}
    reaching = database | {"fernet_key", "api_secret_key", "jwt_secret", "connections.yaml", "redis_url", "ca.crt"}
    worker = {"spark-defaults.conf", "ca.crt", "aws_credentials"}
    assert {name: names(service.get("secrets", [])) for name, service in SERVICES.items()} == {
        "secrets": set(),
        "airflow-init": database,
        "api-server": reaching,
        "scheduler": reaching | {"aws_credentials"},
        "dag-processor": database | {"redis_url", "ca.crt"},
        "welcome": {"aws_credentials", "ca.crt"},
        "triggerer": reaching,
        "metadata": {"metadata_password"},
        "spark-master": {"spark-defaults.conf"},
        "spark-connect": {"spark-defaults.conf", "spark_token", "spark-connect.crt", "spark-connect.key"},
        "spark-worker-1": worker,
        "spark-worker-2": worker,
        "redis": {"redis.acl", "redis.crt", "redis.key", "ca.crt"},
        "s3": {"s3.json", "s3.crt", "s3.key"},
        "master": {"master_password", "sluice_master_password", "master.crt", "master.key"},
        "slave": {"slave_password", "sluice_slave_password", "slave.crt", "slave.key"},
    }


def test_a_part_reads_only_secrets_that_it_has() -> None:
    for name, service in SERVICES.items():
        texts = [str(value) for value in (service.get("environment") or {}).values()]
        texts += [str(part) for part in service.get("command", [])]
        targets = {
            entry.get("target", f"/run/secrets/{entry['source']}")
            if isinstance(entry, dict)
            else f"/run/secrets/{entry}"
            for entry in service.get("secrets", [])
        }
        for path in re.findall(r"/run/secrets/[\w.-]+", " ".join(texts)):
            assert path in targets, f"{name}: {path}"


def test_no_part_has_rights_that_it_does_not_need() -> None:
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        if name == "secrets":  # it gives files away, without any network
            assert service["network_mode"] == "none"
            continue
        assert "user" not in service, name
        # The images of others begin as root and become another user.
        needed = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
        official = name in ("metadata", "master", "slave", "redis", "s3")
        assert set(service.get("cap_add", [])) <= (needed if official else set()), name


def test_masters_and_slaves_are_reached_over_tls_by_the_account_of_the_replication() -> None:
    for name in ("master", "slave"):
        command = " ".join(SERVICES[name]["command"])
        assert f"ssl=on -c ssl_cert_file=/run/secrets/{name}.crt -c ssl_key_file=/run/secrets/{name}.key" in command
        assert SERVICES[name]["environment"]["SLUICE_SIDE"] == name
        mounted = dict(entry.split(":")[:2] for entry in SERVICES[name]["volumes"] if entry.startswith("."))
        assert mounted["./include/docker/accounts.sh"] == "/docker-entrypoint-initdb.d/accounts.sh"
        assert mounted["./include/sql/postgres"] == "/opt/sluice/sql"
        check = SERVICES[name]["healthcheck"]["test"][1]
        assert "-h 127.0.0.1 -U sluice" in check, "a server without its accounts, or still on its socket, is no use"


def test_redis_is_reached_over_tls_by_its_account_alone() -> None:
    service = SERVICES["redis"]
    (mounted,) = (entry for entry in service["volumes"] if entry.startswith("."))
    source, target, mode = mounted.split(":")
    assert target in service["command"] and mode == "ro"
    lines = dict(
        line.split(maxsplit=1) for line in (ROOT / source).read_text().splitlines() if line and not line.startswith("#")
    )
    assert lines["port"] == "0" and lines["tls-port"] == "6379"
    files = {path.rsplit("/", 1)[1] for path in lines.values() if path.startswith("/run/secrets/")}
    assert files == names(service["secrets"])
    assert "redis.acl" in lines["aclfile"]


def test_no_login_of_postgresql_goes_without_a_password() -> None:
    for name in ("metadata", "master", "slave"):
        environment = SERVICES[name]["environment"]
        assert environment["POSTGRES_INITDB_ARGS"] == "--auth=scram-sha-256"
        assert environment["POSTGRES_PASSWORD_FILE"].startswith("/run/secrets/")
        assert "POSTGRES_HOST_AUTH_METHOD" not in environment


def test_services_without_authentication_are_reached_only_by_those_that_need_them() -> None:
    reach = {
        network: {name for name, one in SERVICES.items() if network in one.get("networks", ())}
        for network in COMPOSE["networks"]
    }
    workers = {"spark-worker-1", "spark-worker-2"}
    assert reach["files"] == {"s3", "scheduler", "welcome"} | workers
    assert reach["spark"] == {"spark-master", "spark-connect"} | workers
    assert {"redis", "spark-worker-1", "spark-worker-2"} <= reach["data"], "applies on executors reach Redis"
    assert reach["control"].isdisjoint({"s3", "spark-master", "spark-worker-1", "spark-worker-2", "master", "slave"})


def test_only_the_api_server_is_published_and_on_the_loopback_address() -> None:
    assert not any("network_mode" in one for name, one in SERVICES.items() if name != "secrets"), (
        "it ends with the other"
    )
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"api-server": ["${SLUICE_LISTEN:-127.0.0.1:8080}:8080"]}


def test_launcher_and_watcher_of_jobs_share_their_records() -> None:
    for name in ("scheduler", "triggerer"):
        assert "sluice:/var/lib/sluice" in SERVICES[name]["volumes"]
        assert SERVICES[name]["environment"]["SLUICE_HOME"] == "/var/lib/sluice"


class Answers(BaseHTTPRequestHandler):
    """What Airflow's API says of its parts."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = {
            "scheduler": {"status": "healthy", "latest_scheduler_heartbeat": "2026-11-29"},
            "triggerer": {"latest_triggerer_heartbeat": None, "status": None},
            "dag_processor": {"status": "healthy", "latest_dag_processor_heartbeat": None},
        }
        body = json.dumps(parts).encode()
        self.send_response(200 if self.path == "/health" else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("question", "well"),
    [
        ("/health", True),
        ("/elsewhere", False),
        ("/health dag_processor", True),
        ("/health triggerer", False),
        ("/health nobody", False),
    ],
)
def test_a_part_is_healthy_only_where_it_says_so(question: str, well: bool) -> None:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        port = str(server.server_port)
        command = [ROOT / "include/docker/healthy", "127.0.0.1", port, *question.split()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == well, done
        assert well or "HTTP/1.1" in done.stderr
    finally:
        server.shutdown()
        server.server_close()


def test_what_does_not_answer_is_not_healthy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        command = [ROOT / "include/docker/healthy", "127.0.0.1", str(taken.getsockname()[1]), "/health"]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_health_checks_are_cheap() -> None:
    """On a busy machine those that start a Python took the CPU that the parts needed to start."""
    checks = {name: service["healthcheck"]["test"] for name, service in SERVICES.items() if "healthcheck" in service}
    assert {name for name, check in checks.items() if "python" in check} == {"spark-connect"}
