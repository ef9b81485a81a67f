"""Decisions about an Oracle master without a server: columns, keys and their order, which tables fit."""

from types import SimpleNamespace

import pytest

from sluice.database.digests import by_canonical_texts
from sluice.model.issue import Severity
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from sluice.vendors.oracle import column_texts
from sluice.vendors.oracle.key_order import locate
from sluice.vendors.oracle.source import fitness, preflight_master
from sluice.vendors.oracle.source.reader import with_places
from sluice.vendors.oracle.source.row_stream import record

TABLE = TableName("SHOP", "T")


def defined(*names: str) -> TableDefinition:
    """A definition with columns numbered as by Oracle: again after each change."""
    columns = [Column(name, "NUMBER", place) for place, name in enumerate(names, start=1)]
    return TableDefinition(TableShape(TABLE, tuple(columns)))


@pytest.mark.parametrize(
    ("before", "now", "places"),
    [
        ("abc", "bc", {"b": 2, "c": 3}),  # dropped: the others stay what they are
        ("abc", "abcd", {"a": 1, "b": 2, "c": 3, "d": 4}),  # added
        ("abc", "axc", {"a": 1, "x": 2, "c": 3}),  # renamed
        ("abc", "bcd", {"b": 2, "c": 3, "d": 4}),  # the first dropped, another added behind
        ("abc", "bx", {"b": 2, "x": 4}),  # two dropped, one added
    ],
)
def test_a_column_keeps_its_place_when_others_go(before: str, now: str, places: dict[str, int]) -> None:
    found = with_places(defined(*now), defined(*before))
    assert {column.name: column.position for column in found.shape.columns} == places


@pytest.mark.parametrize(
    ("kind", "bounds", "keys", "places"),
    [
        ("NUMBER(10,0)", ["10", "100"], ["9", "10", "99", "100", "-5"], [0, 1, 1, 2, 0]),
        ("NUMBER", ["0.5", "1E10"], [".25", "2", "20000000000"], [0, 1, 2]),
        ("VARCHAR2(10 CHAR)", ["B", "a"], ["A", "B", "Z", "a", "é"], [0, 1, 1, 2, 2]),  # by their bytes
        ("CHAR(3 CHAR)", ["a"], ["a  ", "a", "b"], [1, 1, 1]),
        ("DATE", ["2024-01-01 00:00:00"], ["2023-12-31 23:59:59.000000", "2024-01-01 00:00:00.000000"], [0, 1]),
        (
            "DATE",
            ["0044-03-15 00:00:00 BC", "0001-01-01 00:00:00.000000"],
            [
                "0045-12-31 00:00:00 BC",
                "0044-03-14 00:00:00 BC",
                "0044-03-16 00:00:00 BC",
                "2024-01-01 00:00:00.000000",
            ],
            [0, 0, 1, 2],
        ),
        ("RAW(4)", ["\\x80"], ["\\x7f", "\\x80"], [0, 1]),
    ],
)
def test_keys_lie_in_blocks_as_the_server_orders_them(
    kind: str, bounds: list[str], keys: list[str], places: list[int]
) -> None:
    shape = TableShape(TABLE, (Column("K", kind, 1, False, 1),))
    assert locate(shape, [(bound,) for bound in bounds], [(key,) for key in keys]) == places


def test_tables_that_cannot_be_captured_are_named() -> None:
    columns = [("ID", "NUMBER(10,0)"), ("WHEN", "TIMESTAMP(9) WITH LOCAL TIME ZONE"), ("L", "LONG"), ("A", "ADDRESS_T")]
    assert list(fitness.of_columns(columns, ["ID"])) == ["has column A of type ADDRESS_T, which is not replicated"]
    assert list(fitness.of_columns(columns[:3], [])) == [
        "has column L of type LONG, which no trigger can read, and no key to look for it by"
    ]
    spans = [("I", "INTERVAL DAY(2) TO SECOND(6)"), ("J", "INTERVAL YEAR(2) TO MONTH")]
    assert list(fitness.of_columns(spans, ["I"])) == ["has column I of type INTERVAL DAY(2) TO SECOND(6) in its key"]
    (reason,) = fitness.of_columns([("K", "VARCHAR2(1000 CHAR)"), ("R", "RAW(100)")], ["K", "R"])
    assert reason == "has a key that may take 4,200 bytes as a text; 4,000 is the most"


def test_only_two_servers_of_a_vendor_with_texts_of_its_own_do_without_canonical_ones() -> None:
    assert by_canonical_texts("oracle", "oracle") and by_canonical_texts("oracle", "postgres")
    assert not by_canonical_texts("postgres", "postgres")


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("3 years 2 mons", "+3-2"),
        ("-1 years -2 mons", "-1-2"),
        ("1 mon", "+0-1"),
        ("1 day", "+1 00:00:00"),
        ("-1 days -02:03:04.5", "-1 02:03:04.5"),
        ("-00:00:00.000001", "-0 00:00:00.000001"),
        ("00:00:00", "+0 00:00:00"),
        ("00:00:00", "+0-0"),
    ],
)
def test_an_interval_goes_to_the_server_as_a_literal_of_its_type(text: str, literal: str) -> None:
    assert column_texts.interval_literal(text, months="-" in literal[1:]) == literal


def test_a_text_that_is_no_interval_is_no_literal() -> None:
    with pytest.raises(ValueError, match="'soon' is no interval"):
        column_texts.interval_literal("soon", months=True)


def test_a_row_is_written_as_csv() -> None:
    assert record((1, None, "", 'a,"b"\n', b"\x00\xff")) == '"1",,"","a,""b""\n","\\x00ff"'


@pytest.mark.parametrize("inherited", [0, 1])
def test_an_account_whose_privileges_anybodys_code_inherits_is_warned(
    monkeypatch: pytest.MonkeyPatch, inherited: int
) -> None:
    monkeypatch.setattr(preflight_master, "account", lambda _: '"SLUICE"')
    asked: list[object] = []

    def run(text: str, values: object) -> SimpleNamespace:
        asked.append((values, "'INHERIT PRIVILEGES'" in text and "'PUBLIC'" in text))
        return SimpleNamespace(fetchone=lambda: (inherited,))

    issues = list(preflight_master._of_heirs(SimpleNamespace(run=run)))  # type: ignore[arg-type]
    assert asked == [({"name": "SLUICE"}, True)]
    statements = [(issue.statement, issue.severity) for issue in issues]
    assert statements == [('REVOKE INHERIT PRIVILEGES ON USER "SLUICE" FROM PUBLIC', Severity.WARNING)] * inherited
