"""Digests mean the same on both sides for every type, whatever the databases' encodings, collations and settings."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devstack.postgres import PostgresServer
from devstack.postgres_releases import NEWEST, RELEASES
from sluice.database.digests import ROWS_A_BLOCK, Method, compared
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.postgres import column_types, digest
from sluice.vendors.postgres.catalog import shape
from sluice.vendors.postgres.connection import connect
from sluice.vendors.postgres.digest import Digest
from sluice.vendors.postgres.digester import PostgresDigester
from sluice.verify.findings import Kind, Outcome
from tests.examples import examples
from tests.features import values_there
from tests.rig.rig import Rig
from tests.scenarios.verify.values import EQUAL, FOLDED, KEYS, PREPARE, TYPES, VECTOR, text
from tests.scenarios.verify.verifying import counts, look, look_at_all

HOSTILE = {
    "DateStyle": "German, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "xmloption": "document",
    "search_path": "public",
    "row_security": "on",
    "quote_all_identifiers": "on",
}
SLAVES = {
    "alike": "",
    "libc": "ENCODING 'UTF8' LOCALE_PROVIDER libc LOCALE 'C.UTF-8'",
    "builtin": "ENCODING 'UTF8' LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'",
    "latin1": "ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'",
    "ascii": "ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C'",
}
PROVIDERS = (15, "providers of locales")
SINCE = {"builtin": (17, "builtin locales"), "libc": PROVIDERS, "latin1": PROVIDERS, "ascii": PROVIDERS}
QUICK = ("latin1",)
RELEASES_APART = {
    f"{master} to {slave}": (master, slave)
    for other in RELEASES[:-1]
    for master, slave in ((other, other), (other, NEWEST), (NEWEST, other))
}
RANGES = {
    "smallint": "i",
    "int": "-i",
    "bigint": "i * 4294967296",
    "date": "date '2000-01-01' + i",
    "uuid": "md5(i::text)::uuid",
    "timestamp": "timestamp '2000-01-01' + i * interval '1 h'",
    "timestamptz": "timestamptz '2000-01-01+00' - i * interval '1 h'",
}
"""Types whose values every server orders alike, and how the value of row i is made."""
EXTENSIONS = ("public.hstore", "public.citext", "public.vector(2)")
FELL_BACK = {"latin1": "LATIN1", "ascii": "SQL_ASCII"}


def kinds() -> list[Any]:
    """The ways to create the slave's database, or the releases of master and slave."""
    found = []
    for kind in [*SLAVES, *RELEASES_APART]:
        marks = [] if kind in QUICK else [pytest.mark.long]
        if kind in SINCE:
            marks.append(pytest.mark.since(*SINCE[kind]))
        found.append(pytest.param(kind, marks=marks))
    return found


class Making:
    """Two empty databases; `build` makes a rig of them. The slave's has hostile settings."""

    def __init__(self, kind: str, master: ConnectionInfo, slave: ConnectionInfo, redis_url: str, folder: Path) -> None:
        self.kind, self.infos, self.redis_url, self.folder = kind, (master, slave), redis_url, folder
        self.types = dict(TYPES)
        """The types that both servers have, with the values that both have."""
        for info in self.infos:
            with connect(info, application="test") as connection:
                self.types = types_there(connection, self.types)

    def build(self, tables: str) -> Rig:
        infos = iter(self.infos)
        prepare = PREPARE + (VECTOR if "public.vector(2)" in self.types else "")
        return Rig.normal(lambda **_: next(infos), self.redis_url, self.folder, prepare + tables, compare=False)


@pytest.fixture(params=kinds())
def making(
    request: pytest.FixtureRequest, database: Callable[..., ConnectionInfo], postgres: PostgresServer, redis_url: str,
    server_of_release: Callable[[int], PostgresServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> Making:  # fmt: skip
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    left, right = map(server_of_release, RELEASES_APART.get(request.param, (postgres.release, postgres.release)))
    master, slave = database(server=left), database(server=right)
    with right.connect() as connection:
        name = slave.database
        connection.execute(f"DROP DATABASE {name}")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 {SLAVES.get(request.param, '')}".encode())
        for setting, value in HOSTILE.items():
            connection.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'".encode())
    with right.connect(name) as connection:
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    return Making(request.param, master, slave, redis_url, tmp_path)


def types_there(
    connection: "psycopg.Connection[Any]", types: dict[str, list[str | None]]
) -> dict[str, list[str | None]]:
    found = {kind: values_there(connection, kind, values) for kind, values in types.items()}
    return {kind: values for kind, values in found.items() if values}


def test_every_value_is_found_equal_to_itself_and_different_from_all_that_look_alike(
    making: Making,
) -> None:
    """A row (column, place) has only that value; by hand it is changed to the next one of its type."""
    columns = [(f"c{number}", kind) for number, kind in enumerate(making.types, 1)]
    rig = making.build(
        f"CREATE TABLE public.z (id int PRIMARY KEY, {', '.join(f'{name} {kind}' for name, kind in columns)})"
    )
    changes, expected, number = [], {}, 0
    with rig.apply():
        for name, kind in columns:
            values = making.types[kind]
            for place, value in enumerate(values):
                number += 1
                rig.master.execute(
                    f"INSERT INTO public.z (id, {name}) VALUES ({number}, {text(value)}::{kind})".encode()
                )
                after = values[(place + 1) % len(values)]
                changes.append(f"UPDATE public.z SET {name} = {text(after)}::{kind} WHERE id = {number}")
            expected[name] = len(values)
        rig.await_current()
        same = look(rig, "z")
        assert same.outcome is Outcome.IDENTICAL, same.examples
        assert same.rows_slave == number
        assert FELL_BACK.get(making.kind, "") in same.fell_back
        assert bool(same.fell_back) == (making.kind in FELL_BACK)
        assert same.method == ("md5" if same.fell_back else "hash64")
        for change in changes:
            rig.slave.execute(change.encode())
        finding = look(rig, "z")
    assert finding.columns == expected
    assert counts(finding) == {"different": number}


@pytest.mark.long
def test_a_key_of_every_type_names_its_row(making: Making) -> None:
    """In each table the first row is deleted and the second one changed."""
    kinds = {f"k{number}": kind for number, kind in enumerate(KEYS, 1) if kind in making.types}
    rig = making.build(
        ";".join(f"CREATE TABLE public.{name} (v {kind} PRIMARY KEY, n int)" for name, kind in kinds.items())
    )
    with rig.apply():
        rows = {}
        for name, kind in kinds.items():
            rows[name] = [
                value for value in making.types[kind] if value is not None and value not in EQUAL.get(kind, ())
            ]
            for value in rows[name]:
                rig.master.execute(f"INSERT INTO public.{name} VALUES ({text(value)}::{kind}, 1)".encode())
        rig.await_current()
        wrong = {}
        found = look_at_all(rig, kinds)
        for name, kind in kinds.items():
            same = found[name]
            if same.outcome is not Outcome.IDENTICAL or same.rows_slave != len(rows[name]):
                wrong[kind] = (same.outcome, same.examples)
        assert not wrong
        for name, kind in kinds.items():
            first, second = (
                f"v {'OPERATOR(public.=)' if kind in EXTENSIONS else '='} {text(value)}::{kind}"
                for value in rows[name][:2]
            )
            rig.slave.execute(f"DELETE FROM public.{name} WHERE {first}".encode())
            rig.slave.execute(f"UPDATE public.{name} SET n = 2 WHERE {second}".encode())
        found = look_at_all(rig, kinds)
        for name, kind in kinds.items():
            finding = found[name]
            shown = {key for each in Kind for (key,) in finding.found[each].keys}
            if counts(finding) != {"missing": 1, "different": 1} or len(shown) != 2 or finding.columns != {"n": 1}:
                wrong[kind] = (counts(finding), finding.columns)
    assert not wrong


@pytest.mark.one_in(3)
@pytest.mark.releases
@pytest.mark.parametrize("method", list(Method))
def test_no_two_values_of_a_type_have_the_same_digest(database: Callable[..., ConnectionInfo], method: Method) -> None:
    with connect(database(), application="test", autocommit=True) as connection:
        types = types_there(connection, TYPES)
        connection.execute((PREPARE + (VECTOR if "public.vector(2)" in types else "")).encode())
        for number, (kind, values) in enumerate(types.items(), 1):
            name = TableName("public", f"d{number}")
            connection.execute(f"CREATE TABLE {name} (id int, v {kind})".encode())
            for value in values:
                connection.execute(f"INSERT INTO {name} VALUES (7, {text(value)}::{kind})".encode())
            made = shape(connection, name)
            assert made is not None
            columns = compared(column_types, ((column.name, column.type) for column in made.columns))
            apart = len(values) - len(FOLDED.get(kind, ()) if method is Method.CANONICAL else ())
            for key in ((), ("id",)):
                text_of_digest = PostgresDigester().table(made, columns, key, method).row()
                found = connection.execute(f"SELECT count(DISTINCT {text_of_digest}) FROM {name} t".encode()).fetchone()
                assert found == (apart,), (kind, key)


@pytest.mark.long
@pytest.mark.releases
def test_a_table_of_many_rows_is_cut_into_blocks_by_a_key_of_every_type_that_has_ranges(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 3 * ROWS_A_BLOCK
    monkeypatch.setattr(digest, "SAMPLED_KEYS", count)  # that is, all of them
    names = {f"t{number}": kind for number, kind in enumerate(RANGES, 1)}
    pair = rig(";".join(f"CREATE TABLE public.{name} (v {kind} PRIMARY KEY, n int)" for name, kind in names.items()))
    with pair.apply():
        for name, kind in names.items():
            rows = f"SELECT {RANGES[kind]}, i FROM generate_series(1, {count}) i"
            pair.master.execute(f"INSERT INTO public.{name} {rows}; ANALYZE public.{name}".encode())
        pair.await_current()
        for name, kind in names.items():
            made = shape(pair.master, TableName("public", name))
            assert made is not None
            keys = f"SELECT v::text FROM public.{name} ORDER BY {name}.v"
            ordered = [key for (key,) in pair.master.execute(keys.encode()).fetchall()]
            expected = [ordered[ROWS_A_BLOCK], ordered[2 * ROWS_A_BLOCK]]
            assert digest.bounds(pair.master, made, count) == expected, kind
            same = look(pair, name)
            assert same.outcome is Outcome.IDENTICAL and same.rows_slave == count, kind
            pair.slave.execute(f"UPDATE public.{name} SET n = -n WHERE n % 1000 = 0".encode())
            pair.slave.execute(f"DELETE FROM public.{name} WHERE n = 5".encode())
            assert counts(look(pair, name)) == {"missing": 1, "different": 3}, kind


NUMBERS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.long
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=NUMBERS, flip=st.integers(0, 63), cents=st.integers(-(10**14), 10**14), more=st.integers(-9, 9))
def test_numbers_and_times_that_are_alike_bit_by_bit_have_other_digests(
    numbers: "psycopg.Connection[Any]", one: int, flip: int, cents: int, more: int
) -> None:
    other = one ^ (1 << flip) if flip < 63 else -one - 1
    assert differ(numbers, "bigint", str(one), str(other))
    assert not differ(numbers, "bigint", str(one), str(one))
    amount, near = Decimal(cents) / 100, Decimal(-cents + more) / 100
    assert differ(numbers, "numeric(20,2)", str(amount), str(near)) == (amount != near)
    times = [f"timestamptz '2000-01-01+00' + {value % 2**51} * interval '1 us'" for value in (one, other)]
    assert differ(numbers, "timestamptz", *times, quote=False) == (one % 2**51 != other % 2**51)


@pytest.fixture
def numbers(database: Callable[..., ConnectionInfo]) -> Iterator["psycopg.Connection[Any]"]:
    with connect(database(), application="test", autocommit=True) as connection:
        for kind in ("bigint", "numeric(20,2)", "timestamptz"):
            connection.execute(f'CREATE TABLE public."{kind}" (id int, v {kind})'.encode())
        yield connection


def differ(connection: "psycopg.Connection[Any]", kind: str, one: str, other: str, *, quote: bool = True) -> bool:
    made = shape(connection, TableName("public", kind))
    assert made is not None
    values = [f"'{value}'" if quote else value for value in (one, other)]
    columns = compared(column_types, ((column.name, column.type) for column in made.columns))
    hashed = Digest(made, columns, ("id",), Method.HASH).row()
    rows = ", ".join(f"(7, ({value})::{kind})" for value in values)
    found = connection.execute(f"SELECT count(DISTINCT {hashed}) FROM (VALUES {rows}) AS t (id, v)".encode()).fetchone()
    assert found is not None
    return bool(found[0] == 2)
