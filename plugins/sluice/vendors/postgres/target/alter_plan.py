"""Plans the clauses of ALTER TABLE that change a slave's table from one definition of the master to the next. Pure.

No expression of the master is evaluated for existing rows, except those of generated columns and casts. A column is
added without its default, as its values arrive as changes; until then a check marks it as becoming NOT NULL.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.expressions import type_of

PENDING = "sluice_not_null_"
"""The beginning of the name of a check on a column that becomes NOT NULL; the column's number on the master follows.
"""

SET_EXPRESSION = 170000
"""The first version that can change the expression of a stored column; before, the column is made again."""
_WORD = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\W\d][\w$]*|\S""")


def plan(old: TableDefinition, new: TableDefinition, have: TableShape, version: int) -> list[str]:
    """The clauses of ALTER TABLE that turn the slave's `have` from the `old` definition to the `new` one.

    Defaults come apart (`defaults`), the key too. `version`: the slave's server version.
    """
    columns = {column.name: column for column in have.columns}
    before = {column.position: column for column in old.shape.columns}
    after = {column.position: column for column in new.shape.columns}
    # A column can be neither dropped nor retyped while one is computed from it.
    clauses = [
        f"ALTER COLUMN {quoted(before[position].name)} DROP EXPRESSION IF EXISTS"
        for position, column in after.items()
        if position in before
        and before[position].generated
        and not column.generated
        and (own := columns.get(before[position].name)) is not None
        and own.generated
    ]
    gone = [column for position, column in before.items() if position not in after]
    changed = [column for column in computed_otherwise(old, new) if before[column.position].name in columns]
    again = [column for column in changed if len(computed_clauses(column, version)) > 1]
    gone += [before[column.position] for column in again]
    computed = [column for column in changed if column not in again]
    last = []
    for column in sorted(gone, key=lambda column: not column.generated):
        if column.name not in columns:
            continue
        name = quoted(column.name)
        del columns[column.name]
        if computed and not column.generated:
            # Until others are computed from what is left it stays, without its name, which another column may get.
            passing = quoted(f"sluice_dropped_{column.position}")
            clauses.append(f"RENAME COLUMN {name} TO {passing}")
            last.append(f"DROP COLUMN {passing}")
        else:
            clauses.append(f"DROP COLUMN {name}")
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
            clauses += altered(before[position], column, columns[column.name])
    clauses += [computed_clauses(column, version)[-1] for column in (*again, *computed)]
    return [*clauses, *last]


def key_after(old: TableDefinition, new: TableDefinition, key: Sequence[str]) -> list[str]:
    """What the columns of the slave's primary key are called after the change: another may get the name of one."""
    names = {column.position: column.name for column in new.shape.columns}
    renamed = {column.name: names.get(column.position, "") for column in old.shape.columns}
    return [renamed.get(name, name) for name in key]


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


def column_clause(column: Column, version: int, *, default: str | None = None, identity: str = "") -> str:
    """`"name" type …`. A generated column's expression is its `default`.

    `version`: the slave's server version. `default`: an expression for rows that give no value. `identity`: options of
    an identity's sequence. Identity columns are BY DEFAULT on the slave, because their values come from the master.
    Raises `definition-unreadable`.
    """
    parts = [quoted(column.name), type_of(column)]
    if column.generated:
        # Before version 18 all generated columns are stored; their values are the same.
        stored = column.generated == "s" or version < 180000
        parts.append(f"GENERATED ALWAYS AS ({column.default}) {'STORED' if stored else 'VIRTUAL'}")
    elif column.identity:
        parts.append("GENERATED BY DEFAULT AS IDENTITY" + (f" ({identity})" if identity else ""))
    elif default is not None:
        parts.append(f"DEFAULT {default}")
    if not column.nullable:
        parts.append("NOT NULL")
    return " ".join(parts)


def default_clause(column: Column) -> str:
    """The clause of ALTER TABLE that gives a column its default."""
    return f"ALTER COLUMN {quoted(column.name)} SET DEFAULT {column.default}"


def _added(column: Column, missing: str | None, version: int) -> list[str]:
    if missing is not None:
        # Evaluated once, as on the master: the older rows all have this value.
        default = f"{literal(missing)}::{column.type}"
        added = [f"ADD COLUMN {column_clause(column, version, default=default)}"]
        if column.default is None:
            added.append(f"ALTER COLUMN {quoted(column.name)} DROP DEFAULT")
        return added
    if column.nullable or column.identity or column.generated:
        return [f"ADD COLUMN {column_clause(column, version)}"]
    # The master gave each row a value, perhaps by a default that it has dropped since, and they follow as changes.
    return [f"ADD COLUMN {column_clause(replace(column, nullable=True), version)}, {becoming_not_null(column)}"]


def becoming_not_null(column: Column) -> str:
    """The clauses that keep NULLs out of a column, but for those of rows whose values are still to arrive."""
    name = quoted(f"{PENDING}{column.position}")  # there already if the values of an earlier change have not arrived
    check = f"CHECK ({quoted(column.name)} IS NOT NULL) NOT VALID"
    return f"DROP CONSTRAINT IF EXISTS {name}, ADD CONSTRAINT {name} {check}"


def retyped_clause(column: Column) -> str:
    """The clause that converts a column's values to its new type."""
    name = quoted(column.name)
    return _typed(column, "" if column.generated else f" USING {name}::{column.type}")


def emptied_clauses(column: Column) -> list[str]:
    """The clauses that give a column its type without converting its values.

    The master rewrote the table (ALTER COLUMN ... TYPE ... USING), so the values follow as changes.
    """
    clauses = [f"ALTER COLUMN {quoted(column.name)} DROP NOT NULL", _typed(column, " USING NULL")]
    return clauses if column.nullable else [*clauses, becoming_not_null(column)]


def not_null_clause(column: Column) -> str:
    return f"ALTER COLUMN {quoted(column.name)} SET NOT NULL"


def _typed(column: Column, using: str) -> str:
    return f"ALTER COLUMN {quoted(column.name)} TYPE {type_of(column)}{using}"


def is_retyped(before: Column, after: Column, have: Column) -> bool:
    """Whether the column gets another type or collation, and the slave's does not have it yet."""
    wanted = after.type, after.collation
    return (before.type, before.collation) != wanted and (have.type, have.collation) != wanted


def computed_otherwise(old: TableDefinition, new: TableDefinition) -> list[Column]:
    """The generated columns that get another expression. Another text may be due to the name of a column, and the same
    text may name another column."""
    before = {column.position: column for column in old.shape.columns}
    return [
        column
        for column in new.shape.columns
        if (was := before.get(column.position)) is not None
        and was.generated
        and column.generated
        and _words(was.default, old) != _words(column.default, new)
    ]


def computed_clauses(column: Column, version: int) -> list[str]:
    """The clauses that give a generated column its expression, or make it again with it."""
    name = quoted(column.name)
    # A virtual column costs nothing, and cannot get another expression while the table has a check.
    if version < SET_EXPRESSION or column.generated == "v":
        return [f"DROP COLUMN {name}", f"ADD COLUMN {column_clause(column, version)}"]
    return [f"ALTER COLUMN {name} SET EXPRESSION AS ({column.default})"]


def _words(expression: str | None, definition: TableDefinition) -> list[str | int]:
    """The words and signs of an expression, with the numbers of columns for their names."""
    numbers = {quoted(column.name): column.position for column in definition.shape.columns}
    words = _WORD.findall(expression or "")
    return [numbers.get(word if word.startswith('"') else quoted(word), word) for word in words]


def altered(before: Column, after: Column, have: Column) -> list[str]:
    """The clauses for one column, but for its expression."""
    name = quoted(after.name)
    clauses: list[str] = []
    retyped = is_retyped(before, after, have)
    if before.identity and not after.identity and have.identity:
        clauses.append(f"ALTER COLUMN {name} DROP IDENTITY IF EXISTS")
    if have.default is not None and not have.generated and (retyped or (before.default and after.default is None)):
        clauses.append(f"ALTER COLUMN {name} DROP DEFAULT")
    if retyped:
        clauses.append(retyped_clause(after))
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
