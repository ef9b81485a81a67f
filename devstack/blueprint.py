"""What a stack consists of: chosen by the first `up`, remembered, and changed by later ones."""

import json
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from devstack.home import REPOSITORY
from devstack.postgres_releases import NEWEST
from devstack.secret import write_private
from sluice.errors import Terminal

REPLICATIONS = REPOSITORY / "include" / "replications"
SLAVE_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")


class BadSlaveName(Terminal):
    """A name that could be no folder, no connection id or no slave of a configuration."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"'{name}' cannot name a slave: use a lower-case letter, then letters, digits or '_', at most 30, e.g. dr1."
        )


class BlueprintUnreadable(Terminal):
    """What is remembered of the stack cannot be read."""

    def __init__(self, path: Path, error: Exception) -> None:
        self.path = path
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__} {error}"
        super().__init__(
            f"{path} cannot be read: {reason}. Run as the user who owns it, choose another folder with SLUICE_HOME,"
            " or, if it was damaged, remove it: the next ./sluice up writes it anew, with default values."
        )


@dataclass(frozen=True)
class Blueprint:
    """The parts of a stack."""

    slaves: tuple[str, ...] = ("dr1",)
    """Names of the slaves, each an own PostgreSQL."""
    airflow: bool = True
    """Whether Airflow and its metadata database run; without them only the databases and Redis do."""
    ports: dict[str, int] = field(default_factory=dict)
    """Given ports by service name; the other services choose free ones."""
    replications: str = str(REPLICATIONS)
    """The folder with the user's configuration of replications; that of a demo lies in the home."""

    mariadb: bool = False
    """Whether a MariaDB server runs beside the slaves, a database `demo` in it."""
    postgres: int = NEWEST
    """PostgreSQL's release of master and slaves; Airflow's own database is always of the newest."""
    durable: bool = True
    """Whether the databases wait for the disk; without, they outlive a killed process, but no loss of power."""

    def __post_init__(self) -> None:
        for name in self.slaves:
            if not SLAVE_NAME.fullmatch(name):
                raise BadSlaveName(name)

    def with_slave(self, name: str) -> "Blueprint":
        return self if name in self.slaves else replace(self, slaves=(*self.slaves, name))

    @classmethod
    def read(cls, path: Path) -> "Blueprint | None":
        """The remembered one, None on a first start. Raises `BlueprintUnreadable`."""
        try:
            values = json.loads(path.read_text())
            if "replications" in values and values["replications"] == str(path.with_name("replications")):
                del values["replications"]  # the demo's, which earlier releases remembered for every later `up`
            return cls(**{**values, "slaves": tuple(values["slaves"])})
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BlueprintUnreadable(path, error) from error

    def write(self, path: Path) -> None:
        write_private(path, json.dumps(asdict(self), indent=1) + "\n")
