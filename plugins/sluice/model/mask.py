"""Columns whose values must be in no report, log, error or message, only in the databases."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sluice.model.names import TableName

HIDDEN = "•••"
QUOTED = re.compile("“[^”]*(?:”|$)")
"""What `quoted_text` made, also if a message was cut."""
_STRAIGHT = str.maketrans("“”", '""')
_LITERAL = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_FIRST = re.compile(rf"= {_LITERAL}(?!::)|{QUOTED.pattern}", re.DOTALL)
"""A literal with a type is of a definition, as PostgreSQL writes it, in a statement for a person."""
_VALUES = (
    (re.compile(r"(\)=\().*(\))", re.DOTALL), rf"\1{HIDDEN}\2"),
    (re.compile(r"(row contains \().*(\))", re.DOTALL), rf"\1{HIDDEN}\2"),
    (
        re.compile(r"(syntax for [^:]*: |value: |value |entry |literal: )(?:'.*'|\".*\")", re.DOTALL),
        rf"\1{HIDDEN}",
    ),
)
"""Forms in which messages of Sluice itself name a conflicting row."""
SECRET = re.compile(r"pass(wor[dt]|wd|phrase)|secret|token|credential|api_?key|private_?key", re.IGNORECASE)
"""Columns that are hidden in any configuration."""


def quoted_text(text: str) -> str:
    """A text of a server or of somebody's code, in curly quotes, for a message.

    It can hold values of rows in any form, so all of it is hidden from people who may not see values.
    """
    return f"“{text.translate(_STRAIGHT).rstrip('.')}”"


def without_values(text: str) -> str:
    """The message with values of rows hidden.

    A server's own texts can hold any value: messages have them in curly quotes, and all of such a text is hidden.
    """
    # Whichever begins first: a value may have curly quotes, and a server's text literals.
    text = _FIRST.sub(lambda found: f"= {HIDDEN}" if found[0].startswith("=") else f"“{HIDDEN}”", text)
    for pattern, shown in _VALUES:
        text = pattern.sub(shown, text)
    return text


@dataclass(frozen=True)
class Mask:
    """`patterns`: `schema.table.column`, with `*` as a wildcard."""

    patterns: tuple[str, ...] = ()

    def hides(self, table: TableName, column: str) -> bool:
        """Whether the values of a column are hidden."""
        name = f"{table.schema}.{table.name}.{column}"
        return bool(SECRET.search(column)) or any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def hides_any(self, table: TableName, columns: Iterable[str]) -> bool:
        """Whether one of the columns is hidden: then error texts of others about its table are not shown."""
        return any(self.hides(table, column) for column in columns)

    def row(self, table: TableName, row: Mapping[str, str | None]) -> dict[str, str | None]:
        """The row with hidden values masked."""
        return {name: HIDDEN if value is not None and self.hides(table, name) else value for name, value in row.items()}


NO_PATTERNS = Mask()
"""Hides only the columns of `SECRET`."""
