"""Statements by which enums of a slave follow the master's: new types, added labels, renamed labels.

A label can be used only after the transaction that added it. So new types and labels are made before their window, in a
transaction of their own: an early label does no harm, and adding it again does nothing. Renames are made in the
window's transaction, at their place in it.
"""

from collections.abc import Iterable, Sequence

from sluice.database.session import Session
from sluice.model.table_definition import EnumType, TableDefinition
from sluice.vendors.postgres.connection import literal, quoted


def labels(connection: Session, enum: EnumType) -> list[str] | None:
    """The labels of the slave's enum of that name, in order; None where there is none."""
    row = connection.execute(
        "SELECT ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid "
        "ORDER BY e.enumsortorder) FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace "
        "WHERE t.typtype = 'e' AND n.nspname = %s AND t.typname = %s",
        [enum.schema, enum.name],
    ).fetchone()
    return None if row is None else list(row[0])


def creation(enum: EnumType) -> str:
    """The statement that creates the type."""
    values = ", ".join(literal(label) for _, label in enum.labels)
    return f"CREATE TYPE {quoted(enum.schema, enum.name)} AS ENUM ({values})"


class Names:
    """All names that the types and labels of a window have had; the slave has each under one of them."""

    def __init__(self) -> None:
        self._labels: dict[int, dict[str, None]] = {}
        self._types: dict[int, dict[tuple[str, str], None]] = {}

    def add(self, enum: EnumType) -> None:
        for number, label in enum.labels:
            self._labels.setdefault(number, {})[label] = None
            self._types.setdefault(number, {})[enum.schema, enum.name] = None

    def of_type(self, enum: EnumType) -> list[EnumType]:
        """The type under each of its names."""
        names = {name: None for number, _ in enum.labels for name in self._types.get(number, ())}
        return [EnumType(schema, name, enum.labels) for schema, name in names] or [enum]

    def of_label(self, number: int) -> list[str]:
        return list(self._labels.get(number, ()))


def additions(enum: EnumType, present: Sequence[str], names: Names) -> list[str]:
    """The statements that add the labels that the slave's `present` ones lack, each beside its neighbour."""
    labels = list(present)
    statements: list[str] = []
    before: str | None = None
    for number, label in enum.labels:
        existing = next((one for one in names.of_label(number) if one in labels), None)
        if existing is None:
            first = f" BEFORE {literal(labels[0])}" if labels else ""
            place = f" AFTER {literal(before)}" if before is not None else first
            name = quoted(enum.schema, enum.name)
            statements.append(f"ALTER TYPE {name} ADD VALUE IF NOT EXISTS {literal(label)}{place}")
            labels.insert(labels.index(before) + 1 if before is not None else 0, label)
            existing = label
        before = existing
    return statements


def renames(old: TableDefinition, enum: EnumType, present: Iterable[str]) -> list[str]:
    """The statements that rename the slave's labels as the master's were renamed."""
    labels = set(present)
    former = _former(old)
    waiting = [(former.get(number, label), label) for number, label in enum.labels]
    statements: list[str] = []
    # A label may get the former name of another one.
    while ready := [(was, label) for was, label in waiting if was in labels and label not in labels]:
        for was, label in ready:
            statements.append(
                f"ALTER TYPE {quoted(enum.schema, enum.name)} RENAME VALUE {literal(was)} TO {literal(label)}"
            )
            labels = labels - {was} | {label}
    return statements


def moves(old: TableDefinition, enum: EnumType) -> tuple[EnumType, list[str]] | None:
    """The type under its former name, and the statements that rename it; None where it kept its name."""
    numbers = {number for number, _ in enum.labels}
    was = next((type_ for type_ in old.enums if numbers & {number for number, _ in type_.labels}), None)
    if was is None or (was.schema, was.name) == (enum.schema, enum.name):
        return None
    statements: list[str] = []
    if was.name != enum.name:
        statements.append(f"ALTER TYPE {quoted(was.schema, was.name)} RENAME TO {quoted(enum.name)}")
    if was.schema != enum.schema:
        statements.append(f"ALTER TYPE {quoted(was.schema, enum.name)} SET SCHEMA {quoted(enum.schema)}")
    return was, statements


def _former(old: TableDefinition) -> dict[int, str]:
    """Number → former label."""
    return {number: label for type_ in old.enums for number, label in type_.labels}
