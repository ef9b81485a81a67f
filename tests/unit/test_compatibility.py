"""Which slave tables can take a master's rows."""

import pytest

from sluice.model.compatibility import differences
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.postgres.column_types import holds

TABLE = TableName("public", "t")


@pytest.mark.parametrize(
    ("slave", "master", "expected"),
    [
        ("bigint", "integer", True),
        ("integer", "bigint", False),
        ("numeric", "bigint", True),
        ("numeric(18,0)", "bigint", False),
        ("numeric(21,2)", "bigint", True),
        ("numeric", "numeric(10,2)", True),
        ("numeric(10,2)", "numeric", False),
        ("numeric(10,3)", "numeric(10,2)", False),
        ("numeric(13,3)", "numeric(10,2)", True),
        ("numeric(12,2)", "numeric(10,4)", False),
        ("numeric(5,-3)", "numeric(5,-3)", True),
        ("text", "character varying(20)", True),
        ("character varying(20)", "text", False),
        ("character varying(30)", "character varying(20)", True),
        ("character varying(10)", "character varying(20)", False),
        ("text", "character(3)", False),
        ("timestamp with time zone", "timestamp(3) with time zone", True),
        ("timestamp(3) with time zone", "timestamp with time zone", False),
        ("timestamp with time zone", "timestamp without time zone", False),
        ("double precision", "real", False),
        ("bigint[]", "integer[]", False),
        ("public.mood", "public.mood", True),
        ("text", "public.mood", False),
        ("jsonb", "json", False),
    ],
)
def test_a_type_holds_another_when_no_value_changes(slave: str, master: str, expected: bool) -> None:
    assert holds(slave, master) is expected


def test_every_difference_is_named_at_once() -> None:
    master = TableShape(
        TABLE,
        (
            Column("id", "bigint", 1, nullable=False, key=1),
            Column("a", "text", 2),
            Column("b", "text", 3),
            Column("c", "text", 4),
            Column("d", "text", 5),
            Column("g", "text", 6, generated="s"),
        ),
    )
    slave = TableShape(
        TABLE,
        (
            Column("id", "integer", 1, nullable=False),
            Column("b", "text", 3, generated="s"),
            Column("c", "integer", 4),
            Column("d", "text", 5, nullable=False),
            Column("own", "text", 7, nullable=False),
            Column("fine", "text", 8, nullable=False, default="'x'"),
        ),
    )
    assert differences(master, slave, holds) == [
        "public.t.id is integer, the master's bigint does not fit in",
        "public.t lacks column a text",
        "public.t.b is generated on the slave, but replicated from the master",
        "public.t.c is integer, the master's text does not fit in",
        "public.t.d is NOT NULL, on the master it may be NULL",
        "public.t has column own, which is NOT NULL without default and unknown to the master",
        "public.t has key (none), the master's is (id): add a primary key on it",
    ]


def test_an_equal_table_and_one_with_columns_of_its_own_fit() -> None:
    master = TableShape(TABLE, (Column("id", "bigint", 1, nullable=False, key=1), Column("a", "text", 2)))
    slave = TableShape(
        TABLE, (*master.columns, Column("own", "text", 3), Column("at", "date", 4, False, default="now()"))
    )
    assert differences(master, master, holds) == []
    assert differences(master, slave, holds) == []


def test_a_keyless_table_must_be_keyless_on_the_slave_too() -> None:
    master = TableShape(TABLE, (Column("id", "bigint", 1),))
    slave = TableShape(TABLE, (Column("id", "bigint", 1, nullable=False, key=1),))
    assert any("equal rows would collide" in sentence for sentence in differences(master, slave, holds))
