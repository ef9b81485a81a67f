"""Names: the prefix of a replication and the qualified name of a table."""

import re
from collections.abc import Container
from dataclasses import dataclass
from functools import total_ordering

from sluice.errors import Terminal

# Maps names of an Oracle master to names on a slave.


@dataclass(frozen=True)
class Naming:
    """The slave's name for a name of the master."""

    exact: bool = False
    """Unchanged; otherwise names without small letters are lower-cased."""

    def __call__(self, name: str) -> str:
        return name if self.exact or name != name.upper() else name.lower()


LONGEST_TRIGGER = 60
"""In bytes; triggers add an ending such as `_i`, some a leading `!` to fire first, and PostgreSQL's names have at most
63."""

_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,29}\Z")
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*\Z")


class InvalidName(Terminal):
    """An invalid prefix or table name; `name` is the given text."""

    def __init__(self, name: str, reason: str):
        super().__init__(f"{name!r} {reason}")


@dataclass(frozen=True, order=True)
class Prefix:
    """Names a replication: `DEMO_` owns `DEMO_ITEMS`, `DEMO_TABLES`, …

    Shown in upper case; compared without regard to case, because databases fold unquoted names. It has at most 30
    characters, so that the names of all objects have at most PostgreSQL's 63 bytes.
    """

    name: str

    def __init__(self, name: str):
        if not _PREFIX.match(name):
            raise InvalidName(
                name,
                "is no prefix: it needs a letter first, then letters, digits or underscores, 30 characters at most",
            )
        object.__setattr__(self, "name", name.upper())

    @property
    def lower(self) -> str:
        """The form that PostgreSQL stores in names of objects."""
        return self.name.lower()

    def __str__(self) -> str:
        return self.name


def prefix_meant(text: str, known: Container[str]) -> str:
    """The prefix among `known` that a person means: SHOP, shop and SHOP_ are the same unless two are configured. In
    upper case; `text` itself if none is known."""
    given = text.strip().upper()
    others = (given.rstrip("_") + "_", given.rstrip("_"))
    return next((name for name in (given, *others) if name in known), given)


@total_ordering
@dataclass(frozen=True)
class TableName:
    """A table by schema and name, both exactly as the database stores them (no quotes)."""

    schema: str
    name: str

    def __str__(self) -> str:
        return self.on_slave

    @property
    def on_master(self) -> "TableName":
        """The table's name on the master."""
        return self

    @property
    def on_slave(self) -> str:
        """The name, for people."""
        return f"{_shown(self.schema)}.{_shown(self.name)}"

    def __lt__(self, other: "TableName") -> bool:
        return (self.schema, self.name) < (other.schema, other.name)

    @classmethod
    def parse(cls, text: str) -> "TableName":
        """`schema.table`, either part in double quotes if it contains a dot, quote or capital. An unquoted part is
        taken literally. Raises `InvalidName`."""
        parts = split_qualified(text)
        if len(parts) != 2 or not all(parts):
            raise InvalidName(text, "is no table name: write schema.table, with double quotes around a part with a dot")
        return cls(*parts)


class PlacedName(TableName):
    """A table's name on a slave that has another one than the master; equal to the same name of any table."""

    def __init__(self, on_slave: TableName, master: TableName):
        super().__init__(on_slave.schema, on_slave.name)
        object.__setattr__(self, "master", master)

    master: TableName
    """Its name on the master."""

    @property
    def on_master(self) -> TableName:
        return self.master

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableName) and (self.schema, self.name) == (other.schema, other.name)

    def __hash__(self) -> int:
        return super().__hash__()

    def __str__(self) -> str:
        return f"{self.master} ({self.on_slave} on the slave)"


class NameOfSlave(TableName):
    """A table that only the slave has, with the name that another table has on the master; equal to no name of the
    master."""

    def __str__(self) -> str:
        return f"{self.on_slave} of the slave's own"


def split_qualified(text: str) -> list[str]:
    """Parts of a dotted name; `"` quotes a part, `""` inside is one quote. Raises `InvalidName`."""
    parts: list[str] = []
    rest = text.strip()
    while True:
        if rest.startswith('"'):
            match = re.match(r'"((?:[^"]|"")*)"', rest)
            if not match:
                raise InvalidName(text, "has an opening double quote that is never closed")
            parts.append(match.group(1).replace('""', '"'))
            rest = rest[match.end() :]
        else:
            part = rest.split(".", 1)[0]
            parts.append(part)
            rest = rest[len(part) :]
        if not rest:
            return parts
        if not rest.startswith("."):
            raise InvalidName(text, "has text after a closing double quote; a dot must follow")
        rest = rest[1:]


def _shown(part: str) -> str:
    if _PLAIN.match(part):
        return part
    escaped = part.replace('"', '""')
    return f'"{escaped}"'
