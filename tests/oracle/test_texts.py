"""Texts of statements near the server's limits, and names of columns."""

import hashlib
import re

import pytest

from sluice.control.own_tables import one_of
from sluice.database.column_types import LogicalColumn
from sluice.database.digests import Compared, Method
from sluice.model.logical_type import Fit, Kind, LogicalType
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.oracle import column_types
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.column_types import logical
from sluice.vendors.oracle.digester import Digest, Digester


def digest(*types: str) -> Digest:
    columns = tuple(Column(f"C{place}", kind, place) for place, kind in enumerate(types, start=1))
    compared = tuple(Compared(each.name, each.type, logical(each.type)) for each in columns)
    found = Digester().table(TableShape(TableName("SHOP", "T"), columns), compared, (), Method.CANONICAL)
    assert isinstance(found, Digest)
    return found


@pytest.mark.parametrize("short", ["RAW(1999)", "NVARCHAR2(1333)", "VARCHAR2(4000 BYTE)"])
def test_a_value_whose_text_fits_is_hashed_by_the_servers_own_function(short: str) -> None:
    assert "STANDARD_HASH" in digest(short).row() and "TO_CLOB" not in digest(short).row()


@pytest.mark.parametrize("long", ["RAW(2000)", "NVARCHAR2(1334)", "NCHAR(2000)"])
def test_a_value_whose_text_may_exceed_4000_bytes_is_hashed_as_a_lob(long: str) -> None:
    """Binary needs two digits a byte and a prefix, texts up to three bytes a character: ORA-01489, ORA-22835."""
    assert "DBMS_CRYPTO.HASH(TO_CLOB(" in digest(long).row() and "TO_CLOB(" in digest(long).text("C1")


@pytest.mark.parametrize("kind", ["CHAR(2 CHAR)", "NCHAR(2)", "CLOB", "NCLOB", "BLOB"])
def test_empty_values_are_distinguished_from_null(kind: str) -> None:
    """A text of blanks would be NULL without them; the driver reports the same for an empty LOB."""
    text = digest(kind).text("C1")
    mark = text.partition("THEN ")[2].partition("'")[2].partition("'")[0]
    assert mark and ColumnTexts.shown(mark) == "" and ColumnTexts.shown(mark.encode()) == "\\x"
    assert kind == "BLOB" or f"THEN '{hashlib.md5(b'').hexdigest()}'" in digest(kind).row()
    assert "CASE WHEN" not in digest("VARCHAR2(2 CHAR)").text("C1")


def test_the_text_of_a_row_of_many_columns_is_a_lob_from_its_beginning() -> None:
    """A concatenation is a LOB only if it begins as one; otherwise the server refuses more than 4,000 bytes."""
    assert digest(*["NUMBER(10,0)"] * 66).joined([f"C{n}" for n in range(1, 67)]).startswith("TO_CHAR(")
    assert digest(*["NUMBER(10,0)"] * 67).joined([f"C{n}" for n in range(1, 68)]).startswith("TO_CLOB(TO_CHAR(")


@pytest.mark.parametrize("name", ['a"b', "ROWID", "é" * 65, "a\0"])
def test_a_column_is_refused_whose_name_none_can_have(name: str) -> None:
    (made,) = column_types.of_table([LogicalColumn(name, LogicalType(Kind.INTEGER, 32), key=False)])
    assert made.fit is Fit.REFUSED and made.lost.startswith("no column has")


@pytest.mark.parametrize("name", ["rowid", "select", "a b'c;--", "é" * 64])
def test_all_other_names_are_taken(name: str) -> None:
    (made,) = column_types.of_table([LogicalColumn(name, LogicalType(Kind.INTEGER, 32), key=False)])
    assert made.fit is not Fit.REFUSED


def test_a_list_has_no_more_values_than_the_server_takes() -> None:
    """ORA-01795: there may be more different blocks, or rejects named by a person."""
    classes = Digester().table(
        TableShape(TableName("SHOP", "T"), (Column("V", "VARCHAR2(9 CHAR)", 1),)),
        (Compared("V", "VARCHAR2(9 CHAR)", logical("VARCHAR2(9 CHAR)")),), (), Method.CANONICAL, (), 5_000,
    )  # fmt: skip
    assert isinstance(classes, Digest)
    for condition, count in ((classes.within(range(2_500)), 2_500), (one_of("id", "id", range(1_000))[0], 1_000)):
        lists = re.findall(r" IN \(([^()]*)\)|IN \((%.*?s)\)(?:$| OR)", condition)
        sizes = [len("".join(found).split(", ")) for found in lists]
        assert max(sizes) == 1_000 and sum(sizes) == count
    assert one_of("id", "id", range(1_001))[0].endswith(" OR id IN (%(id_1000)s))")
