#!/usr/bin/env python3
"""Serves redo logs to a stager on another machine.

This one file is the whole program. It needs Python 3.6 or later and nothing else, so it can be copied to a database
host where nothing may be installed:

    scp plugins/sluice/redo/proxy.py dbhost:redo_proxy.py
    python3 redo_proxy.py --root /u01/arch --token-file /etc/redo-token

`./sluice redo-proxy` is the same program, and also serves disk groups of ASM.

    GET /file?type=attr&filePath=<base64>                              {"size": …, "blockSize": …, "modified": …}
    GET /file?type=read&filePath=<base64>&startOffset=0&length=4096    the bytes
    GET /file?type=list&filePath=<base64>                              the files of a folder and those below it

It is written for Python 3.6: without newer syntax, and without newer modules of the standard library.
"""

import abc
import argparse
import base64
import binascii
import errno
import hmac
import ipaddress
import itertools
import json
import logging
import logging.handlers
import os
import signal
import socket
import socketserver
import ssl
import stat
import struct
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import parse_qs, urlsplit

PORT = 9527
LARGEST_READ = 16 << 20
SHORTEST_TOKEN = 16
ENCODING = "x-zero-blocks"
"""A log that was archived early consists mostly of empty blocks; in this encoding they are sent as a number."""
BLOCK = 512
RUN = struct.Struct("<II")
"""The number of empty blocks, then the number of bytes that follow unchanged."""
LOG_BYTES, LOG_FILES = 10 << 20, 5

_LITTLE_ENDIAN = b"\x7d\x7c\x7b\x7a"
_BLOCK_SIZES = (512, 1024, 4096)
_NO_BLOCK = bytes(BLOCK)
_log = logging.getLogger("sluice.redo.proxy")


class CannotServe(Exception):
    """The proxy cannot start with these arguments."""


class Refused(Exception):
    """A refused request, with the status of the answer."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


# ---- Files ----------------------------------------------------------------------------------------------------------

Attributes = NamedTuple(
    "Attributes",
    [
        ("size", int),
        ("block_size", Optional[int]),  # None for a file that is no redo log.
        ("modified", Optional[float]),  # Seconds since 1970; None if unknown.
    ],
)
Listed = NamedTuple("Listed", [("name", str), ("size", int), ("modified", float)])
"""A file of a folder; `name`: its path below the folder."""


class ServedFiles(abc.ABC):
    """A storage of files. Each method raises `Refused` for files that are not served, `OSError` for failures."""

    @abc.abstractmethod
    def attributes(self, path: str) -> Attributes: ...

    @abc.abstractmethod
    def files(self, path: str) -> Iterator[Listed]:
        """The files of a folder and of those below it."""

    @abc.abstractmethod
    def read(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file; fewer at its end."""


class Folders(ServedFiles):
    """Files of this machine below some roots.

    A link that leads out of the roots is refused, also one that is created while it is opened.
    """

    def __init__(self, roots: Sequence[str]):
        self.roots = [os.path.realpath(root) for root in roots]

    def attributes(self, path: str) -> Attributes:
        with self._opened(path, stat.S_ISREG, "filePath is no file") as descriptor:
            status = os.fstat(descriptor)
            return Attributes(status.st_size, _block_size(os.pread(descriptor, 32, 0)), status.st_mtime)

    def files(self, path: str) -> Iterator[Listed]:
        """Includes subfolders, as a fast recovery area has a folder for each day. Links are not followed."""
        with self._opened(path, stat.S_ISDIR, "filePath is no folder") as folder:
            for folder_name, _, names, descriptor in os.fwalk(".", dir_fd=folder):
                for name in names:
                    try:
                        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # Deleted meanwhile.
                    if stat.S_ISREG(status.st_mode):
                        yield Listed(os.path.normpath(os.path.join(folder_name, name)), status.st_size, status.st_mtime)

    def read(self, path: str, offset: int, length: int) -> bytes:
        with self._opened(path, stat.S_ISREG, "filePath is no file") as descriptor:
            size = os.fstat(descriptor).st_size
            if offset > size:
                raise Refused(416, "startOffset is behind the file's end at {}".format(size))
            return os.pread(descriptor, length, offset)

    @contextmanager
    def _opened(self, path: str, expected: Callable[[int], bool], otherwise: str) -> Iterator[int]:
        """Opens a descriptor of a file or folder."""
        if not path.startswith("/") or "\0" in path:
            raise Refused(400, "filePath is not absolute")
        real = os.path.realpath(path)
        if not any(real == root or real.startswith(root.rstrip("/") + "/") for root in self.roots):
            raise Refused(403, "filePath is not below a root of this proxy")
        try:
            # Opening a pipe would wait for its writer.
            descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            status = 404 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 403
            raise Refused(status, error.strerror or str(error)) from None
        try:
            # A folder of the path may have become a link since.
            if not _is_open_at(descriptor, real):
                raise Refused(403, "filePath changed while it was opened")
            if not expected(os.fstat(descriptor).st_mode):
                raise Refused(400, otherwise)
            yield descriptor
        finally:
            os.close(descriptor)


def _is_open_at(descriptor: int, real: str) -> bool:
    link = "/proc/self/fd/{}".format(descriptor)
    if os.path.lexists(link):
        return os.path.realpath(link) == real
    # AIX and Solaris have no such link.
    try:
        return os.path.realpath(real) == real and os.path.samestat(os.stat(real), os.fstat(descriptor))
    except OSError:
        return False


def _block_size(first: bytes) -> Optional[int]:
    """The size of a redo log's blocks, from the beginning of its first one; None if it is no redo log."""
    size = int.from_bytes(first[20:24], "little")
    is_redo = first[:1] == b"\0" and first[1:2] in (b"\x22", b"\x82") and first[28:32] == _LITTLE_ENDIAN
    return size if is_redo and size in _BLOCK_SIZES else None


def pack(data: bytes) -> Optional[bytes]:
    """Replaces empty blocks by their number; None if no block is empty."""
    if _NO_BLOCK not in data:
        return None
    whole = len(data) // BLOCK * BLOCK
    parts = []  # type: List[bytes]
    at = 0
    for is_empty, run in itertools.groupby(data[n : n + BLOCK] == _NO_BLOCK for n in range(0, whole, BLOCK)):
        count = sum(1 for _ in run)
        if is_empty:
            parts.append(RUN.pack(count, 0))
        else:
            parts += [RUN.pack(0, count * BLOCK), data[at : at + count * BLOCK]]
        at += count * BLOCK
    if len(data) > whole:
        parts += [RUN.pack(0, len(data) - whole), data[whole:]]
    packed = b"".join(parts)
    return packed if len(packed) < len(data) else None


# ---- Service --------------------------------------------------------------------------------------------------------


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Answers each connection in its own thread. Raises `OSError` if it cannot listen.

    `token`: what a client must send as its bearer; None: everybody is answered. `most_connections`: further ones are
    closed. `idle_seconds`: how long a client may be silent.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: Tuple[str, int],
        files: ServedFiles,
        token: Optional[str],
        context: Optional[ssl.SSLContext] = None,
        idle_seconds: float = 60.0,
        most_connections: int = 64,
    ):
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.files, self.token = files, token
        self._context, self._idle_seconds = context, idle_seconds
        self._free = threading.BoundedSemaphore(most_connections)
        super().__init__(address, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            _log.warning("%s is not answered: all connections are in use", client_address[0])
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(self._idle_seconds)
        if self._context is None:
            Handler(request, client_address, self)
            return
        # Here, and not where connections are accepted: a silent client would keep the others waiting.
        encrypted = self._context.wrap_socket(request, server_side=True)
        try:
            Handler(encrypted, client_address, self)
        finally:
            encrypted.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            _log.info("%s: the connection ended: %s", client_address[0], error)
        else:
            _log.error("%s: this request was not answered", client_address[0], exc_info=error)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server = None  # type: Server  # type: ignore[assignment]

    def do_GET(self) -> None:
        began = time.monotonic()
        if self.headers.get("Content-Length") or self.headers.get("Transfer-Encoding"):
            self.close_connection = True  # A body is not read, so the next request cannot be found.
        try:
            status, content, headers = self._answer()
        except Refused as refused:
            status, content, headers = refused.status, _error(str(refused)), {}
        except OSError as error:
            status, content, headers = 500, _error(error.strerror or str(error)), {}
        self._send(status, content, headers)
        if status >= 400:
            _log.warning("%s %s: %s %s", self.client_address[0], self._shown(), status, content.decode("utf-8"))
        elif _log.isEnabledFor(logging.DEBUG):
            milliseconds = (time.monotonic() - began) * 1000
            _log.debug("%s %s: %d bytes, %.1f ms", self.client_address[0], self._shown(), len(content), milliseconds)

    def _answer(self) -> Tuple[int, bytes, Dict[str, str]]:
        """The status, the body and further headers."""
        token = self.server.token
        if token is not None:
            sent = self.headers.get("Authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(sent, b"Bearer " + token.encode()):
                return 401, _error("the token is missing or wrong"), {"WWW-Authenticate": "Bearer"}
        target = urlsplit(self.path)
        if target.path != "/file":
            raise Refused(404, "there is only /file")
        parameters = parse_qs(target.query, keep_blank_values=True)
        path, kind, files = _path(parameters), _parameter(parameters, "type"), self.server.files
        if kind == "list":
            return 200, _json([listed._asdict() for listed in files.files(path)]), {}
        if kind == "attr":
            found = files.attributes(path)
            return 200, _json({"size": found.size, "blockSize": found.block_size, "modified": found.modified}), {}
        if kind == "read":
            offset, length = _number(parameters, "startOffset"), _number(parameters, "length")
            if length > LARGEST_READ:
                raise Refused(400, "length is above {}".format(LARGEST_READ))
            data = files.read(path, offset, length)
            packed = pack(data) if ENCODING in self.headers.get("Accept-Encoding", "") else None
            return (200, data, {}) if packed is None else (200, packed, {"Content-Encoding": ENCODING})
        raise Refused(400, "type is none of attr, read, list")

    def _send(self, status: int, content: bytes, headers: Dict[str, str]) -> None:
        # Without Server and Date: they would be a third of the bytes of a small answer.
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: Optional[str] = None, explain: Optional[str] = None) -> None:
        """Of the base class, for requests that are no HTTP, and for other methods than GET."""
        self.close_connection = True
        self._send(code, _error(message or "the request cannot be read"), {})

    def log_message(self, format: str, *args: Any) -> None:
        """Of the base class, which would write to standard error."""

    def _shown(self) -> str:
        """The request, for the log: a path instead of its base64."""
        parameters = parse_qs(urlsplit(self.path).query)
        try:
            path = _path(parameters)
        except Refused:
            path = "?"
        numbers = " ".join(parameters.get("startOffset", []) + parameters.get("length", []))
        return ascii(" ".join([_parameter(parameters, "type"), path, numbers]).strip())


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _error(reason: str) -> bytes:
    return _json({"error": reason})


def _parameter(parameters: Dict[str, List[str]], name: str) -> str:
    return parameters.get(name, [""])[0]


def _path(parameters: Dict[str, List[str]]) -> str:
    # In a query a plus sign is a blank; curl -d sends base64 as it is.
    text = _parameter(parameters, "filePath").replace(" ", "+")
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise Refused(400, "filePath is no base64 of UTF-8") from None


def _number(parameters: Dict[str, List[str]], name: str) -> int:
    text = _parameter(parameters, name)
    if not 0 < len(text) <= 18 or not all(digit in "0123456789" for digit in text):
        raise Refused(400, "{} is no number".format(name))
    return int(text)


# ---- Command --------------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root", action="append", required=True, metavar="FOLDER", help="serve the files below it; may be repeated"
    )
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--token-file", metavar="FILE", help="the file with the clients' token")
    who.add_argument(
        "--without-token",
        action="store_true",
        help="answer everybody: only on a loopback address, where every account of this machine can read the logs",
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, metavar="PORT", help="to listen on (default 9527)")
    parser.add_argument("--certificate", metavar="FILE", help="for TLS, in PEM")
    parser.add_argument("--key", metavar="FILE", help="the certificate's key")
    parser.add_argument(
        "--idle-seconds", type=float, default=60.0, metavar="N", help="end connections that are silent (default 60)"
    )
    parser.add_argument(
        "--log", metavar="FILE", help="write warnings to it, not to the terminal; rotated at 10 MB, five files are kept"
    )
    parser.add_argument("--trace", action="store_true", help="log each request")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Serves until a signal. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Serves the redo logs of this machine.")
    add_arguments(parser)
    args = parser.parse_args(argv)
    try:
        return serve(args, folders(args.root))
    except CannotServe as error:
        print(error, file=sys.stderr)
        return 2


def folders(roots: Sequence[str]) -> Folders:
    """Raises `CannotServe`."""
    for root in roots:
        if not os.path.isdir(root) or not os.access(root, os.R_OK | os.X_OK):
            raise CannotServe(
                "--root {} is no folder that can be read. Name the folder of the archived logs.".format(root)
            )
    return Folders(roots)


def serve(args: argparse.Namespace, files: ServedFiles) -> int:
    """Serves until a signal; returns 0. Raises `CannotServe`."""
    is_encrypted = bool(args.certificate and args.key)
    if not is_encrypted and not _is_loopback(args.host):
        raise CannotServe(
            "On {} redo logs would travel unencrypted, with every value of the database in them. Give --certificate "
            "and --key, or listen on 127.0.0.1 behind a tunnel.".format(args.host)
        )
    if args.without_token and not _is_loopback(args.host):
        raise CannotServe("On {} everybody could read the logs. Give --token-file.".format(args.host))
    token = None if args.without_token else read_token(args.token_file)
    context = _tls(args.certificate, args.key) if args.certificate or args.key else None
    _log_to(args.log, args.trace)
    with _server((args.host, args.port), files, token, context, args.idle_seconds) as server:

        def stop(number: int, frame: Any) -> None:
            # `shutdown` waits for the loop, which this thread runs.
            threading.Thread(target=server.shutdown).start()

        former = [(number, signal.signal(number, stop)) for number in (signal.SIGTERM, signal.SIGINT)]
        print("serving {} on {}:{}".format(", ".join(args.root), args.host, args.port), flush=True)
        try:
            server.serve_forever()
        finally:
            for number, handler in former:
                signal.signal(number, handler)
    return 0


def read_token(file: str) -> str:
    """Raises `CannotServe`."""
    remedy = (
        "Write {} random characters or more into it, such as those of `openssl rand -hex 32`, and chmod 600 it."
    ).format(SHORTEST_TOKEN)
    try:
        with open(file, encoding="ascii") as opened:
            token = opened.read().strip()
            mode = os.fstat(opened.fileno()).st_mode
    except OSError as error:
        raise CannotServe("{} cannot be read: {}. {}".format(file, error.strerror, remedy)) from None
    except UnicodeDecodeError:
        raise CannotServe("{} holds other characters than ASCII has. {}".format(file, remedy)) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CannotServe("{} can be read by other accounts. {}".format(file, remedy))
    if len(token) < SHORTEST_TOKEN or not token.isprintable():
        raise CannotServe("{} holds no token of {} characters. {}".format(file, SHORTEST_TOKEN, remedy))
    return token


def _tls(certificate: Optional[str], key: Optional[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if hasattr(ssl, "TLSVersion"):
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    else:  # Python 3.6.
        context.options |= ssl.OP_NO_SSLv3 | ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
    try:
        if not certificate or not key:
            raise OSError("one of them is not given")
        # Without a password here, an encrypted key would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password="")
        return context
    except ssl.SSLError:
        reason = "one is no PEM, they do not belong together, or the key has a password"
    except OSError as error:
        reason = error.strerror or str(error)
    raise CannotServe(
        "--certificate {} and --key {} cannot be used: {}. Name two files in PEM: the certificate, with those above "
        "it, and its key without a password.".format(certificate or "(none)", key or "(none)", reason)
    )


def _server(
    address: Tuple[str, int],
    files: ServedFiles,
    token: Optional[str],
    context: Optional[ssl.SSLContext],
    idle_seconds: float,
) -> Server:
    try:
        return Server(address, files, token, context, idle_seconds)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    except OverflowError:
        reason = "it is no port"
    raise CannotServe(
        "Nothing can listen on {}, port {}: {}. Give a free --port, from 1 to 65535, and an address of this machine "
        "as --host.".format(address[0], address[1], reason)
    )


def _log_to(file: Optional[str], trace: bool) -> None:
    """Raises `CannotServe`."""
    try:
        handler = (
            logging.handlers.RotatingFileHandler(file, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
            if file
            else logging.StreamHandler()
        )  # type: logging.Handler
    except OSError as error:
        raise CannotServe("--log {} cannot be written: {}.".format(file, error.strerror)) from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    _log.handlers[:] = [handler]
    _log.propagate = False
    _log.setLevel(logging.DEBUG if trace else logging.WARNING)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


if __name__ == "__main__":
    sys.exit(main())
