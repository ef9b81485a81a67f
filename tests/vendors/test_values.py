"""A value of each logical type that a column holds exactly comes back as its canonical text, whatever it is."""

from dataclasses import replace
from hashlib import md5

from sluice.database.column_types import LogicalColumn
from sluice.database.digests import Method, compared
from sluice.database.rows import RowFormat
from sluice.model.logical_type import Fit, Kind, LogicalType
from sluice.model.names import TableName
from tests.unit.changes import TABLE, History
from tests.vendors.contender import INTEGER, Contender

LONG = "x" * 1_000_000
TEXTS = [
    "", " ", "a ", "A", "a", "é", "e\u0301", "😀", "NULL", "null", "\\N", "\\", "'", '"', "''", "]]>", "<&>", "\n",
    "\r\n", "\t", "\x01\x1f\x7f", "%s %(a)s", "{}", LONG,
]  # fmt: skip
VALUES: dict[LogicalType, list[str]] = {
    LogicalType(Kind.INTEGER, 16): ["0", "-32768", "32767"],
    LogicalType(Kind.INTEGER, 64): ["-9223372036854775808", "9223372036854775807"],
    LogicalType(Kind.NUMBER, 10, 2): ["0.00", "-12345678.99", "0.01"],
    LogicalType(Kind.NUMBER, 38, 0): ["9" * 38, "-" + "9" * 38],
    LogicalType(Kind.FLOAT, 64): ["0", "1E-1", "-15E2", "17976931348623157E292", "12345678901234567E4", "1E-5", "1E15"],
    LogicalType(Kind.BOOLEAN): ["true", "false"],
    LogicalType(Kind.TEXT): TEXTS,
    LogicalType(Kind.TEXT, length=30): [text for text in TEXTS if len(text) <= 30],
    LogicalType(Kind.CHAR, length=5): ["a", "é", "abcde", " a"],
    LogicalType(Kind.BINARY): ["\\x", "\\x00", "\\x00ff5c27", "\\x" + "ab" * 100_000],
    LogicalType(Kind.BITS, length=3): ["000", "101"],
    LogicalType(Kind.DATE): ["0001-01-01", "2024-02-29", "9999-12-31"],
    LogicalType(Kind.TIME): ["00:00:00.000000", "23:59:59.999999", "24:00:00.000000"],
    LogicalType(Kind.TIMESTAMP): ["0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999"],
    LogicalType(Kind.TIMESTAMP_ZONE): ["1969-12-31 23:59:59.999999", "2024-03-31 01:30:00.000000"],
    LogicalType(Kind.UUID): [
        "00000000-0000-0000-0000-000000000000",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "c7d8d8a6-4296-9ca4-2225-08e277e5046b",
    ],  # of no variant that a standard knows
    LogicalType(Kind.JSON, name="json"): ['{"b": 1.10,  "a": [null, "é"], "a": 12345678901234567890}', "null", '""'],
    LogicalType(Kind.ENUM, length=10): ["sad", "Sad"],
    LogicalType(Kind.INTERVAL): ["1 year 2 mons -3 days +04:05:06.5", "00:00:00"],
}


def types_of(target: Contender) -> dict[str, tuple[LogicalType, list[str]]]:
    """The types for which the vendor has a column type that loses nothing."""
    session = target.session()
    wanted = [LogicalColumn(f"c{number}", logical) for number, logical in enumerate(VALUES)]
    made = target.vendor.types.made_of(session, wanted)
    return {
        column.name: (column.logical, VALUES[column.logical])
        for column, there in zip(wanted, made, strict=True)
        if there.fit is Fit.EXACT
    }


def test_every_value_is_kept_and_read_back(target: Contender) -> None:
    types = types_of(target)
    assert len(types) > 15
    target.create({"id": INTEGER} | {name: logical for name, (logical, _) in types.items()})
    history = History(columns=("id", *types))
    for place, (_, values) in enumerate(types.values()):
        for value in values:
            row: list[str | None] = [None] * len(types)
            row[place] = value
            history.insert(str(len(history.rows)), *row)
    target.merge(history)
    assert target.rows() == target.expected(history.rows)
    before = len(history.items)
    for row in list(history.rows):
        history.update(row, (row[0], *[None] * len(types)))
    target.merge(history, before, images=True)
    assert target.rows() == target.expected(history.rows)


def test_values_that_look_alike_are_different_keys(target: Contender) -> None:
    kinds = [Kind.INTEGER, Kind.NUMBER, Kind.TEXT, Kind.DATE, Kind.UUID, Kind.BINARY]
    for number, kind in enumerate(kinds):
        logical = next(each for each in VALUES if each.kind is kind and each.length in (None, 30))
        table = TableName("public", f"k{number}")
        target.create({"k": logical, "v": INTEGER}, key=("k",), table=table)
        history = History(table, ("k", "v"), ("k",))
        values = [value for value in VALUES[logical] if len(value) < 500]
        for place, value in enumerate(value for value in values if not target.oracle or value not in ("", "\\x")):
            history.insert(value, str(place))
        target.merge(history)
        assert target.rows(table) == target.expected(history.rows, table), kind
        before = len(history.items)
        history.delete(*history.rows[0])
        history.update(history.rows[0], (history.rows[0][0], "77"))
        target.merge(history, before, images=True)
        assert target.rows(table) == target.expected(history.rows, table), kind


def test_digests_tell_rows_apart_and_blocks_add_them_up(target: Contender) -> None:
    target.create()
    history = History()
    for number in range(50):
        history.insert(str(number), None if number % 7 == 0 else f"v{number % 3}")
    target.merge(history)
    session = target.session()
    digest = target.digest(session)
    rows = digest.of_rows(session, [0])
    ((block, count, total),) = [found for part in digest.parts(session) for found in digest.of_blocks(session, part)]
    assert (block, count) == (0, 50) and (int(total) - sum(value for value, *_ in rows)) % 2**64 == 0
    assert len({value for value, *_ in rows}) == 50
    before = len(history.items)
    history.update(("3", "v0"), ("3", "v1"))
    target.merge(history, before)
    assert {value for value, *_ in digest.of_rows(target.session(), [0])} - {value for value, *_ in rows} != set()


def test_the_digest_of_a_row_is_what_the_page_says(target: Contender) -> None:
    """docs/types.md: MD5 of `1,` and the MD5 of `é`, and of `2,,`; computed here, equal on every vendor."""
    target.create()
    history = History()
    history.insert("1", "é")
    history.insert("2", None)
    target.merge(history)
    session = target.session()
    found = {key: value for value, key in target.digest(session).of_rows(session, [0])}
    assert found == {"1": _number(f"1,{_md5('é')},"), "2": _number("2,,")}


def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def _number(text: str) -> int:
    return int(_md5(text)[:15], 16)


def test_each_session_has_a_scratch_table_of_its_own(target: Contender) -> None:
    target.create()
    session, other = target.session(), target.session()
    shape = target.vendor.rows.shape(session, TABLE)
    assert shape is not None
    columns = compared(target.vendor.types, ((column.name, column.type) for column in shape.replicated))
    found = {}
    for place, rows in ((session, b'"1","a"\n"2",\n'), (other, b'"3",""\n')):
        scratch = target.vendor.load_target.create_scratch(place, shape)
        with place.transaction():
            target.vendor.load_target.write(place, scratch, ["id", "v"], [b'"id","v"\n' + rows], RowFormat.CSV)
        there = replace(shape, table=scratch)
        found[place] = target.vendor.digests.table(there, columns, ("id",), Method.CANONICAL)
    keys = [sorted(key for _, key in digest.of_rows(place, [0])) for place, digest in found.items()]
    assert keys == [["1", "2"], ["3"]]
