"""Contents are read exactly, one by one and by the million alike."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.database import xml_images as arrow
from sluice.database.row_images import MixedShapes
from sluice.model import content, guid
from tests.errors import raises_code
from tests.examples import examples

# What a database can hold: any text without NUL and without surrogates.
VALUES = st.one_of(
    st.none(),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.lists(
        st.sampled_from(
            [
                content.UNCHANGED,
                "</col>",
                '<col name="a">',
                "<![CDATA[",
                "]]>",
                "]]",
                ' type="null">',
                "&amp;",
                "\t",
                "\n",
                "x",
                "🐘",
            ]
        ),
        max_size=6,
    ).map("".join),
)
NAMES = st.lists(
    st.one_of(st.sampled_from(["a", 'b"<&>', "select", "ñ🐘", "a]]>"]), st.text("abc_ .", min_size=1, max_size=8)),
    min_size=1,
    max_size=5,
    unique=True,
)

EXAMPLES = settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the limit below which rows go through the reference reader; these tests want the other one."""
    monkeypatch.setattr(arrow, "FEW", 0)


@EXAMPLES
@given(st.lists(st.tuples(st.text(min_size=1), VALUES), max_size=5))
def test_a_row_reads_back_as_it_was_written(row: list[tuple[str, str | None]]) -> None:
    written = content.format_row(row)
    assert content.parse(written) == row and not content.is_partial(written)


@pytest.mark.long
@EXAMPLES
@given(NAMES, st.data())
def test_columns_that_were_unchanged_are_filled_in_and_nothing_else(names: list[str], data: st.DataObject) -> None:
    odd = st.one_of(VALUES, st.just(f'<col name="{names[0]}"{content.UNCHANGED}'))
    row = {name: data.draw(odd) for name in names}
    known = {name: row[name] for name in names if data.draw(st.booleans())}
    partial = content.format_partial(known, names)
    assert content.complete(partial, row) == content.format_row(row.items())
    assert content.complete(partial, known) == partial
    assert content.is_partial(partial) is (len(known) < len(names))


@pytest.mark.long
@EXAMPLES
@given(NAMES, st.data())
def test_many_rows_read_like_each_of_them(names: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*[VALUES] * len(names)), max_size=8))
    texts = pa.array([content.format_row(zip(names, row, strict=True)) for row in rows], pa.large_string())
    found = [column.to_pylist() for column in arrow.columns(texts, names)]
    assert list(zip(*found, strict=True)) == rows
    if rows:
        assert list(arrow.row(texts[0].as_py())) == names


@pytest.mark.long
@EXAMPLES
@given(NAMES, st.data())
def test_old_images_are_the_new_row_under_the_old_values(names: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*[VALUES] * len(names)), max_size=6))
    olds = [data.draw(st.dictionaries(st.sampled_from(names), VALUES)) for _ in rows]
    values = [pa.array([row[place] for row in rows], pa.large_string()) for place in range(len(names))]
    texts = pa.array(
        [content.format_row((name, old[name]) for name in names if name in old) for old in olds], pa.large_string()
    )
    found = [column.to_pylist() for column in arrow.overlay(values, names, texts)]
    wanted = [
        tuple(old.get(name, value) for name, value in zip(names, row, strict=True))
        for row, old in zip(rows, olds, strict=True)
    ]
    assert list(zip(*found, strict=True)) == wanted
    for row, old, want in zip(rows, olds, wanted, strict=True):
        full = content.format_row(zip(names, row, strict=True))
        part = content.format_row((name, old[name]) for name in names if name in old)
        assert [value for _, value in content.overlay(full, part)] == list(want)


def test_a_table_may_have_1600_columns() -> None:
    names = [f"column {number}" for number in range(1600)]
    rows = [[None if (number + row) % 7 == 0 else f"{row}\n<{number}>" for number in range(1600)] for row in range(20)]
    texts = pa.array([content.format_row(zip(names, row, strict=True)) for row in rows], pa.large_string())
    found = [column.to_pylist() for column in arrow.columns(texts, names)]
    assert [list(row) for row in zip(*found, strict=True)] == rows


@pytest.mark.parametrize(
    "other",
    [
        [("a", "1")],
        [("b", "1"), ("a", "1")],
        [("a", "1"), ("b", "1"), ("c", "1")],
        [("a", "1"), ("B", "1")],
        [("a", '</col><col name="b">y')],
        [],
    ],
)
def test_rows_of_another_shape_are_noticed(other: list[tuple[str, str | None]]) -> None:
    texts = pa.array([content.format_row(row) for row in ([("a", "1"), ("b", None)], other)], pa.large_string())
    with pytest.raises(MixedShapes, match=r"^A row has other columns than a, b\.$"):  # No value, which logs would show.
        arrow.columns(texts, ["a", "b"])


@pytest.mark.parametrize(
    "text",
    [
        "x",
        '<col name="a">1',
        '<col name="a">1</col>x',
        '<col name="a">1<2</col>',
        '<col name="a" encoding="base64">!</col>',
        '<col name="a" encoding="base64">/w==</col>',
        '<col name="a"><![CDATA[x</col>',
        '<col name="a" type="null">x</col>',
    ],
)
def test_contents_that_no_trigger_wrote_are_refused(text: str) -> None:
    with raises_code("malformed-content"):
        content.parse(text)


@EXAMPLES
@given(st.lists(st.text(), min_size=2, max_size=4))
def test_keys_of_several_columns_read_back(values: list[str]) -> None:
    names = [str(number) for number in range(len(values))]
    text = guid.key_text(dict(zip(names, values, strict=True)), names)
    assert guid.key_values(text, len(values)) == values


@pytest.mark.parametrize("text", ["", "1:a", "1:ab1:c", "5:a1:b", "x1:a1:b"])
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no key"):
        guid.key_values(text, 2)
