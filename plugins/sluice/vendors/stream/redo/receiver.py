"""Receives the output of one OpenLogReplicator over its network writer, and writes it where the merge reads it.

A message is confirmed once it is on disk: then OpenLogReplicator may forget it. What it sends again after a restart of
either side is recognized by the merge. No transaction is held in memory, regardless of its size.
"""

import logging
import re
import select
import socket
import threading
import time
from contextlib import closing
from pathlib import Path

from sluice import whole_files
from sluice.backoff import Backoff
from sluice.errors import Terminal, Transient
from sluice.listeners import stranger
from sluice.vendors.stream.redo.protocol import (
    NOW,
    Frames,
    NotTheProtocol,
    Request,
    RequestCode,
    Response,
    ResponseCode,
    frame,
)
from sluice.vendors.stream.redo.spool import Spool, SpoolFull, last_durable

log = logging.getLogger("sluice.redo")

SYNC_SECONDS = 0.2
SYNC_BYTES = 16 << 20
"""The most that is received between two confirmations."""
CHUNK = 1 << 18
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
"""Seconds for an answer to START, which comes when OpenLogReplicator has found its first redo log."""
DDL_FILE = "ddl"
"""A file in the folder of the thread: the SCN of DDL that the other threads do not know yet."""
_LOOK_SECONDS = 0.1
_CHECKPOINT = re.compile(
    rb'\{(?:"scn":\d+,)?"tm":(-?\d+),"c_scn":\d+,"c_idx":\d+,"payload":\[\{"op":"chkpt","seq":(\d+)'
)
_DDL = re.compile(rb'\{"scn":(\d+),[^\[]*"payload":\[\{"op":"ddl"')


class Unreachable(Transient):
    """Nobody listens, or the connection ended."""

    def __init__(self, address: tuple[str, int], reason: str):
        super().__init__(f"OpenLogReplicator at {address[0]}:{address[1]}: {reason}.")


def another_database(address: tuple[str, int], database: str) -> Terminal:
    """The process that listens reads another database."""
    return Terminal(
        f"OpenLogReplicator at {address[0]}:{address[1]} does not read {database!r}: the process of another "
        "configuration listens there. End it, or choose another port.",
        code="another-database",
    )


def another_user(address: tuple[str, int], uid: int) -> Terminal:
    """The process that listens is not ours."""
    return Terminal(
        f"The process that listens at {address[0]}:{address[1]} belongs to the user with the uid {uid}, so it is "
        "not the OpenLogReplicator of this capture, and its changes could be forged. Look who that is, or choose "
        "another first_port.",
        code="another-user",
    )


class Receiver:
    """Receives one thread. `database`: `source.name` of its configuration. `begin`: the SCN from which a thread is read
    that never began; None: from now on."""

    def __init__(self, address: tuple[str, int], database: str, folder: Path, begin: int | None = None):
        self.address = address
        self.database = database
        self.folder = folder
        self.begin = begin
        self.messages = 0
        """The number of messages since this receiver began."""
        self.last_heard = 0.0
        """By the monotonic clock."""
        self.durable = last_durable(folder)
        """`c_scn` and `c_idx` up to which everything is on disk."""
        self.sequence = 0
        self.time = 0.0
        self.ddl = self._kept_ddl()
        self._passed_on = 0
        self._lock = threading.Lock()
        """Held while the DDL that is not passed on changes."""

    def run(self, stop: threading.Event) -> None:
        """Receives until `stop` is set; connects again whenever the connection ends. Raises `Terminal`."""
        backoff = Backoff(0.1, 5.0)
        while not stop.is_set():
            before = self.messages
            try:
                self.receive(stop)
            except Transient as outage:
                if self.messages > before:
                    backoff.reset()
                pause = backoff.next()
                log.debug("%s Next try in %.2g s.", outage, pause)
                stop.wait(pause)

    def passed_on(self, ddl: int) -> None:
        """Records that the programs of all other threads have the tables after the DDL at that SCN."""
        with self._lock:
            self._passed_on = max(self._passed_on, ddl)
            if self.ddl <= ddl:
                self.ddl = 0
                (self.folder / DDL_FILE).unlink(missing_ok=True)

    def receive(self, stop: threading.Event) -> None:
        """Receives over one connection, until `stop` is set.

        Raises `Unreachable`, `NotTheProtocol`, `another-database`, `another-user`, `SpoolFull`.
        """
        with closing(Spool(self.folder)) as spool:
            self.durable = spool.durable
            try:
                with socket.create_connection(self.address, CONNECT_SECONDS) as connection:
                    if (uid := stranger(self.address[1])) is not None:
                        raise another_user(self.address, uid)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    frames = Frames()
                    self._begin(connection, frames, spool)
                    self._stream(connection, frames, spool, stop)
            except OSError as error:
                raise Unreachable(self.address, error.strerror or str(error)) from error
            finally:
                spool.sync()
                self.durable = spool.durable

    def _begin(self, connection: socket.socket, frames: Frames, spool: Spool) -> None:
        """Waits until it streams."""
        connection.settimeout(ANSWER_SECONDS)
        answer = self._answer(connection, frames, Request(RequestCode.INFO, self.database))
        if answer.code is ResponseCode.READY:
            scn = self.begin if self.begin is not None else NOW
            if spool.durable is not None:
                scn = spool.durable[0] - 1  # It lost its checkpoint, or never had a confirmation.
            answer = self._answer(connection, frames, Request(RequestCode.START, self.database, scn=scn))
            if answer.code is ResponseCode.REPLICATE:
                return
        if answer.code is ResponseCode.REPLICATE:
            # The whole group of redo records that may be incomplete comes again: the merge recognizes its transactions.
            number = spool.durable[0] - 1 if spool.durable is not None else 0
            request = Request(RequestCode.CONTINUE, self.database, c_scn=number, c_idx=0)
            answer = self._answer(connection, frames, request)
            if answer.code is ResponseCode.REPLICATE:
                return
        if answer.code is ResponseCode.INVALID_DATABASE:
            raise another_database(self.address, self.database)
        raise Unreachable(self.address, f"answers {answer.code.name}")

    def _answer(self, connection: socket.socket, frames: Frames, request: Request) -> Response:
        connection.sendall(frame(request.encode()))
        while True:
            for body in frames.feed(self._chunk(connection)):
                # Data in transit to an earlier client may come first.
                if not body.startswith(b"{"):
                    return Response.decode(body)

    def _chunk(self, connection: socket.socket) -> bytes:
        chunk = connection.recv(CHUNK)
        if not chunk:
            raise Unreachable(self.address, "ended the connection")
        self.last_heard = time.monotonic()
        return chunk

    def _stream(self, connection: socket.socket, frames: Frames, spool: Spool, stop: threading.Event) -> None:
        synced, size = time.monotonic(), 0
        chunk = b""  # Data that came together with the answer is in `frames`.
        while not stop.is_set():
            size += len(chunk)
            for body in frames.feed(chunk):
                if not body.startswith(b"{"):
                    raise NotTheProtocol("a message of the stream is no JSON (format.type must be json)")
                spool.add(body)
                self.messages += 1
                if b'"op":"chkpt"' in body or b'"op":"ddl"' in body:
                    self._note(body)
            now = time.monotonic()
            if size >= SYNC_BYTES or now - synced >= SYNC_SECONDS or not chunk:
                self._confirm(connection, spool)
                synced, size = now, 0
            readable = select.select([connection], [], [], _LOOK_SECONDS)[0]
            chunk = self._chunk(connection) if readable else b""

    def _note(self, line: bytes) -> None:
        """Handles a checkpoint or DDL. Its words may also be in a value."""
        if (matched := _CHECKPOINT.match(line)) is not None:
            self.time, self.sequence = int(matched[1]) / 1e9, int(matched[2])
        elif (ddl := _DDL.match(line)) is not None:
            self._keep_ddl(int(ddl[1]))

    def _kept_ddl(self) -> int:
        try:
            return int((self.folder / DDL_FILE).read_text("ascii"))
        except (OSError, ValueError):
            return 0

    def _keep_ddl(self, scn: int) -> None:
        """Confirms what is on disk: it does not come again."""
        with self._lock:
            if scn <= max(self.ddl, self._passed_on):
                return
            try:
                whole_files.write(self.folder / DDL_FILE, str(scn), durable=True)
            except OSError as error:
                raise SpoolFull(self.folder, error.strerror or str(error)) from error
            self.ddl = scn

    def _confirm(self, connection: socket.socket, spool: Spool) -> None:
        durable = spool.sync()
        if durable is None:
            return
        self.durable = durable
        # The printed index is the message's own plus one.
        request = Request(RequestCode.CONFIRM, self.database, c_scn=durable[0], c_idx=durable[1] - 1)
        connection.sendall(frame(request.encode()))
