"""What a server or account lacks for a replication, and the remedy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

MASTER = "master"
ADMINISTRATOR = "an administrator"


class Severity(StrEnum):
    """The severity of an issue."""

    ERROR = "error"
    """The replication would fail."""
    WARNING = "warning"
    """The replication works, but something will be left out, or fail later."""
    NOTE = "note"
    """For information; nothing has to be done."""


@dataclass(frozen=True)
class Issue:
    """Something that one server lacks."""

    side: str
    """`master`, or `slave` and its name."""
    what: str
    """A privilege with its object, or a condition: `SELECT on public.orders`."""
    why: str
    """What it is needed for, or what happens without it: a sentence without full stop, in lower case."""
    statement: str | None
    """The SQL that fixes it: statements with `;` between them, names quoted if necessary."""
    severity: Severity = Severity.ERROR
    by: str = ADMINISTRATOR
    """Who may run the statement."""
    remedy: str = ""
    """What to do if no statement helps: a sentence with full stop."""
    in_file: bool = False
    """It has to be fixed in the replication's file, not on the server."""
    server: str = ""
    """The server: `user@host:port/database` and the Airflow connection."""

    def at(self, side: str, server: str = "") -> "Issue":
        """The same issue, for that side."""
        return replace(self, side=side, server=server)

    def softened(self) -> "Issue":
        """The same issue, with an error turned into a warning."""
        return replace(self, severity=Severity.WARNING) if self.severity is Severity.ERROR else self

    def __str__(self) -> str:
        where = f"{self.side}, {self.server}" if self.server else self.side
        return f"{where}: {self.what}: {self.why}.{self.fix}"

    @property
    def fix(self) -> str:
        """The remedy, each statement on its own line; begins with a space."""
        lines = "".join(f"\n    {line}" for line in script([self]).splitlines())
        parts = [self.remedy, f"Run there, as {self.by}:{lines}" if lines else ""]
        return "".join(f" {part}" for part in parts if part)


def script(issues: Iterable[Issue]) -> str:
    """Their statements, each once and in order, each ended by `;` and a line break; empty without any."""
    statements = dict.fromkeys(issue.statement for issue in issues if issue.statement)
    return "".join(f"{statement};\n" for statement in statements)


def fixes(issues: Iterable[Issue], had: Sequence[str]) -> list[str]:
    """The statements for errors and warnings, each once, without those of `had`."""
    wanted = [issue.statement for issue in issues if issue.statement and issue.severity is not Severity.NOTE]
    return [statement for statement in dict.fromkeys(wanted) if statement not in had]


def errors(issues: Iterable[Issue]) -> list[Issue]:
    """The issues with which the replication would fail."""
    return [issue for issue in issues if issue.severity is Severity.ERROR]


def slave_side(name: str) -> str:
    return f"slave {name}"
