"""Rows of a PostgreSQL table with values that another vendor's types cannot hold."""

from collections.abc import Mapping

from sluice.database.session import Session
from sluice.model.logical_type import ColumnType, Special
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.key_order import value_text
from sluice.vendors.postgres.source import owner_code

# Literals without a type are of the column's: dates, times and numbers write infinity alike.
_CONDITIONS = {
    Special.NAN: "{0} = 'NaN'",
    Special.INFINITY: "{0} IN ('infinity', '-infinity')",
    Special.BEFORE_YEAR_1: "({0} < '0001-01-01' AND {0} <> '-infinity')",
    Special.AFTER_YEAR_9999: "({0} >= '10000-01-01' AND {0} <> 'infinity')",
    Special.TOO_LONG: "{1} > {2}",
    Special.EMPTY: "{1} = 0",
}
"""{0}: the column; {1}: its length; {2}: the longest that fits. No text has 0x00 here."""


def example(
    connection: Session, table: TableShape, wanted: Mapping[str, ColumnType]
) -> tuple[str, Special, dict[str, str | None]] | None:
    """As of `RowSource.special`."""
    checks = [
        (name, special, _condition(table.column(name), special, made))
        for name, made in wanted.items()
        for special in sorted(made.excluded)
        if special in _CONDITIONS
    ]
    if not checks:
        return None
    owner_code.expect_none(connection, table.table)
    either = " OR ".join(condition for _, _, condition in checks)
    which = ", ".join(f"coalesce({condition}, false)" for _, _, condition in checks)
    keys = "".join(f", {value_text(column.type, f't.{quoted(column.name)}')}" for column in table.key)
    row = connection.execute(
        f"SELECT {which}{keys} FROM {catalog.only(table)} t WHERE {either} LIMIT 1".encode()
    ).fetchone()
    if row is None:
        return None
    first = next(place for place, holds in enumerate(row) if holds)
    names = [column.name for column in table.key]
    return (*checks[first][:2], dict(zip(names, row[len(checks) :], strict=True)))


def _condition(column: Column, special: Special, made: ColumnType) -> str:
    name = f"t.{quoted(column.name)}"
    length = f"octet_length({name})" if column.type == "bytea" else f"length({value_text(column.type, name)})"
    return _CONDITIONS[special].format(name, length, made.length)
