"""`./sluice redo`: merges the output of OpenLogReplicator into a recorded stream."""

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from sluice import config
from sluice.counted import counted
from sluice.database.recorder import MergeOptions
from sluice.database.registry import merger_of
from sluice.model.names import Prefix
from sluice.model.vendors import STREAM


def run(args: argparse.Namespace) -> int:
    """0 when it was told to end. Raises `SluiceError`."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    root, folder = (Path(os.path.abspath(place)) for place in (args.threads, args.location))
    options = MergeOptions(args.exact_names, 60 * args.silent_minutes, args.free, args.ends_at)
    merger = merger_of(STREAM)(root, folder, Prefix(config.meant(args.prefix)), options)
    if args.once:
        waiting = merger.merge_once()
        print(f"{folder}: {counted(merger.merged, 'transaction')} merged, {waiting} wait for what may come before them")
        return 0
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    print(f"merging {root} into {folder}", flush=True)
    merger.run(stop)
    print(f"{folder}: {counted(merger.merged, 'transaction')} merged")
    return 0
