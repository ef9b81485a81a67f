"""Events of a binary log are cut into transactions."""

import struct

import pytest

from sluice.vendors.mysql.binlog import events
from sluice.vendors.mysql.binlog.events import Event, Gtid, Kind
from sluice.vendors.mysql.binlog.groups import Groups, Kept, NotFollowed
from sluice.vendors.mysql.binlog.places import Transactions


def event(kind: int, body: bytes = b"", flags: int = 0) -> Event:
    head = events.HEAD.pack(0, kind, 71, events.HEAD_BYTES + len(body), 500, flags)
    return Event(kind, head + body, 500, 71, 0, flags)


def gtid(sequence: int, flags: int = 0, xid: bytes = b"") -> Event:
    body = struct.pack("<QIB", sequence, 0, flags)
    if xid:
        body += struct.pack("<IBB", 1, len(xid), 0) + xid
    return event(Kind.GTID, body + b"\0" * 6)


def query(sql: str) -> Event:
    return event(Kind.QUERY, struct.pack("<IIBHH", 1, 0, 4, 0, 0) + b"shop\0" + sql.encode())


ROWS = [event(Kind.WRITE, bytes([number]) * 20) for number in range(9)]


def kept(groups: Groups, *given: Event) -> list[list[Event]]:
    """The events of the groups that end."""
    return [list(group.events) for each in given if (group := groups.add(each)) is not None]


@pytest.mark.parametrize("memory", [0, 100, 1 << 20])
def test_what_was_undone_is_cut_off_in_memory_and_on_disk(memory: int) -> None:
    a, b, c, d, *_ = ROWS
    groups = Groups(memory)
    assert kept(
        groups, gtid(1), a, query("SAVEPOINT `s`"), b, query("SAVEPOINT t"), c, query("ROLLBACK TO `s`"), d,
        event(Kind.XID),
        gtid(2), a, query("ROLLBACK"), gtid(3), b, query("COMMIT"),
    ) == [[a, d], [], [b]]  # fmt: skip


def test_a_savepoint_of_the_same_name_replaces_the_former_one() -> None:
    a, b, c, *_ = ROWS
    given = [gtid(1), a, query("SAVEPOINT s"), b, query("savepoint S"), c, query("ROLLBACK TO s"), event(Kind.XID)]
    assert kept(Groups(), *given) == [[a, b]]


def test_prepared_rows_come_when_they_are_committed() -> None:
    a, b, *_ = ROWS
    groups = Groups()
    first = [
        gtid(1, Gtid.PREPARED, b"x"),
        a,
        event(Kind.XA_PREPARE),
        gtid(2, Gtid.PREPARED, b"y"),
        b,
        event(Kind.XA_PREPARE),
    ]
    assert kept(groups, *first) == [[], []]
    assert len(groups.prepared) == 2
    decided = Gtid.COMPLETED | Gtid.STANDALONE
    assert kept(groups, gtid(3, decided, b"y"), query("XA ROLLBACK X'79',X'',1")) == [[]]
    assert kept(groups, gtid(4, decided, b"x"), query("XA COMMIT X'78',X'',1")) == [[a]]
    assert not groups.prepared
    with pytest.raises(NotFollowed, match="before recording began"):
        kept(groups, gtid(5, decided, b"x"), query("XA COMMIT X'78',X'',1"))


@pytest.mark.parametrize("kind", [Kind.INTVAR, Kind.RAND, Kind.USER_VAR, Kind.EXECUTE_LOAD, Kind.INCIDENT, 34, 99])
def test_events_that_cannot_be_followed_stop_the_reading(kind: int) -> None:
    groups = Groups()
    groups.add(gtid(1))
    with pytest.raises(NotFollowed):
        groups.add(event(kind))


def test_unknown_events_that_may_be_left_out_are() -> None:
    assert kept(Groups(), gtid(1), event(99, flags=events.SKIPPABLE), event(Kind.XID)) == [[]]


def test_kept_events_come_as_often_as_they_are_asked_for() -> None:
    made = Kept(100)
    for each in ROWS:
        made.add(each)
    assert list(made) == list(made) == ROWS
    made.cut(2)
    made.add(ROWS[5])
    assert list(made) == [*ROWS[:2], ROWS[5]]
    made.close()


def test_an_event_with_a_wrong_checksum_is_refused() -> None:
    packet = bytearray(events.HEAD.pack(0, Kind.XID, 71, events.HEAD_BYTES + 12, 500, 0) + bytes(12))
    with pytest.raises(ValueError, match="checksum"):
        events.parse(bytes(packet), checked=True)
    with pytest.raises(ValueError, match="bytes"):
        events.parse(bytes(packet[:-1]), checked=False)


def test_sets_of_transactions_are_the_last_one_of_each_domain() -> None:
    known = Transactions.parse("7-1-5,0-71-6")
    assert str(known) == "0-71-6,7-1-5"
    assert known.covers(Gtid(0, 99, 6, 0))
    assert not known.covers(Gtid(0, 71, 7, 0))
    assert not known.covers(Gtid(3, 71, 1, 0))
    assert str(known.plus(Gtid(0, 72, 7, 0)).plus(Gtid(3, 1, 1, 0))) == "0-72-7,3-1-1,7-1-5"
    assert str(Transactions.parse("")) == ""
    with pytest.raises(ValueError, match="no set"):
        Transactions.parse("0-1")
