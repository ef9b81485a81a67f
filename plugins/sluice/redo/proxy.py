"""Serves redo logs to a stager on another machine: `./sluice redo-proxy`, beside the logs.

GET /file?type=attr&filePath=<base64>                              {"size": …, "blockSize": …, "modified": …}
GET /file?type=read&filePath=<base64>&startOffset=0&length=4096    the bytes
GET /file?type=list&filePath=<base64>                              the files of a folder and those below it
"""

import base64
import binascii
import secrets

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sluice.redo import zero_blocks
from sluice.redo.served_files import Refused, ServedFiles

PORT = 9527
LARGEST_READ = 16 << 20


def application(files: ServedFiles, token: str) -> Starlette:
    """The service. `token`: what a client must send as its bearer."""
    wanted = f"Bearer {token}".encode()

    def answer(request: Request) -> Response:
        # Not asynchronous: Starlette runs it in a thread, where a disk may be waited for.
        if not secrets.compare_digest(request.headers.get("authorization", "").encode(), wanted):
            return JSONResponse({"error": "the token is missing or wrong"}, 401, {"WWW-Authenticate": "Bearer"})
        try:
            return _served(request, files)
        except Refused as refused:
            return JSONResponse({"error": str(refused)}, refused.status)
        except OSError as error:
            return JSONResponse({"error": error.strerror or str(error)}, 500)

    return Starlette(routes=[Route("/file", answer, methods=["GET"])])


def _served(request: Request, files: ServedFiles) -> Response:
    path = _path(request)
    match request.query_params.get("type"):
        case "list":
            return JSONResponse([each._asdict() for each in files.files(path)])
        case "attr":
            attributes = files.attributes(path)
            return JSONResponse(
                {"size": attributes.size, "blockSize": attributes.block_size, "modified": attributes.modified}
            )
        case "read":
            return _read(request, files, path)
    raise Refused(400, "type is none of attr, read, list")


def _read(request: Request, files: ServedFiles, path: str) -> Response:
    offset, length = _number(request, "startOffset"), _number(request, "length")
    if length > LARGEST_READ:
        raise Refused(400, f"length is above {LARGEST_READ}")
    data = files.read(path, offset, length)
    accepted = zero_blocks.ENCODING in request.headers.get("accept-encoding", "")
    packed = zero_blocks.pack(data) if accepted else None
    headers = {"Content-Encoding": zero_blocks.ENCODING} if packed is not None else {}
    return Response(packed if packed is not None else data, media_type="application/octet-stream", headers=headers)


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
