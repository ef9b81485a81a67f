"""`./sluice record`: writes the changes of a replication's master into files, as a recorded stream."""

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from sluice import config
from sluice.counted import counted
from sluice.database.registry import recorder_of, vendor_of
from sluice.model.names import Prefix
from sluice.model.vendors import FIRST, STREAM


def run(args: argparse.Namespace) -> int:
    """0 when it was told to end. Raises `SluiceError`."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    folder = Path(os.path.abspath(args.location))
    info = vendor_of(FIRST).located(args.database)
    recorder = recorder_of(STREAM)(info, Prefix(config.meant(args.prefix)), args.schema, folder)
    if args.once:
        recorder.record_once()
    else:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        print(f"recording {args.prefix} into {folder}", flush=True)
        recorder.run(stop)
    print(f"{folder}: {counted(recorder.recorded, 'change')} recorded")
    return 0
