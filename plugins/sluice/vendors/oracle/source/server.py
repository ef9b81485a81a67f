"""The queries for a position on an Oracle master: each is a separate statement, outside a transaction."""

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sluice import sql_files
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.names import Prefix
from sluice.vendors.oracle.queue_position import Incarnation, number_of, trans_key_of
from sluice.vendors.oracle.session import OracleSession, Value, native
from sluice.vendors.oracle.source.position import Owner, Thread

PAUSE_SECONDS = 0.05
"""Seconds between two queries of instances whose SCN lags behind."""


@dataclass
class Server:
    """See `sluice.vendors.oracle.source.position.Master`."""

    session: OracleSession
    prefix: Prefix

    def incarnation(self) -> Incarnation:
        """Raises `no-primary`."""
        dbid, pdb, resetlogs, pdb_incarnation, role, mode, _ = self._identity()
        if role != "PRIMARY" or mode != "READ WRITE":
            raise Terminal(
                f"{self.session.server}: the database is {role}, {mode}: what runs on it cannot be seen there, and "
                "nothing is captured. Name the primary database, open READ WRITE, in the Airflow connection of the "
                "master.",
                code="no-primary",
            )
        return Incarnation(int(dbid), str(pdb or ""), int(resetlogs), int(pdb_incarnation or 0))

    def time(self) -> str:
        return str(self._identity()[-1])

    def threads(self) -> Collection[Thread]:
        return [Thread(int(number), str(run or "")) for number, run in self._rows("position_threads")]

    def draw(self) -> int:
        ((drawn,),) = self._rows("position_draw")
        return int(drawn)

    def listed(self) -> Mapping[int, int]:
        return {number_of(key): int(scn or 0) for key, scn in self._rows("position_listed")}

    def prepared(self) -> Collection[int]:
        return [number_of(key) for (key,) in self._rows("position_prepared")]

    def owners(self) -> Mapping[int, Owner]:
        """The owners of the running transactions."""
        return {
            number_of(key): Owner(
                str(since), int(instance), f"{sid},{serial}" if sid is not None else "", str(user), str(program)
            )
            for key, since, instance, sid, serial, user, program in self._rows("redo_running")
        }

    def scns(self) -> Collection[int]:
        return [int(scn) for _, scn in self._rows("position_scns")]

    def pause(self) -> None:
        time.sleep(PAUSE_SECONDS)

    def visible(self, scn: int, above: int, up_to: int, among: Collection[int]) -> Collection[int]:
        named = json.dumps([trans_key_of(number) for number in sorted(among)])
        values: dict[str, Value] = {"scn": scn, "above": above, "up_to": up_to, "among": named}
        return [number_of(key) for (key,) in self._rows("position_visible", values)]

    def _identity(self) -> tuple[Any, ...]:
        (row,) = self._rows("position_incarnation")
        return row

    def _rows(self, name: str, values: dict[str, Value] | None = None) -> list[tuple[Any, ...]]:
        return self.session.run(sql_files.render("oracle", name, prefix=str(self.prefix)), values).fetchall()


# The resources of a prefix in the account's own schema of an Oracle master, over a session there.


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
