"""Columns whose values no report, log, error or message shows. The databases alone have them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sluice.model.names import TableName

HIDDEN = "•••"
SECRET = re.compile(r"pass(wor[dt]|wd|phrase)|secret|token|credential|api_?key|private_?key", re.IGNORECASE)
"""Columns whose values nobody needs to see, whatever the configuration says."""


@dataclass(frozen=True)
class Mask:
    """`patterns`: `schema.table.column`, with `*` for anything."""

    patterns: tuple[str, ...] = ()

    def hides(self, table: TableName, column: str) -> bool:
        """Whether the values of a column are hidden."""
        name = f"{table.schema}.{table.name}.{column}"
        return bool(SECRET.search(column)) or any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def hides_any(self, table: TableName, columns: Iterable[str]) -> bool:
        """Whether one of the columns is hidden: then no text of others about a row of the table is shown."""
        return any(self.hides(table, column) for column in columns)

    def row(self, table: TableName, row: Mapping[str, str | None]) -> dict[str, str | None]:
        """The row, as it may be shown."""
        return {name: HIDDEN if value is not None and self.hides(table, name) else value for name, value in row.items()}


NO_PATTERNS = Mask()
"""Hides what `SECRET` names alone."""
