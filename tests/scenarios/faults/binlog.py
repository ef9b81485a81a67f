"""What was committed on a slave of MariaDB, from its own binary log: each transaction, in the order of their commits.

The log knows nothing of the apply. It has the rows as they were written, and outlives a crash as the tables do.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping

from devstack.mariadb import MariaDBServer, program
from tests.scenarios.faults.audit import Commit, note

SETTINGS = {
    # A killed process loses what it had in memory; what it gave to the system survives. So nothing need be synced.
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_flush_method": "nosync",
    "innodb_doublewrite": "OFF",
    "innodb_buffer_pool_size": "64M",
    "max_connections": "100",
    "server_id": "1",
    "log_bin": "binlog",
    "binlog_format": "ROW",
    "binlog_annotate_row_events": "OFF",
}
_BEGIN = re.compile(rb"#.* GTID \d+-\d+-(\d+)( |$)")
_ROW = re.compile(rb"### (INSERT INTO|UPDATE|DELETE FROM) `([^`]+)`\.`(.+)`$")
_VALUE = re.compile(rb"###   @(\d+)=(.*)$", re.DOTALL)
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
Columns = Mapping[str, list[str]]
"""Of each table the names of its columns in their order: the log has their numbers."""


def begin(server: MariaDBServer) -> None:
    """Everything committed from here on is in a file of its own."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        last = cursor.fetchall()[-1][0]
        cursor.execute(f"PURGE BINARY LOGS TO '{last}'")


def commits(server: MariaDBServer, database: str) -> Iterator[Commit]:
    """What was committed since `begin`, and changed replicated rows or the checkpoint in `database`."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, GROUP_CONCAT(column_name ORDER BY ordinal_position) FROM information_schema.columns"
            " WHERE table_schema = %s GROUP BY 1", (database,)
        )  # fmt: skip
        columns = {name: names.split(",") for name, names in cursor.fetchall()}
        cursor.execute("SHOW BINARY LOGS")
        files = [str(server.data / row[0]) for row in cursor.fetchall()]
    command = [str(program("mariadb-binlog")), "--no-defaults", "--base64-output=DECODE-ROWS", "--verbose", *files]
    shown = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return read(shown.split(b"\n"), database, columns)


def read(lines: list[bytes], database: str, columns: Columns) -> Iterator[Commit]:
    """From the lines of `mariadb-binlog --verbose`."""
    commit = Commit(0)
    row: tuple[str, str] | None = None
    values: dict[str, str] = {}
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
            continue
        if row is not None:
            note(commit, row[1], row[0], values)
            row, values = None, {}
        if match := _ROW.match(line):
            action, place, table = (text.decode() for text in match.groups())
            row = (action.split()[0], table) if place == database else None
        elif match := _BEGIN.match(line):
            if _counts(commit):
                yield commit
            commit = Commit(int(match[1]))
    if _counts(commit):
        yield commit


def _counts(commit: Commit) -> bool:
    return bool(commit.rows or commit.point or commit.state or commit.versions)


def _text(shown: str) -> str | None:
    """A value as the tool shows it: what cannot be shown in hexadecimal digits, a negative number twice."""
    if shown == "NULL":
        return None
    if shown.startswith("'"):
        return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), shown[1:-1])
    return shown.split(" ")[0]
