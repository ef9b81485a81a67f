"""Plans the clauses of ALTER TABLE that change a slave's table from one definition of the master to the next. Pure.

No expression of the master is evaluated for existing rows, except those of generated columns and casts. A column is
added without its default, as its values arrive as changes; until then a check marks it as becoming NOT NULL.
"""

from collections.abc import Iterator
from dataclasses import replace

from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.expressions import type_of
from sluice.vendors.postgres.target import column_clause

PENDING = "sluice_not_null_"
"""The beginning of the name of a check on a column that becomes NOT NULL; the column's number on the master follows.
"""


def plan(old: TableDefinition, new: TableDefinition, have: TableShape, version: int) -> list[str]:
    """The clauses of ALTER TABLE that turn the slave's `have` from the `old` definition to the `new` one.

    Defaults come apart (`defaults`), the key too. `version`: the slave's server version.
    """
    columns = {column.name: column for column in have.columns}
    before = {column.position: column for column in old.shape.columns}
    after = {column.position: column for column in new.shape.columns}
    clauses: list[str] = []
    for position, column in before.items():
        if position not in after and column.name in columns:
            clauses.append(f"DROP COLUMN {quoted(column.name)}")
            del columns[column.name]
    renames = [
        (before[position].name, column.name)
        for position, column in after.items()
        if position in before and before[position].name != column.name and before[position].name in columns
    ]
    taken = {wanted for _, wanted in renames}
    temporary = {}
    for number, (source, _) in enumerate(renames):
        if source in taken:
            # Another column gets its name, perhaps before this one has its new one: it leaves the name first.
            temporary[source] = f"sluice_renamed_{number}"
            clauses.append(f"RENAME COLUMN {quoted(source)} TO {quoted(temporary[source])}")
    moved = [columns.pop(source) for source, _ in renames]
    for (source, wanted), column in zip(renames, moved, strict=True):
        clauses.append(f"RENAME COLUMN {quoted(temporary.get(source, source))} TO {quoted(wanted)}")
        columns[wanted] = column
    for position, column in after.items():
        if position not in before:
            if column.name not in columns:
                clauses += _added(column, new.missing.get(column.name), version)
        elif column.name in columns:
            clauses += altered(before[position], column, columns[column.name], version)
    return clauses


def defaults(old: TableDefinition, new: TableDefinition, have: TableShape) -> Iterator[Column]:
    """The columns whose default changed. The server may lack what a default calls."""
    before = {column.position: column for column in old.shape.columns}
    existing = {column.name for column in have.columns}
    for column in new.shape.columns:
        if column.generated or column.identity or column.default is None:
            continue
        previous = before.get(column.position)
        if previous is None:
            # It was added with the value of the older rows; from here on its own default counts.
            if column.name not in existing:
                yield column
        elif (previous.default, previous.type) != (column.default, column.type):
            yield column


def default_clause(column: Column) -> str:
    """The clause of ALTER TABLE that gives a column its default."""
    return f"ALTER COLUMN {quoted(column.name)} SET DEFAULT {column.default}"


def _added(column: Column, missing: str | None, version: int) -> list[str]:
    if missing is not None:
        # Evaluated once, as on the master: the older rows all have this value.
        default = f"{literal(missing)}::{column.type}"
        added = [f"ADD COLUMN {column_clause.clause(column, version, default=default)}"]
        if column.default is None:
            added.append(f"ALTER COLUMN {quoted(column.name)} DROP DEFAULT")
        return added
    if column.nullable or column.identity or column.generated or column.default is None:
        return [f"ADD COLUMN {column_clause.clause(column, version)}"]
    # The master gave each row a value of its own, and they follow as changes.
    return [f"ADD COLUMN {column_clause.clause(replace(column, nullable=True), version)}, {_becoming_not_null(column)}"]


def _becoming_not_null(column: Column) -> str:
    check = f"CHECK ({quoted(column.name)} IS NOT NULL) NOT VALID"
    return f"ADD CONSTRAINT {quoted(f'{PENDING}{column.position}')} {check}"


def retyped_clause(column: Column) -> str:
    """The clause that converts a column's values to its new type."""
    name = quoted(column.name)
    return _typed(column, "" if column.generated else f" USING {name}::{column.type}")


def emptied_clauses(column: Column) -> list[str]:
    """The clauses that give a column its type without converting its values.

    The master rewrote the table (ALTER COLUMN ... TYPE ... USING), so the values follow as changes.
    """
    clauses = [f"ALTER COLUMN {quoted(column.name)} DROP NOT NULL", _typed(column, " USING NULL")]
    return clauses if column.nullable else [*clauses, _becoming_not_null(column)]


def not_null_clause(column: Column) -> str:
    return f"ALTER COLUMN {quoted(column.name)} SET NOT NULL"


def _typed(column: Column, using: str) -> str:
    return f"ALTER COLUMN {quoted(column.name)} TYPE {type_of(column)}{using}"


def is_retyped(before: Column, after: Column, have: Column) -> bool:
    """Whether the column gets another type or collation, and the slave's does not have it yet."""
    wanted = after.type, after.collation
    return (before.type, before.collation) != wanted and (have.type, have.collation) != wanted


def gets_expression(before: Column, after: Column, version: int) -> bool:
    """Whether a generated column gets another expression, which older servers cannot do."""
    return bool(after.generated and before.generated) and before.default != after.default and version >= 170000


def altered(before: Column, after: Column, have: Column, version: int) -> list[str]:
    name = quoted(after.name)
    clauses: list[str] = []
    retyped = is_retyped(before, after, have)
    if before.generated and not after.generated and have.generated:
        clauses.append(f"ALTER COLUMN {name} DROP EXPRESSION IF EXISTS")
    if before.identity and not after.identity and have.identity:
        clauses.append(f"ALTER COLUMN {name} DROP IDENTITY IF EXISTS")
    if have.default is not None and not have.generated and (retyped or (before.default and after.default is None)):
        clauses.append(f"ALTER COLUMN {name} DROP DEFAULT")
    if retyped:
        clauses.append(retyped_clause(after))
    if gets_expression(before, after, version):
        clauses.append(f"ALTER COLUMN {name} SET EXPRESSION AS ({after.default})")
    if before.nullable and not after.nullable and have.nullable:
        clauses.append(not_null_clause(after))
    if not before.nullable and after.nullable and not have.nullable:
        clauses.append(f"ALTER COLUMN {name} DROP NOT NULL")
    elif not before.nullable and after.nullable:
        clauses.append(f"DROP CONSTRAINT IF EXISTS {quoted(f'{PENDING}{after.position}')}")
    if after.identity and not before.identity and not have.identity:
        clauses.append(f"ALTER COLUMN {name} ADD GENERATED BY DEFAULT AS IDENTITY")
    return clauses


def old_name(old: TableDefinition, column: Column) -> str | None:
    """What the column was called before, None for a new one."""
    return next((before.name for before in old.shape.columns if before.position == column.position), None)
