"""`./sluice redo-proxy`: serves redo logs to another machine."""

import argparse
import ipaddress
import os
from pathlib import Path

import uvicorn

from sluice.errors import Terminal
from sluice.redo.proxy import application
from sluice.redo.staging import read_token


class NotSafe(Terminal):
    """Redo logs hold every value of the database."""

    def __init__(self, host: str):
        super().__init__(
            f"On {host} redo logs would travel unencrypted, with every value of the database in them. Give "
            "--certificate and --key, or listen on 127.0.0.1 behind a tunnel."
        )


class NoRoot(Terminal):
    """Nothing could be served."""

    def __init__(self, root: str):
        super().__init__(f"--root {root} is no folder that can be read. Name the folder of the archived logs.")


def run(args: argparse.Namespace) -> int:
    """0 when it was told to end. Raises `SluiceError`."""
    if not (args.certificate and args.key) and not _loopback(args.host):
        raise NotSafe(args.host)
    for root in args.root:
        if not os.path.isdir(root) or not os.access(root, os.R_OK | os.X_OK):
            raise NoRoot(root)
    served = application([Path(root) for root in args.root], read_token(Path(args.token_file)))
    print(f"serving {', '.join(args.root)} on {args.host}:{args.port}", flush=True)
    uvicorn.run(
        served,
        host=args.host,
        port=args.port,
        ssl_certfile=args.certificate,
        ssl_keyfile=args.key,
        log_level="warning",
        timeout_keep_alive=60,
        server_header=False,
    )
    return 0


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
