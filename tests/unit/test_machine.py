"""What a subcommand needs of the machine: found, installed for root, or refused at once."""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from devstack import account, cli, machine
from sluice.cli import bootstrap, command
from sluice.errors import SluiceError
from tests.errors import raises_code
from tests.unit.test_bootstrap import ROOT, fake, fake_java


def test_commands_that_start_spark_get_a_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "21")))
    given: list[tuple[str, str]] = []
    monkeypatch.setattr(machine, "ensure_java", lambda environment: tmp_path / "a java")
    monkeypatch.setattr(machine, "require_servers", lambda *, on_state: None)
    monkeypatch.setattr(machine, "ensure_chromium", lambda: None)
    monkeypatch.setattr(machine, "ensure_h2", lambda: None)

    def ran(args: argparse.Namespace) -> int:
        given.append((args.command, os.environ["JAVA_HOME"]))
        return 0

    for name in ("setup", "demo", "test", "bench", "soak", "up"):
        assert command.guarded(argparse.Namespace(command=name, run=ran), cli.prepare) == 0
        assert given.pop() == (name, str(tmp_path / "a java"))


def test_java_home_comes_before_the_path_and_an_old_java_counts_as_none(tmp_path: Path) -> None:
    new, newer, old = (fake_java(tmp_path / version, version) for version in ("17", "21", "1.8"))
    path = {"PATH": f"{newer / 'bin'}"}
    assert machine.find_java({"JAVA_HOME": str(new), **path}) == new
    assert machine.find_java({"JAVA_HOME": str(old), **path}) == newer
    assert machine.find_java({"JAVA_HOME": str(tmp_path / "none"), **path}) == newer
    assert machine.ask_java(old / "bin" / "java") == (8, old)


def test_a_program_that_only_looks_like_java_is_skipped(tmp_path: Path) -> None:
    broken = fake(tmp_path, "java", "echo 'Unable to locate a Java Runtime' >&2; exit 1")
    assert machine.ask_java(broken) == (0, None)


def test_the_real_java_is_found_by_what_it_says_of_itself() -> None:
    home = machine.find_java(os.environ)
    assert home is not None
    assert (home / "bin" / "java").exists()


def test_no_java_and_no_right_to_install_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(machine, "find_java", lambda environment: None)
    with raises_code("java-missing", match=r"Spark needs Java 17 or later, and there is none\. Install"):
        machine.ensure_java({"PATH": str(tmp_path)})


def test_root_gets_java_from_the_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = iter([None, tmp_path])
    log = tmp_path / "log"
    fake(tmp_path, "apt-get", f'echo "$@" >> {log}; case "$*" in *openjdk-17*) exit 100;; esac')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "find_java", lambda environment: next(homes))
    assert machine.ensure_java({}) == tmp_path
    installed = [line.split()[-1] for line in log.read_text().splitlines() if "install" in line]
    assert installed == ["openjdk-17-jre-headless", "openjdk-21-jre-headless"]


def test_two_installations_at_once_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, "apt-get", f"mkdir {tmp_path}/apt-lock || exit 100; sleep 0.2; rmdir {tmp_path}/apt-lock")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    done: list[bool] = []
    callers = [
        threading.Thread(target=lambda: done.append(bootstrap.apt_install(["one"], "it is needed"))) for _ in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert done == [True, True, True]


def test_root_is_told_what_is_installed_and_is_never_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    fake(tmp_path, "apt-get", f'echo "$@" >> {log}')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "stdin", None)
    assert bootstrap.apt_install(["openjdk-17-jre-headless"], "Spark needs Java")
    said = capsys.readouterr().err
    assert said == "sluice: installing openjdk-17-jre-headless with apt-get: Spark needs Java\n"
    assert log.read_text().splitlines()[-1] == "-q -y --no-install-recommends install openjdk-17-jre-headless"


def test_a_program_that_apt_cannot_install_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(tmp_path, "apt-get", "exit 100")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "find_java", lambda environment: None)
    with raises_code("java-missing", match=r"sudo apt-get install default-jre-headless"):
        machine.ensure_java({})
    assert "`apt-get install default-jre-headless` says why" in capsys.readouterr().err


def impossible(case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Makes the machine unfit; returns what the message must say."""
    if case == "macOS":
        monkeypatch.setattr(platform, "system", lambda: "Darwin")
        return "run on Linux on x86_64 or aarch64, and this is Darwin"
    if case == "another processor":
        monkeypatch.setattr(platform, "machine", lambda: "riscv64")
        return "and this is Linux on riscv64"
    if case == "no semaphores":
        monkeypatch.setattr(machine, "has_semaphores", lambda: False)
        monkeypatch.setenv(machine.OWN_MEMORY, "1")  # it did not help
        return "sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm"
    if case == "no nobody":
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(account, "ACCOUNT", "no such account")
        return "the account 'no such account' cannot run it: this system has none of that name"
    if case == "a full disk":
        monkeypatch.setattr(shutil, "disk_usage", lambda path: argparse.Namespace(free=2**20))
        return "1 MB are free on its disk"
    file = tmp_path / "a file"
    file.touch()
    monkeypatch.setenv("SLUICE_HOME", str(file / "home") if case == "no folder" else str(tmp_path / "none"))
    if case == "no folder":
        return "cannot be used: "
    monkeypatch.setattr(machine, "find_java", lambda environment: None)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() or 1000)
    return "Spark needs Java 17 or later, and there is none. Install it with `sudo "


@pytest.mark.parametrize(
    "case", ["macOS", "another processor", "no semaphores", "no nobody", "a full disk", "no folder", "no Java"]
)
def test_what_cannot_work_here_is_said_before_anything_is_installed(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.service_account.cache_clear()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        monkeypatch.setenv("SLUICE_HOME", folder)
        expected = impossible(case, monkeypatch, Path(folder))
        with pytest.raises(SluiceError) as raised:
            machine.prepare("demo")
    account.service_account.cache_clear()
    assert expected in str(raised.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_without_shared_memory_root_gets_some_and_others_are_told_how(user: str) -> None:
    """In its own namespace, so that the machine keeps what it has."""
    program = (
        "import multiprocessing, sys; from devstack import machine; machine.mount_shared_memory();"
        " machine.require_servers(on_state=False); multiprocessing.Lock(); print('has it', *sys.argv[1:])"
    )
    own = "setpriv --reuid nobody --regid nogroup --clear-groups" if user == "nobody" else ""
    script = f'mount -t tmpfs -o ro tmpfs /dev/shm && exec {own} "$@"'
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": "/tmp"}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", "/usr/bin/python3", "-c", program, "a b"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    if user == "root":
        assert done.stdout == "has it a b\n", done.stderr
        assert "the servers get one of their own" in done.stderr
    else:
        assert done.returncode == 1 and "sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm" in done.stderr
    assert os.access("/dev/shm", os.W_OK)
