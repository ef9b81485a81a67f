"""Serves redo logs to a stager on another machine: `./sluice redo-proxy`, beside the logs.

    GET /file?type=attr&filePath=<base64>                              {"size": …, "blockSize": …, "modified": …}
    GET /file?type=read&filePath=<base64>&startOffset=0&length=4096    the bytes
    GET /file?type=list&filePath=<base64>                              the files of a folder and those below it

Only files below the configured roots are read, and nothing is written. A link that leads out of them is refused, also
one that is put there while it is opened.
"""

import base64
import binascii
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sluice.redo import blocks, zero_blocks

PORT = 9527
LARGEST_READ = 16 << 20


class Refused(Exception):
    """Of a request, with the status of the answer."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


class Roots:
    """Folders below which files may be read."""

    def __init__(self, roots: Sequence[Path]):
        self.roots = [os.path.realpath(root) for root in roots]

    def open(self, path: str) -> int:
        """A descriptor of a file or folder, to be closed. Raises `Refused`."""
        if not path.startswith("/") or "\0" in path:
            raise Refused(400, "filePath is not absolute")
        real = os.path.realpath(path)
        if not any(real == root or real.startswith(f"{root}/") for root in self.roots):
            raise Refused(403, "filePath is not below a root of this proxy")
        try:
            # A pipe would wait for its writer.
            descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            status = 404 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 403
            raise Refused(status, error.strerror or str(error)) from None
        # A folder of the path may have become a link since.
        if os.path.realpath(f"/proc/self/fd/{descriptor}") != real:
            os.close(descriptor)
            raise Refused(403, "filePath changed while it was opened")
        return descriptor


def application(roots: Sequence[Path], token: str) -> Starlette:
    """The service. `token`: what a client must send as its bearer."""
    allowed = Roots(roots)
    wanted = f"Bearer {token}".encode()

    def answer(request: Request) -> Response:
        # Not asynchronous: Starlette runs it in a thread, where a disk may be waited for.
        if not secrets.compare_digest(request.headers.get("authorization", "").encode(), wanted):
            return JSONResponse({"error": "the token is missing or wrong"}, 401, {"WWW-Authenticate": "Bearer"})
        try:
            descriptor = allowed.open(_path(request))
            try:
                return _served(request, descriptor)
            finally:
                os.close(descriptor)
        except Refused as refused:
            return JSONResponse({"error": str(refused)}, refused.status)
        except OSError as error:
            return JSONResponse({"error": error.strerror or str(error)}, 500)

    return Starlette(routes=[Route("/file", answer, methods=["GET"])])


def _served(request: Request, descriptor: int) -> Response:
    found = os.fstat(descriptor)
    kind = request.query_params.get("type")
    if kind == "list":
        if not stat.S_ISDIR(found.st_mode):
            raise Refused(400, "filePath is no folder")
        return JSONResponse(list(_files(descriptor)))
    if not stat.S_ISREG(found.st_mode):
        raise Refused(400, "filePath is no file")
    if kind == "attr":
        return JSONResponse({"size": found.st_size, "blockSize": _block_size(descriptor), "modified": found.st_mtime})
    if kind != "read":
        raise Refused(400, "type is none of attr, read, list")
    offset, length = _number(request, "startOffset"), _number(request, "length")
    if length > LARGEST_READ:
        raise Refused(400, f"length is above {LARGEST_READ}")
    if offset > found.st_size:
        raise Refused(416, f"startOffset is behind the file's end at {found.st_size}")
    data = os.pread(descriptor, length, offset)
    accepted = zero_blocks.ENCODING in request.headers.get("accept-encoding", "")
    packed = zero_blocks.pack(data) if accepted else None
    headers = {"Content-Encoding": zero_blocks.ENCODING} if packed is not None else {}
    return Response(packed if packed is not None else data, media_type="application/octet-stream", headers=headers)


def _files(folder: int) -> Iterator[dict[str, object]]:
    """A fast recovery area has a folder for each day. Links are not followed."""
    for place, _, names, descriptor in os.fwalk(".", dir_fd=folder):
        for name in names:
            try:
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue  # Deleted meanwhile.
            if stat.S_ISREG(found.st_mode):
                path = os.path.normpath(os.path.join(place, name))
                yield {"name": path, "size": found.st_size, "modified": found.st_mtime}


def _block_size(descriptor: int) -> int | None:
    try:
        return blocks.block_size(os.pread(descriptor, 512, 0))
    except blocks.NotRedo:
        return None


def _path(request: Request) -> str:
    try:
        return base64.b64decode(request.query_params.get("filePath", ""), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        raise Refused(400, "filePath is no base64 of UTF-8") from None


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Refused(400, f"{name} is no number")
    return int(text)
