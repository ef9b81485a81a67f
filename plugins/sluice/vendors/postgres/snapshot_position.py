"""Positions on a PostgreSQL master: the set of transactions that were seen.

REPL_KEYs are drawn before the commit, so a lower key can be committed after a higher one was read, and a window of
"everything above the last key" would lose rows. A position is therefore a `pg_snapshot`, and a window `(P1, P2]` has
the changes whose transaction P2 covers and P1 does not.

The two sequence values read around the snapshot limit the REPL_KEYs of these changes, so that a window is a range of
ITEMS' primary key and needs no index over transactions:

- `high`, read after the snapshot: all changes that the snapshot covers have keys up to this one.
- `low` and then `next`, read before it: a transaction with an ID from `next` on draws keys above `low`.
- `floors`: for each transaction in progress, a key below all that it can have drawn. Positions inherit it from the
  previous one. A new transaction, whose ID is not below the previous position's `next`, draws keys above the `low` of
  that position.
- `gap_floor`: the same for the IDs from `xmax` to `next`. A snapshot ends after the last *completed* transaction; later
  ones may be running, and may have drawn keys long ago.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.errors import RESTART_APPLY, DataLost, Terminal
from sluice.model.position import Position, other_source

# The server on which a position was taken, and whether another server continues from there.
#
# A master that is restored from a backup, or fails over to a standby that lagged, loses commits. Its transaction IDs
# are used again, so an earlier position would cover new transactions. The write-ahead log shows this: a promoted server
# begins a new timeline, and continues the former one up to a certain place.

_PAGE, _HEADERS = 8192, (24, 40)
"""The page size of the log, and the sizes of a page header. After a full page, one function reports the place behind
the next page's header, another one the place before it."""


def master_replaced(former: "Origin", now: "Origin", reason: str) -> DataLost:
    """The master is another server, or a copy of it that lacks commits which were seen."""
    return DataLost(
        f"The master at {now} does not continue the one at {former}: {reason}. Start an initial update of this slave.",
        code="master-replaced",
    )


@dataclass(frozen=True)
class Origin:
    """A place in the write-ahead log of one server."""

    system: str
    """The identifier from `initdb`; copies of the server have the same."""
    timeline: int
    lsn: int

    @classmethod
    def parse(cls, text: str) -> "Origin":
        """Reads a text of `str`."""
        system, timeline, lsn = text.split(" ")
        return cls(system, int(timeline), offset(lsn))

    def __str__(self) -> str:
        return f"{self.system} {self.timeline} {self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}"


def offset(lsn: str) -> int:
    """Bytes from the text of a `pg_lsn`."""
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)


def switches(history: str) -> dict[int, int]:
    """The end of each former timeline, from a timeline's history file."""
    lines = (line.split() for line in history.splitlines() if line.strip() and not line.startswith("#"))
    return {int(words[0]): offset(words[1]) for words in lines}


def same_server(former: Origin, now: Origin) -> bool:
    """Whether nothing has to be proved. Raises `master-replaced` if nothing could prove it."""
    if former.system != now.system:
        raise master_replaced(former, now, "it is another database cluster")
    if now.timeline < former.timeline:
        raise master_replaced(former, now, "it is an older copy, of before a fail-over")
    if now.timeline == former.timeline and now.lsn < _bare(former.lsn):
        raise master_replaced(former, now, "its log ends earlier, as after a restore of its files")
    return now.timeline == former.timeline


def prove(former: Origin, now: Origin, left: Mapping[int, int] | None, replayed: int | None) -> None:
    """Tests a promoted server. Raises `master-replaced`, `failover-unproven`.

    `left`: `switches` of the present timeline; None: unknown. `replayed`: the place up to which the server followed
    another one before its promotion; None if it was restarted since.
    """
    reached = replayed if now.timeline == former.timeline + 1 else None
    if left is not None:
        if former.timeline not in left:
            raise master_replaced(former, now, "its timeline does not descend from that one")
        reached = left[former.timeline]
    if reached is None:
        raise Terminal(
            f"The master failed over, from {former} to {now}, and this account cannot see whether commits were lost. "
            "GRANT EXECUTE ON FUNCTION pg_catalog.pg_read_file(text, bigint, bigint, boolean) TO it on the master, so "
            f"that it can read the timeline's history, and {RESTART_APPLY}; or start the DAG initial_update.",
            code="failover-unproven",
        )
    if reached < _bare(former.lsn):
        lost = former.lsn - reached
        raise master_replaced(
            former, now, f"it was promoted {lost} bytes of the log short, and what these held is lost"
        )


def _bare(lsn: int) -> int:
    return lsn - lsn % _PAGE if lsn % _PAGE in _HEADERS else lsn


@dataclass(frozen=True)
class SnapshotPosition:
    """A set of transactions: all below `xmax` except those in `xip`, which are not below `xmin`."""

    xmin: int
    xmax: int
    xip: frozenset[int] = frozenset()
    low: int = field(default=0, compare=False)
    high: int = field(default=0, compare=False)
    next: int | None = field(default=None, compare=False)
    """None if it is unknown; then no ID is certainly above it."""
    floors: dict[int, int] = field(default_factory=dict, compare=False)
    gap_floor: int = field(default=0, compare=False)
    time: str = field(default="", compare=False)
    """The master's clock when the snapshot was taken, ISO 8601, UTC."""
    lsn: str = field(default="", compare=False)
    """Up to where the master's log must be on disk so that no crash can undo the transactions; empty if it certainly
    is, as for a stored position."""
    origin: Origin | None = field(default=None, compare=False)
    """The server on which the position was taken, and its log's end; None where unknown."""
    run: str = field(default="", compare=False)
    """The session that took it, by a random name; the master records how far that came. Empty where unknown."""
    marked: "SnapshotPosition | None" = field(default=None, compare=False)
    """The last position that the master has recorded, where this one is later and nothing was captured in between. A
    restart goes back to it: a later restore of the master's files could use the transaction IDs after it again."""

    keys_a_change = 400

    def covers(self, xid: int, repl_key: int = 0) -> bool:
        """Whether transaction `xid` had ended before this position was taken. Does not use `repl_key`.

        It may have been rolled back, since ITEMS never shows rolled-back changes.
        """
        return xid < self.xmin or (xid < self.xmax and xid not in self.xip)

    @classmethod
    def of(cls, position: Position) -> "SnapshotPosition":
        """`position`. Raises `other-source` if it is not of a PostgreSQL master."""
        if not isinstance(position, cls):
            raise other_source(position, "a PostgreSQL master with triggers")
        return position

    def covers_all_of(self, other: Position) -> bool:
        """Whether this position covers every transaction that `other` covers.

        So `other` must not cover a transaction in progress in this one.
        """
        other = SnapshotPosition.of(other)
        if other.xmax > self.xmax:
            # All transactions from this `xmax` to that of `other` must be in progress in `other`.
            span = other.xmax - self.xmax
            if span > len(other.xip) or any(xid not in other.xip for xid in range(self.xmax, other.xmax)):
                return False
        return not any(other.covers(xid) for xid in self.xip)

    def after(self, previous: Position | None) -> "SnapshotPosition":
        """This position with floors inherited from `previous`. Raises `master-went-back`."""
        if previous is None:
            return replace(self, floors=dict.fromkeys(self.xip, 0), gap_floor=0)
        previous = SnapshotPosition.of(previous)
        if self.xmax < previous.xmax or self.high < previous.high:
            raise DataLost(
                f"The master stands at transaction {self.xmax}, but transaction {previous.xmax} was already seen: it "
                "was restored from a backup or replaced by another server. Start an initial update of this slave.",
                code="master-went-back",
            )
        floors = {xid: previous._floor_of(xid) for xid in self.xip}  # noqa: SLF001
        in_gap = [previous.low]
        if previous.next is None or self.xmax < previous.next:
            in_gap.append(previous.gap_floor)
        return replace(self, floors=floors, gap_floor=min(in_gap))

    def floor(self, target: Position) -> int:
        """A REPL_KEY below all changes in the window `(self, target]`.

        Of the transactions that are, or may be, in progress in `self`, only those that `target` covers count.
        """
        target = SnapshotPosition.of(target)
        floors = [self.low]
        floors += [self._floor_of(xid) for xid in self.xip if xid not in target.xip]
        gap_end = target.xmax if self.next is None else min(self.next, target.xmax)
        if gap_end - self.xmax > len(target.xip) or any(xid not in target.xip for xid in range(self.xmax, gap_end)):
            floors.append(self.gap_floor)
        return min(floors)

    def floor_of_all(self) -> int:
        """A REPL_KEY below all changes that this position does not cover."""
        return min([self.low, self.gap_floor, *(self.floors.get(xid, 0) for xid in self.xip)])

    def _floor_of(self, xid: int) -> int:
        """A REPL_KEY below all that a transaction that this position does not cover can have drawn."""
        if xid in self.xip:
            return self.floors.get(xid, 0)
        if self.next is None or xid < self.next:
            return self.gap_floor
        return self.low

    def resting(self, since: Position) -> "SnapshotPosition":
        since = SnapshotPosition.of(since)
        return replace(self, marked=since.marked or since)

    @property
    def restart(self) -> "SnapshotPosition":
        return self if self.marked is None else replace(self.marked, time=self.time)

    @property
    def snapshot(self) -> str:
        """The text of the `pg_snapshot`."""
        return f"{self.xmin}:{self.xmax}:{','.join(str(xid) for xid in sorted(self.xip))}"

    def __str__(self) -> str:
        return self.snapshot

    def text(self) -> str:
        """The form that checkpoints and markers store; `parse` reads it."""
        return json.dumps(self._values(), separators=(",", ":"))

    def _values(self) -> dict[str, Any]:
        return {
            "snapshot": self.snapshot,
            "low": self.low,
            "high": self.high,
            "next": self.next,
            "floors": {str(xid): key for xid, key in sorted(self.floors.items())},
            "gap_floor": self.gap_floor,
            "time": self.time,
            **({"origin": str(self.origin)} if self.origin else {}),
            **({"run": self.run} if self.run else {}),
            **({"marked": self.marked._values()} if self.marked else {}),  # noqa: SLF001
        }

    @classmethod
    def parse(cls, text: str) -> "SnapshotPosition":
        """Raises `ValueError` for text that `text()` did not write."""
        return cls._of_values(json.loads(text))

    @classmethod
    def _of_values(cls, values: Mapping[str, Any]) -> "SnapshotPosition":
        bare = cls.of_snapshot(
            values["snapshot"], values["low"], values["high"], values["time"], next_xid=values["next"]
        )
        floors = {int(xid): key for xid, key in values["floors"].items()}
        origin = Origin.parse(values["origin"]) if "origin" in values else None
        marked = cls._of_values(values["marked"]) if "marked" in values else None
        return replace(
            bare,
            floors=floors,
            gap_floor=values["gap_floor"],
            origin=origin,
            run=values.get("run", ""),
            marked=marked,
        )

    @classmethod
    def of_snapshot(
        cls, snapshot: str, low: int, high: int, time: str = "", *, next_xid: int | None = None, lsn: str = ""
    ) -> "SnapshotPosition":
        """Makes a position of the text of a `pg_snapshot` and the values read around it."""
        xmin, xmax, xip = snapshot.split(":")
        running = frozenset(int(xid) for xid in xip.split(",") if xid)
        return cls(int(xmin), int(xmax), running, low, high, next_xid, time=time, lsn=lsn)
