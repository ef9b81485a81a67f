"""pgbench: its tables, and its part of the traffic.

Two scripts make the row changes: TPC-B's transaction (4 row changes) up to `PLAIN_RATE` times a second, and above that
`sql/bulk.sql`, which does fifty of them in one transaction (102 row changes).
"""

import math
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from devstack.postgres import binary
from devstack.secret import write_private
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo

TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers")
BULK = Path(__file__).parent / "sql" / "bulk.sql"
PLAIN_CHANGES, BULK_CHANGES = 4, 102
MARGIN = 1.02
"""A factor on the rate, because pgbench falls a little behind its schedule."""
PLAIN_RATE = 150
"""The most plain transactions a second."""


class PgbenchFailed(Terminal):
    """`pgbench -i` failed. The message contains its output."""

    def __init__(self, output: str) -> None:
        super().__init__(
            f"pgbench could not make its tables: {output.strip()[-1000:]} Remove the cause and start again."
        )


@dataclass(frozen=True)
class Mix:
    """Transactions a second of each script."""

    plain: int
    bulk: int

    @property
    def changes(self) -> int:
        """Row changes a second."""
        return self.plain * PLAIN_CHANGES + self.bulk * BULK_CHANGES


def mix(changes: int) -> Mix:
    """Returns the scripts' rates for a rate of row changes, at least one transaction a second."""
    wanted = changes * MARGIN
    plain = min(max(1, math.ceil(wanted / PLAIN_CHANGES)), PLAIN_RATE)
    return Mix(plain, max(0, math.ceil((wanted - plain * PLAIN_CHANGES) / BULK_CHANGES)))


def make_tables(info: ConnectionInfo, folder: Path, scale: int) -> None:
    """Runs `pgbench -i`; the server generates the rows. Raises `PgbenchFailed`."""
    command = [str(binary("pgbench")), "-i", "-I", "dtGvp", "-q", "-s", str(scale)]
    done = subprocess.run(command, env=environment(info, folder), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PgbenchFailed(done.stderr or done.stdout)


def command(wanted: Mix, scale: int, seed: int) -> list[str]:
    """Returns the command of a pgbench that runs until it is stopped or its server ends."""
    scripts = ["-b", f"tpcb-like@{wanted.plain}"]
    if wanted.bulk:
        scripts += ["-f", f"{BULK}@{wanted.bulk}"]
    return [
        str(binary("pgbench")), "-n", "-M", "prepared", "-c", "4", "-j", "1", "-T", "864000",
        "-s", str(scale), *scripts, "--rate", str(wanted.plain + wanted.bulk),
        "--random-seed", str(seed), "--max-tries", "10",
    ]  # fmt: skip


def environment(info: ConnectionInfo, folder: Path) -> dict[str, str]:
    """Returns the environment of a libpq program for this database. The folder gets a password file of mode 0600."""
    passwords = folder / "pgpass"
    known = passwords.read_text() if passwords.exists() else ""
    line = f"{info.host}:{info.port}:*:{info.user}:{info.password}\n"
    if line not in known:
        write_private(passwords, known + line)
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "PGHOST": info.host,
        "PGPORT": str(info.port),
        "PGDATABASE": info.database,
        "PGUSER": info.user,
        "PGPASSFILE": str(passwords),
        "PGCONNECT_TIMEOUT": "10",
    }
