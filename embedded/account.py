"""The system account that carries PostgreSQL when the caller is root, because PostgreSQL refuses to run as root."""

import functools
import os
import pwd
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded.bootstrap import ACCOUNT, ensure_account
from sluice.errors import Terminal


class NoServiceAccount(Terminal):
    """Root has no ordinary account to hand PostgreSQL to."""

    def __init__(self) -> None:
        super().__init__(
            f"PostgreSQL refuses to run as root, and there is no account '{ACCOUNT}' to run it."
            f" Make it: useradd --system --user-group --no-create-home --shell /usr/sbin/nologin {ACCOUNT}"
            " (./sluice setup --yes does, with all else that is needed). Or run as an ordinary user."
        )


class NotEnterable(Terminal):
    """The account cannot reach a path, and its permissions could not be widened."""

    def __init__(self, account: str, path: Path, reason: str) -> None:
        self.account, self.path = account, path
        super().__init__(
            f"The account '{account}', which runs PostgreSQL, cannot reach {path}: {reason}."
            f" Allow it (chmod o+x on the folder and those above it), or move the state folder with SLUICE_HOME."
        )


@dataclass(frozen=True)
class Account:
    """An ordinary account; `None` stands for the caller's own."""

    name: str
    uid: int
    gid: int

    @property
    def popen(self) -> dict[str, Any]:
        """Arguments for `subprocess` that start a program under this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid)


@functools.cache
def service_account() -> Account | None:
    """The account to run PostgreSQL under, or None when the caller is not root and may run it itself.

    Raises `NoServiceAccount`.
    """
    if os.geteuid() != 0:
        return None
    ensure_account()
    account = _find(ACCOUNT)
    if account is None:
        raise NoServiceAccount()
    return account


def _find(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def make_readable(tree: Path, account: Account | None) -> None:
    """Let the account read a folder with all in it, and run what the owner may run.

    Needed for programs that were installed under a narrow umask. What is changed is said on stderr.
    """
    if account is None:
        return
    make_enterable(tree, account)
    changed = 0
    for path in [tree, *tree.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        wanted = mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0)
        if wanted != mode and not path.is_symlink():
            path.chmod(wanted)
            changed += 1
    if changed:
        print(f"sluice: chmod -R o+rX {tree}, so that the account '{account.name}' can use it", file=sys.stderr)


def make_enterable(path: Path, account: Account | None) -> None:
    """Let the account pass through every folder from / to `path` (search permission only, nothing becomes listable).

    What is changed is said on stderr. Raises `NotEnterable`.
    """
    if account is None:
        return
    path = path.resolve()
    for folder in [*reversed(path.parents), path]:
        status = folder.stat()
        if not stat.S_ISDIR(status.st_mode) or status.st_mode & stat.S_IXOTH or status.st_uid == account.uid:
            continue
        try:
            folder.chmod(stat.S_IMODE(status.st_mode) | stat.S_IXOTH)
        except OSError as error:
            raise NotEnterable(account.name, folder, str(error)) from error
        print(f"sluice: chmod o+x {folder}, so that the account '{account.name}' can reach {path}", file=sys.stderr)
