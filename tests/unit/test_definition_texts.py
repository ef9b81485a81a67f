"""What the master sends as a type, a collation or a hash key becomes part of DDL only if it is one."""

import pytest

from sluice.model.shape import Column
from sluice.vendors.postgres.expressions import hash_key, type_of
from tests.errors import raises_code

TYPES = (
    "integer", "double precision", "character varying(7)", "character(3)[]", '"char"', '"bit"', "bit varying(5)",
    "timestamp(3) without time zone", "timestamp with time zone", "time(6) with time zone", "interval day to second(3)",
    "interval(3)", "interval year to month", "numeric(5,-2)[]", "public.mood", '"Odd ""Schema"""."t; DROP"[]',
    "public.geometry(Point,4326)", "geography(MultiPolygon,4326)", '"typé"',
)  # fmt: skip
NO_TYPES = (
    "integer); DROP TABLE secret; --", "integer DEFAULT app.boom()", "integer DEFAULT current_user", "int\n, x int",
    "integer REFERENCES secret", "integer CHECK (app.boom())", "integer COLLATE x", "public.mood;", 'a"b"', "", "a.b.c",
    "numeric(1');x('1)", "integer, y integer", "int /* */", "integer GENERATED ALWAYS AS (1) STORED", '"unclosed',
    "typé",
)  # fmt: skip


def column(type_: str, collation: str | None = None) -> Column:
    return Column(name="c", type=type_, position=1, nullable=True, collation=collation)


@pytest.mark.parametrize("text", TYPES)
def test_a_type_stays_as_the_server_wrote_it(text: str) -> None:
    assert type_of(column(text)) == text


@pytest.mark.parametrize("text", NO_TYPES)
def test_any_other_text_is_refused_as_a_type(text: str) -> None:
    with raises_code("definition-unreadable"):
        type_of(column(text))


def test_a_collation_is_one_name_and_its_schema() -> None:
    assert type_of(column("text", 'public."de-x-icu"')) == 'text COLLATE public."de-x-icu"'
    for text in ('"C" DEFAULT app.boom()', 'x"y', "a, b int", '"C"); DROP TABLE x; --', "a.b.c"):
        with raises_code("definition-unreadable"):
            type_of(column("text", text))


def test_a_hash_key_is_a_list_of_columns() -> None:
    assert hash_key('HASH (id, "Odd, ""name")') == 'HASH (id, "Odd, ""name")'
    for text in ("HASH (app.boom(id))", "HASH (id) TABLESPACE x", "LIST (id)", "HASH (id); DROP TABLE x", "HASH ()"):
        with raises_code("definition-unreadable"):
            hash_key(text)
