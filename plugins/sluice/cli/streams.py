"""The commands that write recorded streams: `record`, `redo`, `capture-redo`, `redo-proxy`."""

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sluice import config
from sluice.cli.console import log_to_output, stop_by_signal
from sluice.configuration.rule import TablePattern
from sluice.coordination import redis_store
from sluice.counted import counted
from sluice.database.addresses import vendor_of_url
from sluice.database.recorder import MergeOptions, Recorder
from sluice.database.registry import archived_logs, change_log, disk_groups, recorded_source, vendor_of
from sluice.errors import Terminal
from sluice.model.names import Prefix, TableName
from sluice.model.vendors import BINLOG, REDO_VENDOR
from sluice.redo import proxy
from sluice.redo.disk_groups import ServedDiskGroups
from sluice.redo.supervisor import Supervisor


def run_record(args: argparse.Namespace) -> int:
    """Writes the changes of a master into files, as a recorded stream, until a signal, or once; returns 0.

    Raises `SluiceError`.
    """
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


def run_redo(args: argparse.Namespace) -> int:
    """Merges the output of OpenLogReplicator into a recorded stream, until a signal, or once; returns 0.

    Raises `SluiceError`.
    """
    log_to_output()
    root, folder = (Path(os.path.abspath(path)) for path in (args.threads, args.location))
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


def run_capture_redo(args: argparse.Namespace) -> int:
    """Reads the redo logs of an Oracle master, or the binary log of a MariaDB master, until a signal; returns 0.

    Raises `SluiceError`.
    """
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


class CannotServe(Terminal):
    """The proxy cannot start with these arguments."""


def run_redo_proxy(args: argparse.Namespace) -> int:
    """Serves logs as `redo/proxy.py` does, also those of disk groups of ASM, until a signal; returns 0.

    Raises `CannotServe`, and errors of the ASM instance.
    """
    try:
        return proxy.serve(args, files_of(args.root, args.asm))
    except proxy.CannotServe as error:
        raise CannotServe(str(error)) from None


def files_of(roots: Sequence[str], asm: str | None) -> proxy.ServedFiles:
    """Files of disk groups if `asm` names their instance, else of folders. Raises like `run`."""
    if asm is not None:
        disks = disk_groups(vendor_of(REDO_VENDOR).located(asm))
        for root in roots:
            if not root.startswith("+"):
                raise CannotServe(
                    f"--root {root} is in no disk group of --asm {asm}. Name one, or a folder in one: "
                    "+FRA/ORCL/ARCHIVELOG."
                )
            disks.files(root.removeprefix("+").partition("/")[0].upper())
        return ServedDiskGroups(roots, disks)
    for root in roots:
        if root.startswith("+"):
            raise CannotServe(
                f"--root {root} is in a disk group. Give --asm {REDO_VENDOR}://sys@host:1521/+ASM, its password in "
                "ORACLE_PWD."
            )
    return proxy.folders(roots)
