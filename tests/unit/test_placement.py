"""Where a slave has the master's tables: read from a configuration, one place a table, names both ways."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import config
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import Replication
from sluice.configuration.placement import Placement
from sluice.model.mask import Mask
from sluice.model.names import NameOfSlave, TableName

PEOPLE, ORDERS, LOG = TableName("public", "people"), TableName("sales", "orders"), TableName("public", "log")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    return tmp_path


def read(folder: Path, *lines: str, slave: str = "conn_id: s") -> Replication:
    listed = "".join(f"  {line}\n" for line in lines)
    text = f"prefix: DEMO_\nmaster: {{conn_id: m}}\nslaves:\n  dr1: {{{slave}}}\ntables:\n{listed}"
    (folder / "DEMO.yaml").write_text(text)
    return config.load("DEMO_")


def placement(folder: Path, *lines: str, slave: str = "conn_id: s") -> Placement:
    found = read(folder, *lines, slave=slave)
    return found.placement(found.slave("dr1"))


LINES = (
    "public.*: {}",
    "public.people: {target: {schema: 'A \"b\"', name: select}}",
    "sales.*: {target: {schema: archive}}",
)


def test_names_go_there_and_come_back(folder: Path) -> None:
    found = placement(folder, *LINES)
    there = [found.slave_name(table) for table in (PEOPLE, ORDERS, LOG)]
    assert there == [TableName('A "b"', "select"), TableName("archive", "orders"), LOG]
    assert [found.master_name(TableName(name.schema, name.name)) for name in there] == [PEOPLE, ORDERS, LOG]
    assert str(there[0]) == 'public.people ("A ""b""".select on the slave)' and str(there[2]) == "public.log"
    assert pickle.loads(pickle.dumps(there[0])).on_master == PEOPLE
    assert sorted([*there, PEOPLE]) == sorted([TableName(name.schema, name.name) for name in [*there, PEOPLE]])


def test_a_table_of_the_slaves_own_under_a_masters_name_is_another_one(folder: Path) -> None:
    found = placement(folder, *LINES)
    own = found.master_name(PEOPLE)
    assert isinstance(own, NameOfSlave) and own != PEOPLE and own != PEOPLE
    assert found.slave_name(own) == PEOPLE and type(found.slave_name(own)) is TableName


def test_a_slaves_line_prevails_and_may_take_the_target_back(folder: Path) -> None:
    own = "conn_id: s, tables: {public.people: {}, 'sales.*': {target: {schema: other}}}"
    found = placement(folder, *LINES, slave=own)
    assert [found.slave_name(table) for table in (PEOPLE, ORDERS)] == [PEOPLE, TableName("other", "orders")]
    assert found.master_name(PEOPLE) == PEOPLE and not Placement()


def test_a_table_whose_place_another_one_has_is_reported(folder: Path) -> None:
    found = placement(folder, "public.people: {target: {name: log}}", "public.*: {}")
    assert found.taken([PEOPLE, LOG, ORDERS]) == {LOG: PEOPLE}
    found = placement(folder, "public.*: {target: {schema: sales}}", "sales.*: {}")
    assert found.taken([ORDERS, TableName("public", "orders")]) == {ORDERS: TableName("public", "orders")}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["public.a: {target: x}"], ":6: tables.public.a.target: is 'x'; write target: {schema: NAME, name: NAME}"),
        (["public.a: {target: {}}"], ":6: tables.public.a.target: says nothing; write target"),
        (["public.a: {target: {nam: x}}"], ":6: tables.public.a.target.nam: is not known; did you mean name?"),
        (["public.a: {target: {name: ''}}"], ":6: tables.public.a.target.name: is empty; write target"),
        (
            ["public.*: {target: {name: x}}"],
            ":6: tables.public.*.target: would give every table of public.* the name x",
        ),
        (
            ["public.a: {target: {name: x}}", "public.b: {target: {name: x}}"],
            ":7: tables.public.b.target: leads to public.x, where public.a has its place; name another place",
        ),
        (
            ["public.a: {}", "sales.a: {target: {schema: public}}"],
            ":7: tables.sales.a.target: leads to public.a, where public.a has its place; name another place",
        ),
        (
            ["public.*: {target: {schema: x}}", "sales.*: {target: {schema: x}}"],
            ":7: tables.sales.*.target: leads to the schema x, as public.* does; name another place",
        ),
        (["public.a: {replicate: false, target: {name: x}}"], "has target although replicate is false"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_what_to_write(folder: Path, lines: list[str], told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(folder, *lines)
    assert told in str(raised.value) and str(raised.value).count("\n") == 1


def test_collisions_of_two_lines_of_one_slave_are_reported(folder: Path) -> None:
    own = "conn_id: s, tables: {public.b: {target: {name: x}}}"
    with pytest.raises(ConfigError, match=r":6: tables.public.a.target: leads to public.x, where public.b"):
        read(folder, "public.a: {target: {name: x}}", "public.*: {}", slave=own)


NAME = st.text(st.sampled_from("ab*.?"), min_size=1, max_size=3)


@given(pattern=st.text(st.sampled_from("ab*.?"), max_size=9), column=NAME)
def test_a_column_that_is_masked_on_the_master_is_masked_on_the_slave(pattern: str, column: str) -> None:
    table, there = TableName("a", "b"), TableName("x.*", "?")
    found = Placement.of_tables({table: there})
    assert Mask((pattern,)).hides(table, column) <= Mask(found.patterns([pattern])).hides(there, column)


def test_patterns_of_a_wildcard_go_along(folder: Path) -> None:
    found = placement(folder, "public.*: {target: {schema: s}}").patterns(["public.people.mail", "*.phone"])
    assert {"s.people.mail", "public.people.mail", "*.phone"} <= set(found)
    assert Mask(found).hides(TableName("s", "x"), "phone") and not Mask(found).hides(TableName("s", "x"), "mail")
