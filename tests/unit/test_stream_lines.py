"""The lines of a recorded stream: what is written is read back, and anything else is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.model import content, table_definition
from sluice.model.change import ROW_ACTIONS, Action
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import (
    Bound,
    DomainType,
    EnumType,
    TableDefinition,
    format_bound,
    format_definition,
    parse_bound,
)
from sluice.vendors.stream.errors import Malformed
from sluice.vendors.stream.lines import Change, Commit, Header, RowChange, items_of, parse, write, write_rows
from sluice.vendors.stream.reader import RowLines
from tests.unit.streams import TABLE, defined

HOSTILE = [
    "",
    "NULL",
    "null",
    "]]></col>",
    "<&>\"'",
    "x\ty\r\n\\.\n",
    "\x00\x01\x1f\x7f\x9f",
    "🐘",
    "\\ud83d",
    "a" * 63,
]
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
NAMES = st.one_of(
    st.sampled_from(["select", "Mixed Case", 'quo"te', "a.b", "<col>", "é" * 31, "definition", "commit", "table"]),
    TEXTS.filter(bool),
)
TABLES = st.builds(TableName, NAMES, NAMES)
VALUES = st.dictionaries(NAMES, st.none() | TEXTS, max_size=4)


@st.composite
def definitions(draw: st.DrawFn) -> TableDefinition:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    columns = tuple(
        Column(
            name,
            draw(TEXTS.filter(bool)),
            position=number,
            nullable=draw(st.booleans()),
            key=draw(st.integers(0, 3)),
            default=draw(st.none() | TEXTS),
            identity=draw(st.sampled_from(["", "a", "d"])),
            generated=draw(st.sampled_from(["", "s"])),
            collation=draw(st.none() | TEXTS.filter(bool)),
        )
        for number, name in enumerate(names, start=2)
    )
    missing = {name: draw(TEXTS) for name in names if draw(st.booleans())}
    enums = draw(
        st.lists(
            st.builds(EnumType, NAMES, NAMES, st.lists(st.tuples(st.integers(1, 9), TEXTS), max_size=2).map(tuple)),
            max_size=2,
        )
    )
    domains = draw(st.lists(st.builds(DomainType, NAMES, NAMES, NAMES), max_size=2).map(tuple))
    return TableDefinition(TableShape(draw(TABLES), columns), missing, False, tuple(enums), domains)


def bounds() -> st.SearchStrategy[Bound]:
    return st.builds(Bound, TEXTS, st.lists(st.tuples(st.integers(0, 2**32), TEXTS), max_size=2).map(tuple))


LINES = st.one_of(
    st.builds(Header, TEXTS, st.integers(0, 2**62 - 1), TEXTS, st.none() | TEXTS),
    st.builds(Commit, st.integers(0, 2**62 - 1), TEXTS, st.none() | TEXTS),
    definitions(),
    st.builds(Change, st.just(Action.INSERT), TABLES, new=VALUES),
    st.builds(Change, st.just(Action.UPDATE), TABLES, new=VALUES, old=st.none() | VALUES),
    st.builds(Change, st.just(Action.DELETE), TABLES, old=VALUES),
    st.builds(Change, st.just(Action.TRUNCATE), TABLES),
    st.builds(Change, st.just(Action.DELETE_WHERE), TABLES, bound=bounds()),
    st.builds(Change, st.just(Action.DIFFER), TABLES, reason=TEXTS),
    st.builds(Change, st.just(Action.ALTER), TABLES, definition=definitions(), former=st.none() | definitions()),
    st.builds(Change, st.just(Action.DROP), TABLES, former=st.none() | definitions()),
)


@given(LINES)
def test_a_line_reads_back_as_it_was_written(line: Header | TableDefinition | Change | Commit) -> None:
    written = write(line)
    assert written.count(b"\n") == 1
    assert parse(written) == line


@pytest.mark.long
@given(definitions())
def test_a_definition_has_one_meaning_as_text_of_an_item(found: TableDefinition) -> None:
    assert table_definition.parse(format_definition(found)) == found


@given(bounds())
def test_the_bound_of_a_partition_has_one_meaning(bound: Bound) -> None:
    assert parse_bound(format_bound(bound)) == bound


@given(st.lists(st.none() | TEXTS, min_size=2, max_size=2).filter(lambda row: row[0] is not None))
def test_values_come_to_an_item_as_they_are(row: list[str | None]) -> None:
    """NULL is not the empty text, and the columns are in the table's order."""
    new = {"order": row[1], "Key a": row[0]}
    guid, text, old = items_of(Change(Action.INSERT, TABLE, new=new), defined())
    assert (guid, old) == (row[0], None)
    assert text is not None
    assert content.parse(text) == [("Key a", row[0]), ("order", row[1])]


def test_an_update_that_changes_its_key_has_none() -> None:
    new = {"Key a": "2", "order": None}
    assert items_of(Change(Action.UPDATE, TABLE, new=new, old={"Key a": "1"}), defined())[0] is None
    assert items_of(Change(Action.UPDATE, TABLE, new=new, old={"order": "x"}), defined())[0] == "2"
    assert items_of(Change(Action.UPDATE, TABLE, new=new), defined())[2] is None, "nobody knows what the row was"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[]", "no JSON object"),
        (b"{}", "begins neither"),
        (b'{"commit":1,"time":"t","commit":2}', "comes twice"),
        (b'{"commit":NaN,"time":"t"}', "NaN"),
        (b'{"commit":"1","time":"t"}', "no number"),
        (b'{"commit":-1,"time":"t"}', "no number"),
        (b'{"commit":true,"time":"t"}', "no number"),
        (b'{"commit":1}', "lacks time"),
        (b'{"commit":1,"time":"t","more":1}', "'more', which this release does not know"),
        (b'{"stream":"s","version":2,"after":0}', "version 2"),
        (b'{"change":"upsert","table":["a","b"],"new":{}}', "known are insert"),
        (b'{"change":1,"table":["a","b"],"new":{}}', "no kind of change"),
        (b'{"change":"insert","table":"a.b","new":{}}', '["schema", "table"]'),
        (b'{"change":"insert","table":["a",""],"new":{}}', '["schema", "table"]'),
        (b'{"change":"insert","table":["a","b"]}', "lacks new"),
        (b'{"change":"insert","table":["a","b"],"new":{"id":1}}', "values are texts or null"),
        (b'{"change":"insert","table":["a","b"],"new":{},"old":{}}', "'old'"),
        (b'{"change":"delete","table":["a","b"],"new":{}}', "lacks old"),
        (b'{"change":"insert","table":["a","b"],"new":{"id":"\\ud800"}}', "no JSON"),
        (b'{"change":"insert","table":["a","b"],"new":{"id":"\xff"}}', "no JSON"),
        (b'{"change":"insert","table":["a","b"],"new":{},"partial":true}', "'partial'"),
        (b'{"change":"update","table":["a","b"],"new":{},"partial":1}', "neither true nor false"),
        (b'{"table":["a","b"],"columns":[]}', "without columns"),
        (b'{"table":["a","b"],"columns":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "one twice"),
        (b'{"table":["a","b"],"columns":[{"name":"a"}]}', "that is none"),
        (b'{"table":["a","b"],"columns":[{"name":"a","type":"int","color":"red"}]}', "that is none"),
        (b'{"table":["a","b"],"columns":[{"name":"a","type":"int","key":"1"}]}', "key = '1'"),
        (b'{"table":["a","b"],"columns":[{"name":"a","type":5}]}', "type = 5"),
    ],
)  # fmt: skip
def test_any_other_line_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(Malformed) as refused:
        parse(line)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Change(Action.INSERT, TABLE, new={"Key a": "1"}), "lacks 'order'"),
        (Change(Action.INSERT, TABLE, new={"Key a": "1", "order": "", "other": ""}), "has 'other'"),
        (Change(Action.UPDATE, TABLE, new={"Key a": "1", "order": ""}, old={"other": ""}), "has 'other'"),
        (Change(Action.DELETE, TABLE, old={"Key a": "1"}), "lacks 'order'"),
        (Change(Action.INSERT, TABLE, new={"Key a": None, "order": ""}), "NULL in the key"),
        (Change(Action.INSERT, TableName("other", "t"), new={}), "no line at the head"),
        (Change(Action.UPDATE, TABLE, new={"order": ""}, partial=True), "leaves 'Key a' out, of the key"),
        (Change(Action.DELETE, TABLE, old={"order": ""}, partial=True), "leaves 'Key a' out, of the key"),
        (Change(Action.UPDATE, TABLE, new={"Key a": "1", "other": ""}, partial=True), "has 'other'"),
    ],
)
def test_a_row_must_be_as_its_table_is_defined(change: Change, reason: str) -> None:
    tables = {TABLE: defined()}
    with pytest.raises(Malformed, match=reason):
        items_of(change, tables.get(change.table))


def test_an_update_without_key_says_what_the_row_was() -> None:
    new = {"Key a": "1", "order": ""}
    with pytest.raises(Malformed, match="no key, without the former row"):
        items_of(Change(Action.UPDATE, TABLE, new=new), defined(key=()))


def test_a_change_that_leaves_columns_out_names_them_as_unchanged() -> None:
    update = Change(Action.UPDATE, TABLE, new={"Key a": "1"}, old={"Key a": "0"}, partial=True)
    guid, text, old = items_of(update, defined())
    assert guid is None
    assert old is not None
    assert content.parse(old) == [("Key a", "0")]
    assert content.is_partial(old), "nobody knows what the other column was"
    assert text == '<col name="Key a">1</col><col name="order" type="unchanged"></col>'
    assert content.is_partial(text)
    assert content.parse(text) == [("Key a", "1")]
    guid, text, old = items_of(Change(Action.DELETE, TABLE, old={"Key a": "1"}, partial=True), defined())
    assert (guid, text) == ("1", None)
    assert old is not None
    assert content.parse(old) == [("Key a", "1")]
    for change in (update, Change(Action.DELETE, TABLE, old={"order": ""}, partial=True)):
        with pytest.raises(Malformed, match="all of its columns name a row"):
            items_of(change, defined(key=()))


def test_every_action_of_an_item_has_a_form() -> None:
    for action in Action:
        line = json.dumps({"change": action.lower(), "table": ["a", "b"]}).encode()
        try:
            found = parse(line)
        except Malformed as reason:
            assert "lacks" in str(reason)  # noqa: PT017
        else:
            assert isinstance(found, Change)
            assert found.action not in ROW_ACTIONS


@st.composite
def row_lines(draw: st.DrawFn) -> tuple[TableDefinition, bytes]:
    """A table, and a line that changes a row of it, as the recorder writes it or almost."""
    found = draw(definitions())
    names = [column.name for column in found.shape.replicated]
    row = st.fixed_dictionaries(dict.fromkeys(names, st.none() | TEXTS))
    part = row.map(lambda values: dict(list(values.items())[: len(values) // 2]))
    place = st.just((found.table.schema, found.table.name))
    made = draw(
        st.one_of(
            st.builds(RowChange, st.just("insert"), place, new=row),
            st.builds(RowChange, st.just("update"), place, new=row, old=st.none() | part | row),
            st.builds(RowChange, st.just("delete"), place, old=row),
            st.builds(
                RowChange, st.sampled_from(["insert", "update", "delete", "truncate"]), place,
                new=st.none() | part | VALUES, old=st.none() | part | VALUES, partial=st.booleans(),
            ),
        )
    )  # fmt: skip
    line = write_rows([made])
    damage = draw(st.sampled_from(["", "", "cut", "blank", "twice", "escape"]))
    if damage == "cut":
        at = draw(st.integers(0, len(line) - 1))
        line = line[:at] + line[at + 1 :]
    elif damage == "blank":
        line = line.replace(b":", b": ")
    elif damage == "twice":
        line = line.replace(b'{"change"', b'{"partial":true,"partial":false,"change"', 1)
    elif damage == "escape":
        line = line.replace(b"a", b"\\u0061")
    return found, line


@given(row_lines())
def test_a_row_is_read_fast_as_it_is_read_strictly(made: tuple[TableDefinition, bytes]) -> None:
    found, line = made
    fast = RowLines({found.table: found}).read(line, 7, 5)
    try:
        strict = parse(line)
        assert isinstance(strict, Change)
        guid, text, old = items_of(strict, found if strict.table == found.table else None)
    except Malformed:
        assert fast is None
        return
    if fast is not None:
        assert fast == (7, 5, strict.table.schema, strict.table.name, guid, str(strict.action), text, old)


@given(st.none() | TEXTS, st.none() | TEXTS)
def test_lines_that_the_recorder_writes_are_read_fast(value: str | None, former: str | None) -> None:
    lines = RowLines({TABLE: defined()})
    row, place = {"Key a": "1%s", "order": value}, (TABLE.schema, TABLE.name)
    for made in (
        RowChange("insert", place, new=row),
        RowChange("update", place, new=row, old={"order": former}),
        RowChange("delete", place, old=row),
    ):
        assert lines.read(write_rows([made]), 2, 1) is not None


def test_a_line_is_read_by_the_definition_of_its_time() -> None:
    tables = {TABLE: defined()}
    lines, line = RowLines(tables), write_rows([RowChange("insert", (TABLE.schema, TABLE.name), new={"Key a": "1"})])
    assert lines.read(line, 2, 1) is None, "a column is missing"
    tables[TABLE] = TableDefinition(TableShape(TABLE, (Column("Key a", "text", 1, key=1),)))
    lines.defined()
    assert lines.read(line, 2, 1) is not None
