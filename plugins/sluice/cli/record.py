"""`./sluice record`: writes the changes of a replication's master into files, as a recorded stream."""

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sluice import config
from sluice.cli.console import log_to_output, stop_by_signal
from sluice.configuration.rule import TablePattern
from sluice.counted import counted
from sluice.database.addresses import vendor_of_url
from sluice.database.recorder import Recorder
from sluice.database.registry import change_log, recorded_source, vendor_of
from sluice.model.names import Prefix, TableName


def run(args: argparse.Namespace) -> int:
    """Runs until a signal, or once; returns 0. Raises `SluiceError`."""
    log_to_output()
    folder = Path(os.path.abspath(args.location))
    vendor, prefix = vendor_of_url(args.database), Prefix(config.meant(args.prefix))
    info = vendor_of(vendor).located(args.database)
    recorder: Recorder
    if (log := change_log(vendor)) is not None:
        patterns = [TablePattern.parse(text) for text in args.tables or ["public.*"]]
        recorder = recorded_source().log_recorder(info, prefix, folder, partial(_matches, patterns), log)
    else:
        recorder = recorded_source().recorder(info, prefix, args.schema, folder)
    if args.once:
        recorder.record_once()
    else:
        stop = stop_by_signal()
        print(f"recording {args.prefix} into {folder}", flush=True)
        recorder.run(stop)
    print(f"{folder}: {counted(recorder.recorded, 'change')} recorded")
    return 0


def _matches(patterns: Sequence[TablePattern], table: TableName) -> bool:
    return any(pattern.matches(table) for pattern in patterns)
