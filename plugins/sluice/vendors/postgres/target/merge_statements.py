"""Makes the statements that merge net changes into one table of the slave.

Pure functions of the table, the changes' columns and the source to select from; the texts are in
`include/sql/postgres/merge_*.sql`. `s` is the source with the columns `c1`…, `k1`…, `b1`… of `NetChanges`, `t` the
slave's table.
"""

from collections.abc import Iterable, Sequence

from sluice import sql_files
from sluice.vendors.postgres.target.slave_tables import SlaveColumn, SlaveTable


def delete(target: SlaveTable, source: str, match: str) -> str:
    return sql_files.render("postgres", "merge_delete", target=target.only, source=source, match=match)


def update(target: SlaveTable, columns: Sequence[str], source: str, match: str, skip: Sequence[str] = ()) -> str:
    """`skip`: columns that keep their value anyway, the key of a row that stays."""
    pairs = [(column, f"s.c{number}") for number, column in writable(target, columns) if column.identity != "a"]
    chosen = [(column, value) for column, value in pairs if column.name not in skip]
    if not chosen:
        # No column to set but the key, or an identity that only the database sets: only count the rows.
        return f"SELECT FROM {target.only} t, {source} s WHERE {match}"
    assignments = ", ".join(f"{column.quoted} = {value}" for column, value in chosen)
    return sql_files.render(
        "postgres", "merge_update", target=target.only, source=source, match=match, assignments=assignments
    )


def insert(
    target: SlaveTable, columns: Sequence[str], source: str, condition: str = "true", order: Sequence[str] = ()
) -> str:
    """`order`: columns of the source to sort by."""
    chosen = writable(target, columns)
    return sql_files.render(
        "postgres",
        "merge_insert",
        target=target.quoted,
        columns=", ".join(column.quoted for _, column in chosen),
        values=", ".join(f"s.c{number}" for number, _ in chosen),
        source=source,
        condition=condition,
        order=f"ORDER BY {', '.join(f's.{staged}' for staged in order)}" if order else "",
    )


def absent(target: SlaveTable, match: str) -> str:
    """The condition that the slave has no such row."""
    return f"NOT EXISTS (SELECT FROM {target.only} t WHERE {match})"


def remove(target: SlaveTable, columns: Sequence[str], source: str) -> str:
    return sql_files.render(
        "postgres", "merge_remove", target=target.only, source=source, match=same_row(target, columns)
    )


def same_key(target: SlaveTable, key: Sequence[str], columns: Sequence[str]) -> str:
    """The condition that the slave's row has the key in the source's columns `columns`."""
    return " AND ".join(
        f"t.{column.quoted} {column.equals or 'OPERATOR(pg_catalog.=)'} s.{staged}"
        for column, staged in ((target.column(name), staged) for name, staged in zip(key, columns, strict=True))
    )


def same_row(target: SlaveTable, columns: Sequence[str]) -> str:
    """The condition that the slave's row equals the source's in every column, NULL being equal to NULL.

    Also for types without equality.
    """
    numbered = writable(target, columns)
    # Equality of NOT NULL columns lets the planner hash, merge or use an index; the texts decide.
    narrowing = [
        f"t.{column.quoted} {column.equals} s.c{number}"
        for number, column in numbered
        if column.not_null and column.hashable and column.equals
    ]
    present = ", ".join(f"t.{column.quoted}::{column.plain}" for _, column in numbered)
    given = ", ".join(f"s.c{number}::{column.sized}" for number, column in numbered)
    return " AND ".join([*narrowing, f'(ROW({present})::text) COLLATE "C" = (ROW({given})::text) COLLATE "C"'])


def same_images(images: Iterable[tuple[SlaveColumn, str]]) -> list[str]:
    """One condition a column: the slave's row has the former value. `images`: columns, and where those values are."""
    return [same_value(column, f"s.{staged}") for column, staged in images]


def same_value(column: SlaveColumn, value: str) -> str:
    """The condition that the slave's value is `value`, as its column would store it; NULL is equal to NULL.

    Values are equal by their type (1.0 is 1.00), texts by all their bytes, values of a type without equality by their
    texts. No join uses these conditions: the key does that.
    """
    present, value = f"t.{column.quoted}::{column.plain}", f"{value}::{column.sized}"
    if not column.hashable:
        return f'({present}::text) COLLATE "C" IS NOT DISTINCT FROM ({value}::text) COLLATE "C"'
    if column.textual:
        return f'({present}::text) COLLATE "C" IS NOT DISTINCT FROM ({value}::{column.plain}::text) COLLATE "C"'
    if column.equals == "OPERATOR(pg_catalog.=)":
        return f"{present} IS NOT DISTINCT FROM {value}"
    return f"(({present} {column.equals} {value}) IS TRUE OR {present} IS NULL AND {value} IS NULL)"


def mismatches(target: SlaveTable, shown: Sequence[str], source: str, match: str, *, copies: bool) -> str:
    """A query for rows of the source that match another number of rows than expected. With copies: fewer only."""
    return sql_files.render(
        "postgres",
        "merge_found",
        shown=", ".join(f"s.{name}::text" for name in shown),
        target=target.only,
        source=source,
        match=match,
        expected="s.copies" if copies else "1",
        exact="false" if copies else "true",
    )


def existing(target: SlaveTable, shown: Sequence[str], source: str, match: str) -> str:
    """A query for a row of the source whose key the slave already has."""
    texts = ", ".join(f"s.{name}::text" for name in shown)
    return f"SELECT ARRAY[{texts}]::text[] FROM {source} s JOIN {target.only} t ON {match} LIMIT 1"


def differing(
    target: SlaveTable, images: Sequence[tuple[SlaveColumn, str]], shown: Sequence[str], source: str, match: str
) -> str:
    """A query for rows that differ from their former values. `images`: columns, and where those values are."""
    same = same_images(images)
    return sql_files.render(
        "postgres",
        "merge_differing",
        shown=", ".join(f"s.{name}::text" for name in shown),
        now=", ".join(f"t.{column.quoted}::text" for column, _ in images),
        before=", ".join(f"s.{staged}::text" for _, staged in images),
        other=", ".join(f"NOT ({condition})" for condition in same),
        target=target.only,
        source=source,
        match=match,
        same=" AND ".join(same),
    )


def writable(target: SlaveTable, columns: Sequence[str]) -> list[tuple[int, SlaveColumn]]:
    """The columns to write, with their numbers in the source. Raises `ColumnMissing`.

    Columns that the slave generates are not written.
    """
    numbered = [(number, target.column(name)) for number, name in enumerate(columns, start=1)]
    return [(number, column) for number, column in numbered if not column.generated]
