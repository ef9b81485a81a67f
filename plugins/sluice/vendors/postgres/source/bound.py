"""The resources of a prefix in a schema of a PostgreSQL master, over a session there."""

from dataclasses import dataclass
from functools import cached_property

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import quoted


@dataclass(frozen=True)
class Bound:
    """`schema`: unquoted."""

    session: Session
    prefix: Prefix
    schema: str

    def name(self, resource: str) -> str:
        """The qualified and quoted name of a resource."""
        return quoted(self.schema, self.prefix.lower + resource)

    def sql(self, name: str, **placeholders: str) -> str:
        """The statement of a file, with the names of the resources."""
        names = {"prefix": self.prefix.lower, "schema": quoted(self.schema)}
        return sql_files.render("postgres", name, **names, **placeholders)

    @cached_property
    def info(self) -> "Info":
        return Info(self.session, self.name("info"))


@dataclass(frozen=True)
class Info:
    """See `sluice.vendors.common.items_queue.Info`."""

    session: Session
    table: str

    def value(self, name: str) -> str | None:
        row = self.session.execute(f"SELECT value FROM {self.table} WHERE name = %s", [name]).fetchone()
        return str(row[0]) if row else None

    def all(self, beginning: str = "") -> list[tuple[str, str]]:
        text = f"SELECT name, value FROM {self.table} WHERE starts_with(name, %s) ORDER BY name"
        return self.session.execute(text, [beginning]).fetchall()

    def write(self, name: str, value: str) -> bool:
        text = (
            f"INSERT INTO {self.table} AS i (name, value) VALUES (%s, %s) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE i.value <> excluded.value"
        )
        return self.session.execute(text, [name, value]).rowcount > 0

    def remove(self, name: str) -> bool:
        return self.session.execute(f"DELETE FROM {self.table} WHERE name = %s", [name]).rowcount > 0
