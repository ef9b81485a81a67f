"""Keys in the order of a real master: ranges between bounds, and the range of a key."""

from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.postgres import catalog, key_order
from sluice.vendors.postgres.connection import connect
from tests.examples import examples

TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=["Cs"])
    | st.sampled_from("aAbBäÄéz-_ 'ß%"),
    max_size=6,
)
KEYS: dict[str, tuple[str, tuple[st.SearchStrategy[str], ...]]] = {
    "bigint": ("a bigint", (st.integers(-(2**63), 2**63 - 1).map(str),)),
    "text": ("a text", (TEXTS,)),
    "citext": ("a public.citext", (TEXTS,)),
    "text_c": ('a text COLLATE "C"', (TEXTS,)),
    "char": ("a char(6)", (TEXTS,)),
    "uuid": ("a uuid", (st.uuids().map(str),)),
    "timestamptz": (
        "a timestamptz",
        (st.datetimes().map(lambda value: value.isoformat() + "Z") | st.sampled_from(["infinity", "-infinity"]),),
    ),
    "numeric": ("a numeric", (st.decimals(allow_infinity=False, allow_nan=False).map(str) | st.sampled_from(["NaN"]),)),
    "float8": ("a float8", (st.floats().map(repr),)),
    "bytea": ("a bytea", (st.binary(max_size=6).map(lambda value: "\\x" + value.hex()),)),
    "enum": ("a public.mood", (st.sampled_from(["sad", "ok", "happy"]),)),
    "array": ("a int[]", (st.lists(st.integers(0, 9), max_size=4).map(lambda v: "{" + ",".join(map(str, v)) + "}"),)),
    "range": ("a int4range", (st.tuples(st.integers(0, 9), st.integers(10, 20)).map(lambda v: f"[{v[0]},{v[1]})"),)),
    "composite": (
        'b int, a public.citext COLLATE "C", c "Sonder Typ"',
        (
            st.integers(-3, 3).map(str),
            TEXTS,
            st.tuples(st.integers(0, 2), st.booleans()).map(lambda v: f'({v[0]},"{v[1]}")'),
        ),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def master(postgres: Any) -> Any:
    postgres.create_database("locate")
    with connect(postgres.info("locate"), application="test", autocommit=True) as connection:
        connection.execute("SET search_path TO public")
        connection.execute("CREATE EXTENSION citext")
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        connection.execute('CREATE TYPE "Sonder Typ" AS (n int, flag bool)')
        for name, (columns, keys) in KEYS.items():
            key = ", ".join(part.split()[0] for part in columns.split(", "))
            assert len(keys) == len(key.split(", "))
            connection.execute(f'CREATE TABLE "of {name}" ({columns}, PRIMARY KEY ({key}))')
        connection.execute("SET search_path TO pg_catalog, public")
        yield connection
    with postgres.connect() as connection:
        connection.execute("DROP DATABASE locate")


def shape_of(connection: psycopg.Connection[Any], name: str) -> TableShape:
    shape = catalog.shape(connection, TableName("public", f"of {name}"))
    assert shape is not None
    return shape


@pytest.mark.releases
@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", KEYS)
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_keys_are_located_as_the_master_compares_them(master: psycopg.Connection[Any], name: str, data: Any) -> None:
    shape = shape_of(master, name)
    row = st.tuples(*KEYS[name][1])
    keys = data.draw(st.lists(row, min_size=1, max_size=8))
    bounds = data.draw(st.lists(row, max_size=5))
    typed = ", ".join(
        f"%s::{column.type}" + (f" COLLATE {column.collation}" if column.collation else "") for column in shape.key
    )
    expected = [
        sum(
            bool(master.execute(f"SELECT ROW({typed}) >= ROW({typed})", [*key, *bound]).fetchone()[0])  # type: ignore[index]
            for bound in bounds
        )
        for key in keys
    ]
    assert key_order.locate(master, shape, bounds, keys) == expected


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", KEYS)
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_ranges_between_bounds_hold_each_row_once_and_where_it_is_located(
    master: psycopg.Connection[Any], name: str, data: Any
) -> None:
    shape = shape_of(master, name)
    table = f'public."of {name}"'
    columns = ", ".join(f'"{column.name}"' for column in shape.key)
    with master.transaction(force_rollback=True):
        for key in data.draw(st.lists(st.tuples(*KEYS[name][1]), min_size=1, max_size=12)):
            values = ", ".join(["%s"] * len(key))
            master.execute(f"INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING", key)  # type: ignore[arg-type]
        order = key_order.key_order(master, shape)
        step = data.draw(st.integers(1, 5))
        bounds = []
        while (bound := order.next_bound(master, bounds[-1] if bounds else None, None, step)) is not None:
            bounds.append(bound)
        texts = ", ".join(f'"{column.name}"::text' for column in shape.key)
        seen = []
        for place, (lo, hi) in enumerate(zip([None, *bounds], [*bounds, None], strict=True)):
            found = master.execute(
                f"SELECT {texts} FROM {order.source} WHERE {order.within(lo, hi)}".encode()
            ).fetchall()
            assert len(found) == step or hi is None
            assert key_order.locate(master, shape, bounds, found) == [place] * len(found)
            seen += found
        assert sorted(seen) == sorted(master.execute(f"SELECT {texts} FROM {table}").fetchall())


def test_orders_that_are_the_same_everywhere_are_known(master: psycopg.Connection[Any]) -> None:
    same = {name for name in KEYS if key_order.key_order(master, shape_of(master, name)).same_everywhere}
    assert same == {"bigint", "text_c", "uuid", "timestamptz", "numeric", "float8", "bytea", "array"}
