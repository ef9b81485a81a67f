"""A stand-in for OpenLogReplicator 1.9.0, for demo and tests: `python -m devstack.openlogreplicator -f FILE [-r]`.

It does not parse redo. Its "redo logs" hold recorded output of OpenLogReplicator in the blocks of redo logs
(`write_log`). It behaves like OpenLogReplicator otherwise: it reads the same configuration, refuses unknown keys and
locks the file, serves one client over the same protocol, writes checkpoints to `state.path`, waits for the next log,
and ends at SIGINT with a checkpoint and at SIGTERM without one. It also has the same faults: after a start it sends
everything behind its checkpoint again, with other indexes within an SCN, and SIGINT truncates the message being sent.
It skips transactions whose begin it has not read, and logs a warning about each with the flag for that.
"""

import argparse
import fcntl
import json
import os
import re
import select
import signal
import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sluice import whole_files
from sluice.redo import blocks
from sluice.redo.program_configuration import INCOMPLETE, mistakes
from sluice.vendors.stream.redo.messages import head
from sluice.vendors.stream.redo.protocol import Frames, Request, RequestCode, Response, ResponseCode, frame

VERSION = "1.9.0"
POLL_SECONDS = 0.05
_PAYLOAD = 490
"""Bytes of lines in a block, after its header and their length."""
_PLACE = re.compile(rb'"c_scn":(\d+),"c_idx":(\d+)')
_COMMIT = re.compile(rb'"scn":(\d+)')
_LOG_NAME = re.compile(r"(\d+)_(\d+)_(\d+)\.\w+\Z")


def write_log(
    file: Path, lines: Sequence[bytes], *, thread: int, sequence: int, resetlogs: int, first_scn: int | None = None
) -> None:
    """Writes recorded output as an archived redo log whose blocks have checksums."""
    data = b"".join(line + b"\n" for line in lines)
    scns = [int(match[1]) for line in lines if (match := _PLACE.search(line))]
    made = [
        blocks.block(number, sequence, len(part).to_bytes(2, "little") + part)
        for number, part in enumerate((data[at : at + _PAYLOAD] for at in range(0, len(data), _PAYLOAD)), start=2)
    ]
    header = blocks.LogHeader(thread, sequence, resetlogs, first_scn or min(scns), max(scns) + 1, len(made) + 2)
    whole_files.write(file, blocks.first_block(512, len(made) + 1) + blocks.header_block(header) + b"".join(made))


def read_log(file: Path) -> Iterator[bytes]:
    """Yields the lines of a log that `write_log` made."""
    raw, data = file.read_bytes(), b""
    for at in range(1024, len(raw), 512):
        length = int.from_bytes(raw[at + 16 : at + 18], "little")
        data += raw[at + 18 : at + 18 + length]
    yield from data.splitlines()


def program(folder: Path) -> Path:
    """Writes an executable `OpenLogReplicator` into the folder that starts the stand-in, and returns its path."""
    root = Path(__file__).resolve().parents[1]
    made = folder / "OpenLogReplicator"
    paths = os.pathsep.join([str(root / "plugins"), str(root)])
    made.write_text(
        f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" -m devstack.openlogreplicator "$@"\n', "utf-8"
    )
    made.chmod(0o755)
    return made


class Ended(Exception):
    """The program received SIGINT."""


class StandIn:
    """The program with the configuration `values`."""

    def __init__(self, values: dict[str, Any]):
        (source,), (target,) = values["source"], values["target"]
        self.name: str = source["name"]
        host, _, port = target["writer"]["uri"].rpartition(":")
        self.address = host, int(port)
        self.state = Path(source["state"]["path"])
        self.swap = Path(source["memory"]["swap-path"])
        self.interval = float(source["state"].get("interval-s", 600))
        reader = source["reader"]
        self.logs = Path(reader["redo-log"][0] if "redo-log" in reader else reader["path-mapping"][1])
        self.metrics: str | None = source.get("metrics", {}).get("bind")
        self.queue_size = int(target["writer"].get("queue-size", 65536))
        self.confirmed: tuple[int, int] | None = None
        self.unconfirmed: deque[tuple[tuple[int, int], int]] = deque()
        """Sent messages, each with its log. Sending pauses at `queue-size` messages."""
        self.first_log = 0
        """The sequence of the log to begin with; 0: the first log in the folder."""
        self.sent = 0
        self.begin = 0
        """Only commits after this SCN are sent."""
        self.client: tuple[int, int] = (0, -1)
        """The client's position. Only later messages are sent."""
        self.again = False
        """Whether it continues from a checkpoint."""
        self.from_checkpoint = False
        self.says_left_out = bool(source.get("flags", 0) & INCOMPLETE)
        self.open = ""
        """The transaction that is read."""
        self.orphans: Counter[str] = Counter()
        """Changes of transactions whose beginning it has not read."""

    def run(self) -> None:
        """Serves clients until SIGINT. Raises `Ended`."""
        schemas = sorted(self.state.glob(f"{self.name}-chkpt-*.json"))
        if not schemas:
            fail(10052, "schema file missing")
        for left in self.swap.glob("*.swap"):
            say("WARN ", 10067, f"deleting old swap file from previous execution: {left}")
            left.unlink()
        position = self.state / f"{self.name}-chkpt.json"
        self.from_checkpoint = position.exists()
        if self.from_checkpoint:
            values = json.loads(position.read_text())
            scn, self.first_log = int(values["scn"]), int(values.get("seq", 0))
            self.begin, self.client, self.again = scn, (scn, 0), True
        else:
            self.first_log = int(json.loads(schemas[-1].read_text()).get("seq", 0))
        with socket.create_server(self.address) as server:
            say("INFO ", 0, f"writer is starting with Writer: Network:{self.address[0]}:{self.address[1]}")
            while True:
                connection, _ = server.accept()
                with connection:
                    try:
                        self._serve(connection)
                    except (ConnectionError, BrokenPipeError):
                        say("WARN ", 10056, "host disconnected")

    def checkpoint(self) -> None:
        """Writes the position that the client has confirmed."""
        if self.confirmed is None:
            return
        values = {"database": self.name, "scn": self.confirmed[0], "idx": self.confirmed[1], "resetlogs": 1,
                  "seq": self.first_log}  # fmt: skip
        # Written in place, as the real one does.
        (self.state / f"{self.name}-chkpt.json").write_text(json.dumps({**values, "activation": 1}))

    def _serve(self, connection: socket.socket) -> None:
        frames, streaming = Frames(), False
        while not streaming:
            chunk = connection.recv(4096)
            if not chunk:
                return
            for body in frames.feed(chunk):
                response = self._answer(Request.decode(body))
                connection.sendall(frame(response.encode()))
                streaming = response.code is ResponseCode.REPLICATE and Request.decode(body).code is not (
                    RequestCode.INFO
                )
        say("INFO ", 0, "streaming to client")
        for line in self._lines(connection, frames):
            connection.sendall(frame(line))
            self.sent += 1

    def _answer(self, request: Request) -> Response:
        if request.database != self.name:
            say("WARN ", 60035, f"unknown database requested, got: {request.database}, expected: {self.name}")
            return Response(ResponseCode.INVALID_DATABASE)
        match request.code:
            case RequestCode.INFO:
                return Response(ResponseCode.REPLICATE if self.again else ResponseCode.READY)
            case RequestCode.START if not self.again:
                self.begin, self.again = (request.scn or 0), True
                return Response(ResponseCode.REPLICATE)
            case RequestCode.CONTINUE:
                self.unconfirmed.clear()
                self.client = (request.c_scn or 0, request.c_idx or 0)
                return Response(ResponseCode.REPLICATE)
        return Response(ResponseCode.INVALID_COMMAND)

    def _lines(self, connection: socket.socket, frames: Frames) -> Iterator[bytes]:
        """Yields the messages that the client does not have, and reads its confirmations in between."""
        expected, missing = self.first_log, ""
        scn, index = 0, 0
        while True:
            for file in self._logs():
                sequence = sequence_of(file)
                if sequence < expected:
                    continue
                if expected and sequence > expected:
                    if missing != (missing := f"couldn't find archive log for seq: {expected}, found: {sequence}"):
                        say("WARN ", 60027, f"{missing}, sleeping {POLL_SECONDS * 1e6:.0f} us")
                    break
                say("INFO ", 0, f"processing redo log: group: 0 seq: {sequence} path: {file}")
                for line in read_log(file):
                    if self._left_out(line):
                        continue
                    place = _PLACE.search(line)
                    assert place is not None
                    commit = _COMMIT.search(line)
                    if int(commit[1] if commit else place[1]) <= self.begin:
                        continue
                    index = index + 1 if int(place[1]) == scn else 0
                    scn = int(place[1])
                    self._confirmations(connection, frames, 0)
                    while len(self.unconfirmed) >= self.queue_size:
                        self._confirmations(connection, frames, POLL_SECONDS)
                    if (scn, index) > self.client:
                        self.unconfirmed.append(((scn, index), sequence))
                        yield line[: place.start(2)] + str(index + 1).encode() + line[place.end(2) :]
                expected = sequence + 1
            self._confirmations(connection, frames, POLL_SECONDS)

    def _left_out(self, line: bytes) -> bool:
        """Whether it belongs to a transaction whose beginning was not read; what it continues says where it was."""
        seen = head(line)
        if seen.op == "begin":
            self.open = seen.xid
        if self.from_checkpoint or seen.op == "chkpt" or self.open == seen.xid:
            return False
        if seen.op != "commit":
            self.orphans[seen.xid] += 1
        elif seen.scn > self.begin and self.says_left_out:
            usn, slot, sqn = map(int, seen.xid.split("."))
            say(
                "WARN ", 60011,
                f"skipping transaction with no beginning: scn: {seen.scn} seq: 0 offset: 0 xid: "
                f"0x{usn:04x}.{slot:03x}.{sqn:08x} flags: 0/0/0 op: {self.orphans[seen.xid]} chunks: 1 sz: 208",
            )  # fmt: skip
        return True

    def _confirmations(self, connection: socket.socket, frames: Frames, seconds: float) -> None:
        if not select.select([connection], [], [], seconds)[0]:
            return
        chunk = connection.recv(4096)
        if not chunk:
            raise ConnectionError
        for body in frames.feed(chunk):
            request = Request.decode(body)
            if request.code is RequestCode.CONFIRM:
                first, self.confirmed = self.confirmed is None, (request.c_scn or 0, request.c_idx or 0)
                while self.unconfirmed and self.unconfirmed[0][0] <= self.confirmed:
                    self.first_log = self.unconfirmed.popleft()[1]
                if first:
                    self.checkpoint()

    def _logs(self) -> list[Path]:
        logs = [file for file in self.logs.rglob("*") if _LOG_NAME.search(file.name) and not file.name.startswith(".")]
        return sorted(logs, key=sequence_of)

    def serve_metrics(self) -> None:
        """Serves those of OpenLogReplicator's metrics that a supervisor reads."""
        if self.metrics is None:
            return
        stand_in = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = (
                    f'service_state{{state="replicating"}} 1\nmessages_sent{{filter="out"}} {stand_in.sent}\n'.encode()
                )
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Logs no request."""

        host, _, port = self.metrics.rpartition(":")
        threading.Thread(target=ThreadingHTTPServer((host, int(port)), Page).serve_forever, daemon=True).start()


def sequence_of(file: Path) -> int:
    match = _LOG_NAME.search(file.name)
    assert match is not None
    return int(match[2])


def say(level: str, code: int, text: str) -> None:
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {level} {code:05} {text}", file=sys.stderr, flush=True)


def fail(code: int, text: str) -> None:
    say("ERROR", code, text)
    sys.exit(1)


def _signalled(number: int, _frame: object) -> None:
    say("ERROR", 10015, f"caught signal: {number}")
    raise Ended


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-f", dest="file", type=Path, required=True)
    parser.add_argument("-r", dest="root", action="store_true")
    args = parser.parse_args()
    say("INFO ", 0, f"OpenLogReplicator v{VERSION}, stand-in")
    if os.geteuid() == 0 and not args.root:
        fail(10020, "program is run as root, you should never do that")
    opened = args.file.open("rb")
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        fail(10002, f"file: {args.file} - flock returned: already locked")
    values = json.load(opened)
    for wrong in mistakes(values):
        fail(30001, f"bad JSON, {wrong}")
    stand_in = StandIn(values)
    signal.signal(signal.SIGINT, _signalled)
    stand_in.serve_metrics()
    try:
        stand_in.run()
    except Ended:
        stand_in.checkpoint()
    return 0


if __name__ == "__main__":
    sys.exit(main())
