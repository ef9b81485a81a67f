"""`./sluice capture-redo`: reads the redo logs of an Oracle master."""

import argparse
import logging
import signal
import sys
import threading
from functools import partial

from sluice import config
from sluice.coordination import redis_store
from sluice.database.registry import archived_logs, vendor_of
from sluice.model.vendors import REDO_VENDOR
from sluice.redo.supervisor import Supervisor


def run(args: argparse.Namespace) -> int:
    """0 when it was told to end. Raises `SluiceError`."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    replication = config.load(config.meant(args.prefix))
    archived = None
    if args.database:
        archived = partial(
            archived_logs, vendor_of(REDO_VENDOR).located(args.database), f"sluice {replication.prefix} redo"
        )
    Supervisor(replication, redis_store.connect(), archived).run(stop)
    return 0
