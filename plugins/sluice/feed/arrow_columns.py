"""Columns as Arrow: the Arrow type of a column, and the conversion of its texts."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sluice.database.column_types import LogicalColumn
from sluice.errors import Terminal
from sluice.model.logical_type import Kind, LogicalType, digits

MOST_DIGITS = 38
"""The highest number of digits of a decimal, in Arrow's 128 bits and in Spark."""
_TRUE = pa.array(["t", "true", "1"], pa.large_string())


def value_does_not_fit(column: LogicalColumn, target_type: pa.DataType, reason: str) -> Terminal:
    """A value that the column's type on Spark's side cannot hold."""
    return Terminal(
        f"Column {column.name} ({column.logical}) has a value that {target_type} does not hold: {reason}. Read this "
        f'column as text: option("texts", "{column.name}"), or "*" for all columns.',
        code="value-does-not-fit",
    )


def arrow_type(logical: LogicalType) -> pa.DataType:
    """The Arrow type of a column. Kinds for which Spark has no exact type are texts, as the master writes them."""
    kind, precision, scale = logical.kind, logical.precision, logical.scale or 0
    if kind is Kind.INTEGER:
        bits = precision or 64
        sizes = ((16, pa.int16()), (32, pa.int32()), (64, pa.int64()))
        return next((arrow_type for most, arrow_type in sizes if bits <= most), pa.decimal128(digits(logical), 0))
    if kind is Kind.NUMBER and precision is not None and 0 <= scale <= precision <= MOST_DIGITS:
        return pa.decimal128(precision, scale)
    if kind is Kind.FLOAT:
        return pa.float32() if precision == 32 else pa.float64()
    if kind is Kind.BOOLEAN:
        return pa.bool_()
    if kind is Kind.BINARY:
        return pa.binary()
    if kind is Kind.DATE:
        return pa.date32()
    if kind is Kind.TIMESTAMP:
        return pa.timestamp("us")
    if kind is Kind.TIMESTAMP_ZONE:
        return pa.timestamp("us", "UTC")
    return pa.string()


def schema(columns: Sequence[LogicalColumn], texts: Sequence[str] = ()) -> pa.Schema:
    """The Arrow schema of `columns`; those in `texts` (`*` for all) are texts. Raises `Terminal` for a name that is no
    column."""
    names = {column.name for column in columns}
    if strange := sorted(set(texts) - names - {"*"}):
        raise Terminal(
            f"option texts: there is no column {strange[0]!r}. The columns are {', '.join(sorted(names))}.",
            code="unknown-column",
        )
    return pa.schema(
        [
            (column.name, pa.string() if "*" in texts or column.name in texts else arrow_type(column.logical))
            for column in columns
        ]
    )


def values(texts: pa.Array, column: LogicalColumn, target_type: pa.DataType) -> pa.Array:
    """Texts of a column as values of the type that `schema` said. Raises `value-does-not-fit`."""
    try:
        return _converter(target_type)(texts)
    except (pa.ArrowInvalid, ValueError) as error:
        raise value_does_not_fit(column, target_type, " ".join(str(error).split())[:200]) from None


def _converter(target_type: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    if pa.types.is_boolean(target_type):
        return lambda texts: pc.if_else(pc.is_null(texts), pa.scalar(None, pa.bool_()), pc.is_in(texts, _TRUE))
    if pa.types.is_binary(target_type):
        return _bytes
    return lambda texts: texts.cast(target_type)


def _bytes(texts: pa.Array) -> pa.Array:
    r"""`\x00ff`, or the same without what is in front."""
    values = [None if text is None else bytes.fromhex(text.removeprefix("\\x")) for text in texts.to_pylist()]
    return pa.array(values, pa.binary())
