"""Sluice's named values on an Oracle master: INFO."""

from collections.abc import Sequence

from sluice.model.names import Prefix
from sluice.vendors.oracle.session import OracleSession


class Info:
    """INFO of one prefix."""

    def __init__(self, session: OracleSession, prefix: Prefix):
        self._session, self._table = session, f"{prefix}INFO"

    def all(self) -> Sequence[tuple[str, str]]:
        return [
            (str(name), str(value))
            for name, value in self._session.run(f"SELECT f.NAME, f.VALUE FROM {self._table} f ORDER BY f.NAME")
        ]

    def value(self, name: str) -> str | None:
        row = self._session.run(f"SELECT f.VALUE FROM {self._table} f WHERE f.NAME = :name", {"name": name}).fetchone()
        return str(row[0]) if row else None

    def write(self, name: str, value: str) -> None:
        values = {"name": name, "value": value}
        with self._session.transaction():
            if not self._session.run(f"UPDATE {self._table} SET VALUE = :value WHERE NAME = :name", values).rowcount:
                self._session.run(f"INSERT INTO {self._table} (NAME, VALUE) VALUES (:name, :value)", values)

    def remove(self, name: str) -> None:
        self._session.run(f"DELETE FROM {self._table} WHERE NAME = :name", {"name": name})
