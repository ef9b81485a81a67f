"""What was committed on a slave of MariaDB, from its own binary log: each transaction, in the order of their commits.

The log knows nothing of the apply. It has the rows as they were written, and outlives a crash as the tables do.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path

from devstack.mariadb import MariaDBServer, program
from tests.scenarios.faults.audit import Commit, note

SETTINGS = {
    # A killed process loses what it had in memory; what it gave to the system survives. So nothing need be synced.
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_flush_method": "nosync",
    "innodb_buffer_pool_size": "64M",
    "max_connections": "100",
    "server_id": "1",
    "log_bin": "binlog",
    "binlog_format": "ROW",
    "binlog_annotate_row_events": "OFF",
}
_BEGIN = re.compile(rb"#.*\tGTID \d+-\d+-(\d+)( |$)")
_CUT_OFF = re.compile(rb"'Event truncated'")
"""What the tool says of a file at whose end a crash struck."""
_SAVEPOINT = re.compile(rb"(SAVEPOINT|ROLLBACK TO) (`.+`)$")
_COMMITTED = (b"COMMIT", b"COMMIT/*!*/;")
_ROW = re.compile(rb"### (INSERT INTO|UPDATE|DELETE FROM) `([^`]+)`\.`(.+)`$")
_VALUE = re.compile(rb"###   @(\d+)=(.*)$", re.DOTALL)
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
Columns = Mapping[str, list[str]]
"""Of each table the names of its columns in their order: the log has their numbers."""


def begin(server: MariaDBServer) -> None:
    """Starts a new log for what is committed from now on."""
    with server.connect() as connection, connection.cursor() as cursor:
        # PURGE would leave files that a crash may need.
        cursor.execute("RESET MASTER")


def commits(server: MariaDBServer, database: str) -> Iterator[Commit]:
    """What was committed since `begin`, and changed replicated rows or the checkpoint in `database`."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, GROUP_CONCAT(column_name ORDER BY ordinal_position) FROM information_schema.columns"
            " WHERE table_schema = %s GROUP BY 1", (database,)
        )  # fmt: skip
        columns = {name: names.split(",") for name, names in cursor.fetchall()}
        cursor.execute("SHOW BINARY LOGS")
        files = [server.data / row[0] for row in cursor.fetchall()]
    return read((line for file in files for line in shown(file)), database, columns)


def shown(file: Path) -> list[bytes]:
    """The output of the tool for one file: it refuses several files after a crash, which uses a number again."""
    command = [str(program("mariadb-binlog")), "--no-defaults", "--base64-output=DECODE-ROWS", "--verbose", str(file)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode and not _CUT_OFF.search(done.stderr):
        raise AssertionError(f"{file} cannot be read: {done.stderr.decode(errors='replace')}")
    return done.stdout.split(b"\n")


def read(lines: Iterable[bytes], database: str, columns: Columns) -> Iterator[Commit]:
    """From the lines of `mariadb-binlog --verbose`. Raises `ValueError` for rows outside of a transaction.

    A transaction counts where its end is there, and the end is a COMMIT. One that was rolled back is in the log where
    it made or dropped temporary tables; of one that a crash struck while it was written, the beginning is there.
    """
    commit: Commit | None = None
    kept: dict[bytes, Commit] = {}
    row: tuple[str, str] | None = None
    values: dict[str, str] = {}
    former: dict[str, str] = {}
    for line in lines:
        if (match := _VALUE.match(line)) and row is not None:
            names, number = columns.get(row[1], []), int(match[1]) - 1
            # Columns come and go at the end of a table; those that matter here stay where they are.
            name, text = names[number] if number < len(names) else "", _text(match[2].decode())
            values.pop(name, None)
            if text is not None:
                values[name] = text
            continue
        if line in (b"### WHERE", b"### SET"):
            former = dict(values)
            continue
        if row is not None:
            assert commit is not None
            note(commit, row[1], row[0], values, former)
            row, values = None, {}
        if match := _ROW.match(line):
            if commit is None:
                raise ValueError(f"rows outside of a transaction: {line.decode()}")
            action, place, table = (text.decode() for text in match.groups())
            row = (action.split()[0], table) if place == database else None
        elif match := _BEGIN.match(line):
            commit, kept = Commit(int(match[1])), {}
        elif line in _COMMITTED or line == b"ROLLBACK":
            if commit is not None and line in _COMMITTED and _counts(commit):
                yield commit
            commit = None
        elif (match := _SAVEPOINT.match(line)) and commit is not None:
            if match[1] == b"SAVEPOINT":
                kept[match[2]] = deepcopy(commit)
            else:
                commit = deepcopy(kept[match[2]])


def _counts(commit: Commit) -> bool:
    return bool(commit.rows or commit.point or commit.state or commit.versions)


def _text(shown: str) -> str | None:
    """A value of the tool's output, which shows some as hexadecimal digits and negative numbers twice."""
    if shown == "NULL":
        return None
    if shown.startswith("'"):
        return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), shown[1:-1])
    return shown.split(" ")[0]
