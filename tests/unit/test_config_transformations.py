"""`where` and `columns` in a configuration: read, and refused if they make no sense."""

from pathlib import Path

import pytest

from sluice import config
from sluice.configuration.mistakes import ConfigError
from sluice.configuration.model import Replication
from sluice.model.names import TableName
from sluice.model.transformation import Computed, Constant, Excluded, Renamed

PEOPLE, ORDERS = TableName("public", "people"), TableName("public", "orders")


def read(folder: Path, tables: str, slaves: str = "dr1: {conn_id: s}", master: str = "conn_id: m") -> Replication:
    text = f"prefix: DEMO_\nmaster: {{{master}}}\nslaves:\n  {slaves}\ntables:\n  {tables}\n"
    (folder / "DEMO.yaml").write_text(text)
    return config.load("DEMO_")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_REPLICATIONS", str(tmp_path))
    return tmp_path


def test_a_line_says_which_rows_and_columns_slaves_get(folder: Path) -> None:
    found = read(
        folder,
        "public.people: {where: id < 9, columns: {a: {exclude: true}, b: {rename: B}, c: {constant: null}, "
        "d: {constant: 0}, e: {expression: upper(b)}}, exit: shop.exits:people}",
    )
    rule = found.transformation(PEOPLE, found.slave("dr1"))
    assert rule is not None and rule.where == "id < 9" and rule.place.endswith("DEMO.yaml:6: tables.public.people")
    assert rule.by_name == {
        "a": Excluded(), "b": Renamed("B"), "c": Constant(None), "d": Constant("0"), "e": Computed("upper(b)"),
    }  # fmt: skip
    assert not rule.extra_key
    assert rule.text == "where id < 9; a is excluded; b is B on the slave; c is constant: null; d is constant: '0'; " \
        "e is upper(b); exit shop.exits:people"  # fmt: skip
    assert found.transformation(ORDERS, found.slave("dr1")) is None


def test_a_slaves_line_takes_the_place_of_that_for_all(folder: Path) -> None:
    slaves = (
        "dr1: {conn_id: s}\n  dr2: {conn_id: t, tables: {public.people: {where: id > 9}, public.orders: {}}}\n"
        "  dr3: {conn_id: u, tables: {'public.*': {columns: {x: {exclude: true}}}}}"
    )
    found = read(folder, "public.people: {where: id < 9}\n  public.*: {where: id = 1}", slaves)
    wheres = {
        (slave, table.name): rule.where if (rule := found.transformation(table, found.slave(slave))) else "as it is"
        for slave in ("dr1", "dr2", "dr3")
        for table in (PEOPLE, ORDERS)
    }
    assert wheres == {
        ("dr1", "people"): "id < 9", ("dr1", "orders"): "id = 1",
        ("dr2", "people"): "id > 9", ("dr2", "orders"): "as it is",
        ("dr3", "people"): None, ("dr3", "orders"): None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{where: ''}", "tables.public.people.where: is empty; write an expression"),
        ("{columns: [a]}", "tables.public.people.columns: is a list; write a line for each column"),
        ("{columns: {a: exclude}}", "columns.a: is 'exclude'; write one of exclude: true, rename: NAME"),
        ("{columns: {a: {exclud: true}}}", "columns.a.exclud: is not known; did you mean exclude?"),
        ("{columns: {a: {}}}", "columns.a: says nothing; write one of"),
        ("{columns: {a: {exclude: true, rename: b}}}", "columns.a: says exclude and rename; write one of"),
        ("{columns: {a: {exclude: false}}}", "columns.a: says exclude: false; take the line out"),
        ("{columns: {a: {exclude: perhaps}}}", "'perhaps' is neither true nor false"),
        ("{columns: {a: {constant: [1]}}}", "columns.a.constant: is a list; write a text"),
        ("{columns: {a: {rename: ''}}}", "columns.a.rename: is empty; write the column's name"),
        ("{where: id < 9, replicate: false}", "has where although replicate is false"),
        ("{exit: shop.people}", "exit: 'shop.people' names no function; write package.module:function"),
        ("{exit: 'shop:f(x)'}", "exit: 'shop:f(x)' names no function"),
        ("{exit: ''}", "exit: is empty; write package.module:function"),
        ("{exit: 'shop:f', extra_key: []}", "extra_key: is empty; name the slave's columns that tell the rows"),
        ("{extra_key: [line]}", "extra_key: is there without exit; name the exit that makes several rows"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_what_to_write(folder: Path, line: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(folder, f"public.people: {line}")
    assert "DEMO.yaml:6" in str(raised.value) and told in str(raised.value)


def test_slaves_that_cannot_have_transformations_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"slaves\.dr2: gets changes of a recorded stream"):
        slaves = "dr1: {conn_id: s}\n  dr2: {conn_id: t, tables: {public.people: {where: id < 9}}}"
        read(folder, "public.people: {}", slaves, f"capture: stream, location: {folder}")
    several = "public.people: {exit: 'a:b', extra_key: [n]}"
    with pytest.raises(
        ConfigError, match=r"slaves\.dr1: is oracle, and public\.people has extra_key, which was never run"
    ):
        read(folder, several, "dr1: {conn_id: s, vendor: oracle}")
    read(folder, several, "dr1: {conn_id: s, vendor: mysql}")
    read(folder, several, "dr1: {conn_id: s, vendor: oracle, tables: {public.people: {}}}")
    for vendor in ("mysql", "oracle"):
        read(folder, "public.people: {where: id < 9}", f"dr1: {{conn_id: s, vendor: {vendor}}}")
    read(folder, "p.people: {where: id < 9}", "dr1: {conn_id: s, vendor: postgres}", "conn_id: m, vendor: oracle")


@pytest.mark.parametrize(
    ("line", "rules", "refused"),
    [
        ("public.people: {where: id < 9}", "public.*", "public.people"),
        ("public.people: {exit: 'a.b:c'}", "public.people", "public.people"),
        ("public.*: {where: id < 9}", "public.people", "public.people"),
        ("public.p*: {where: id < 9}", "public.*", "public.p*"),
        ("public.people: {where: id < 9}", "public.orders", None),
        ("public.people: {columns: {a: {exclude: true}}, target: {name: folk}}", "public.*", None),
    ],
)
def test_a_rule_for_conflicts_and_rows_that_are_left_out_exclude_each_other(
    folder: Path, line: str, rules: str, refused: str | None
) -> None:
    slave = f"dr1: {{conn_id: s, conflict_rules: {{'{rules}': {{wins: master}}}}}}"
    if refused is None:
        read(folder, line, slave)
        return
    with pytest.raises(ConfigError) as raised:
        read(folder, line, slave)
    assert f"slaves.dr1: has conflict_rules for {refused}, and where or exit for the same" in str(raised.value)
