"""`./sluice redo-proxy`: serves redo logs to another machine."""

import argparse
import ipaddress
import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn

from sluice.database.registry import disk_groups, vendor_of
from sluice.errors import Terminal
from sluice.model.vendors import REDO_VENDOR
from sluice.redo.disk_groups import ServedDiskGroups
from sluice.redo.proxy import application
from sluice.redo.served_files import Folders, ServedFiles
from sluice.redo.staging import read_token


class NotSafe(Terminal):
    """Redo logs, which contain every value of the database, would be sent unencrypted."""

    def __init__(self, host: str):
        super().__init__(
            f"On {host} redo logs would travel unencrypted, with every value of the database in them. Give "
            "--certificate and --key, or listen on 127.0.0.1 behind a tunnel."
        )


class NoRoot(Terminal):
    """A root cannot be served."""

    def __init__(self, root: str, asm: str | None):
        if asm is not None:
            remedy = f"is in no disk group of --asm {asm}. Name one, or a folder in one: +FRA/ORCL/ARCHIVELOG."
        elif root.startswith("+"):
            remedy = f"is in a disk group. Give --asm {REDO_VENDOR}://sys@host:1521/+ASM, its password in ORACLE_PWD."
        else:
            remedy = "is no folder that can be read. Name the folder of the archived logs."
        super().__init__(f"--root {root} {remedy}")


class CertificateRefused(Terminal):
    """The files cannot be used for TLS."""

    def __init__(self, certificate: str | None, key: str | None, reason: str):
        super().__init__(
            f"--certificate {certificate or '(none)'} and --key {key or '(none)'} cannot be used: {reason}. Name two "
            "files in PEM: the certificate, with those above it, and its key without a password."
        )


class CannotListen(Terminal):
    """The address is invalid or in use."""

    def __init__(self, host: str, port: int, reason: str):
        super().__init__(
            f"Nothing can listen on {host}, port {port}: {reason}. Give a free --port, from 1 to 65535, and an address "
            "of this machine as --host."
        )


def run(args: argparse.Namespace) -> int:
    """Serves until a signal; returns 0. Raises `SluiceError`."""
    if not (args.certificate and args.key) and not _loopback(args.host):
        raise NotSafe(args.host)
    served = application(_files(args.root, args.asm), read_token(Path(args.token_file)))
    if args.certificate or args.key:
        _try_certificate(args.certificate, args.key)
    configured = uvicorn.Config(
        served,
        ssl_certfile=args.certificate,
        ssl_keyfile=args.key,
        log_level="warning",
        timeout_keep_alive=60,
        server_header=False,
    )
    with _listening(args.host, args.port) as listening, suppress(KeyboardInterrupt):
        print(f"serving {', '.join(args.root)} on {args.host}:{args.port}", flush=True)
        uvicorn.Server(configured).run([listening])
    return 0


def _files(roots: Sequence[str], asm: str | None) -> ServedFiles:
    """Files of disk groups if `asm` names their instance, else of folders. Raises `NoRoot`, and errors of that
    instance."""
    if asm is None:
        for root in roots:
            if not os.path.isdir(root) or not os.access(root, os.R_OK | os.X_OK):
                raise NoRoot(root, asm)
        return Folders([Path(root) for root in roots])
    disks = disk_groups(vendor_of(REDO_VENDOR).located(asm))
    for root in roots:
        if not root.startswith("+"):
            raise NoRoot(root, asm)
        disks.files(root.removeprefix("+").partition("/")[0].upper())
    return ServedDiskGroups(roots, disks)


def _try_certificate(certificate: str | None, key: str | None) -> None:
    try:
        if not certificate or not key:
            raise OSError("one of them is not given")
        # Without a password here, an encrypted key would ask for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError:
        reason = "one is no PEM, they do not belong together, or the key has a password"
        raise CertificateRefused(certificate, key, reason) from None
    except OSError as error:
        raise CertificateRefused(certificate, key, error.strerror or str(error)) from None


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise CannotListen(host, port, os.strerror(error.errno) if error.errno else str(error)) from None
    except OverflowError:
        raise CannotListen(host, port, "it is no port") from None


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
