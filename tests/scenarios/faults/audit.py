"""What was committed on the slave, from its own write-ahead log by way of a logical replication slot.

This knows nothing of the apply, costs it nothing, and misses nothing: each transaction of the slave with the rows it
wrote and the checkpoint it carried, in the order of their commits.

PostgreSQL (18 and before) cannot decode some transactions in which savepoints that made tables were rolled back. The
same transaction uses the places again that such a savepoint leaves in the catalog, and decoding takes one row for the
other: "unexpected duplicate for tablespace 0", "cache lookup failed for type 120". Such a transaction is passed over
and marked. What it wrote follows from the transactions around it, see `verdict`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from workload.tables import BY_NAME, JOINING_NAME, PARTITIONS

PLUGIN = "test_decoding"
_LINE = re.compile(
    r"table (?:public|\"public\")\.(\w+|\"(?:[^\"]|\"\")+\"): (INSERT|UPDATE|DELETE|TRUNCATE): ?(.*)", re.DOTALL
)
_VALUE = re.compile(r"\"?(\w+)\"?\[[^\]]+\]:('(?:[^']|'')*'|\S+)")
_NEW = "new-tuple: "
TRIES = 3
MOST_UNREADABLE = 5
"""Transactions of a run that may be passed over. More would leave too little to judge."""
CHANGES = "SELECT xid::text::bigint, data FROM pg_logical_slot_get_changes(%s, %s, NULL, 'include-timestamp', 'off')"
LOOK = "SELECT count(*) FROM pg_logical_slot_peek_changes(%s, %s, NULL)"
BOUNDS = """
SELECT (confirmed_flush_lsn - '0/0')::bigint, (pg_current_wal_lsn() - '0/0')::bigint
FROM pg_replication_slots WHERE slot_name = %s
"""
Values = Mapping[str, str]
"""Of columns."""
Lines = list[tuple[int, str]]
"""Transaction and text of lines of the plugin."""


@dataclass(frozen=True)
class Point:
    """The checkpoint after a transaction of the slave."""

    epoch: int
    position: SnapshotPosition
    target: SnapshotPosition | None
    slice_key: int | None


@dataclass
class Commit:
    """A transaction of the slave."""

    xid: int
    point: Point | None = None
    """None where it left the checkpoint alone."""
    rows: int = 0
    """Changes of rows of replicated tables, TRUNCATEs among them."""
    logged: list[tuple[int, int]] = field(default_factory=list)
    """Lines of the log that came: writer and number."""
    touched: list[tuple[int, int]] = field(default_factory=list)
    """Lines of the log that were changed or deleted, which never happens on the master."""
    versions: set[tuple[str, int]] = field(default_factory=set)
    """Table and version of rows written."""
    state: str | None = None
    """The slave's state that it leaves, where it writes the checkpoint."""
    unreadable: bool = False
    """The server cannot decode it: nothing is known of it."""


def begin(slave: psycopg.Connection[Any], slot: str) -> None:
    """Keeps everything committed from now on for `commits`."""
    slave.execute("SELECT pg_create_logical_replication_slot(%s, %s)", [slot, PLUGIN])


def end(slave: psycopg.Connection[Any], slot: str) -> None:
    slave.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def commits(slave: psycopg.Connection[Any], slot: str) -> Iterator[Commit]:
    """What was committed since `begin`, or since the last call, that changed replicated rows or the checkpoint."""
    for _ in range(MOST_UNREADABLE + 1):
        try:
            yield from _commits(_lines(slave, slot))
            return
        except psycopg.errors.InternalError_:
            place = _unreadable_place(slave, slot)
            yield from _commits(_lines(slave, slot, place))
            slave.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [slot, _lsn(place + 1)])
            yield Commit(0, unreadable=True)
    raise AssertionError(f"the server cannot decode more than {MOST_UNREADABLE} transactions of its log")


def _commits(lines: Lines) -> Iterator[Commit]:
    commit: Commit | None = None
    for xid, line in lines:
        if line.startswith("BEGIN"):
            commit = Commit(xid)
        elif line.startswith("COMMIT"):
            assert commit is not None
            if commit.rows or commit.point or commit.state or commit.versions:
                yield commit
        elif not line.startswith("message:"):  # a message in the log changes nothing
            assert commit is not None
            read(commit, line)


def around_load(commits: Sequence[Commit], start: Point) -> list[tuple[Point, list[Commit]]]:
    """Stretches in which the slave was NORMAL, with where each begins: before an initial update, and after it.

    In between, loaders bring rows without a checkpoint. A transaction that cannot be decoded may not be there: it could
    have changed the state.
    """
    stretches: list[tuple[Point, list[Commit]]] = [(start, [])]
    normal = True
    for commit in commits:
        if normal and commit.state in (None, "NORMAL"):
            stretches[-1][1].append(commit)
        elif commit.state == "NORMAL":
            assert commit.point is not None
            stretches.append((commit.point, []))
            normal = True
        elif commit.state is not None:
            normal = False
        else:
            assert not commit.unreadable, "the server cannot decode a transaction of the initial update"
    return stretches


def _lines(slave: psycopg.Connection[Any], slot: str, place: int | None = None) -> Lines:
    """What the slot holds, up to `place` of the log; it is consumed. Raises `InternalError_` and consumes nothing.

    An invalidation that arrives while the plugin writes a row (autovacuum sends some) can take the table's columns from
    under it: "cache lookup failed for type 0". So an error counts when it comes again.
    """
    for _ in range(TRIES - 1):
        with suppress(psycopg.errors.InternalError_):
            return _consumed(slave, slot, place)
    return _consumed(slave, slot, place)


def _consumed(slave: psycopg.Connection[Any], slot: str, place: int | None) -> Lines:
    return slave.execute(CHANGES, [slot, None if place is None else _lsn(place)]).fetchall()


def _unreadable_place(slave: psycopg.Connection[Any], slot: str) -> int:
    """The place in the log of the commit of the first transaction that cannot be decoded."""
    readable, unreadable = slave.execute(BOUNDS, [slot]).fetchone() or (0, 0)
    while unreadable - readable > 1:
        middle = (readable + unreadable) // 2
        try:
            slave.execute(LOOK, [slot, _lsn(middle)])
            readable = middle
        except psycopg.errors.InternalError_:
            unreadable = middle
    return int(readable)


def _lsn(place: int) -> str:
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


def read(commit: Commit, line: str) -> None:
    """Adds what a line of the plugin says. Raises `ValueError` for one that is not understood."""
    match = _LINE.match(line)
    if match is None:
        raise ValueError(f"a line of {PLUGIN} that is not understood: {line[:200]}")
    name, action, rest = match.groups()
    values = {column: _text(value) for column, value in _VALUE.findall(rest.split(_NEW, 1)[-1]) if value != "null"}
    note(commit, _name(name), action, values, {})


def note(commit: Commit, name: str, action: str, values: Values, former: Values) -> None:
    """Adds a change of a row.

    `values`: the values after it, of a deleted row those of its key; without NULLs. `former`: the values that an update
    found, if they are known.
    """
    name = "parted" if name in PARTITIONS else name
    if name == "demo_checkpoint":
        commit.state = values.get("state", commit.state)
        if action == "UPDATE" and "position" in values:
            target, key = values.get("target"), values.get("slice_key")
            commit.point = Point(
                int(values["epoch"]),
                SnapshotPosition.parse(values["position"]),
                None if target is None else SnapshotPosition.parse(target),
                None if key is None else int(key),
            )
    elif name == "log":
        commit.rows += 1
        lines = commit.logged if action == "INSERT" else commit.touched
        lines.append((int(values["writer"]), int(values["n"])))
    elif name in BY_NAME:
        commit.rows += 1
        # A MariaDB has no enums: the texts of a label that was renamed change, in rows of the same version.
        versioned = BY_NAME[name].versioned and action in ("INSERT", "UPDATE")
        if versioned and former.get("version") != values["version"]:
            commit.versions.add((name, int(values["version"])))
    elif name == JOINING_NAME.name and action in ("INSERT", "UPDATE"):
        # By a load without a checkpoint.
        commit.versions.add((name, int(values["version"])))


def _name(identifier: str) -> str:
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier


def _text(literal: str) -> str:
    return literal[1:-1].replace("''", "'") if literal.startswith("'") else literal
