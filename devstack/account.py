"""The account that runs PostgreSQL and MariaDB when the caller is root: PostgreSQL refuses to run as root.

It is `nobody`, which every Linux has: nothing is created on the machine. It owns only the servers' data folders.
"""

import functools
import os
import pwd
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devstack.home import SYSTEM
from sluice.errors import Terminal

ACCOUNT = "nobody"


def no_service_account(reason: str) -> Terminal:
    """The caller is root, and no other account can run PostgreSQL."""
    return Terminal(
        f"PostgreSQL refuses to run as root, and the account '{ACCOUNT}' cannot run it: {reason}."
        " Run this command as an ordinary user.",
        code="no-service-account",
    )


def folder_not_enterable(account: str, path: Path, reason: str) -> Terminal:
    """The account cannot reach a path."""
    return Terminal(
        f"The account '{account}', which runs PostgreSQL, cannot reach {path}: {reason}. Sluice changes no folder"
        f" that it did not make. Choose a state folder that others may enter, such as SLUICE_HOME={SYSTEM}"
        " (for tests and benchmarks the temporary folder: TMPDIR=/tmp).",
        code="folder-not-enterable",
    )


@dataclass(frozen=True)
class Account:
    """An ordinary account. Callers pass None for their own account."""

    name: str
    uid: int
    gid: int

    @property
    def popen(self) -> dict[str, Any]:
        """Arguments for `subprocess` that start a program under this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid)

    def take_over(self, folder: Path) -> None:
        """Makes everything in the folder its own, if another account of earlier servers owns it."""
        if folder.exists() and folder.stat().st_uid != self.uid:
            for path in (*folder.rglob("*"), folder):
                os.lchown(path, self.uid, self.gid)


@functools.cache
def service_account() -> Account | None:
    """Returns the account to run PostgreSQL under, or None when the caller is not root and runs it itself.

    Raises `no-service-account`.
    """
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(ACCOUNT)
    except KeyError:
        raise no_service_account("this system has none of that name") from None
    account = Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    try:
        subprocess.run(["true"], check=True, **account.popen)
    except (OSError, subprocess.SubprocessError) as error:
        # Root of a container whose user namespace has no other id, or without the capability.
        raise no_service_account(f"root may not become it here ({error})") from error
    return account


def closed_folder(path: Path, account: Account) -> Path | None:
    """Returns the first folder from / to `path` whose mode keeps the account out, or None.

    Folders that do not exist yet, and folders with an access control list, are skipped.
    """
    path = path.resolve()
    for folder in [*reversed(path.parents), path]:
        if folder.is_dir() and not _enters(folder, account) and not _has_access_list(folder):
            return folder
    return None


def require_enterable(path: Path, account: Account | None) -> None:
    """Raises `folder-not-enterable` when the account may not pass from / to `path`."""
    if account is not None and (closed := closed_folder(path, account)):
        raise folder_not_enterable(
            account.name, path, f"it may not enter {closed} ({stat.filemode(closed.stat().st_mode)})"
        )


def make_passable(folder: Path, account: Account | None) -> None:
    """Lets the account pass through a folder that Sluice made. The folder does not become listable."""
    status = folder.stat()
    if account is not None and status.st_uid == os.geteuid() and not status.st_mode & stat.S_IXOTH:
        folder.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXOTH)


def new_folder(prefix: str) -> Path:
    """Makes a temporary folder for servers. The account that runs them may pass through it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    make_passable(folder, service_account())
    return folder


def _enters(folder: Path, account: Account) -> bool:
    status = folder.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    return bool(status.st_mode & (stat.S_IXGRP if status.st_gid == account.gid else stat.S_IXOTH))


def _has_access_list(folder: Path) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(folder)
    except OSError:
        return False
