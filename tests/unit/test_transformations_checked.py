"""A table's transformation is checked against the table: each mistake with its column, type and remedy."""

import pytest

from sluice.model.mask import Mask
from sluice.model.transformation import ColumnChange, Computed, Constant, Excluded, Renamed, Transformation
from sluice.transform.binding import Binder
from sluice.transform.table_transform import TransformationInvalid
from sluice.vendors.postgres import column_types
from tests.unit.transforming import ENGINE, NO_SESSION, bound, rows, shape

PEOPLE = shape(
    id="key integer", Name="text", born="date", salary="numeric(10,2)", free="numeric", code="character varying(5)",
    seen="timestamp with time zone", photo="bytea", fixed="character(4)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("salary >", "where `salary >`: it cannot be read: syntax error"),
        ("order = 1", "a column whose name is a reserved word stands in double quotes"),
        ("id = 1;", "it ends with a semicolon"),
        ("code = CH", "CH, which is no column of the master's table; there are id"),
        ('code = "CH"', "a text is written 'CH'"),
        ("born > '1990-13-01'", "cannot be computed: date field value out of range"),
        ("salary > 'much'", "salary is DECIMAL(10,2)"),
        ("salry > 1", "uses salry, which is no column of the master's table; did you mean salary?"),
        ("name = 'x'", "uses name, which is no column of the master's table; did you mean Name?"),
        ("salary", "gives DECIMAL(10,2); write a condition"),
        ("free > 1", "(free is VARCHAR)"),
        ("born > now()", "now() gives another value at another time"),
        ("random() < 0.5", "random() gives another value at another time"),
        ("current_date > born", "uses current_date, which is no column"),
        ("id IN (SELECT 1)", "it reads another table"),
        ("sum(salary) > 1", "sum() is no function of one row"),
        ("row_number() OVER () > 1", "it looks at other rows"),
        ("uper(\"Name\") = 'X'", "there is no function uper; did you mean upper?"),
        ("people.id = 1", "people.id: write a column's name alone"),
        ("id = 1; SELECT 2", "it is more than one value"),
        ("id = 1, id = 2", "it is more than one value"),
        ("id = 1 FROM people", "it is more than one value"),
        ("id = ?", "it holds a parameter"),
        ("id = 1) OR (id = 2", "it cannot be read"),
        ("count(*) > 1", "count"),
        ("getvariable('x') = 1", "getvariable() gives another value at another time"),
        ("(SELECT content FROM read_text('/etc/passwd')) = 'x'", "it reads another table"),
    ],
)
def test_an_invalid_where_is_reported(where: str, told: str) -> None:
    with pytest.raises(TransformationInvalid) as raised:
        bound(PEOPLE, where)
    assert told in str(raised.value) and "DEMO.yaml:7" in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"id": Excluded()}, "people.id is excluded, and is part of the key"),
        ({"id": Computed("id + 1")}, "people.id is id + 1, and is part of the key"),
        ({"nme": Renamed("x")}, "people.nme: the master's table has no such column; did you mean"),
        ({"Name": Renamed("code")}, "people.code would be there twice on the slave"),
        ({"code": Computed("salary")}, "the expression gives DECIMAL(10,2), and the column is character varying(5)"),
        ({"salary": Computed("salary * 1.5")}, "is numeric(10,2); write CAST(… AS DECIMAL(10,2))"),
        ({"free": Computed("free")}, "no expression gives that: exclude the column"),
        ({"salary": Constant("much")}, "the constant 'much' is no numeric(10,2)"),
        ({"more": Computed("[id]")}, "gives INTEGER[], which no column can hold"),
        ({"more": Computed("\"Name\" + 1")}, "cannot be computed"),
    ],
)  # fmt: skip
def test_invalid_columns_are_reported(columns: dict[str, ColumnChange], told: str) -> None:
    with pytest.raises(TransformationInvalid) as raised:
        bound(PEOPLE, **columns)
    assert told in str(raised.value)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(TransformationInvalid) as raised:
        bound(PEOPLE, "a > 1", x=Computed("b"), y=Computed("c + "))
    assert len(raised.value.problems) == 3


def test_a_renamed_column_stays_masked_only_where_its_new_name_is_masked_too() -> None:
    rule = Transformation(None, (("Name", Renamed("who")),), "DEMO.yaml:7: tables.public.people")
    with pytest.raises(TransformationInvalid, match=r"public\.people\.who there, too"):
        Binder(column_types, NO_SESSION, ENGINE, Mask(("public.people.Name",))).bind(rule, PEOPLE, strict=True)
    mask = Mask(("public.people.Name", "public.*.who"))
    Binder(column_types, NO_SESSION, ENGINE, mask).bind(rule, PEOPLE, strict=True)


def test_the_slaves_columns_have_the_types_of_their_expressions() -> None:
    made = bound(
        PEOPLE, code=Excluded(), Name=Renamed("who"), salary=Constant("0"), year=Computed("year(born)"),
        net=Computed("salary * 0.9"), land=Constant("CH"), day=Computed("CAST(seen AS DATE)"),
        hash=Computed("md5(photo)"), old=Computed("born < DATE '1990-01-01'"),
    ).shape  # fmt: skip
    assert {column.name: column.type for column in made.columns} == {
        "id": "integer", "who": "text", "born": "date", "salary": "numeric(10,2)", "free": "numeric",
        "seen": "timestamp with time zone", "photo": "bytea", "fixed": "character(4)", "year": "bigint",
        "net": "numeric(12,3)", "land": "text", "day": "date", "hash": "text", "old": "boolean",
    }  # fmt: skip
    assert [column.name for column in made.key] == ["id"]


def test_values_are_computed_from_texts_and_come_back_as_texts() -> None:
    transform = bound(
        shape(id="key integer", d="date", t="timestamp without time zone", z="timestamp with time zone", b="bytea",
              n="numeric(38,10)", f="double precision", o="boolean", c="character(4)", i="interval", j="jsonb"),
        d2=Computed("d"), t2=Computed("t"), z2=Computed("z"), b2=Computed("b"), n2=Computed("n"), f2=Computed("f"),
        o2=Computed("NOT o"), c2=Computed("c || '!'"), i2=Computed("i"), j2=Computed("j"),
    )  # fmt: skip
    n = "1234567890123456789012345678.0123456789"
    given = [
        ("1", "0044-03-15 BC", "0044-03-15 10:00:00 BC", "2020-01-01 01:00:00.000001+02", "\\x00ff", n, "1e+300",
         "true", "ab  ", "1 mon -00:00:01", '{"a": 1}'),
        ("2", "infinity", "-infinity", "infinity", "\\x", "-0.5000000000", "NaN", "f", "", "00:00:00", "null"),
        ("3", *([None] * 10)),
    ]  # fmt: skip
    found = rows(transform, *given)
    kept = [[row[name] for name in ("d2", "t2", "z2", "b2", "n2", "f2", "o2", "c2", "i2", "j2")] for row in found]
    assert kept == [
        ["0044-03-15 BC", "0044-03-15 10:00:00 BC", "2019-12-31 23:00:00.000001+00", "\\x00ff", n, "1e+300", "false",
         "ab!", "1 mon -00:00:01", '{"a": 1}'],
        ["infinity", "-infinity", "infinity", "\\x", "-0.5000000000", "nan", "true", "!", "00:00:00", "null"],
        [None] * 10,
    ]  # fmt: skip
