"""Tables are created with types of the slave's vendor; what would lose something is refused before any change.

The slave is a PostgreSQL with MariaDB's column types.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from sluice.database.column_types import LogicalColumn
from sluice.database.schema import TypeDefinition
from sluice.load import steps
from sluice.load.update import Update
from sluice.model.compatibility import TablesDiffer
from sluice.model.logical_type import ColumnType, LogicalType
from sluice.model.vendors import VENDORS
from sluice.vendors.mysql import column_types as mysql
from sluice.vendors.postgres.vendor import Postgres
from tests.rig.rig import Rig


class MariaTypes:
    """See `ColumnTypes`."""

    def logical(self, type_name: str, defined: Sequence[TypeDefinition] = ()) -> LogicalType:
        return mysql.logical(type_name)

    def made_of(self, connection: object, columns: Sequence[LogicalColumn]) -> list[ColumnType]:
        return mysql.made_of(columns, mariadb=True)

    def holds(self, own: str, wanted: str) -> bool:
        return mysql.holds(own, wanted)


class Other(Postgres):
    """A vendor that differs only in its types."""

    types = MariaTypes()


OTHER = Other()


@pytest.fixture
def other(pair_of: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rig]:
    """A pair whose slave is of that vendor."""
    monkeypatch.setitem(VENDORS, "other", replace(VENDORS["postgres"], member=f"{__name__}:OTHER"))

    def make(tables: str) -> Rig:
        made = pair_of()
        made.master.execute(tables.encode())
        return replace(made, pair=replace(made.pair, slave_info=replace(made.slave_info, vendor="other")))

    return make


def refused(pair: Rig, update: Update) -> list[str]:
    pair.capture()
    steps.begin(update, pair.store)
    with pytest.raises(TablesDiffer) as differ:
        steps.create_tables(update)
    made = [name for (name,) in pair.slave.execute("SELECT tablename FROM pg_tables").fetchall()]
    assert not {"a", "b", "t"} & set(made)
    return differ.value.differences


def test_columns_that_would_lose_something_are_all_named_before_a_table_is_made(other: Callable[..., Rig]) -> None:
    pair = other(
        "CREATE TABLE public.a (id int PRIMARY KEY, tags text[], amount numeric);"
        "CREATE TABLE public.b (id int PRIMARY KEY, fine varchar(10), area int4range)"
    )
    found = refused(pair, pair.update())
    assert [sentence.partition(" would be longtext")[0] for sentence in found] == [
        "public.a.tags", "public.a.amount", "public.b.area",
    ]  # fmt: skip
    assert all("under lossy_columns of the slave" in sentence for sentence in found)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("f float8", "'-Infinity'", "would be double, which cannot hold each of its values: one is infinity"),
        ("f numeric(10,2)", "'NaN'", "one is NaN"),
        ("f timestamptz", "'infinity'", "one is infinity"),
        ("f date", "'0001-12-31 BC'", "one is before the year 1"),
        ("f timestamp", "'10000-01-01'", "one is after the year 9999"),
        ("f public.price", "'NaN'", "one is NaN"),
    ],
)  # fmt: skip
def test_a_value_that_the_slave_cannot_hold_is_found_with_its_row(
    other: Callable[..., Rig], column: str, value: str, said: str
) -> None:
    pair = other(
        "CREATE DOMAIN public.price AS numeric(8,2);"
        f'CREATE TABLE public.t ("the Key" text PRIMARY KEY, {column});'
        f"INSERT INTO public.t VALUES ('fine', NULL), ('it''s', {value})"
    )
    (found,) = refused(pair, pair.update())
    assert said in found and '(row the Key = "it\'s")' in found


def test_a_text_too_long_for_a_key_is_found(other: Callable[..., Rig]) -> None:
    pair = other(
        "CREATE TABLE public.t (k text PRIMARY KEY); INSERT INTO public.t VALUES (repeat('ä', 768)), (repeat('x', 769))"
    )
    (found,) = refused(pair, pair.update())
    assert "public.t.k would be varchar(768), which cannot hold each of its values: one is longer than that" in found


def test_allowed_types_are_created_in_the_slaves_dialect(other: Callable[..., Rig]) -> None:
    pair = other(
        "CREATE TYPE public.mood AS ENUM ('sad', 'ok');"
        "CREATE TABLE public.t (id int PRIMARY KEY DEFAULT 7, m public.mood, f numeric(8,2),"
        " g int GENERATED ALWAYS AS (id) STORED); INSERT INTO public.t VALUES (1, 'sad', 'NaN')"
    ).with_slave(lossy_columns=("public.*.f",))
    pair.slave.execute('CREATE DOMAIN public.longtext AS text; CREATE DOMAIN public."int" AS int')
    pair.capture()
    update = pair.update()
    steps.begin(update, pair.store)
    steps.create_tables(update)
    columns = pair.slave.execute(
        "SELECT attname::text, format_type(atttypid, atttypmod), atthasdef FROM pg_attribute "
        "WHERE attrelid = 'public.t'::regclass AND attnum > 0 ORDER BY attnum"
    ).fetchall()
    assert columns == [
        ("id", "integer", False), ("m", "character varying(3)", False), ("f", "numeric(8,2)", False),
    ]  # fmt: skip
