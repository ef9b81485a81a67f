"""Cuts the events of a log into transactions.

A group begins with a GTID. One that is standalone has one statement more; any other one ends with XID, or with COMMIT
or ROLLBACK as a statement, or is prepared (XA) and decided by a later, standalone group. A group may hold rows that
were undone: those after a savepoint to which it went back, and all of one that ends with ROLLBACK.

The events of a group are kept as they came until its end is known, in memory or, of a large one, in a temporary file.
"""

import re
import struct
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from sluice.vendors.mysql.binlog import ddl, events
from sluice.vendors.mysql.binlog.events import Event, Gtid, Kind, Query, Xid

MEMORY_BYTES = 32 << 20
"""Events of a group that are kept in memory."""
_SAVEPOINT = re.compile(r"\s*SAVEPOINT\s+(?P<name>.+?)\s*\Z", re.IGNORECASE | re.DOTALL)
_BACK_TO = re.compile(r"\s*ROLLBACK\s+(?:WORK\s+)?TO\s+(?:SAVEPOINT\s+)?(?P<name>.+?)\s*\Z", re.IGNORECASE | re.DOTALL)
_KEPT_HEAD = struct.Struct("<QIQIII")
"""Size, kind, next, server, time, flags of an event in a temporary file."""
_XA = re.compile(r"\s*XA\s+(?P<word>COMMIT|ROLLBACK)\b", re.IGNORECASE)


class NotFollowed(Exception):
    """The log has what cannot be followed from there on. The text says what, for a person."""


class Kept:
    """Events in their order, which may be cut off behind some of them."""

    def __init__(self, memory: int = MEMORY_BYTES) -> None:
        self._events: list[Event] = []
        self._file: IO[bytes] | None = None
        self._in_file: list[int] = []
        """The places behind the events in the file."""
        self._bytes, self._memory = 0, memory

    def __len__(self) -> int:
        return len(self._in_file) + len(self._events)

    def add(self, event: Event) -> None:
        """Raises `OSError`."""
        self._events.append(event)
        self._bytes += len(event.data)
        if self._bytes > self._memory:
            self._spill()

    def cut(self, length: int) -> None:
        """Leaves the first `length` events."""
        if length < len(self._in_file):
            self._events.clear()
            assert self._file is not None
            del self._in_file[length:]
            self._file.truncate(self._in_file[-1] if self._in_file else 0)
            self._file.seek(0, 2)
        else:
            del self._events[length - len(self._in_file) :]
        self._bytes = sum(len(event.data) for event in self._events)

    def __iter__(self) -> Iterator[Event]:
        if self._file is not None:
            self._file.seek(0)
            for _ in self._in_file:
                size, kind, following, server, time, flags = _KEPT_HEAD.unpack(self._file.read(_KEPT_HEAD.size))
                yield Event(kind, self._file.read(size), following, server, time, flags)
        yield from self._events

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="sluice-binlog-")  # noqa: SIM115 (closed by close)
        self._file.seek(0, 2)
        for event in self._events:
            head = (len(event.data), event.kind, event.next, event.server, event.time, event.flags)
            self._file.write(_KEPT_HEAD.pack(*head))
            self._file.write(event.data)
            self._in_file.append(self._file.tell())
        self._events.clear()
        self._bytes = 0


@dataclass
class Group:
    """A transaction that was committed, or a statement that is one by itself."""

    gtid: Gtid
    events: Kept
    """TABLE_MAP, rows, and statements of definitions."""
    end: int = 0
    """The offset behind it."""
    time: int = 0
    """Seconds since the epoch, as its last event has it."""


@dataclass
class _Open:
    gtid: Gtid
    kept: Kept
    savepoints: list[tuple[str, int]] = field(default_factory=list)


class Groups:
    """Makes groups of events. `prepared` are the XA transactions that wait for their decision."""

    def __init__(self, memory: int = MEMORY_BYTES) -> None:
        self.prepared: dict[Xid, Group] = {}
        self._open: _Open | None = None
        self._memory = memory

    @property
    def inside(self) -> bool:
        """Whether a group has begun and not ended."""
        return self._open is not None

    def add(self, event: Event) -> Group | None:
        """The group that ends with this event; without events if none of its rows was kept. Raises `NotFollowed`,
        `ValueError`, `OSError`."""
        kind, own = event.kind, self._open
        if kind == Kind.GTID:
            self._begin(events.gtid(event))
            return None
        if kind in events.IGNORED:
            return None
        if kind == Kind.INCIDENT:
            raise NotFollowed("the server notes an incident: changes may be missing in its log")
        if kind in events.STATEMENTS:
            raise NotFollowed(_AS_STATEMENT)
        if own is None:
            if event.flags & events.SKIPPABLE:
                return None
            raise NotFollowed(f"an event of type {kind} stands outside of a transaction: is it a log of MySQL?")
        if kind == Kind.TABLE_MAP or kind in events.ACTIONS:
            own.kept.add(event)
            return None
        if kind == Kind.XID:
            return self._end(event)
        if kind == Kind.XA_PREPARE:
            return self._prepare(event)
        if kind in (Kind.QUERY, Kind.QUERY_COMPRESSED):
            return self._query(own, event, events.query(event))
        if event.flags & events.SKIPPABLE:
            return None
        raise NotFollowed(f"an event of type {kind} is not known")

    def _begin(self, gtid: Gtid) -> None:
        if self._open is not None:
            raise NotFollowed(f"{gtid} begins before {self._open.gtid} has ended")
        self._open = _Open(gtid, Kept(self._memory))

    def _query(self, own: _Open, event: Event, query: Query) -> Group | None:
        word = query.sql.strip()[:16].upper()
        if own.gtid.flags & Gtid.COMPLETED and (decided := _XA.match(query.sql)):
            return self._decide(own, event, commits=decided["word"].upper() == "COMMIT")
        if own.gtid.standalone:
            own.kept.add(event)
            return self._end(event)
        if word == "COMMIT":
            return self._end(event)
        if word == "ROLLBACK":
            own.kept.cut(0)
            return self._end(event)
        if back := _BACK_TO.match(query.sql):
            self._back(own, _name(back["name"]))
        elif saved := _SAVEPOINT.match(query.sql):
            name = _name(saved["name"])
            own.savepoints = [each for each in own.savepoints if each[0] != name]
            own.savepoints.append((name, len(own.kept)))
        else:
            own.kept.add(event)  # CREATE TABLE … SELECT: what a statement defines is decided with the table's names
        return None

    def _back(self, own: _Open, name: str) -> None:
        names = [each for each, _ in own.savepoints]
        if name not in names:
            raise NotFollowed(f"{own.gtid} goes back to a savepoint that it has not")
        at = names.index(name)
        own.kept.cut(own.savepoints[at][1])
        del own.savepoints[at + 1 :]

    def _prepare(self, event: Event) -> Group:
        own = self._open
        assert own is not None
        if own.gtid.xid is None:
            return self._end(event)
        group = self._end(event)
        self.prepared[own.gtid.xid] = group
        return Group(group.gtid, Kept(), group.end, group.time)

    def _decide(self, own: _Open, event: Event, *, commits: bool) -> Group:
        assert own.gtid.xid is not None
        prepared = self.prepared.pop(own.gtid.xid, None)
        group = self._end(event)
        if not commits:
            if prepared is not None:
                prepared.events.close()
            return group
        if prepared is None:
            raise NotFollowed(f"{group.gtid} commits an XA transaction that was prepared before recording began")
        return Group(group.gtid, prepared.events, group.end, group.time)

    def _end(self, event: Event) -> Group:
        own = self._open
        assert own is not None
        self._open = None
        return Group(own.gtid, own.kept, event.next, event.time)


_AS_STATEMENT = (
    "a change was logged as a statement, and not as rows: some session has another binlog_format. Set binlog_format = "
    "ROW for the server, and let applications connect again"
)


def statements_of(query: Query) -> list[ddl.Defined]:
    """What a statement in a group defines. Raises `NotFollowed` for one that changes rows."""
    try:
        return ddl.defined(query.sql, query.database, query.sql_mode)
    except ddl.RowsAsStatement as word:
        raise NotFollowed(f"{_AS_STATEMENT} (it begins with {word})") from None


def checksum(group: Group) -> int:
    """A checksum of a group's rows and statements that another server's log of the same transaction has, too."""
    total = 0
    for event in group.events:
        if event.kind in events.ACTIONS:
            rows = events.rows(event)
            total = zlib.crc32(rows.data[rows.at :], total)
        elif event.kind != Kind.TABLE_MAP:
            total = zlib.crc32(events.query(event).sql.encode(), total)
    return total


def _name(text: str) -> str:
    return text.strip("`").lower()
