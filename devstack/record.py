"""`./sluice record`: writes the changes of a replication's master into files, as a recorded stream."""

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from sluice.counted import counted

EPILOG = """\
The master's database is taken from --database, or from PGHOST, PGPORT, PGDATABASE and PGUSER; its password from
PGPASSWORD or ~/.pgpass, never from the command line. The account is that of the replication. The capture must be in
place (DAG install_resources and reconcile_tables). Ends at SIGTERM or Ctrl-C, and goes on where it ended when it is
started again. What the files hold, and how they are replayed: docs/stream.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Records the changes of a master into a folder, from now on, until it is told to end."
    parser.epilog = EPILOG
    parser.add_argument("prefix", metavar="PREFIX", help="of the replication, e.g. SHOP_")
    parser.add_argument("--location", required=True, metavar="FOLDER", help="where the files go; made where absent")
    parser.add_argument("--database", metavar="URL", help="the master's database: postgresql://user@host:port/name")
    parser.add_argument("--schema", default="sluice", help="of the replication's objects there (default sluice)")
    parser.add_argument("--once", action="store_true", help="record what is there by now, and end")


def run(args: argparse.Namespace) -> int:
    """0 when it was told to end. Raises `SluiceError`."""
    from devstack.import_files import database
    from sluice.model.names import Prefix
    from sluice.vendors.stream.recorder import Recorder

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    folder = Path(os.path.abspath(args.location))
    recorder = Recorder(database(args.database), Prefix(args.prefix), args.schema, folder)
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
