"""Lines of OpenLogReplicator: read exactly, its mistakes corrected, anything else refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.model.change import Action
from sluice.model.names import Naming
from sluice.vendors.stream.lines import Change, parse, write_rows
from sluice.vendors.stream.redo.definitions import TableReader
from sluice.vendors.stream.redo.errors import Unfit
from sluice.vendors.stream.redo.messages import head, payload_of, schema_of
from sluice.vendors.stream.redo.types import converter
from tests.unit.redo_output import COLUMNS, checkpoint, delete, insert, message, row, schema, update


def as_written(text: str) -> str:
    """A string as OpenLogReplicator writes it into JSON: control characters by their decimal number."""
    found = []
    for character in text:
        if character in '"\\/':
            found.append("\\" + character)
        elif character in "\b\f\n\r\t":
            found.append({"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}[character])
        elif ord(character) < 31:
            found.append(f"\\u00{ord(character):02}")
        else:
            found.append(character)
    return '"' + "".join(found) + '"'


def after(payload: str) -> dict[str, object]:
    return payload_of(message(9, 2, "1.2.3", payload).encode() + b"\n").after


def read(
    payload: str, columns: tuple[dict[str, object], ...] = COLUMNS, key: tuple[str, ...] = ("ID",)
) -> Change | None:
    raw = message(9, 2, "1.2.3", payload).encode() + b"\n"
    place = schema_of(raw)
    assert place is not None
    found = TableReader(json.loads(raw[place[0] : place[1]]), key, Naming(), "ns")
    change = found.change(payload_of(raw))
    line = parse(write_rows([change])) if change is not None else None
    assert line is None or isinstance(line, Change)
    return line


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_through(text: str) -> None:
    """Also what looks like an escape, `},"num":` and every control character."""
    payload = f'{{"op":"c","schema":{schema()},"num":0,"after":{{"ID":1,"NAME":{as_written(text)}}}}}'
    assert after(payload) == {"ID": 1, "NAME": text}


@pytest.mark.parametrize("text", ["\x1b", "\x1f", "\\u0027", "\\", '"', '},"num":', "\x00", "}]}", "inf", '{"scn":1,'])
def test_wrong_escapes_of_the_writer_are_corrected(text: str) -> None:
    test_any_text_comes_through.hypothesis.inner_test(text)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "number",
    ["1", "-999.99", "12345678901234567890123456789012345678.25", "1e+100", "0", "65536.1", "inf", "-inf", "nan"],
)
def test_numbers_keep_all_their_digits(number: str) -> None:
    payload = f'{{"op":"c","schema":{schema()},"num":0,"after":{{"ID":{number},"NAME":"nan, -inf"}}}}'
    found = after(payload)
    assert (str(found["ID"]), found["NAME"]) == (number, "nan, -inf")


def test_the_head_of_a_line() -> None:
    found = head(message(3764480, 3, "10.0.985", '{"op":"begin"}').encode())
    assert (found.op, found.scn, found.xid, found.time) == ("begin", 3764480, "10.0.985", 1772311432000000000)
    found = head(checkpoint(5).encode())
    assert (found.op, found.scn, found.xid) == ("chkpt", 5, "")
    older = b'{"scns":"0x00000000003968e6","tms":"1772311432","c_scn":3762406,"c_idx":1,"xid":"3.9.750",'
    assert head(older + b'"payload":[{"op":"begin"}]}').time == 1772311432


@pytest.mark.parametrize("cut", [1, 20, 60, 150, 230])
def test_a_line_that_a_crash_cut_off_hides_none(cut: int) -> None:
    first, second = (message(9, 2, "1.2.3", insert(number, number)) for number in (1, 2))
    found = head((first[:cut] + second).encode())
    assert (found.op, found.begins) == ("c", cut)
    thrice = first[:cut] + '{"scn":' + second
    assert head(thrice.encode()).begins == cut + 7


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "no JSON"),
        (b"{}", "no c_scn"),
        (b'{"scn":1,"c_scn":5}', "another format"),
        (b'{"c_scn":5,"c_idx":1,"xidn":7,"payload":[{"op":"c"}]}', "another format"),
    ],
)
def test_any_other_line_is_refused(line: bytes, reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        head(line)


def test_a_message_of_a_whole_transaction_is_refused() -> None:
    raw = message(9, 1, "1.2.3", '{"op":"begin"},{"op":"commit"}').encode()
    with pytest.raises(Unfit, match="must be 2"):
        payload_of(raw)
    with pytest.raises(Unfit, match="is no UTF-8"):
        payload_of(message(9, 2, "1.2.3", insert(0, 1)).encode().replace(b'"v"', b'"\xff"'))


def test_messages_of_rows_become_changes() -> None:
    made = read(insert(0, 1, "x"))
    assert made == Change(Action.INSERT, made.table, new={"id": "1", "name": "x", "note": None})  # type: ignore[union-attr]
    assert str(made.table) == "app.t"  # type: ignore[union-attr]
    made = read(update(0, 1, {"NAME": "x"}, {"NAME": None}))
    assert made is not None
    assert (made.new, made.old, made.partial) == ({"id": "1", "name": None}, {"id": "1", "name": "x"}, True)
    made = read(row("u", 0, {"ID": 1, "NAME": "x"}, {"ID": 2, "NAME": "x", "NOTE": "whole"}))
    assert made is not None
    assert made.new == {"id": "2", "name": "x", "note": "whole"}
    assert made.partial, "a LOB's former value is in no redo"
    made = read(delete(0, 1))
    assert made is not None
    assert (made.old, made.partial) == ({"id": "1"}, True)
    assert read(row("u", 0, {}, {})) is None, "nothing of it is known to have changed"


@pytest.mark.parametrize(
    ("payload", "key", "reason"),
    [
        (row("u", 0, {"NAME": "x"}, {"NAME": "y"}), ("ID",), "leaves id out, of the primary key"),
        (row("u", 0, {"NAME": "x"}, {"NAME": "y"}), (), "SUPPLEMENTAL LOG DATA"),
        (row("d", 0, {"NAME": "x"}, None), (), "no primary key"),
        (row("u", 0, {"ID": 1, "NAME": "x"}, {"ID": 1}), ("ID",), "what name was, and not what it is"),
        (row("c", 0, None, {"OTHER": 1}), ("ID",), "OTHER is not in the schema message"),
        (row("c", 0, None, {"ID": 1}, '{"owner":"A","table":"T"}'), (), "format.schema must be 7"),
        (row("c", 0, None, {"ID": 1}, schema(columns=[{"name": "ID", "type": "unknown"}])), (), "type 'unknown'"),
        (row("c", 0, None, {"ID": 1}), ("GONE",), "lacks GONE, of the primary key"),
    ],
)
def test_unknown_values_are_reported(payload: str, key: tuple[str, ...], reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        read(payload, key=key)


@pytest.mark.parametrize(
    ("kind", "unit", "given", "meant"),
    [
        ("date", "ns", "1749983400000000000", "2025-06-15 10:30:00"),
        ("date", "s", "1749983400", "2025-06-15 10:30:00"),
        ("timestamp", "ns", "1749983400123456789", "2025-06-15 10:30:00.123456789"),
        ("timestamp", "us", "1749983400123456", "2025-06-15 10:30:00.123456"),
        ("timestamp", "ns", "-1", "1969-12-31 23:59:59.999999999"),
        ("timestamp", "ns", "-62135596800000000000", "0001-01-01 00:00:00"),
        ("timestamp with time zone", "ns", "1749983400500000000,Europe/Vienna", "2025-06-15 10:30:00.5+00"),
        ("timestamp with local time zone", "ns", "1749983400000000000", "2025-06-15 10:30:00+00"),
        ("raw", "ns", "00ff", "\\x00ff"),
        ("blob", "ns", "", "\\x"),
        ("boolean", "ns", "1", "true"),
        ("interval day to second", "ns", "-1500000000", "-1.500000000 seconds"),
        ("interval year to month", "ns", "-14", "-14 mons"),
    ],
)
def test_values_of_each_type(kind: str, unit: str, given: str, meant: str) -> None:
    convert = converter(kind, unit)
    assert convert is not None
    assert convert(given) == meant


@pytest.mark.parametrize(
    ("kind", "given"),
    [("date", "2025-06-15T10:30:00Z"), ("timestamp", "-99999999999999999999"), ("boolean", "2"), ("date", "?")],
)
def test_values_of_other_formats_are_refused(kind: str, given: str) -> None:
    convert = converter(kind, "ns")
    assert convert is not None
    with pytest.raises(Unfit):
        convert(given)
