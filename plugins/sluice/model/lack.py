"""What a server or its account lacks for a replication, and what mends it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

MASTER = "master"
ADMINISTRATOR = "an administrator"


class Severity(StrEnum):
    """How much a lack matters."""

    ERROR = "error"
    """The replication would fail."""
    WARNING = "warning"
    """It works now, but something will be left out, or fail later."""
    NOTE = "note"
    """Worth knowing; nothing need be done."""


@dataclass(frozen=True)
class Lack:
    """One thing that is lacking on one server."""

    side: str
    """`master`, or `slave` and its name."""
    what: str
    """A privilege and its object, or a fact: `SELECT on public.orders`."""
    why: str
    """What needs it, or what happens without it: a sentence without full stop, in lower case."""
    statement: str | None
    """SQL that mends it, one statement or several with `;` between them, names quoted where they need it."""
    severity: Severity = Severity.ERROR
    by: str = ADMINISTRATOR
    """Who may run the statement."""
    remedy: str = ""
    """What to do where no statement helps: a sentence with full stop."""
    in_file: bool = False
    """It is mended in the replication's file, not on the server."""
    place: str = ""
    """The server: `user@host:port/database` and the Airflow connection."""

    def at(self, side: str, place: str = "") -> "Lack":
        """The same, of that side."""
        return replace(self, side=side, place=place)

    def softened(self) -> "Lack":
        """The same, an error as a warning."""
        return replace(self, severity=Severity.WARNING) if self.severity is Severity.ERROR else self

    def __str__(self) -> str:
        where = f"{self.side}, {self.place}" if self.place else self.side
        return f"{where}: {self.what}: {self.why}.{self.mend}"

    @property
    def mend(self) -> str:
        """What to do, with a line of its own for each statement; begins with a space."""
        lines = "".join(f"\n    {line}" for line in script([self]).splitlines())
        parts = [self.remedy, f"Run there, as {self.by}:{lines}" if lines else ""]
        return "".join(f" {part}" for part in parts if part)


def script(lacks: Iterable[Lack]) -> str:
    """Their statements, each once, in order, with `;` and a line's end after each; empty where there is none."""
    statements = dict.fromkeys(lack.statement for lack in lacks if lack.statement)
    return "".join(f"{statement};\n" for statement in statements)


def mending(lacks: Iterable[Lack], had: Sequence[str]) -> list[str]:
    """Statements that mend errors and warnings, each once, without those of `had`."""
    wanted = [lack.statement for lack in lacks if lack.statement and lack.severity is not Severity.NOTE]
    return [statement for statement in dict.fromkeys(wanted) if statement not in had]


def errors(lacks: Iterable[Lack]) -> list[Lack]:
    """Those without which the replication would fail."""
    return [lack for lack in lacks if lack.severity is Severity.ERROR]


def slave_side(name: str) -> str:
    return f"slave {name}"
