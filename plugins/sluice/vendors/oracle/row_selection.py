"""Parts of a table that a person names (`sluice.database.selection.RowSelection`)."""

import json
from collections.abc import Iterator, Sequence
from functools import partial

from sluice.counted import counted
from sluice.database.errors import StatementFailed
from sluice.database.rows import KeyOrder
from sluice.database.selection import SelectionInvalid
from sluice.database.session import Session
from sluice.model.blocks import Key
from sluice.model.key_ranges import Match
from sluice.model.shape import TableShape
from sluice.vendors.common import row_selection as common
from sluice.vendors.common.row_selection import condition
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.key_order import ordered
from sluice.vendors.oracle.session import native


def key_of(connection: Session, shape: TableShape, text: str) -> Key:
    """A key as a person writes it: the value, or a JSON list of one value a key column; its canonical texts."""
    values = [text]
    if len(shape.key) > 1 or text.lstrip().startswith("["):
        try:
            given = json.loads(text)
        except ValueError:
            given = None
        if not isinstance(given, list) or len(given) != len(shape.key):
            wanted = counted(len(shape.key), "value")
            raise SelectionInvalid(f"{text!r} is no key of {shape.table}: write a JSON list of {wanted}")
        values = [str(value) for value in given]
    return tuple(
        _recast(connection, ColumnTexts(column.name, column.type), value, shape)
        for column, value in zip(shape.key, values, strict=True)
    )


def check(connection: Session, order: KeyOrder, where: str, place: str) -> None:
    """Raises `SelectionInvalid`."""
    query = f"SELECT 1 FROM {order.source} t WHERE 1 = 0 AND ({condition(where)})"
    common.checked(order, where, place, native(connection).run, query)


def matching(connection: Session, order: KeyOrder, where: str) -> Iterator[list[Key]]:
    """Raises `SelectionInvalid`."""
    return common.matching(order, where, native(connection).run, lambda error: error.code)


def runs(connection: Session, order: KeyOrder, where: str, lo: Key | None, hi: Key | None) -> Iterator[Match]:
    """The runs of neighbouring rows that match `where`, in key order, between `lo` and `hi`."""
    columns = [ColumnTexts(column.name, column.type) for column in order.shape.key]
    texts = ", ".join(column.text("t") for column in columns)
    by = ", ".join(f"t.{column.quoted}" for column in columns)
    query = (
        f"SELECT CASE WHEN {condition(where)} THEN 1 ELSE 0 END, {texts} FROM {order.source} t "
        f"WHERE {order.within(lo, hi)} ORDER BY {by}"
    )
    stream = native(connection).stream(query)
    begun: Key | None = None
    skipped = 0
    try:
        next(stream)  # names of columns
        for rows in stream:
            for matches, *values in rows:
                key = tuple(ColumnTexts.shown(text) or "" for text in values)
                if matches and begun is None:
                    begun = key
                elif not matches and begun is not None:
                    yield Match((begun, key), skipped)
                    begun, skipped = None, 1
                elif not matches:
                    skipped += 1
    except StatementFailed as error:
        raise SelectionInvalid(f"where: {where!r} cannot be evaluated on {order.shape.table}: {error.code}") from None
    if begun is not None:
        yield Match((begun, hi), skipped)


def in_order(connection: Session, shape: TableShape, keys: Sequence[Key]) -> list[Key]:
    """`keys` in the server's order."""
    del connection
    return sorted(keys, key=partial(ordered, shape))


def _recast(connection: Session, own: ColumnTexts, value: str, shape: TableShape) -> str:
    try:
        row = (
            native(connection)
            .run(
                f"SELECT {own.text('t')} FROM (SELECT {own.value(':given')} AS {own.quoted} FROM DUAL) t",
                {"given": own.bind(value)},
            )
            .fetchone()
        )
    except (StatementFailed, ValueError):
        row = None
    text = ColumnTexts.shown(row[0]) if row else None
    if text is None:
        raise SelectionInvalid(f"{value!r} is no value of {shape.table}.{own.name}, which is {own.type}")
    return text
