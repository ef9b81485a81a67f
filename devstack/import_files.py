"""`./sluice import`: checks a folder of initial data and loads it, on a machine that reaches only the slave."""

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.counted import counted

if TYPE_CHECKING:
    from sluice.model.connection import ConnectionInfo

_NO_URL = "--database is no URL of PostgreSQL. Write postgresql://user@host:port/name."

EPILOG = """\
The slave's database is taken from --database, or from PGHOST, PGPORT, PGDATABASE and PGUSER; its password from
PGPASSWORD or ~/.pgpass, never from the command line. Credentials for S3 are found as boto3 finds them:
AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ~/.aws. Neither the master, nor Airflow, nor Redis is reached. May be stopped and
run again at any moment. When it is through, approve the transfer in Airflow.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Checks the folder of an initial update that travelled as files, and loads it into the slave."
    parser.epilog = EPILOG
    parser.add_argument(
        "--location",
        required=True,
        metavar="PLACE",
        help="the folder, or what it lies in: a directory or s3://bucket/…",
    )
    parser.add_argument(
        "--slave", metavar="NAME", help="which slave this is; needed only where the folder is for several"
    )
    parser.add_argument("--database", metavar="URL", help="the slave's database: postgresql://user@host:port/name")
    parser.add_argument("--key-file", metavar="FILE", help="the key of encrypted files, in base64")
    parser.add_argument(
        "--parallel", type=int, default=2, metavar="N", help="files loaded at the same time (default 2)"
    )
    parser.add_argument("--check", action="store_true", help="check the files, load nothing")


def run(args: argparse.Namespace) -> int:
    """0 when all is loaded (or, with --check, right). Raises `SluiceError`."""
    from sluice.load.transfer import encryption, transfer_steps
    from sluice.load.transfer.import_job import import_in_threads
    from sluice.model.location import Location, S3Access

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    key = None
    if args.key_file:
        key = encryption.key_of(_content(Path(args.key_file)), args.key_file)
    location = Location.parse(args.location if "://" in args.location else os.path.abspath(args.location))
    info = database(args.database)
    transfer_folder, target = transfer_steps.found_for(location, S3Access(), key, info, args.slave)
    print(f"{target}: checking {transfer_folder.location}", flush=True)
    manifest = transfer_steps.examine(target, transfer_folder)
    rows = sum(block.rows for block in manifest.blocks)
    print(
        f"{target}: checked, all as sent: {counted(len(manifest.blocks), 'file')} with {counted(rows, 'row')}",
        flush=True,
    )
    if args.check:
        return 0
    report = import_in_threads(target, transfer_folder, manifest, max(1, args.parallel))
    print(
        f"{target}: {counted(report.rows, 'row')} of {counted(report.blocks, 'file')} loaded in "
        f"{report.seconds:.1f} s. "
        "All files are on the slave: approve the transfer in Airflow, and the changes queued meanwhile follow."
    )
    return 0


def _content(file: Path) -> str:
    from sluice.errors import Terminal

    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Terminal(f"{file}: the key cannot be read: {error}. Name a file that holds it in base64.") from error


def database(url: str | None) -> "ConnectionInfo":
    from urllib.parse import parse_qsl, unquote, urlsplit

    from sluice.errors import Terminal
    from sluice.model.connection import ConnectionInfo, option_fault

    try:
        parts = urlsplit(url or "postgresql://")
        port = parts.port or int(os.environ.get("PGPORT", "5432"))
    except ValueError:
        raise Terminal(f"{_NO_URL} The port, there or in PGPORT, must be a number.") from None
    options = dict(parse_qsl(parts.query))
    if parts.password or "password" in options:
        raise Terminal("A password on a command line can be read by others. Put it into PGPASSWORD or ~/.pgpass.")
    if parts.scheme not in ("postgresql", "postgres"):
        raise Terminal(_NO_URL)
    if fault := option_fault(options):
        raise Terminal(f"--database {fault}")
    user = unquote(parts.username or "") or os.environ.get("PGUSER") or os.environ.get("USER", "postgres")
    return ConnectionInfo(
        "postgres",
        unquote(parts.hostname or "") or os.environ.get("PGHOST", "localhost"),
        port,
        unquote(parts.path.lstrip("/")) or os.environ.get("PGDATABASE", user),
        user,
        os.environ.get("PGPASSWORD", ""),
        options,
    )
