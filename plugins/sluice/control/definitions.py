"""The rows of `<prefix>DEFINITIONS` of a slave: what it has of the master's indexes, constraints and comments."""

from sluice.control.own_tables import Statements
from sluice.database.session import Session
from sluice.model.defined import Defined, DefinedKind
from sluice.model.names import Prefix, TableName

_BEGUN = "begun"
"""Of the row that says that definitions are followed: there may be no other."""


class DefinitionStore:
    """Over a session that the caller owns."""

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        statements = Statements(connection, prefix, schema, slave)
        self._own, self._execute = statements.own, statements.execute

    def read(self) -> list[Defined] | None:
        """All of them; None before anything was followed."""
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
        """From now on what is not noted is new."""
        # Not empty: to some servers an empty text is NULL.
        place = dict.fromkeys(("kind", "table_schema", "table", "name", "definition"), _BEGUN)
        self._execute("definitions_put", **place, making=False)

    def put(self, defined: Defined, *, making: bool = False) -> None:
        """The slave has it; with `making` it may have a part of it."""
        with self.connection.transaction():
            self.forget(defined)
            self._execute("definitions_put", **_place(defined), definition=defined.definition, making=making)

    def forget(self, defined: Defined) -> None:
        """The slave has it no more."""
        self._execute("definitions_forget", **_place(defined))


def _place(defined: Defined) -> dict[str, str]:
    table = defined.table
    return {"kind": str(defined.kind), "table_schema": table.schema, "table": table.name, "name": defined.name}
