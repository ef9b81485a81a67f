"""Enums of a slave follow the master's: types that are new, labels that were added, labels that were renamed.

A label can be used only after the transaction that added it. So labels are added before the window that
tells of them, in a transaction of their own: one too many harms nothing, and adding one again is
nothing. So are types made that the slave lacks. They are renamed in the window's transaction, at their place in it.
"""

from collections.abc import Iterable, Sequence

from sluice.database.session import Session
from sluice.model.table_definition import EnumType, TableDefinition
from sluice.vendors.postgres.connection import literal, quoted


def labels(connection: Session, enum: EnumType) -> list[str] | None:
    """The labels of the slave's type of that name, in their order; None without such an enum."""
    row = connection.execute(
        "SELECT ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid "
        "ORDER BY e.enumsortorder) FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace "
        "WHERE t.typtype = 'e' AND n.nspname = %s AND t.typname = %s",
        [enum.schema, enum.name],
    ).fetchone()
    return None if row is None else list(row[0])


def creation(enum: EnumType) -> str:
    """The statement that makes the type."""
    values = ", ".join(literal(label) for _, label in enum.labels)
    return f"CREATE TYPE {quoted(enum.schema, enum.name)} AS ENUM ({values})"


class Names:
    """What the types and labels of a window have been called so far; the slave has them under one of these names."""

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
    """The statements that add to the slave's labels `present` those that it lacks, each beside its neighbour."""
    there = list(present)
    statements: list[str] = []
    before: str | None = None
    for number, label in enum.labels:
        mine = next((one for one in names.of_label(number) if one in there), None)
        if mine is None:
            place = (
                f" AFTER {literal(before)}" if before is not None else f" BEFORE {literal(there[0])}" if there else ""
            )
            name = quoted(enum.schema, enum.name)
            statements.append(f"ALTER TYPE {name} ADD VALUE IF NOT EXISTS {literal(label)}{place}")
            there.insert(there.index(before) + 1 if before is not None else 0, label)
            mine = label
        before = mine
    return statements


def renames(old: TableDefinition, enum: EnumType, present: Iterable[str]) -> list[str]:
    """The statements that rename the slave's labels as the master's were."""
    there = set(present)
    former = _former(old)
    waiting = [(former.get(number, label), label) for number, label in enum.labels]
    statements: list[str] = []
    # A label may take the name that another one leaves.
    while ready := [(was, label) for was, label in waiting if was in there and label not in there]:
        for was, label in ready:
            statements.append(
                f"ALTER TYPE {quoted(enum.schema, enum.name)} RENAME VALUE {literal(was)} TO {literal(label)}"
            )
            there = there - {was} | {label}
    return statements


def moves(old: TableDefinition, enum: EnumType) -> tuple[EnumType, list[str]] | None:
    """The type as it was called before, and the statements that give it its new name; None where it kept its name."""
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
    """The former labels by their numbers."""
    return {number: label for type_ in old.enums for number, label in type_.labels}
