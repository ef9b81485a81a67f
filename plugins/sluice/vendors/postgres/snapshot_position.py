"""SnapshotPositions on a PostgreSQL master: which transactions have been seen.

REPL_KEYs are drawn before commit, so a lower key can commit after a higher one was read, and
"everything above the last key" loses rows. A position is therefore a `pg_snapshot`, and a
window `(P1, P2]` holds the changes whose transaction P2 covers and P1 does not.

The two sequence values taken around the snapshot bound where those changes can lie, so that a
window is a range of ITEMS' primary key and needs no index over transactions:

- `high`, read after the snapshot: every change the snapshot covers drew its key before.
- `low` and then `next`, read before it: a transaction with an ID from `next` on draws higher keys.
- `floors`: for each transaction in progress, a key below all it can have drawn. It is inherited
  from position to position; one first met now, whose ID the previous position's `next` had not
  reached, draws keys above that one's `low`.
- `gap_floor`: the same for the IDs from `xmax` to `next`. A snapshot ends after the last
  transaction *completed*; those beyond may run, and may have drawn keys long ago.
"""

import json
from dataclasses import dataclass, field, replace

from sluice.errors import DataLost
from sluice.model.position import OtherSource, Position
from sluice.model.server_identity import Origin


class MasterWentBack(DataLost):
    """The master's transaction counter is behind a position taken from it earlier."""

    def __init__(self, previous: "SnapshotPosition", now: "SnapshotPosition"):
        super().__init__(
            f"The master stands at transaction {now.xmax}, but transaction {previous.xmax} was already seen: it was "
            "restored from a backup or replaced by another server. Start an initial update of this slave."
        )
        self.previous = previous
        self.now = now


@dataclass(frozen=True)
class SnapshotPosition:
    """A set of seen transactions: all below `xmax` except those in `xip` (below `xmin`: none excepted)."""

    xmin: int
    xmax: int
    xip: frozenset[int] = frozenset()
    low: int = field(default=0, compare=False)
    high: int = field(default=0, compare=False)
    next: int | None = field(default=None, compare=False)
    """None where it could not be known: then no ID is surely above it."""
    floors: dict[int, int] = field(default_factory=dict, compare=False)
    gap_floor: int = field(default=0, compare=False)
    time: str = field(default="", compare=False)
    """The master's clock when the snapshot was taken, ISO 8601, UTC."""
    lsn: str = field(default="", compare=False)
    """How far the master's log must be on the disk so that a crash cannot undo what was seen; empty where it surely is,
    as for a position read back from where it was kept."""
    origin: Origin | None = field(default=None, compare=False)
    """On which server it was taken, and how far its log had come; None where it could not be known."""

    def covers(self, xid: int, repl_key: int = 0) -> bool:
        """True when transaction `xid` had ended before this position was taken. Of `repl_key` nothing depends.

        Whether it committed is not asked: a rolled-back change is never visible in ITEMS.
        """
        return xid < self.xmin or (xid < self.xmax and xid not in self.xip)

    @classmethod
    def of(cls, position: Position) -> "SnapshotPosition":
        """The position itself. Raises `OtherSource` where it is none of a PostgreSQL master."""
        if not isinstance(position, cls):
            raise OtherSource(position, "a PostgreSQL master with triggers")
        return position

    def covers_all_of(self, other: Position) -> bool:
        """True when every transaction that `other` covers is covered here too.

        A transaction in progress here must not have ended there: here's gaps and its upper end
        decide.
        """
        other = SnapshotPosition.of(other)
        if other.xmax > self.xmax:
            # Transactions from our end to theirs would all have to be in progress there.
            span = other.xmax - self.xmax
            if span > len(other.xip) or any(xid not in other.xip for xid in range(self.xmax, other.xmax)):
                return False
        return not any(other.covers(xid) for xid in self.xip)

    def after(self, previous: Position | None) -> "SnapshotPosition":
        """This position with the floors that follow from `previous`. Raises `MasterWentBack`."""
        if previous is None:
            return replace(self, floors=dict.fromkeys(self.xip, 0), gap_floor=0)
        previous = SnapshotPosition.of(previous)
        if self.xmax < previous.xmax or self.high < previous.high:
            raise MasterWentBack(previous, self)
        floors = {xid: previous._floor_of(xid) for xid in self.xip}
        in_gap = [previous.low]
        if previous.next is None or self.xmax < previous.next:
            in_gap.append(previous.gap_floor)
        return replace(self, floors=floors, gap_floor=min(in_gap))

    def floor(self, target: Position) -> int:
        """A REPL_KEY below every change in the window `(self, target]`.

        What was in progress here, or may have been, matters only where it has ended in `target`.
        """
        target = SnapshotPosition.of(target)
        floors = [self.low]
        floors += [self._floor_of(xid) for xid in self.xip if xid not in target.xip]
        gap_end = target.xmax if self.next is None else min(self.next, target.xmax)
        if gap_end - self.xmax > len(target.xip) or any(xid not in target.xip for xid in range(self.xmax, gap_end)):
            floors.append(self.gap_floor)
        return min(floors)

    def floor_of_all(self) -> int:
        """A REPL_KEY below every change not covered here, whenever it commits."""
        return min([self.low, self.gap_floor, *(self.floors.get(xid, 0) for xid in self.xip)])

    def _floor_of(self, xid: int) -> int:
        """A key below all that a transaction not covered here can have drawn."""
        if xid in self.xip:
            return self.floors.get(xid, 0)
        if self.next is None or xid < self.next:
            return self.gap_floor
        return self.low

    @property
    def snapshot(self) -> str:
        """Text of the `pg_snapshot`."""
        return f"{self.xmin}:{self.xmax}:{','.join(str(xid) for xid in sorted(self.xip))}"

    def __str__(self) -> str:
        return self.snapshot

    def text(self) -> str:
        """The form kept in the checkpoint and in markers; `parse` reads it back."""
        values = {
            "snapshot": self.snapshot,
            "low": self.low,
            "high": self.high,
            "next": self.next,
            "floors": {str(xid): key for xid, key in sorted(self.floors.items())},
            "gap_floor": self.gap_floor,
            "time": self.time,
            **({"origin": str(self.origin)} if self.origin else {}),
        }
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> "SnapshotPosition":
        """Raises `ValueError` for text that `text()` did not write."""
        values = json.loads(text)
        bare = cls.of_snapshot(
            values["snapshot"], values["low"], values["high"], values["time"], next_xid=values["next"]
        )
        floors = {int(xid): key for xid, key in values["floors"].items()}
        origin = Origin.parse(values["origin"]) if "origin" in values else None
        return replace(bare, floors=floors, gap_floor=values["gap_floor"], origin=origin)

    @classmethod
    def of_snapshot(
        cls, snapshot: str, low: int, high: int, time: str = "", *, next_xid: int | None = None, lsn: str = ""
    ) -> "SnapshotPosition":
        """From the text of a `pg_snapshot` and the values around it."""
        xmin, xmax, xip = snapshot.split(":")
        running = frozenset(int(xid) for xid in xip.split(",") if xid)
        return cls(int(xmin), int(xmax), running, low, high, next_xid, time=time, lsn=lsn)
