"""Any value of each logical type that a column stores exactly: stored, compared with its old value, read back."""

import itertools
import json
import uuid
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.database.column_types import LogicalColumn
from sluice.model.logical_type import Fit, Kind, LogicalType
from sluice.model.names import TableName
from tests.examples import examples
from tests.unit.changes import History, Values
from tests.vendors.contender import INTEGER, Contender

HOSTILE = st.sampled_from(
    [
        "",
        " ",
        "NULL",
        "\\N",
        "\\",
        "'",
        '"',
        "`",
        "]]>",
        "\n",
        "\r\n",
        "\t,",
        "\x01\x1f\x7f",
        "😀",
        "e\u0301",
        "%s",
        "a ",
    ]
)
TEXTS = st.lists(HOSTILE | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=4).map(
    "".join
)


def whole(bits: int) -> st.SearchStrategy[str]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).map(str)


def number(precision: int, scale: int) -> st.SearchStrategy[str]:
    """A number with as many digits after the point as the scale."""

    def text(value: int) -> str:
        digits = str(abs(value)).rjust(scale + 1, "0")
        cut = len(digits) - scale
        return ("-" if value < 0 else "") + digits[:cut] + ("." + digits[cut:] if scale else "")

    return st.integers(1 - 10**precision, 10**precision - 1).map(text)


def float_text(value: float) -> str:
    """docs/types.md: the fewest digits that give the value, without zeros at their end, and a power of ten."""
    sign, digits, power = Decimal(repr(value)).normalize().as_tuple()
    return f"{'-' if sign else ''}{''.join(map(str, digits))}E{power}" if value else "0"


def moment(value: datetime | time) -> str:
    return value.isoformat(sep=" ", timespec="microseconds") if isinstance(value, datetime) else value.isoformat(
        timespec="microseconds"
    )  # fmt: skip


def floats(*, subnormal: bool) -> st.SearchStrategy[str]:
    finite = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=subnormal)
    return (finite | st.integers(2**53, 2**120).map(float)).map(float_text)


FLOAT = LogicalType(Kind.FLOAT, 64)
JSONS = st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=3))
VALUES: dict[LogicalType, st.SearchStrategy[str]] = {
    LogicalType(Kind.INTEGER, 16): whole(16),
    LogicalType(Kind.INTEGER, 32): whole(32),
    LogicalType(Kind.INTEGER, 64): whole(64),
    LogicalType(Kind.NUMBER, 10, 2): number(10, 2),
    LogicalType(Kind.NUMBER, 65, 0): number(65, 0),
    LogicalType(Kind.NUMBER, 65, 30): number(65, 30),
    LogicalType(Kind.NUMBER, 5, 5): number(5, 5),
    FLOAT: floats(subnormal=True),
    LogicalType(Kind.BOOLEAN): st.sampled_from(["true", "false"]),
    LogicalType(Kind.TEXT): TEXTS,
    LogicalType(Kind.TEXT, length=30): TEXTS.filter(lambda text: len(text) <= 30),
    LogicalType(Kind.CHAR, length=20): TEXTS.filter(lambda text: len(text) <= 20).map(lambda text: text.rstrip(" ")),
    LogicalType(Kind.ENUM, length=10): TEXTS.filter(lambda text: len(text) <= 10),
    LogicalType(Kind.BINARY): st.binary(max_size=50).map(lambda value: "\\x" + value.hex()),
    LogicalType(Kind.BITS, length=3): st.text("01", min_size=3, max_size=3),
    LogicalType(Kind.BITS, length=64): st.text("01", min_size=64, max_size=64),
    LogicalType(Kind.DATE): st.dates(date(1, 1, 1), date(9999, 12, 31)).map(str),
    LogicalType(Kind.TIME): st.times().map(moment) | st.just("24:00:00.000000"),
    LogicalType(Kind.TIMESTAMP): st.datetimes().map(moment),
    LogicalType(Kind.TIMESTAMP_ZONE): st.datetimes().map(moment),
    LogicalType(Kind.UUID): st.integers(0, 2**128 - 1).map(lambda value: str(uuid.UUID(int=value))),
    LogicalType(Kind.JSON, name="json"): JSONS.map(json.dumps),
}


def row(kinds: list[LogicalType], values: Mapping[LogicalType, st.SearchStrategy[str]]) -> st.SearchStrategy[Values]:
    return st.tuples(*(st.none() | values[kind] for kind in kinds))


@pytest.mark.long  # some values of each kind are tried in test_values.py
def test_any_value_is_kept_found_by_its_former_value_and_read_back(target: Contender) -> None:
    session = target.session()
    wanted = [LogicalColumn(f"c{place}", logical) for place, logical in enumerate(VALUES)]
    made = target.vendor.types.made_of(session, wanted)
    kinds = {column.name: column.logical for column, there in zip(wanted, made, strict=True) if there.fit is Fit.EXACT}
    assert len(kinds) > 18
    # The fewest digits of a number below 2.2E-308 are not known to Oracle's way of telling them.
    values = VALUES | ({FLOAT: floats(subnormal=False)} if target.oracle else {})
    rows, numbers = st.lists(row(list(kinds.values()), values), min_size=1, max_size=12), itertools.count()

    @settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(before=rows, after=rows)
    def come_and_go(before: list[Values], after: list[Values]) -> None:
        table = TableName("public", f"t{next(numbers)}")
        target.create({"id": INTEGER} | kinds, table=table)
        history = History(table, ("id", *kinds))
        for place, values in enumerate(before):
            history.insert(str(place), *values)
        target.merge(history)
        assert target.rows(table) == target.expected(history.rows, table)
        done = len(history.items)
        for old, values in zip(list(history.rows), after, strict=False):
            history.update(old, (old[0], *values))
        target.merge(history, done, images=True)
        assert target.rows(table) == target.expected(history.rows, table)
        done = len(history.items)
        for old in list(history.rows):
            history.delete(*old)
        target.merge(history, done, images=True)
        assert target.rows(table) == []

    come_and_go()
