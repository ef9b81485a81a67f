"""The TABLES table of a prefix on an Oracle master, and the capture of each table in it."""

from collections.abc import Iterable
from typing import Any

from sluice.database.capture import RegisteredTable
from sluice.model.names import TableName
from sluice.vendors.oracle import names
from sluice.vendors.oracle.session import Value
from sluice.vendors.oracle.source import fitness
from sluice.vendors.oracle.source.server import Bound

OK = "OK"
NOTHING = " "
"""ACTIONS of a table that is registered without capture: an empty text is NULL, which means all three."""


class Registry(Bound):
    """Reads and changes TABLES of one prefix. Creating a trigger commits implicitly."""

    def read(self) -> list[RegisteredTable]:
        """All registered tables in the order of their REPL_KEY, with the faults of their capture."""
        return [
            RegisteredTable(
                TableName(schema, name),
                frozenset("IUD" if actions is None else str(actions).strip()),
                status,
                int(repl_key),
                trigger,
                int(debug) > 0,
                tuple(each for each in (fault, None if status == OK else "its trigger is still being made") if each),
            )
            for schema, name, actions, status, repl_key, trigger, debug, fault in self._rows("captured")
        ]

    def tables(self) -> list[TableName]:
        """All registered tables, without checking their capture."""
        rows = self.native.run(f"SELECT t.SCHEMANAME, t.TABLENAME FROM {self.prefix}TABLES t ORDER BY t.REPL_KEY")
        return [TableName(schema, name) for schema, name in rows]

    def examine(self, tables: Iterable[TableName]) -> dict[TableName, str]:
        """For each of `tables` that cannot be captured, the reason with the remedy."""
        return fitness.unfit(self.native, list(tables))

    def has(self, table: TableName) -> bool:
        """Whether `table` is registered."""
        return table in self.tables()

    def register(
        self, table: TableName, *, actions: Iterable[str] = "IUD", trigger: str | None = None, debug: bool = False
    ) -> str:
        """Adds `table` with status CREATING and the next REPL_KEY; its trigger's name, by default prefix and key."""
        key = self.draw()
        name = trigger or f"{self.prefix}{key}"
        self.native.run(
            f"INSERT INTO {self.prefix}TABLES (SCHEMANAME, TABLENAME, ACTIONS, REPL_KEY, TRIGGER_NAME, DEBUG) "
            "VALUES (:owner, :name, :actions, :repl_key, :trigger_name, :debug)",
            self._names(table) | self._wanted(actions, name, debug) | {"repl_key": key},
        )
        return name

    def change(self, table: TableName, *, actions: Iterable[str], trigger: str, debug: bool) -> None:
        """Writes which actions of `table` are captured; `capture` then changes the trigger."""
        if any(each.table == table and each.trigger != trigger for each in self.read()):
            self._call("CAPTURE.DROP_TRIGGER", table)
        self.native.run(
            f"UPDATE {self.prefix}TABLES SET ACTIONS = :actions, TRIGGER_NAME = :trigger_name, DEBUG = :debug, "
            "STATUS = 'CREATING' WHERE SCHEMANAME = :owner AND TABLENAME = :name",
            self._names(table) | self._wanted(actions, trigger, debug),
        )

    def capture(self, table: TableName) -> str | None:
        """Updates the trigger of `table`, and sets its STATUS to OK. Returns what was done, in words, None for
        nothing.

        Waits a moment for the table's writers to end. Raises `LockNotAvailable`.
        """
        if self._state(table) == (OK, None):
            return None
        self._call("STRUCTURE.CHECK_TABLE", table)
        return "its trigger was made"

    def refused(self, table: TableName, reason: str) -> None:
        """Tells slaves, once, that `table` cannot be captured."""
        text = f"{self.prefix}STRUCTURE.NOTE_UNFIT(:owner, :name, :reason)"
        self.native.call(text, self._names(table) | {"reason": reason[:1900]})

    def remove(self, table: TableName) -> None:
        """Ends the capture of `table`: removes its trigger and row; ITEMS stays."""
        self._call("CAPTURE.DROP_TRIGGER", table)
        for name in ("TABLES", "CURRENT_TABLES"):
            column = "TABLENAME" if name == "TABLES" else "RELNAME"
            text = f"DELETE FROM {self.prefix}{name} WHERE SCHEMANAME = :owner AND {column} = :name"
            self.native.run(text, self._names(table))

    def put_last(self, table: TableName) -> None:
        """Gives `table` the next REPL_KEY: it is loaded after all others."""
        self.native.run(
            f"UPDATE {self.prefix}TABLES SET REPL_KEY = :repl_key WHERE SCHEMANAME = :owner AND TABLENAME = :name",
            self._names(table) | {"repl_key": self.draw()},
        )

    def draw(self) -> int:
        """The next number of SEQ."""
        return self.server.draw()

    def _state(self, table: TableName) -> tuple[str, str | None] | None:
        """STATUS and fault."""
        for schema, name, _, status, _, _, _, fault in self._rows("captured"):
            if (schema, name) == (table.schema, table.name):
                return status, fault
        return None

    def _rows(self, name: str) -> list[tuple[Any, ...]]:
        return self.native.run(self.sql(name)).fetchall()

    def _call(self, procedure: str, table: TableName) -> None:
        self.native.call(f"{self.prefix}{procedure}(:owner, :name)", self._names(table))

    def _names(self, table: TableName) -> dict[str, Value]:
        return {"owner": names.owner_of(self.native, table), "name": table.name}

    @staticmethod
    def _wanted(actions: Iterable[str], trigger: str, debug: bool) -> dict[str, Value]:
        letters = "".join(action for action in "IUD" if action in set(actions))
        return {"actions": letters or NOTHING, "trigger_name": trigger, "debug": int(debug)}
