"""The resources of a prefix in the account's own schema of an Oracle master, over a session there."""

from dataclasses import dataclass
from functools import cached_property

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.vendors.oracle.session import OracleSession, native
from sluice.vendors.oracle.source.server import Server


@dataclass(frozen=True)
class Bound:
    """`schema` has no effect: it is the account's own."""

    session: Session
    prefix: Prefix
    schema: str

    @cached_property
    def native(self) -> OracleSession:
        return native(self.session)

    @property
    def server(self) -> Server:
        return Server(self.native, self.prefix)

    @cached_property
    def info(self) -> "Info":
        return Info(self.native, f"{self.prefix}INFO")

    def sql(self, name: str) -> str:
        """The statement of a file, with the names of the resources."""
        return sql_files.render("oracle", name, prefix=str(self.prefix))


@dataclass(frozen=True)
class Info:
    """See `sluice.vendors.common.items_queue.Info`."""

    session: OracleSession
    table: str

    def value(self, name: str) -> str | None:
        row = self.session.run(f"SELECT f.VALUE FROM {self.table} f WHERE f.NAME = :name", {"name": name}).fetchone()
        return str(row[0]) if row else None

    def all(self, beginning: str = "") -> list[tuple[str, str]]:
        rows = self.session.run(f"SELECT f.NAME, f.VALUE FROM {self.table} f ORDER BY f.NAME")
        return [(str(name), str(value)) for name, value in rows if str(name).startswith(beginning)]

    def write(self, name: str, value: str) -> bool:
        if self.value(name) == value:
            return False
        values = {"name": name, "value": value}
        with self.session.transaction():
            if not self.session.run(f"UPDATE {self.table} SET VALUE = :value WHERE NAME = :name", values).rowcount:
                self.session.run(f"INSERT INTO {self.table} (NAME, VALUE) VALUES (:name, :value)", values)
        return True

    def remove(self, name: str) -> bool:
        return self.session.run(f"DELETE FROM {self.table} WHERE NAME = :name", {"name": name}).rowcount > 0
