"""Positions: which transactions of a master have been seen, for any source of its changes."""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from sluice.errors import Terminal


class Position(Protocol):
    """A set of seen transactions.

    A window `(P1, P2]` has the changes that P2 covers and P1 does not. Positions are equal if they cover the same
    transactions. `str()` is a short form for people.
    """

    @property
    def time(self) -> str:
        """When the position was taken, by the master's clock: ISO 8601, UTC; empty if unknown."""
        ...

    @property
    def high(self) -> int:
        """A REPL_KEY that is not lower than that of any covered change."""
        ...

    @property
    def keys_a_change(self) -> int:
        """About how many REPL_KEYs a change takes; the others stay unused."""
        ...

    def covers(self, transaction: int, repl_key: int, /) -> bool:
        """Whether the change `repl_key` had been committed before this position was taken, or its transaction had
        ended.

        `transaction`: its transaction, as the source numbers them. The answer is the same for all changes of a
        transaction.
        """
        ...

    def covers_all_of(self, other: "Position") -> bool:
        """Whether it covers every transaction that `other` covers. Raises `other-source`."""
        ...

    def floor(self, target: "Position") -> int:
        """A REPL_KEY below that of every change in the window `(self, target]`. Raises `other-source`."""
        ...

    def resting(self, since: "Position") -> "Position":
        """This position, for the checkpoint of a slave that was at `since`, and since when nothing was captured."""
        ...

    @property
    def restart(self) -> "Position":
        """Where an apply starts again from a checkpoint at this position."""
        ...

    def text(self) -> str:
        """The text for storage; `sluice.database.registry.parse_position` reads it."""
        ...


@runtime_checkable
class ScnPosition(Position, Protocol):
    """A position that covers exactly what an Oracle master had committed up to an SCN."""

    @property
    def scn(self) -> int: ...

    @property
    def oldest(self) -> int:
        """No uncovered transaction began before this SCN; 0 if unknown."""
        ...

    @property
    def resetlogs(self) -> int:
        """RESETLOGS_ID of the master's incarnation."""
        ...


@dataclass(frozen=True)
class Moment:
    """A moment of an Oracle master: the position covers exactly what had been committed up to the SCN."""

    position: Position
    scn: int


def other_source(position: Position, source: str) -> Terminal:
    """Two positions of different sources of changes were compared."""
    return Terminal(
        f"The position {position} was taken from another source of changes than {source}, so it does not say where "
        "to continue. Put the former capture back into the configuration, or start the slave again with this one.",
        code="other-source",
    )


# A window: the changes between two positions.


@dataclass(frozen=True)
class Window:
    """The changes that `target` covers and `previous` does not, or a part of them between two REPL_KEYs."""

    previous: Position
    target: Position
    above: int = 0
    """Exclusive."""
    up_to: int | None = None
    """Inclusive; None: to the end."""

    def between(self, above: int, up_to: int | None = None) -> "Window":
        """The part of it between these REPL_KEYs."""
        return replace(self, above=above, up_to=up_to)
