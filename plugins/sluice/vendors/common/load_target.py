"""What slaves of another vendor than their master's answer alike while they are loaded: parts of `LoadTarget`.

Types and collations of the master's own are not made, and no numbers are drawn there.
"""

from collections.abc import Callable, Mapping, Sequence

from sluice.database.errors import DatabaseRefused, StatementFailed, UndefinedTable
from sluice.database.rows import RowFormat
from sluice.database.schema import CollationDefinition, SequenceDefinition, TypeDefinition
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape


def type_differences(connection: Session, types: Sequence[TypeDefinition]) -> list[str]:
    """None: a type of the master's own is a text here."""
    return []


def collations_lacking(connection: Session, used: Sequence[str], own: Sequence[CollationDefinition]) -> list[str]:
    """None: columns that are made tell all texts apart."""
    return []


def create_types(
    connection: Session,
    types: Sequence[TypeDefinition],
    collations: Sequence[CollationDefinition] = (),
    *,
    trusted: bool = False,
) -> list[str]:
    """None: they are texts here."""
    return []


def advance_sequences(connection: Session, master: Sequence[SequenceDefinition]) -> int:
    """None: a slave draws no numbers."""
    return 0


def formats(columns: Sequence[Column], target: TableShape) -> Sequence[RowFormat]:
    """CSV alone."""
    return [RowFormat.CSV]


def lacking_privileges(run: Callable[[str], object], places: Mapping[TableName, str]) -> dict[TableName, str]:
    """What an account may not do with existing tables, whose quoted names are `places`; found by statements that touch
    no row."""
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
