"""Transformations bound to tables that need no database."""

from collections.abc import Sequence
from typing import cast

import pyarrow as pa

from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.transformation import ColumnChange, Transformation
from sluice.transform.binding import Binder
from sluice.transform.engine import TEXT, Engine
from sluice.transform.table_transform import TableTransform
from sluice.vendors.postgres import column_types

ENGINE = Engine()
NO_SESSION = cast(Session, None)
"""What columns become on PostgreSQL is the same on each server."""
TABLE = TableName("public", "people")


def shape(**columns: str) -> TableShape:
    """The type of each column by name, in the database's words; `key` precedes the key's columns, in their order."""
    made, keys = [], 0
    for place, (name, text) in enumerate(columns.items(), start=1):
        keyed = text.startswith("key ")
        keys += keyed
        made.append(Column(name, text.removeprefix("key "), place, key=keys if keyed else 0))
    return TableShape(TABLE, tuple(made))


def bound(
    table: TableShape,
    where: str | None = None,
    *,
    strict: bool = True,
    user_exit: str | None = None,
    extra_key: Sequence[str] = (),
    **columns: ColumnChange,
) -> TableTransform:
    rule = Transformation(
        where, tuple(columns.items()), "DEMO.yaml:7: tables.public.people", user_exit, tuple(extra_key)
    )
    return Binder(column_types, NO_SESSION, ENGINE).bind(rule, table, strict=strict)


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, TEXT)


def rows(transform: TableTransform, *given: Sequence[str | None]) -> list[dict[str, str | None]]:
    """The slave's rows for rows of the master, in the order of its columns."""
    names = [column.name for column in transform.master.replicated]
    found = transform.rows(names, [texts(*column) for column in zip(*given, strict=True)])
    return pa.table(found.columns, names=list(found.names)).to_pylist()
