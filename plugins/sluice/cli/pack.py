"""`./sluice pack`: packs the Python packages that tasks need into an archive that Spark unpacks on its executors.

Its `bin/python` starts the machine's own Python of the same release, with the packages of `lib`.
"""

import argparse
import io
import os
import re
import sys
import tarfile
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from sluice.counted import counted
from sluice.errors import Terminal

NEEDED = (
    "pyarrow", "numpy", "psycopg", "psycopg-binary", "adbc-driver-postgresql", "redis", "boto3", "cryptography",
    "duckdb", "PyYAML",
)  # fmt: skip
"""The packages that tasks import. Spark provides pyspark, a job provides Sluice itself."""
EXTRA = ("oracledb", "PyMySQL")
"""Drivers that tasks import, which an installed package of Sluice may lack."""

PYTHON = """\
#!/bin/sh
# The Python of this machine, with the packages of this archive.
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$here/lib${PYTHONPATH:+:$PYTHONPATH}" exec python%d.%d "$@"
"""


def run_pack(args: argparse.Namespace) -> int:
    """Writes the archive; returns 0. Raises `SluiceError`."""
    file = Path(os.path.abspath(args.file))
    if not file.name.endswith(".tar.gz"):
        raise Terminal(
            f"{file} is no name for the archive: Spark unpacks it only where its name ends in .tar.gz.",
            code="bad-archive-name",
        )
    distributions = packages(NEEDED, EXTRA)
    try:
        pack(file, distributions)
    except OSError as error:
        raise Terminal(
            f"{file} could not be written: {error.strerror}. Name a place with some 300 MB free.",
            code="archive-not-writable",
        ) from error
    size = file.stat().st_size / 1e6
    print(f"{file}: {counted(len(distributions), 'package')} for Python {_release()} on {sys.platform}, {size:.0f} MB")
    print("Name it in the extra packages of the connection spark_default: docs/spark.md")
    return 0


def packages(names: Iterable[str], optional: Iterable[str] = ()) -> list[Distribution]:
    """The installed packages of these names, with their dependencies. Raises `package-not-installed`."""
    needed = [_plain(name) for name in names]
    distributions: dict[str, Distribution] = {}
    waiting = [*needed, *map(_plain, optional)]
    while waiting:
        name = waiting.pop()
        if name in distributions:
            continue
        try:
            distributions[name] = distribution(name)
        except PackageNotFoundError:
            if name in needed:
                raise Terminal(
                    f"The package {name} is not installed here, so it cannot be packed. Install it first.",
                    code="package-not-installed",
                ) from None
            continue  # for another system, or another Python
        for requirement in distributions[name].requires or ():
            if "extra ==" not in requirement:
                waiting.append(_plain(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]))
    return [distributions[name] for name in sorted(distributions)]


def pack(file: Path, distributions: Iterable[Distribution]) -> None:
    """Writes the archive atomically."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with tarfile.open(unfinished, "w:gz", compresslevel=1) as archive:
            start = (PYTHON % sys.version_info[:2]).encode()
            entry = tarfile.TarInfo("bin/python")
            entry.size, entry.mode = len(start), 0o755
            archive.addfile(entry, io.BytesIO(start))
            for package in distributions:
                for path in package.files or ():
                    # Programs are outside the folder of packages.
                    if ".." not in path.parts and "__pycache__" not in path.parts:
                        archive.add(path.locate(), f"lib/{path.as_posix()}", recursive=False)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _release() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"
