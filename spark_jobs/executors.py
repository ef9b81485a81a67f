"""Checks the executors: the version of the library, the version of Python, the packages."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from sluice import library
from sluice.errors import Terminal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.connect.session import SparkSession

NEEDED = ("numpy", "psycopg", "adbc_driver_postgresql", "redis", "yaml", "cryptography", "boto3", "duckdb")
"""Modules that tasks import, except pyspark and pyarrow, without which Spark runs no such task."""


@dataclass(frozen=True)
class ExecutorReport:
    """One executor."""

    SCHEMA: ClassVar[str] = "host string, python string, library string, lacking string"

    host: str
    python: str
    """`3.11`"""
    library: str
    """Its fingerprint; empty without the library."""
    lacking: str
    """The missing packages."""


_OUTDATED = "has another version of Sluice loaded: start Spark's server again, as after each update of Sluice"


def executors_differ(server: str, lacking: Sequence[str]) -> Terminal:
    """Executors cannot run the tasks of a job."""
    remedy = (
        " Give them the same Python and the packages of requirements.lock, as the image of docker-compose.yaml has "
        "them, or an archive that ./sluice pack makes: docs/spark.md."
    )
    return Terminal(
        f"Executors of Spark at {server} differ from this machine: {'; '.join(lacking)}."
        + ("" if outdated(lacking) else remedy),
        code="executors-differ",
    )


def outdated(lacking: Sequence[str]) -> bool:
    """Whether executors lack nothing but this version of the library, as while a new release is brought to machines."""
    return all(one.endswith(_OUTDATED) for one in lacking)


def check_version(server: str, version: str) -> None:
    """Raises `spark-release-differs` if the server's `version` is of another release."""
    import pyspark

    if _release(version) != _release(pyspark.__version__):
        raise Terminal(
            f"Spark at {server} is {version}, and pyspark here is {pyspark.__version__}: tasks of one are not read by "
            "the other. Let the connection spark_default lead to a Spark Connect server of "
            f"{_release(pyspark.__version__)}: docs/spark.md.",
            code="spark-release-differs",
        )


def _release(version: str) -> str:
    """`4.3` of `4.3.1`."""
    return ".".join(version.split(".")[:2])


def bring_packages(session: "SparkSession", archive: str) -> None:
    """Makes executors of this session run tasks with the packages of the archive. Raises `package-archive-missing`."""
    if not Path(archive).is_file():
        raise Terminal(
            f"There is no archive {archive} on this machine, which the extra packages of the connection spark_default "
            "names. Make it with ./sluice pack, or name where it is.",
            code="package-archive-missing",
        )
    session.addArtifacts(f"{archive}#packages", archive=True)
    session.conf.set("spark.sql.execution.pyspark.python", "packages/bin/python")


def differ(reports: Sequence[ExecutorReport]) -> list[str]:
    """Why these executors cannot do the work; empty if they can."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    differences = []
    for each in reports:
        if each.python != version:
            differences.append(f"{each.host} has Python {each.python}, here it is {version}")
        elif each.lacking:
            differences.append(f"{each.host} lacks {each.lacking}")
        elif each.library != library.fingerprint():
            differences.append(f"{each.host} {_OUTDATED}")
    return sorted(set(differences))


def unable(failure: Exception) -> str:
    """What an executor lacks that could not run the check; empty for another error."""
    match = re.search(r"No module named '(\w+)'", str(failure))
    return f"an executor lacks {match[1]}" if match else ""


def reporter() -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """Checks the executor on which it runs. It is sent by value, since the executor may not have the library."""
    needed = NEEDED

    def reporter(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
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

    return reporter
