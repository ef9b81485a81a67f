"""The choices of a person for one initial update: how it reads, and which part it loads."""

import glob
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from sluice.model.names import TableName


@dataclass(frozen=True)
class Selection:
    """Without any choice all tables are loaded, as the configuration says."""

    read: str | None = None
    """`committed`, `snapshot` or `locked`, instead of `initial.read` of the configuration."""
    tables: tuple[str, ...] = ()
    """Only these tables, as `schema.table`, with `*` for anything."""
    where: str | None = None
    """Only rows of the one table for which this condition in SQL holds."""
    key_from: str | None = None
    """Only keys of the one table from this one on: the value, or a JSON list of one value a key column."""
    key_to: str | None = None
    """Only keys below this one."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Selection":
        """From the form of a run, or from the result of `to_dict`; other values are ignored."""

        def text(name: str) -> str | None:
            return str(values[name]).strip() or None if values.get(name) is not None else None

        named = values.get("tables") or ()
        listed = named.split(",") if isinstance(named, str) else named
        tables = tuple(str(each).strip() for each in listed if str(each).strip())
        return cls(text("read"), tables, text("where"), text("key_from"), text("key_to"))

    def to_dict(self) -> dict[str, object]:
        """For the input of a job."""
        return asdict(self)

    def __str__(self) -> str:
        """For people."""
        words = [", ".join(self.tables) or "all tables"]
        words += [f"from {self.key_from}"] if self.key_from is not None else []
        words += [f"below {self.key_to}"] if self.key_to is not None else []
        words += [f"where {self.where}"] if self.where is not None else []
        return " ".join(words)

    @property
    def partial(self) -> bool:
        """Whether only a part of the slave is loaded."""
        return bool(self.tables) or self.ranged

    @property
    def ranged(self) -> bool:
        """Whether only a part of a table is loaded."""
        return (self.where, self.key_from, self.key_to) != (None, None, None)

    def covers(self, table: TableName) -> bool:
        """Whether the table is loaded."""
        return not self.tables or any(names(pattern, table) for pattern in self.tables)


def names(pattern: str, table: TableName) -> bool:
    """Whether `pattern` matches the table, written as in SQL or plainly. What is in double quotes is no wildcard."""
    plain = f"{table.schema}.{table.name}"
    return fnmatchcase(plain, pattern) or fnmatchcase(plain, _QUOTED.sub(_literal, pattern))


_QUOTED = re.compile(r'"((?:[^"]|"")+)"')


def _literal(quoted: re.Match[str]) -> str:
    return glob.escape(quoted[1].replace('""', '"'))
