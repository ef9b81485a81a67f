"""The slave's tables, as the apply needs to know them.

targets = SlaveTables(connection)      # one a session; remembers what it read
targets.load(tables)                   # one statement for all that are not known yet
targets[table].column("id").type
targets.forget(table)                  # after DDL
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

import psycopg

from sluice import sql_files
from sluice.database.conflicts import SlaveTableMissing
from sluice.database.session import Session
from sluice.model.foreign_key import ForeignKey
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName
from sluice.vendors.common.slave_tables import ColumnsByName, KnownTables
from sluice.vendors.postgres import foreign_keys
from sluice.vendors.postgres.connection import native, quoted

_OCTAL = re.compile(r"\\[23][0-7]{2}")
"""How a "char" above 127 is written."""


@dataclass(frozen=True)
class SlaveColumn:
    """A column of a slave's table."""

    name: str
    type: str
    """As DDL writes it, length and domain included."""
    plain: str
    """The type below domains, without length: a cast to it cuts nothing off."""
    sized: str
    """The type below domains, with its length: a cast to it gives the value that the column would store."""
    not_null: bool
    identity: str
    generated: str
    equals: str | None
    """Equality as `OPERATOR(schema.=)`, None when the type has none (json, xml, point)."""
    hashable: bool
    """Whether a hash join can use `equals`."""
    textual: bool
    """Whether equality depends on a collation."""
    castable: bool
    """Whether a cast from text reads every value as the type's input function does."""
    key: int
    follows: bool
    """Whether a foreign key changes it when the row that it refers to is changed or deleted."""
    misread: bool = False
    """A "char" of PostgreSQL 14, which would store the backslash of a byte above 127 (`\\303`)."""

    @property
    def quoted(self) -> str:
        return quoted(self.name)

    def expect_readable(self, texts: Iterable[str | None]) -> None:
        """Raises psycopg's `DataError` for a value that the server would store as another one; call it if `misread`."""
        if any(text is not None and _OCTAL.fullmatch(text) for text in texts):
            raise psycopg.errors.InvalidTextRepresentation(
                f'PostgreSQL 14 cannot read a "char" with a byte above 127 (column {self.name}) from a text. Upgrade '
                "the slave's server, or leave the column out"
            )

    def comparable(self, cascades: bool) -> bool:
        """Whether a value that is not the master's former one proves a local change on the slave.

        It does not where the slave generates the value, nor, with `cascades`, where a foreign key may have changed it.
        """
        return not self.generated and not (cascades and self.follows)


@dataclass(frozen=True)
class SlaveTable(ColumnsByName[SlaveColumn]):
    """A table of the slave."""

    table: TableName
    columns: tuple[SlaveColumn, ...]
    partitioned: bool
    watched: bool
    """A foreign key points to it, or a user's trigger acts: they notice a row that is deleted and inserted again."""
    owned: bool
    """A foreign key deletes its rows with the rows that they refer to."""
    hidden: frozenset[str] = frozenset()
    """Its masked columns. Where there are any, what the server says of its rows is not shown."""

    @cached_property
    def misread(self) -> tuple[SlaveColumn, ...]:
        return tuple(column for column in self.columns if column.misread)

    @property
    def quoted(self) -> str:
        return quoted(self.table.schema, self.table.name)

    @property
    def only(self) -> str:
        """The name in UPDATE and DELETE: changes of an inheriting table have that table's own name."""
        return self.quoted if self.partitioned else f"ONLY {self.quoted}"


class SlaveTables(KnownTables[SlaveTable]):
    """Read once a session and table."""

    def __init__(self, connection: Session, mask: Mask = NO_PATTERNS):
        super().__init__(connection, mask)
        self._foreign_keys: dict[TableName, list[ForeignKey]] = {}
        """By the referring table."""

    def load(self, tables: Iterable[TableName]) -> None:
        unread = [table for table in dict.fromkeys(tables) if table not in self._known]
        if not unread:
            return
        pairs = ([table.schema for table in unread], [table.name for table in unread])
        cursor = psycopg.RawCursor(native(self.connection))
        rows = cursor.execute(sql_files.render("postgres", "targets"), pairs).fetchall()
        links: dict[TableName, list[ForeignKey]] = {table: [] for table in unread}
        for key in foreign_keys.read(self.connection, unread):
            links[key.child].append(key)
        columns: dict[TableName, list[SlaveColumn]] = {}
        flags: dict[TableName, tuple[bool, bool]] = {}
        old_server = native(self.connection).info.server_version < 150000
        for schema, name, partitioned, watched, *values in rows:
            table = TableName(schema, name)
            flags[table] = (partitioned, watched)
            follows = any(
                values[0] in key.columns and (key.follows_updates or key.follows_deletes) for key in links[table]
            )
            misread = values[2] == '"char"' and old_server
            columns.setdefault(table, []).extend(
                [SlaveColumn(*(*values, follows, misread))] if values[0] is not None else []
            )
        for table in unread:
            if table not in columns:
                raise SlaveTableMissing(table)
            owned = any(key.takes_along for key in links[table])
            hidden = self.hidden(table, columns[table])
            self._known[table] = SlaveTable(table, tuple(columns[table]), *flags[table], owned, hidden)
            self._foreign_keys[table] = links[table]

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        listed = list(dict.fromkeys(tables))
        self.load(listed)
        return [key for table in listed for key in self._foreign_keys[table]]

    def owners(self, table: TableName) -> Collection[TableName]:
        """The tables whose deleted rows cascade to `table`; it may be among them."""
        return {key.parent for key in self.foreign_keys([table]) if key.takes_along}

    def connected(self, table: TableName, among: Iterable[TableName]) -> set[TableName]:
        """`table`, and those of `among` that foreign keys connect with it, directly or over other tables.

        Reads nothing: uses the foreign keys that were read last, also after `forget`.
        """
        candidates = {table, *among} & self._foreign_keys.keys()
        result, border = {table}, [table] if table in candidates else []
        while border:
            current = border.pop()
            parents = {key.parent for key in self._foreign_keys[current]}
            neighbors = {
                other
                for other in candidates
                if other in parents or any(key.parent == current for key in self._foreign_keys[other])
            }
            border += neighbors - result
            result |= neighbors
        return result
