"""Positions: which of a master's transactions have been seen, whatever the source of its changes."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sluice.errors import Terminal


class Position(Protocol):
    """A set of seen transactions. A window `(P1, P2]` holds the changes that P2 covers and P1 does not.

    Equal where the same transactions are covered. `str()` is a short form for people.
    """

    @property
    def time(self) -> str:
        """The master's clock when the position was taken, ISO 8601, UTC; empty where it is not known."""
        ...

    @property
    def high(self) -> int:
        """A REPL_KEY that no change it covers is above."""
        ...

    def covers(self, transaction: int, repl_key: int, /) -> bool:
        """Whether the change `repl_key` had committed before this position was taken, or its transaction ended.

        `transaction`: its transaction, as the source numbers them. All changes of one have the same answer.
        """
        ...

    def covers_all_of(self, other: "Position") -> bool:
        """Whether every transaction that `other` covers is covered here too. Raises `OtherSource`."""
        ...

    def floor(self, target: "Position") -> int:
        """A REPL_KEY below every change in the window `(self, target]`. Raises `OtherSource`."""
        ...

    def text(self) -> str:
        """The form in which it is kept; `sluice.database.positions.parse` reads it back."""
        ...


@runtime_checkable
class ScnPosition(Position, Protocol):
    """A position that covers what an Oracle master had committed up to an SCN, and nothing else."""

    @property
    def scn(self) -> int: ...

    @property
    def oldest(self) -> int:
        """No transaction that is not covered began before this SCN; 0 where that is not known."""
        ...

    @property
    def resetlogs(self) -> int:
        """RESETLOGS_ID of the master's incarnation."""
        ...


@dataclass(frozen=True)
class Moment:
    """A moment of an Oracle master: what had committed up to the SCN is what the position covers, and nothing else."""

    position: Position
    scn: int


class OtherSource(Terminal):
    """A position was taken from another source of changes than the one it is compared with."""

    def __init__(self, position: Position, wanted: str):
        super().__init__(
            f"The position {position} was taken from another source of changes than {wanted}, so it does not say where "
            "to go on. Put the former capture back into the configuration, or start the slave anew with this one."
        )
        self.position = position
