"""pgbench as the application: its own sessions, through the protocol, with statements prepared."""

import subprocess
from pathlib import Path

from devstack.postgres import binary
from sluice.errors import Terminal
from sluice.model.connection import ConnectionInfo
from workload import pgbench

TENS = """\
\\set k :k + 1
\\set n :client_id * 100000000 + 5 * :k
BEGIN;
INSERT INTO {table} VALUES (:n + 1, 'customer ' || :n, 17.5, 'closed', 'note', '2026-01-01 10:00:00.5+00');
INSERT INTO {table} VALUES (:n + 2, 'customer ' || :n, 17.5, 'closed', 'note', '2026-01-01 10:00:00.5+00');
INSERT INTO {table} VALUES (:n + 3, 'customer ' || :n, 17.5, 'closed', 'note', '2026-01-01 10:00:00.5+00');
INSERT INTO {table} VALUES (:n + 4, 'customer ' || :n, 17.5, 'closed', 'note', '2026-01-01 10:00:00.5+00');
INSERT INTO {table} VALUES (:n + 5, 'customer ' || :n, 17.5, 'closed', NULL, '2026-01-01 10:00:00.5+00');
UPDATE {table} SET amount = amount + 0.01, status = 'open' WHERE id = :n + 1;
UPDATE {table} SET amount = amount + 0.01, status = 'open' WHERE id = :n + 2;
UPDATE {table} SET amount = amount + 0.01, status = 'open' WHERE id = :n + 3;
UPDATE {table} SET amount = amount + 0.01, status = 'open' WHERE id = :n - 1;
DELETE FROM {table} WHERE id = :n;
END;
"""
"""Ten single-row statements. The last two go to rows of the client's former transaction; `start_rows` has the first."""

HUNDREDS = """\
\\set k :k + 1
\\set n :client_id * 100000000 + 50 * :k
BEGIN;
INSERT INTO {table} SELECT i, 'customer ' || i, 17.5, 'closed', 'note', '2026-01-01 10:00:00.5+00'
    FROM generate_series(:n + 1, :n + 50) i;
UPDATE {table} SET amount = amount + 0.01, status = 'open' WHERE id BETWEEN :n - 49 AND :n - 10;
DELETE FROM {table} WHERE id BETWEEN :n - 9 AND :n;
END;
"""
"""A hundred row changes in three statements; the last two go to rows of the client's former transaction."""


def start_rows(clients: int) -> str:
    """Rows that the first transaction of each client finds, as a query of two columns: their ids."""
    return f"SELECT c * 100000000 + 5 - g AS i FROM generate_series(0, {clients - 1}) c, generate_series(0, 1) g"


class Clients:
    """`clients` sessions that run `script` on one database, its counter `k` from `first` on."""

    def __init__(
        self, info: ConnectionInfo, folder: Path, script: str, clients: int, *, first: int = 0, options: str = ""
    ) -> None:
        """`options`: settings of the sessions, as libpq's PGOPTIONS."""
        self.clients = clients
        self._first = first
        self._script = folder / "clients.sql"
        self._script.write_text(script)
        self._environment = {**pgbench.environment(info, folder), "PGOPTIONS": options}

    def transactions(self, count: int) -> int:
        """Runs `count` transactions, as many of each client; returns how many that were. Raises `pgbench-failed`."""
        each = max(1, count // self.clients)
        process = self.start("-t", str(each))
        finish(process)
        return each * self.clients

    def start(self, *options: str) -> "subprocess.Popen[str]":
        """A pgbench under way."""
        sessions = ["-c", str(self.clients), "-j", "1", "-D", f"k={self._first}"]
        command = [str(binary("pgbench")), "-n", "-M", "prepared", *sessions, "-f", str(self._script), *options]
        return subprocess.Popen(
            command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


def finish(process: "subprocess.Popen[str]") -> str:
    """Its output at its end. Raises `pgbench-failed`."""
    output, _ = process.communicate()
    if process.returncode != 0:
        raise Terminal(
            f"pgbench ended with status {process.returncode}: {output.strip()[-1000:]}", code="pgbench-failed"
        )
    return output
