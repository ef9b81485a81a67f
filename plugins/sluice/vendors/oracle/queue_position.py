"""Positions in the ITEMS of an Oracle master: which transactions have been seen.

REPL_KEYs are drawn before commit, so neither a key nor a time separates what was seen from what was not. A position
therefore names transactions, around two keys that were drawn while it was taken (`source/position.py`):

- `open`: transactions that ran then, and of which no change could be seen. Keys up to `low` are covered except theirs.
- `seen`: transactions of which a change could be seen. Of the keys from `low` to `high` theirs alone are covered.

Nothing above `high` is covered. Once taken, a position says the same forever, and needs neither undo nor a snapshot.
"""

import json
from dataclasses import dataclass, field, replace

from sluice.errors import DataLost
from sluice.model.position import Position, other_source

_SLOT, _SEQUENCE = 16, 32
"""Bits of the second and the third number of a transaction's ID."""
_SEGMENTS = 1 << 15


@dataclass(frozen=True)
class Incarnation:
    """One history of one pluggable database; each way of going back in time begins another one."""

    dbid: int
    pdb: str
    """Its GUID, hexadecimal; empty if there are no pluggable databases."""
    resetlogs: int
    """RESETLOGS_ID of the container."""
    pdb_incarnation: int
    """PDB_INCARNATION#; 0 if there are no pluggable databases."""

    def __str__(self) -> str:
        return f"database {self.dbid} {self.pdb or '-'} of incarnation {self.resetlogs}.{self.pdb_incarnation}"

    @property
    def values(self) -> tuple[int, str, int, int]:
        """The values in the text of a position."""
        return self.dbid, self.pdb, self.resetlogs, self.pdb_incarnation


def number_of(trans_key: str) -> int:
    """A transaction's ID `segment.slot.sequence`, as TRANS_KEY has it, as one number. Raises `ValueError`."""
    segment, slot, sequence = (int(part) for part in trans_key.split("."))
    if not (0 <= segment < _SEGMENTS and 0 <= slot < 1 << _SLOT and 0 <= sequence < 1 << _SEQUENCE):
        raise ValueError(f"{trans_key!r} is no ID of an Oracle transaction")
    return (segment << _SLOT | slot) << _SEQUENCE | sequence


def trans_key_of(number: int) -> str:
    """The ID for a number of `number_of`."""
    rest, sequence = divmod(number, 1 << _SEQUENCE)
    segment, slot = divmod(rest, 1 << _SLOT)
    return f"{segment}.{slot}.{sequence}"


@dataclass(frozen=True)
class QueuePosition:
    """A set of seen changes of ITEMS; see above."""

    low: int
    high: int
    open: frozenset[int]
    seen: frozenset[int]
    incarnation: Incarnation
    scn: int = field(default=0, compare=False)
    """The SCN as of which ITEMS was read. A block that is read as of it shows what this position covers."""
    oldest: int = field(default=0, compare=False)
    """No transaction that is not covered began before this SCN; 0 if that is not known."""
    floors: dict[int, int] = field(default_factory=dict, compare=False)
    """For each open transaction, a key below all keys that it can have drawn."""
    time: str = field(default="", compare=False)
    """The master's clock, ISO 8601, UTC."""
    prefix: str = field(default="", compare=False)
    """The prefix of its ITEMS."""

    @property
    def resetlogs(self) -> int:
        """RESETLOGS_ID of the incarnation."""
        return self.incarnation.resetlogs

    keys_a_change = 1

    def covers(self, transaction: int, repl_key: int) -> bool:
        """True when the change `repl_key` of `transaction` could be seen when this position was taken.

        All changes of a transaction have the same answer.
        """
        if repl_key <= self.low:
            return transaction not in self.open
        return repl_key <= self.high and transaction in self.seen

    @classmethod
    def of(cls, position: Position) -> "QueuePosition":
        """The position itself. Raises `other-source` if it is none of an Oracle master with triggers."""
        if not isinstance(position, cls):
            raise other_source(position, "an Oracle master with triggers")
        return position

    def resting(self, since: Position) -> "QueuePosition":
        return self

    @property
    def restart(self) -> "QueuePosition":
        return self

    def covers_all_of(self, other: Position) -> bool:
        """True when it is known that everything `other` covers is covered here: `other` was taken before, or is this.

        Of two positions that were taken at the same time neither is known to cover the other one.
        """
        other = self._same_history(other)
        return self == other or other.high <= self.low

    def after(self, previous: Position | None) -> "QueuePosition":
        """This position with the floors that follow from `previous`, which was taken before it.

        A transaction that is open now and was not then began since, and draws keys above `previous.low`.
        Raises `master-replaced`, `sequence-went-back`.
        """
        if previous is None:
            return replace(self, floors=dict.fromkeys(self.open, 0))
        previous = self._same_history(previous)
        if self.low <= previous.high:
            raise DataLost(
                f"The master's sequence gave out {self.low}, but REPL_KEY {previous.high} was already seen: it was "
                "made again or reset, and new changes cannot be told from old ones. Start an initial update of this "
                "slave.",
                code="sequence-went-back",
            )
        floors = {transaction: previous.floors.get(transaction, previous.low) for transaction in self.open}
        return replace(self, floors=floors)

    def floor(self, target: Position) -> int:
        """A REPL_KEY below every change in the window `(self, target]`."""
        ended = self.open - self._same_history(target).open
        return min([self.low, *(self.floors.get(transaction, 0) for transaction in ended)])

    def text(self) -> str:
        """The text for storage; `parse` reads it."""
        values = {
            "vendor": "oracle",
            "low": self.low,
            "high": self.high,
            "open": {trans_key_of(number): self.floors.get(number, 0) for number in sorted(self.open)},
            "seen": [trans_key_of(number) for number in sorted(self.seen)],
            "scn": self.scn,
            "oldest": self.oldest,
            "time": self.time,
            "incarnation": self.incarnation.values,
            "prefix": self.prefix,
        }
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> "QueuePosition":
        """Raises `ValueError` for text that `text()` did not write."""
        values = json.loads(text)
        try:
            floors = {number_of(key): int(floor) for key, floor in values["open"].items()}
            return cls(
                int(values["low"]),
                int(values["high"]),
                frozenset(floors),
                frozenset(number_of(key) for key in values["seen"]),
                Incarnation(*values["incarnation"]),
                int(values["scn"]),
                int(values.get("oldest", 0)),  # Positions of 1.0 do not say it.
                floors,
                str(values["time"]),
                str(values["prefix"]),
            )
        except (KeyError, TypeError, AttributeError) as wrong:
            raise ValueError(f"{text!r} is no position of an Oracle master: {wrong}") from None

    def __str__(self) -> str:
        return f"{self.low}:{self.high} as of SCN {self.scn}, {len(self.open)} open"

    def _same_history(self, other: Position) -> "QueuePosition":
        position = QueuePosition.of(other)
        if position.incarnation != self.incarnation:
            raise DataLost(
                f"The master is {self.incarnation}, but the slave has changes of {position.incarnation}: it was "
                "flashed back, restored to an earlier time, opened with RESETLOGS or replaced, and what was committed "
                "there may be lost here. Start an initial update of this slave.",
                code="master-replaced",
            )
        return position
