"""`./sluice redo`: merges the output of OpenLogReplicator into a recorded stream."""

import argparse
import os
from pathlib import Path

from sluice import config
from sluice.cli.console import log_to_output, stop_by_signal
from sluice.counted import counted
from sluice.database.recorder import MergeOptions
from sluice.database.registry import recorded_source
from sluice.model.names import Prefix


def run(args: argparse.Namespace) -> int:
    """Runs until a signal, or once; returns 0. Raises `SluiceError`."""
    log_to_output()
    root, folder = (Path(os.path.abspath(place)) for place in (args.threads, args.location))
    options = MergeOptions(args.exact_names, 60 * args.silent_minutes, args.free, args.ends_at)
    merger = recorded_source().merger(root, folder, Prefix(config.meant(args.prefix)), options)
    if args.once:
        waiting = merger.merge_once()
        print(f"{folder}: {counted(merger.merged, 'transaction')} merged, {waiting} wait for what may come before them")
        return 0
    stop = stop_by_signal()
    print(f"merging {root} into {folder}", flush=True)
    merger.run(stop)
    print(f"{folder}: {counted(merger.merged, 'transaction')} merged")
    return 0
