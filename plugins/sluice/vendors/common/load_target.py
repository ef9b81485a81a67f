"""The parts of `LoadTarget` that are the same for all slaves of another vendor than their master.

User-defined types and collations of the master are not created, and no numbers are drawn there.
"""

from abc import ABC
from collections.abc import Iterable, Sequence

from sluice.database.errors import DatabaseRefused, StatementFailed, UndefinedTable
from sluice.database.load import LoadTarget
from sluice.database.rows import RowFormat
from sluice.database.schema import (
    CollationDefinition,
    SequenceDefinition,
    TableDefinition,
    TypeDefinition,
)
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.common.definitions import Definitions


class PlainLoadTarget(Definitions, LoadTarget, ABC):
    """Of `LoadTarget` what is the same for all slaves of another vendor than their master."""

    def missing_privileges(self, connection: Session, tables: Iterable[TableName]) -> dict[TableName, str]:
        """The privileges that this account lacks on existing tables, found by statements that change no row."""
        missing: dict[TableName, list[str]] = {}
        for table in tables:
            place = self.qualified(table)
            tried = {
                "SELECT": f"SELECT 1 FROM {place} WHERE 1 = 0",
                "INSERT": f"INSERT INTO {place} SELECT * FROM {place} WHERE 1 = 0",
                "DELETE": f"DELETE FROM {place} WHERE 1 = 0",
            }
            for privilege, statement in tried.items():
                try:
                    self.run(connection, statement)
                except (DatabaseRefused, UndefinedTable):
                    missing.setdefault(table, []).append(privilege)
                except StatementFailed:
                    continue  # the table has a column that nobody may write to, such as a virtual one
        return {table: ", ".join(privileges) for table, privileges in missing.items()}

    def refusals(self, connection: Session, definitions: Sequence[TableDefinition]) -> dict[TableName, str]:
        """Empty: what the server refuses is found when the table is created."""
        return {}

    def type_differences(self, connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
        """Empty: a user-defined type of the master is a text here."""
        return []

    def type_extensions(self, connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
        """Empty: a user-defined type of the master is a text here."""
        return []

    def extend_types(self, connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
        """Does nothing: a user-defined type of the master is a text here."""
        return []

    def missing_collations(
        self, connection: Session, used: Sequence[str], own: Sequence[CollationDefinition]
    ) -> list[str]:
        """Empty: created columns distinguish all texts."""
        return []

    def create_types(
        self,
        connection: Session,
        types: Sequence[TypeDefinition],
        collations: Sequence[CollationDefinition] = (),
        *,
        trusted: bool = False,
    ) -> list[str]:
        """Does nothing: user-defined types are texts here."""
        return []

    def advance_sequences(self, connection: Session, master: Sequence[SequenceDefinition]) -> int:
        """Does nothing: a slave draws no numbers."""
        return 0

    def complete_columns(self, connection: Session, tables: Sequence[TableName]) -> None:
        """Does nothing: a column whose values follow as changes may stay NULL here."""

    def formats(self, columns: Sequence[Column], target: TableShape) -> Sequence[RowFormat]:
        """Only CSV."""
        return [RowFormat.CSV]
