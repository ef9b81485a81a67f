"""The parts of `LoadTarget` that are the same for all slaves of another vendor than their master.

User-defined types and collations of the master are not created, and no numbers are drawn there.
"""

from collections.abc import Callable, Mapping, Sequence

from sluice.database.errors import DatabaseRefused, StatementFailed, UndefinedTable
from sluice.database.rows import RowFormat
from sluice.database.schema import CollationDefinition, SequenceDefinition, TableDefinition, TypeDefinition
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape


def refusals(connection: Session, definitions: Sequence[TableDefinition]) -> dict[TableName, str]:
    """Empty: what the server refuses is found when the table is created."""
    return {}


def type_differences(connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
    """Empty: a user-defined type of the master is a text here."""
    return []


def type_extensions(connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
    """Empty: a user-defined type of the master is a text here."""
    return []


def extend_types(connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
    """Does nothing: a user-defined type of the master is a text here."""
    return []


def collations_lacking(connection: Session, used: Sequence[str], own: Sequence[CollationDefinition]) -> list[str]:
    """Empty: created columns distinguish all texts."""
    return []


def create_types(
    connection: Session,
    types: Sequence[TypeDefinition],
    collations: Sequence[CollationDefinition] = (),
    *,
    trusted: bool = False,
) -> list[str]:
    """Does nothing: user-defined types are texts here."""
    return []


def advance_sequences(connection: Session, master: Sequence[SequenceDefinition]) -> int:
    """Does nothing: a slave draws no numbers."""
    return 0


def complete_columns(connection: Session, tables: Sequence[TableName]) -> None:
    """Does nothing: a column whose values follow as changes may stay NULL here."""


def formats(columns: Sequence[Column], target: TableShape) -> Sequence[RowFormat]:
    """Only CSV."""
    return [RowFormat.CSV]


def lacking_privileges(run: Callable[[str], object], places: Mapping[TableName, str]) -> dict[TableName, str]:
    """The privileges that an account lacks on existing tables, whose quoted names are `places`. They are found by
    statements that change no row."""
    lacking: dict[TableName, list[str]] = {}
    for table, place in places.items():
        tried = {
            "SELECT": f"SELECT 1 FROM {place} WHERE 1 = 0",
            "INSERT": f"INSERT INTO {place} SELECT * FROM {place} WHERE 1 = 0",
            "DELETE": f"DELETE FROM {place} WHERE 1 = 0",
        }
        for privilege, statement in tried.items():
            try:
                run(statement)
            except (DatabaseRefused, UndefinedTable):
                lacking.setdefault(table, []).append(privilege)
            except StatementFailed:
                continue  # the table has a column that nobody may write to, such as a virtual one
    return {table: ", ".join(privileges) for table, privileges in lacking.items()}
