"""`./sluice import`: checks a folder of initial data and loads it, on a machine that reaches only the slave."""

import argparse
import logging
import os
from pathlib import Path

from sluice.cli.console import log_to_output
from sluice.counted import counted
from sluice.database.addresses import vendor_of_url
from sluice.database.registry import vendor_of
from sluice.errors import Terminal
from sluice.load.transfer import encryption, transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.model.location import Location, S3Access


def run_import(args: argparse.Namespace) -> int:
    """Loads the folder, or only checks it with --check; returns 0. Raises `SluiceError`."""
    log_to_output()
    logging.getLogger("botocore").setLevel(logging.WARNING)
    key = None
    if args.key_file:
        key = encryption.key_of(_content(Path(args.key_file)), args.key_file)
    location = Location.parse(args.location if "://" in args.location else os.path.abspath(args.location))
    info = vendor_of(vendor_of_url(args.database)).located(args.database)
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
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Terminal(
            f"{file}: the key cannot be read: {error}. Name a file that holds it in base64.", code="key-unreadable"
        ) from error
