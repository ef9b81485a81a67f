"""The parts of a stack. The first `up` chooses them, a file keeps them, and later ones change them."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

from devstack.home import REPOSITORY
from devstack.postgres_releases import NEWEST
from devstack.secret import write_private
from sluice.errors import Terminal

REPLICATIONS = REPOSITORY / "include" / "replications"
SLAVE_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")


def blueprint_unreadable(path: Path, error: Exception) -> Terminal:
    """The file that keeps the stack's parts cannot be read."""
    reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__} {error}"
    return Terminal(
        f"{path} cannot be read: {reason}. Run as the user who owns it, choose another folder with SLUICE_HOME,"
        " or, if it was damaged, remove it: the next ./sluice up writes it again, with default values.",
        code="blueprint-unreadable",
    )


class Wanted(TypedDict, total=False):
    """Changes of a blueprint. Parts that are missing or None stay as they were at the last `up`."""

    slaves: Iterable[str] | None
    """Names: all of a new stack, or more of an existing one."""
    airflow: bool | None
    ports: Mapping[str, int] | None
    """By service: `airflow`, `master`, `redis`, `slave-<name>`, …."""
    replications: Path | str | None
    mariadb: bool | None
    postgres: int | None
    durable: bool | None


@dataclass(frozen=True)
class Blueprint:
    """The parts of a stack."""

    slaves: tuple[str, ...] = ("dr1",)
    """Names of the slaves. Each is its own PostgreSQL server."""
    airflow: bool = True
    """Whether Airflow, its metadata database and Spark run. The databases and Redis always run."""
    ports: dict[str, int] = field(default_factory=dict)
    """Given ports by service name. The other services choose free ones."""
    replications: str = str(REPLICATIONS)
    """The folder with the user's configuration of replications. The demo's is in the home."""

    mariadb: bool = False
    """Whether a MariaDB server with a database `demo` runs, too."""
    mariadb_log: bool = False
    """Whether it is a master with a binary log. Its database `demo` is then created with its tables."""
    postgres: int = NEWEST
    """PostgreSQL's release of master and slaves. Airflow's own database has the newest."""
    durable: bool = True
    """Whether the databases wait for the disk. If not, data survive a killed process, but not a loss of power."""

    def __post_init__(self) -> None:
        for name in self.slaves:
            if not SLAVE_NAME.fullmatch(name):
                raise Terminal(
                    f"'{name}' cannot name a slave: use a lower-case letter, then letters, digits or '_', at most "
                    "30, e.g. dr1.",
                    code="bad-slave-name",
                )

    def with_slave(self, name: str) -> "Blueprint":
        return self if name in self.slaves else replace(self, slaves=(*self.slaves, name))

    @classmethod
    def of(cls, remembered: "Blueprint | None", wanted: Wanted) -> "Blueprint":
        """Returns what was remembered, or the default, with the changes. Raises `bad-slave-name`."""
        given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
        before = remembered or cls()
        if "slaves" in given:
            old = remembered.slaves if remembered else ()
            given["slaves"] = tuple(dict.fromkeys([*old, *given["slaves"]]))
        given["ports"] = {**before.ports, **given.get("ports", {})}
        return replace(before, **given)

    @classmethod
    def read(cls, path: Path) -> "Blueprint | None":
        """Returns the remembered one, or None at the first start. Raises `blueprint-unreadable`."""
        try:
            values = json.loads(path.read_text())
            if "replications" in values and values["replications"] == str(path.with_name("replications")):
                del values["replications"]  # earlier releases kept the demo's folder here
            return cls(**{**values, "slaves": tuple(values["slaves"])})
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise blueprint_unreadable(path, error) from error

    def write(self, path: Path) -> None:
        write_private(path, json.dumps(asdict(self), indent=1) + "\n")


def replications_folder(given: Path | str | None) -> str | None:
    """Returns the absolute path of `--replications`, else of SLUICE_REPLICATIONS, else None."""
    chosen = given or os.environ.get("SLUICE_REPLICATIONS")
    return str(Path(chosen).expanduser().resolve()) if chosen else None
