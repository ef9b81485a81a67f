"""Ranges of keys on a PostgreSQL database: conditions, the next bound, where keys lie, the select list of a block."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sluice import sql_files
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.row_condition import Operator, RowCondition
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.arrays import array_literal, array_type
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.source import owner_code

_MODIFIERS = re.compile(r"\(.*?\)")


@dataclass(frozen=True)
class KeyOrder:
    """How one database orders the keys of one table."""

    shape: TableShape
    less: tuple[str, ...]
    """For each key column the operator `<` of its type, schema-qualified: `search_path` must not choose it."""
    equal: tuple[str, ...]
    same_everywhere: bool
    """True when every database orders these keys alike: no collation and no type of a database's own."""

    @property
    def source(self) -> str:
        """For FROM: the table without tables that inherit from it, which are replicated on their own."""
        return catalog.only(self.shape)

    @property
    def by(self) -> str:
        """For ORDER BY."""
        return ", ".join(quoted(column.name) for column in self.shape.key)

    def within(self, lo: Key | None, hi: Key | None) -> str:
        """The condition `lo <= key < hi`, its values as literals because COPY takes no parameters."""
        conditions = []
        if lo is not None:
            conditions.append(f"NOT ({self._below(lo)})" if self._qualified else f"{self._row} >= {self._values(lo)}")
        if hi is not None:
            conditions.append(self._below(hi) if self._qualified else f"{self._row} < {self._values(hi)}")
        return " AND ".join(conditions) or "true"

    def select(
        self,
        columns: Sequence[Column],
        lo: Key | None,
        hi: Key | None,
        *,
        locked: bool = False,
        canonical: bool = False,
        where: Sequence[RowCondition] = (),
    ) -> str:
        """The rows of a block, in key order; `locked` against changes until the transaction ends."""
        selected = ", ".join(map(_canonical, columns)) if canonical else select_list(columns)
        conditions = "".join(f" AND {self._condition(condition)}" for condition in where)
        query = f"SELECT {selected} FROM {self.source} WHERE {self.within(lo, hi)}{conditions}"
        if not self.shape.keyless:
            query += f" ORDER BY {self.by}"
        return f"{query} FOR SHARE" if locked else query

    def next_bound(self, connection: Session, lo: Key | None, hi: Key | None, rows: int) -> Key | None:
        """The key that follows the first `rows` rows from `lo` on; None when no more are left before `hi`.

        Walks that many entries of the key's index. Raises psycopg's errors, `OwnerCode`.
        """
        texts = ", ".join(value_text(column.type, f"t.{quoted(column.name)}") for column in self.shape.key)
        with owner_code.reading(connection, self.shape):
            result = connection.execute(
                f"SELECT {texts} FROM (SELECT {self.by} FROM {self.source} WHERE {self.within(lo, hi)} "
                f"ORDER BY {self.by} OFFSET {rows} LIMIT 1) AS t".encode()
            ).fetchone()
        return None if result is None else tuple(result)

    def _condition(self, condition: RowCondition) -> str:
        column = self.shape.column(condition.column)
        name, operator = quoted(column.name), condition.operator
        if operator in (Operator.IS_NULL, Operator.NOT_NULL):
            return f"{name} {operator}"
        if "." in column.type:
            return "true"  # A domain may refuse the value, and operators of such a type are not looked for.
        # With its modifier a type would round the value: rows would be missing.
        values = [f"{literal(text)}::{_MODIFIERS.sub('', column.type)}" for text in condition.values]
        if operator is Operator.EQUAL and len(values) > 1:
            return f"{name} IN ({', '.join(values)})"
        return f"{name} {operator} {values[0]}"

    @property
    def _qualified(self) -> bool:
        return any(not operator.startswith("pg_catalog.") for operator in (*self.less, *self.equal))

    @property
    def _row(self) -> str:
        names = ", ".join(quoted(column.name) for column in self.shape.key)
        return f"({names})" if len(self.shape.key) > 1 else names

    def _values(self, key: Key) -> str:
        values = ", ".join(_value(column, text) for column, text in zip(self.shape.key, key, strict=True))
        return f"({values})" if len(key) > 1 else values

    def _below(self, key: Key) -> str:
        """`row < key` written out, because a row comparison looks its operators up in `search_path`."""
        condition = ""
        parts = list(zip(self.shape.key, key, self.less, self.equal, strict=True))
        for column, text, less, equal in reversed(parts):
            name, value = quoted(column.name), _value(column, text)
            below = f"{name} OPERATOR({less}) {value}"
            condition = f"{below} OR ({name} OPERATOR({equal}) {value} AND ({condition}))" if condition else below
        return f"({condition})"


def key_order(connection: Session, shape: TableShape) -> KeyOrder:
    """How this database orders the keys of `shape`. Raises psycopg's errors."""
    rows = connection.execute(
        sql_files.render("postgres", "key_order"),
        {
            "schema": shape.table.schema,
            "name": shape.table.name,
            "columns": [column.name for column in shape.key],
        },
    ).fetchall()
    return KeyOrder(shape, tuple(row[0] for row in rows), tuple(row[1] for row in rows), all(row[2] for row in rows))


def locate(connection: Session, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
    """For each key the place of its block in `TableBlocks.blocks`: how many `bounds` are at or below it.

    `bounds` as `TableBlocks.bounds` gives them, keys as canonical texts; both in the order of `shape.key`. To be asked
    of the master: the slave, or Python, could order texts differently. Raises psycopg's errors, `OwnerCode`.
    """
    if not bounds or not keys:
        return [0] * len(keys)
    owner_code.expect_none(connection, shape.table)
    names = [f"k{number}" for number in range(1, len(shape.key) + 1)]
    statement = sql_files.render(
        "postgres",
        "blocks_locate",
        columns=", ".join(
            f"unnest(%({name})s::{array_type(column)}) AS {name}" for name, column in zip(names, shape.key, strict=True)
        ),
        typed=", ".join(typed(column, name) for name, column in zip(names, shape.key, strict=True)).replace("%", "%%"),
    )
    texts = [*bounds, *keys]
    parameters: dict[str, object] = {
        name: array_literal([text[index] for text in texts]) for index, name in enumerate(names)
    }
    rows = connection.execute(statement, {**parameters, "bounds": len(bounds), "texts": len(texts)}).fetchall()
    return [index for (index,) in rows]


def typed(column: Column, expression: str) -> str:
    """`expression` cast so that it compares as the column's own values do."""
    collate = f" COLLATE {column.collation}" if column.collation else ""
    return f"{expression}::{column.type}{collate}"


def value_text(type_name: str, expression: str) -> str:
    """The text of a value as CONTENT has it; `type_name` as `format_type` writes it.

    Of a type of the database's own (its name has a schema) by the output function alone: anybody may define a cast to
    text for such a type, and its function would run with this session's rights. The cast of bpchar loses blanks.
    """
    if "." in type_name or type_name == "bpchar":
        # IS NULL would also be true of a composite of NULLs.
        return f"CASE WHEN {expression} IS DISTINCT FROM NULL THEN pg_catalog.concat({expression}) END"
    return f"{expression}::text"


def select_list(columns: Sequence[Column]) -> str:
    """Quoted names, separated by commas."""
    return ", ".join(quoted(column.name) for column in columns)


_STREAMED_ALIKE = frozenset((
    "bigint", "bytea", "character varying", "date", "double precision", "integer", "interval", "json", "jsonb",
    "numeric", "real", "smallint", "text", "time without time zone", "timestamp with time zone",
    "timestamp without time zone", "uuid",
))  # fmt: skip
"""Types whose values COPY writes as a cast to text does; a boolean, an inet or a character(n) it does not."""


def _canonical(column: Column) -> str:
    name = quoted(column.name)
    if _MODIFIERS.sub("", column.type) in _STREAMED_ALIKE:
        return name
    return f"{value_text(column.type, name)} AS {name}"


def _value(column: Column, text: str) -> str:
    return typed(column, literal(text))
