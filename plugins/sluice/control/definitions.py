"""The rows of `<prefix>DEFINITIONS` of a slave: what it has of the master's indexes, constraints and comments."""

from sluice.control.own_tables import SlaveStore
from sluice.model.defined import Defined, DefinedKind
from sluice.model.names import TableName

_BEGUN = "begun"
"""The kind of the row that says that definitions are followed; it may be the only row."""


class DefinitionStore(SlaveStore):
    """Reads and writes what the slave has of the master's definitions."""

    def read(self) -> list[Defined] | None:
        """All rows; None before anything was followed."""
        if not self._own.has("definitions"):
            return None
        rows = self._execute("definitions_read").fetchall()
        if not rows:
            return None
        return [
            Defined(DefinedKind(kind), TableName(schema, table), name, definition, bool(making))
            for kind, schema, table, name, definition, making in rows
            if kind != _BEGUN
        ]

    def begin(self) -> None:
        """Notes that definitions are followed: from now on, what has no row is new."""
        # Not empty: to some servers an empty text is NULL.
        place = dict.fromkeys(("kind", "table_schema", "table", "name", "definition"), _BEGUN)
        self._execute("definitions_put", **place, making=False)

    def put(self, defined: Defined, *, making: bool = False) -> None:
        """Records that the slave has it; with `making`, that it may be incomplete."""
        with self.connection.transaction():
            self.forget(defined)
            self._execute("definitions_put", **_place(defined), definition=defined.definition, making=making)

    def forget(self, defined: Defined) -> None:
        """Notes that the slave has it no more."""
        self._execute("definitions_forget", **_place(defined))


def _place(defined: Defined) -> dict[str, str]:
    table = defined.table
    return {"kind": str(defined.kind), "table_schema": table.schema, "table": table.name, "name": defined.name}
