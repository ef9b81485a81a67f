"""`./sluice record`: writes the changes of a replication's master into files, as a recorded stream."""

import argparse
import os
from pathlib import Path

from sluice import config
from sluice.cli.console import log_to_output, stop_by_signal
from sluice.counted import counted
from sluice.database.registry import recorded_source, vendor_of
from sluice.model.names import Prefix
from sluice.model.vendors import FIRST


def run(args: argparse.Namespace) -> int:
    """Runs until a signal, or once; returns 0. Raises `SluiceError`."""
    log_to_output()
    folder = Path(os.path.abspath(args.location))
    info = vendor_of(FIRST).located(args.database)
    recorder = recorded_source().recorder(info, Prefix(config.meant(args.prefix)), args.schema, folder)
    if args.once:
        recorder.record_once()
    else:
        stop = stop_by_signal()
        print(f"recording {args.prefix} into {folder}", flush=True)
        recorder.run(stop)
    print(f"{folder}: {counted(recorder.recorded, 'change')} recorded")
    return 0
