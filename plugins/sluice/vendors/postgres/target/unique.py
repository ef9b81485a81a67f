"""Unique indexes and exclusion constraints of a slave's table, beside the key."""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.vendors.postgres.connection import native


@dataclass(frozen=True)
class Unique:
    """A unique index or exclusion constraint."""

    expressions: tuple[str, ...]
    """Columns or expressions over unqualified column names."""
    operators: tuple[str, ...]
    """`OPERATOR(schema.=)` of each."""
    predicate: str | None
    nulls_equal: bool
    columns: tuple[str, ...] | None
    """The columns, where it has no expressions."""
    deferrable: bool
    """Whether the commit checks it, where the session defers constraints."""

    def is_key(self, key: Sequence[str]) -> bool:
        return self.columns is not None and self.predicate is None and set(self.columns) == set(key)

    @property
    def named(self) -> str:
        return ", ".join(f"{expression} AS e{number}" for number, expression in enumerate(self.expressions, start=1))

    @property
    def equal(self) -> str:
        """The condition that the rows `o` and `n` cannot both be in the table."""
        terms = []
        for number, operator in enumerate(self.operators, start=1):
            term = f"o.e{number} {operator} n.e{number}"
            terms.append(f"({term} OR o.e{number} IS NULL AND n.e{number} IS NULL)" if self.nulls_equal else term)
        return " AND ".join(terms)


def read(connection: Session, table: TableName) -> list[Unique]:
    """All unique indexes and exclusion constraints of `table`, oldest first."""
    rows = psycopg.RawCursor(native(connection)).execute(
        sql_files.render("postgres", "unique_keys"), [table.schema, table.name]
    )
    return [
        Unique(
            tuple(expressions),
            tuple(operators),
            predicate,
            nulls_equal,
            tuple(columns) if columns else None,
            deferrable,
        )
        for expressions, operators, predicate, nulls_equal, columns, deferrable in rows
    ]
