"""`./sluice redo-proxy`: `redo/proxy.py`, which also serves disk groups of ASM here."""

import argparse
from collections.abc import Sequence

from sluice.database.registry import disk_groups, vendor_of
from sluice.errors import Terminal
from sluice.model.vendors import REDO_VENDOR
from sluice.redo import proxy
from sluice.redo.disk_groups import ServedDiskGroups


class CannotServe(Terminal):
    """The proxy cannot start with these arguments."""


def run(args: argparse.Namespace) -> int:
    """Serves until a signal; returns 0. Raises `CannotServe`, and errors of the ASM instance."""
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
