"""What the executors have: the library in this version, the same Python, the packages it needs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sluice.errors import Terminal

if TYPE_CHECKING:
    import pyarrow as pa

import sys

from sluice import library

NEEDED = ("numpy", "psycopg", "adbc_driver_postgresql", "redis", "yaml", "cryptography", "boto3", "duckdb")
"""Modules that tasks import, beside pyspark and pyarrow, without which Spark runs no such task."""


@dataclass(frozen=True)
class Found:
    """One executor."""

    SCHEMA: ClassVar[str] = "host string, python string, library string, lacking string"

    host: str
    python: str
    """`3.11`"""
    library: str
    """Its fingerprint, empty where there is none."""
    lacking: str
    """Packages that are not installed."""


class ExecutorsDiffer(Terminal):
    """Executors cannot run what a job sends them."""

    def __init__(self, place: str, lacking: Sequence[str]):
        super().__init__(
            f"Executors of Spark at {place} differ from this machine: {'; '.join(lacking)}. Give them the same Python "
            "and the packages of requirements.lock, as the image of docker-compose.yaml has them: docs/spark.md."
        )


def differ(found: Sequence[Found]) -> list[str]:
    """What keeps these executors from the work; empty where nothing does."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    said = []
    for each in found:
        if each.python != here:
            said.append(f"{each.host} has Python {each.python}, here it is {here}")
        elif each.lacking:
            said.append(f"{each.host} lacks {each.lacking}")
        elif each.library != library.fingerprint():
            said.append(f"{each.host} has another version of Sluice loaded: start Spark's server anew")
    return sorted(set(said))


def look() -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """A look at the executor that runs it. It travels by value: the library may not be there."""
    needed = NEEDED

    def look(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import importlib.util
        import socket
        import sys

        import pyarrow as pa

        for _ in batches:
            pass
        lacking = [name for name in needed if importlib.util.find_spec(name) is None]
        present = importlib.util.find_spec("sluice") is not None
        version = importlib.import_module("sluice.library").fingerprint() if present else ""
        values = {
            "host": socket.gethostname(),
            "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
            "library": version,
            "lacking": ", ".join(lacking),
        }
        yield pa.RecordBatch.from_pylist([values])

    return look
