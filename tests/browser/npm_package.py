"""A package of npm's registry, fetched by npm once for each checkout."""

import fcntl
import tarfile
import tempfile
from pathlib import Path

from devstack import npm_archive
from devstack.home import kept


def unpacked(package: str, version: str, sha512: str) -> Path:
    """The package's folder."""
    cache = kept(".npm")
    folder = cache / f"{package.replace('/', '-')}-{version}"
    cache.mkdir(exist_ok=True)
    with open(cache / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache) as work:
                with tarfile.open(npm_archive.fetch(package, version, sha512, Path(work))) as content:
                    content.extractall(work, filter="data")
                Path(work, "package").rename(folder)
    return folder
