"""The TABLES table of a prefix on an Oracle master, and the capture of each table in it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.joining import Rows
from sluice.model.names import Prefix, TableName
from sluice.model.registration import RegisteredTable
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.session import OracleSession, Value, native
from sluice.vendors.oracle.source import fitness
from sluice.vendors.oracle.source.server import Server

OK = "OK"
NOTHING = " "
"""ACTIONS of a table that is registered without capture: an empty text is NULL, which means all three."""
COUNTED = 10_000
"""The number of rows up to which a table's rows are counted."""


@dataclass(frozen=True)
class Registry:
    """Reads and changes TABLES of one prefix. Creating a trigger commits by itself."""

    connection: Session
    prefix: Prefix
    schema: str

    @property
    def _session(self) -> OracleSession:
        return native(self.connection)

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
        rows = self._session.run(f"SELECT t.SCHEMANAME, t.TABLENAME FROM {self.prefix}TABLES t ORDER BY t.REPL_KEY")
        return [TableName(schema, name) for schema, name in rows]

    def examine(self, tables: Iterable[TableName]) -> dict[TableName, str]:
        """For each of `tables` that cannot be captured, the reason with the remedy."""
        return fitness.unfit(self._session, list(tables))

    def has(self, table: TableName) -> bool:
        """Whether `table` is registered."""
        return table in self.tables()

    def register(
        self, table: TableName, *, actions: Iterable[str] = "IUD", trigger: str | None = None, debug: bool = False
    ) -> str:
        """Adds `table` with status CREATING and the next REPL_KEY; its trigger's name, by default prefix and key."""
        key = self.draw()
        name = trigger or f"{self.prefix}{key}"
        self._session.run(
            f"INSERT INTO {self.prefix}TABLES (SCHEMANAME, TABLENAME, ACTIONS, REPL_KEY, TRIGGER_NAME, DEBUG) "
            "VALUES (:owner, :name, :actions, :repl_key, :trigger_name, :debug)",
            self._place(table) | self._wanted(actions, name, debug) | {"repl_key": key},
        )
        return name

    def change(self, table: TableName, *, actions: Iterable[str], trigger: str, debug: bool) -> None:
        """Writes which actions of `table` are captured; `capture` then changes the trigger."""
        if any(each.table == table and each.trigger != trigger for each in self.read()):
            self._call("CAPTURE.DROP_TRIGGER", table)
        self._session.run(
            f"UPDATE {self.prefix}TABLES SET ACTIONS = :actions, TRIGGER_NAME = :trigger_name, DEBUG = :debug, "
            "STATUS = 'CREATING' WHERE SCHEMANAME = :owner AND TABLENAME = :name",
            self._place(table) | self._wanted(actions, trigger, debug),
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
        self._session.call(text, self._place(table) | {"reason": reason[:1900]})

    def remove(self, table: TableName) -> None:
        """Ends the capture of `table`: removes its trigger and row; ITEMS stays."""
        self._call("CAPTURE.DROP_TRIGGER", table)
        for name in ("TABLES", "CURRENT_TABLES"):
            column = "TABLENAME" if name == "TABLES" else "RELNAME"
            text = f"DELETE FROM {self.prefix}{name} WHERE SCHEMANAME = :owner AND {column} = :name"
            self._session.run(text, self._place(table))

    def put_last(self, table: TableName) -> None:
        """Gives `table` the next REPL_KEY: it is loaded after all others."""
        self._session.run(
            f"UPDATE {self.prefix}TABLES SET REPL_KEY = :repl_key WHERE SCHEMANAME = :owner AND TABLENAME = :name",
            self._place(table) | {"repl_key": self.draw()},
        )

    def draw(self) -> int:
        """The next number of SEQ."""
        return Server(self._session, self.prefix).draw()

    def _state(self, table: TableName) -> tuple[str, str | None] | None:
        """STATUS and fault."""
        for schema, name, _, status, _, _, _, fault in self._rows("captured"):
            if (schema, name) == (table.schema, table.name):
                return status, fault
        return None

    def _rows(self, name: str) -> list[tuple[Any, ...]]:
        return self._session.run(sql_files.render("oracle", name, prefix=str(self.prefix))).fetchall()

    def _call(self, procedure: str, table: TableName) -> None:
        self._session.call(f"{self.prefix}{procedure}(:owner, :name)", self._place(table))

    def _place(self, table: TableName) -> dict[str, Value]:
        return {"owner": names.owner_of(self._session, table), "name": table.name}

    @staticmethod
    def _wanted(actions: Iterable[str], trigger: str, debug: bool) -> dict[str, Value]:
        letters = "".join(action for action in "IUD" if action in set(actions))
        return {"actions": letters or NOTHING, "trigger_name": trigger, "debug": int(debug)}


def registered(connection: Session, prefix: Prefix, schema: str) -> list[TableName]:
    """The tables whose changes are, or should be, captured."""
    return Registry(connection, prefix, schema).tables()


def captured(connection: Session, prefix: Prefix, schema: str) -> dict[TableName, str | None]:
    """The registered tables, or those whose redo is captured, each with the fault of its capture, None without one."""
    if (redo := native(connection).redo) is not None:
        return dict.fromkeys(redo.keys())
    return {each.table: "; ".join(each.faults) or None for each in Registry(connection, prefix, schema).read()}


def row_counts(connection: Session, tables: Iterable[TableName]) -> dict[TableName, Rows]:
    """The number of rows of each of `tables`: counted for few rows, otherwise by the last statistics."""
    session, wanted = native(connection), list(tables)
    sizes = catalog.estimates(connection, wanted)
    counts = {}
    for table in wanted:
        text = f"SELECT COUNT(*) FROM (SELECT 1 FROM {names.place(table)} WHERE ROWNUM <= {COUNTED + 1})"
        ((counted,),) = session.run(text)
        estimated = sizes[table].rows if table in sizes else None
        exact = int(counted) <= COUNTED
        counts[table] = Rows(int(counted) if exact else max(int(counted), estimated or 0), exact)
    return counts
