"""One thread received over the network: from a stand-in with the real program's faults, and from the real one."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack import openlogreplicator
from sluice.configuration.redo import RedoOptions
from sluice.model.names import Prefix
from sluice.redo import blocks, checkpoints, program_configuration
from sluice.redo.redo_thread import RedoThread
from sluice.redo.stager import Archive, Entry, Stager
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.lines import Change, parse
from sluice.vendors.stream.redo.merger import Merger
from sluice.vendors.stream.redo.protocol import Response, ResponseCode, frame
from sluice.vendors.stream.redo.receiver import Receiver
from sluice.vendors.stream.redo.spool import last_durable
from tests.errors import raises_code
from tests.scenarios.stream.online_log import OnlineLog
from tests.unit import redo_vectors
from tests.unit.redo_output import ONE, checkpoint, folder, insert, transaction
from tests.waiting import until

Program = Callable[[], "subprocess.Popen[bytes]"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Thread:
    """One redo thread with its program."""

    def __init__(self, root: Path, program: Path, name: str = "TEST"):
        self.root, self.program, self.name = root, program, name
        self.spool, self.logs = root / "threads" / str(ONE), root / "logs"
        thread = RedoThread(ONE.resetlogs, ONE.thread, self.spool, root, self.logs)
        self.state, self.swap, self.file = thread.state, thread.swap, thread.configuration
        for made in (self.logs / "2026_11_23", self.state, self.swap):
            made.mkdir(parents=True)
        options = RedoOptions(memory_mb=256, first_port=free_port() - ONE.thread)
        self.address = program_configuration.address(thread, options)
        seed = {"database": name, "context": "FREE", "users": ["OLR_TEST"]}
        values = program_configuration.configuration(thread, seed, options)
        assert list(program_configuration.mistakes(values)) == []
        self.file.write_text(json.dumps(values))

    def hold(self, messages: int) -> None:
        """Limits the program to so many unconfirmed messages."""
        values = json.loads(self.file.read_text())
        values["target"][0]["writer"]["queue-size"] = messages
        self.file.write_text(json.dumps(values))

    def start(self) -> "subprocess.Popen[bytes]":
        """Starts as the supervisor does: before the group of which a part may have been confirmed."""
        found, position = checkpoints.read_folder(self.state), checkpoints.position_file(self.name)
        files = {file: values for file, values in found.items() if "scn" in values}
        if position in files:
            durable = last_durable(self.spool)
            lowered = checkpoints.lowered(files[position], durable[0] if durable else None, files)
            checkpoints.write(self.state, position, lowered)
        with (self.root / "log").open("ab") as log:
            return subprocess.Popen([self.program, "-r", "-f", self.file], stderr=log, stdout=log)

    def log(self, lines: list[str], sequence: int) -> None:
        file = self.logs / "2026_11_23" / f"1_{sequence}_{ONE.resetlogs}.arc"
        openlogreplicator.write_log(
            file, [line.encode() for line in lines], thread=1, sequence=sequence, resetlogs=ONE.resetlogs
        )

    def receiver(self, begin: int | None = 0) -> Receiver:
        return Receiver(self.address, self.name, self.spool, begin)


class Running:
    """A receiver in its own thread."""

    def __init__(self, receiver: Receiver):
        self.receiver, self.stop = receiver, threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.receiver.run(self.stop)
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.stop.set()
        self._thread.join()

    def await_scn(self, scn: int) -> None:
        until(lambda: (self.receiver.durable or (0, 0))[0] >= scn)


@pytest.fixture
def running() -> Iterator[Callable[[Receiver], Running]]:
    made: list[Running] = []

    def begin(receiver: Receiver) -> Running:
        made.append(Running(receiver))
        return made[-1]

    yield begin
    for each in made:
        each.end()


def merged(thread: Thread) -> list[Any]:
    """The rows of the stream."""
    stream = thread.root / "stream"
    assert Merger(thread.root / "threads", stream, Prefix("ORA_")).merge_once() == 0
    lines = (parse(raw) for file in Files(stream).names() for raw in file.read_bytes().splitlines())
    return [line.new for line in lines if isinstance(line, Change)]


def rows(first: int, count: int) -> list[str]:
    made: list[str] = []
    for scn in range(first, first + count):
        made += [
            *transaction(scn, f"1.{scn}.1", [insert(n, scn * 10 + n, "x" * 300) for n in range(5)]),
            checkpoint(scn),
        ]
    return made


def test_messages_in_one_piece_with_the_answer_do_not_wait_for_the_next_one(
    tmp_path: Path, running: Callable[[Receiver], Running]
) -> None:
    """The real program sends them so if it has read its logs before the request; the next log may take long."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        receiving = running(Receiver(server.getsockname(), "TEST", tmp_path / str(ONE), begin=60))
        connection, _ = server.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(frame(Response(ResponseCode.REPLICATE).encode()))
            connection.recv(1024)
            connection.sendall(frame(Response(ResponseCode.REPLICATE).encode()) + frame(checkpoint(100).encode()))
            receiving.await_scn(100)
            receiving.end()


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_repeated_output_after_an_end_is_merged_once(
    how: signal.Signals, tmp_path: Path, running: Callable[[Receiver], Running]
) -> None:
    """The program ends while it sends, and so does the receiver; each starts again and repeats what is not
    confirmed."""
    thread = Thread(tmp_path, openlogreplicator.program(tmp_path))
    folder(thread.root / "threads", ONE)
    shutil.copy(thread.spool / "TEST-chkpt-60.json", thread.state)
    for sequence in range(1, 6):
        thread.log(rows(100 * sequence, 60), sequence)
    thread.log([checkpoint(10_000)], 6)
    process = thread.start()
    receiving = running(thread.receiver())
    for scn in (120, 330):
        receiving.await_scn(scn)
        process.send_signal(how)
        process.wait()
        receiving.end()
        process = thread.start()
        receiving = running(thread.receiver())
        until(lambda receiver=receiving.receiver: receiver.last_heard > 0)
    receiving.await_scn(10_000)
    receiving.end()
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
    wanted = [str(scn * 10 + n) for sequence in range(1, 6) for scn in range(100 * sequence, 100 * sequence + 60)
              for n in range(5)]  # fmt: skip
    assert [row["id"] for row in merged(thread)] == wanted


def test_more_messages_of_one_transaction_than_the_program_holds_are_confirmed_within_it(
    tmp_path: Path, running: Callable[[Receiver], Running]
) -> None:
    thread = Thread(tmp_path, openlogreplicator.program(tmp_path))
    folder(thread.root / "threads", ONE)
    shutil.copy(thread.spool / "TEST-chkpt-60.json", thread.state)
    thread.hold(100)
    thread.log([*transaction(100, "1.1.1", [insert(n, n) for n in range(1_000)]), checkpoint(200)], 1)
    process = thread.start()
    receiving = running(thread.receiver())
    receiving.await_scn(200)
    receiving.end()
    process.send_signal(signal.SIGINT)
    process.wait()
    assert json.loads((thread.state / "TEST-chkpt.json").read_text())["scn"] == 200
    assert len(merged(thread)) == 1_000


def follow(whole: Path, former: Path, target: Path) -> None:
    """Runs a stager on a log that another process writes, until the log is complete."""
    with tempfile.TemporaryDirectory() as folder, OnlineLog(whole, Path(folder) / "log", former.read_bytes()) as log:
        stager = Stager(Archive(LocalFiles(), [folder]), target, 1, blocks.read_header(whole.read_bytes()).resetlogs)
        while log.write_on():
            assert stager.turn() == 0
            log.await_written()
        log.complete()
        assert stager.turn() == 1


class LocalFiles:
    """A stager's source on this machine."""

    def files(self, folder: str) -> list[Entry]:
        return [Entry(file.name, file.stat().st_size) for file in Path(folder).iterdir()]

    def read(self, path: str, offset: int, length: int) -> bytes:
        with Path(path).open("rb") as opened:
            opened.seek(offset)
            return opened.read(length)


def test_another_databases_program_is_refused(tmp_path: Path) -> None:
    thread = Thread(tmp_path, openlogreplicator.program(tmp_path))
    folder(thread.root / "threads", ONE)
    shutil.copy(thread.spool / "TEST-chkpt-60.json", thread.state)
    process = thread.start()
    try:
        with raises_code("another-database", match="does not read 'OTHER'"):
            Receiver(thread.address, "OTHER", thread.spool).run(threading.Event())
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("brought", ["whole", "with the first block of ASM", "by a stager while they are written"])
def test_the_real_program_sends_two_real_logs_as_its_own_output_has_them(
    brought: str, tmp_path: Path, running: Callable[[Receiver], Running]
) -> None:
    """`SLUICE_TEST_OLR` names the program of OpenLogReplicator 1.9.0."""
    program = os.environ.get("SLUICE_TEST_OLR")
    if not program:
        pytest.skip("SLUICE_TEST_OLR names no OpenLogReplicator 1.9.0")
    there = redo_vectors.required() / "redo"
    thread = Thread(tmp_path, Path(program))
    values = json.loads((there / "TEST-chkpt-2266634.json").read_text())
    values["db-recovery-file-dest"] = program_configuration.ARCHIVE_DESTINATION
    values["log-archive-format"] = program_configuration.ARCHIVE_FORMAT
    (thread.state / "TEST-chkpt-2266634.json").write_text(json.dumps(values))
    days = thread.logs / "2026_11_23"

    def bring(sequence: int) -> None:
        log = there / f"arch1_{sequence}_1224959854.dbf"
        if brought == "by a stager while they are written":
            follow(log, there / f"arch1_{31 - sequence}_1224959854.dbf", thread.logs)
            return
        data = log.read_bytes()
        if brought == "with the first block of ASM":
            data = blocks.first_block(512, len(data) // 512 - 1) + data[512:]
        whole = days / f"1_{sequence}_1224959854.arc"
        whole.with_suffix(".part").write_bytes(data)
        whole.with_suffix(".part").rename(whole)

    bring(15)
    swapped = thread.swap / "1.2.3.swap"
    swapped.touch()
    process = thread.start()
    receiving = running(thread.receiver(2_266_634))
    receiving.await_scn(2_267_714)
    bring(16)
    receiving.await_scn(2_267_720)
    receiving.end()
    process.send_signal(signal.SIGINT)
    process.wait()
    received = b"".join(file.read_bytes() for file in sorted(thread.spool.glob("*.jsonl")))
    assert received == (there / "output.json").read_bytes()
    assert not swapped.exists(), "what a program finds there at its start it deletes"
    assert json.loads((thread.state / "TEST-chkpt.json").read_text())["scn"] == 2_267_720
    # Started again, nothing comes but what was the last.
    process = thread.start()
    receiving = running(thread.receiver())
    try:
        until(lambda receiver=receiving.receiver: receiver.last_heard > 0)
    finally:
        receiving.end()
        process.send_signal(signal.SIGINT)
        process.wait()
