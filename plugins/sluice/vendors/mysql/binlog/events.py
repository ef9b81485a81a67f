"""Events of a binary log as the server sends them: their heads, and the bodies of those that are no rows.

An event begins with a head of 19 bytes: time, type, server, size, where the next one begins, flags. With
`binlog_checksum` it ends with a CRC-32 of everything before.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

from sluice.errors import Terminal

HEAD = struct.Struct("<IBIIIH")
HEAD_BYTES = HEAD.size
CHECKSUM_BYTES = 4


class Kind(IntEnum):
    """The types of events that are told apart; the other ones change no row."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    APPEND_BLOCK = 9
    DELETE_FILE = 11
    RAND = 13
    USER_VAR = 14
    FORMAT = 15
    XID = 16
    BEGIN_LOAD = 17
    EXECUTE_LOAD = 18
    TABLE_MAP = 19
    WRITE = 23
    UPDATE = 24
    DELETE = 25
    INCIDENT = 26
    HEARTBEAT = 27
    XA_PREPARE = 38
    ANNOTATE = 160
    CHECKPOINT = 161
    GTID = 162
    GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_COMPRESSED = 166
    UPDATE_COMPRESSED = 167
    DELETE_COMPRESSED = 168


ACTIONS = {
    Kind.WRITE: "insert",
    Kind.UPDATE: "update",
    Kind.DELETE: "delete",
    Kind.WRITE_COMPRESSED: "insert",
    Kind.UPDATE_COMPRESSED: "update",
    Kind.DELETE_COMPRESSED: "delete",
}
"""Events of rows: what their rows are."""
COMPRESSED = frozenset({Kind.WRITE_COMPRESSED, Kind.UPDATE_COMPRESSED, Kind.DELETE_COMPRESSED})
STATEMENTS = frozenset(
    {Kind.INTVAR, Kind.RAND, Kind.USER_VAR, Kind.BEGIN_LOAD, Kind.APPEND_BLOCK, Kind.DELETE_FILE, Kind.EXECUTE_LOAD}
)
"""What comes with a change that is logged as a statement, and not as rows."""
IGNORED = frozenset(
    {
        Kind.STOP,
        Kind.ROTATE,
        Kind.FORMAT,
        Kind.HEARTBEAT,
        Kind.ANNOTATE,
        Kind.CHECKPOINT,
        Kind.GTID_LIST,
        Kind.START_ENCRYPTION,
    }
)

SKIPPABLE = 0x80
"""A flag: a server that does not know the event may leave it out."""


class LogDamaged(Terminal):
    """An event of the log cannot be read."""

    def __init__(self, where: str, reason: str):
        super().__init__(
            f"{where}: {reason}. Nothing from there on was recorded. If a second try ends alike, check the file with "
            "mariadb-binlog --verify-binlog-checksum on the master, and begin a new stream in another folder."
        )


@dataclass(frozen=True, slots=True)
class Event:
    """One event without its checksum."""

    kind: int
    data: bytes
    """With its head."""
    next: int
    """The offset in the file at which the next event begins."""
    server: int
    time: int
    """Seconds since the epoch, by the session that wrote it: anybody may set it."""
    flags: int


@dataclass(frozen=True)
class Xid:
    """The name of an XA transaction."""

    format: int
    name: bytes
    branch: bytes


@dataclass(frozen=True)
class Gtid:
    """The beginning of a group of events: a transaction, or one statement that is one by itself."""

    domain: int
    server: int
    sequence: int
    flags: int
    flags_extra: int = 0
    xid: Xid | None = None

    STANDALONE, TRANSACTIONAL, DDL, PREPARED, COMPLETED = 1, 4, 32, 64, 128
    START_ALTER, COMMIT_ALTER, ROLLBACK_ALTER = 2, 4, 8
    """Of `flags_extra`."""

    @property
    def standalone(self) -> bool:
        """The group is the one event after this one."""
        return bool(self.flags & self.STANDALONE)

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.sequence}"


@dataclass(frozen=True)
class Query:
    """A statement."""

    database: str
    sql: str
    """As if it were UTF-8, with `\\xhh` for other bytes; `Charsets.statement` reads it in its character set."""
    sql_mode: int = 0
    raw: bytes = b""
    collation: int = 0
    """The number of one of the character set of `raw`; 0 if unknown."""


def parse(packet: bytes, *, checked: bool) -> Event:
    """The event of a packet. `checked`: it ends with a checksum. Raises `ValueError`."""
    time, kind, server, size, following, flags = HEAD.unpack_from(packet)
    if size != len(packet):
        raise ValueError(f"an event of {size} bytes came with {len(packet)}")
    if not checked:
        return Event(kind, packet, following, server, time, flags)
    end = size - CHECKSUM_BYTES
    data = packet[:end]
    if zlib.crc32(data) != int.from_bytes(packet[end:], "little"):
        raise ValueError("the checksum of an event is wrong")
    return Event(kind, data, following, server, time, flags)


def checksum_of(packet: bytes) -> bool:
    """Whether the events after this FORMAT event have checksums. It always has one itself."""
    return packet[-CHECKSUM_BYTES - 1] == 1


def rotation(event: Event) -> tuple[str, int]:
    """The file that follows, and the offset at which it is read."""
    (offset,) = struct.unpack_from("<Q", event.data, HEAD_BYTES)
    return event.data[HEAD_BYTES + 8 :].decode(), int(offset)


def gtid(event: Event) -> Gtid:
    data = event.data
    sequence, domain, flags = struct.unpack_from("<QIB", data, HEAD_BYTES)
    at, xid, extra = HEAD_BYTES + 13, None, 0
    if flags & 2:
        at += 8  # the number of a group commit
    if flags & (Gtid.PREPARED | Gtid.COMPLETED):
        form, names, branches = struct.unpack_from("<IBB", data, at)
        at += 6
        xid = Xid(form, data[at : at + names], data[at + names : at + names + branches])
        at += names + branches
    # Then the flags of newer releases; events are filled up with zeros.
    if at < len(data):
        extra = data[at]
    return Gtid(domain, event.server, sequence, flags, extra, xid)


_SQL_MODE, _CHARSETS = 1, 4
_FIXED = {0: 4, _SQL_MODE: 8, 3: 4, _CHARSETS: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 128: 3, 129: 8}
"""The sizes of a statement's status variables, by their codes."""
_COUNTED = frozenset({5, 6})
"""Codes of variables that begin with their size; what follows others is not needed."""


def query(event: Event) -> Query:
    """A QUERY event."""
    data = event.data
    databases, variables = data[HEAD_BYTES + 8], int.from_bytes(data[HEAD_BYTES + 11 : HEAD_BYTES + 13], "little")
    at = HEAD_BYTES + 13
    status, at = _status(data[at : at + variables]), at + variables
    database, at = data[at : at + databases].decode(errors="replace"), at + databases + 1
    raw = inflated(data[at:]) if event.kind == Kind.QUERY_COMPRESSED else data[at:]
    mode, collation = (int.from_bytes(part, "little") for part in (status[_SQL_MODE], status[_CHARSETS][:2]))
    return Query(database, raw.decode(errors="backslashreplace"), mode, raw, collation)


def _status(data: bytes) -> dict[int, bytes]:
    found, at = {_SQL_MODE: b"", _CHARSETS: b""}, 0
    while at < len(data):
        code = data[at]
        if code in _COUNTED:
            at += 2 + data[at + 1]
        elif code in _FIXED:
            found[code] = data[at + 1 : at + 1 + _FIXED[code]]
            at += 1 + _FIXED[code]
        else:
            break
    return found


@dataclass(frozen=True, slots=True)
class RowsBody:
    """The rows of an event, as they are encoded."""

    table: int
    """The number of the TABLE_MAP that describes their table."""
    columns: int
    before: int
    """A bit for each column that the rows have; for an update those of the row before."""
    after: int
    """Of an update: those of the row after."""
    data: bytes
    at: int
    """Where they begin in `data`; they go to its end."""


def rows(event: Event) -> RowsBody:
    """Raises `ValueError`."""
    data = event.data
    table, at = int.from_bytes(data[HEAD_BYTES : HEAD_BYTES + 6], "little"), HEAD_BYTES + 8
    columns, at = length(data, at)
    width = (columns + 7) // 8
    before, at = int.from_bytes(data[at : at + width], "little"), at + width
    after = before
    if ACTIONS[Kind(event.kind)] == "update":
        after, at = int.from_bytes(data[at : at + width], "little"), at + width
    if event.kind in COMPRESSED:
        data, at = inflated(data[at:]), 0
    return RowsBody(table, columns, before, after, data, at)


def inflated(data: bytes) -> bytes:
    """The content of a compressed event. Raises `ValueError`."""
    try:
        return zlib.decompress(data[1 + (data[0] & 7) :])
    except zlib.error as error:
        raise ValueError(f"a compressed event cannot be read: {error}") from None


def length(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable size, and where it ends."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
