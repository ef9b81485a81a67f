"""`./sluice capture-redo`: reads the redo logs of an Oracle master, or the binary log of a MariaDB master."""

import argparse
from functools import partial

from sluice import config
from sluice.cli.console import log_to_output, stop_by_signal
from sluice.coordination import redis_store
from sluice.database.registry import archived_logs, vendor_of
from sluice.model.vendors import BINLOG, REDO_VENDOR
from sluice.redo.supervisor import Supervisor


def run(args: argparse.Namespace) -> int:
    """Runs until a signal; returns 0. Raises `SluiceError`."""
    log_to_output()
    stop = stop_by_signal()
    replication = config.load(config.meant(args.prefix))
    archived, database = None, None
    if replication.master.capture == BINLOG:
        database = vendor_of(replication.master.vendor).located(args.database)
    elif args.database:
        archived = partial(
            archived_logs, vendor_of(REDO_VENDOR).located(args.database), f"sluice {replication.prefix} redo"
        )
    Supervisor(replication, redis_store.connect(), archived, database=database).run(stop)
    return 0
