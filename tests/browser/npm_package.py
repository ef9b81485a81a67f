"""A package of npm's registry, fetched by npm once for each checkout."""

import fcntl
import tarfile
import tempfile
from pathlib import Path

from devstack import npm_archive
from tests.airflow_home import ROOT

CACHE = ROOT / ".npm"


def unpacked(package: str, version: str, sha512: str) -> Path:
    """The package's folder."""
    kept = CACHE / f"{package.replace('/', '-')}-{version}"
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                with tarfile.open(npm_archive.fetch(package, version, sha512, Path(folder))) as content:
                    content.extractall(folder, filter="data")
                Path(folder, "package").rename(kept)
    return kept
