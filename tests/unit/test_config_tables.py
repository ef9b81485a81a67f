"""Which tables are replicated, by which line, in which order."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import sql_files
from sluice.configuration.model import Endpoint, Replication
from sluice.configuration.resolve import MASTER_TABLES, SLAVE_TABLES, ResolvedTable
from sluice.configuration.rule import TablePattern, TableRule
from sluice.model.names import InvalidName, Prefix, TableName
from tests.errors import raises_code


def replication(*rules: TableRule) -> Replication:
    return Replication(Prefix("DEMO_"), Endpoint("m"), {}, rules, source=Path("DEMO.yaml"))


def rule(pattern: str, **options: object) -> TableRule:
    return TableRule(TablePattern.parse(pattern), **options)  # type: ignore[arg-type]


def public(*names: str) -> list[TableName]:
    return [TableName("public", name) for name in names]


def resolved(*rules: TableRule, existing: list[TableName]) -> list[str]:
    return [entry.table.name for entry in replication(*rules).resolve(existing)]


names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)


def test_the_most_exact_line_wins() -> None:
    rules = (
        rule("public.*", sequence=1),
        rule("public.order*", sequence=2),
        rule("public.order_?", sequence=3),
        rule("public.order_x", sequence=4),
        rule("public.[st]*", sequence=5),
    )
    found = replication(*rules).resolve(public("a", "orders", "order_y", "order_x", "tax"))
    assert {entry.table.name: entry.sequence for entry in found} == {
        "a": 1,
        "orders": 2,
        "order_y": 3,
        "order_x": 4,
        "tax": 5,
    }


@pytest.mark.parametrize("turn", [1, -1])
def test_a_table_wins_over_a_wildcard_wherever_it_stands(turn: int) -> None:
    rules = [rule("public.*"), rule("public.log", actions=frozenset("I"))][::turn]
    (entry,) = replication(*rules).resolve(public("log"))
    assert entry == ResolvedTable(TableName("public", "log"), frozenset("I"), -1, None, False)


def test_among_equally_exact_wildcards_the_first_line_wins() -> None:
    found = replication(rule("public.a*", sequence=1), rule("public.*b", sequence=2)).resolve(public("ab"))
    assert found[0].sequence == 1


def test_options_of_the_line_reach_the_table() -> None:
    line = rule("s.t", actions=frozenset("ID"), sequence=7, trigger="TR", debug=True)
    assert replication(line).resolve([TableName("s", "t")]) == [
        ResolvedTable(TableName("s", "t"), frozenset("ID"), 7, "TR", True)
    ]


def test_negative_and_absent_sequences_come_first_then_ascending() -> None:
    rules = [
        rule("public.five", sequence=5),
        rule("public.zero", sequence=0),
        rule("public.none"),
        rule("public.minus9", sequence=-9),
        rule("public.one", sequence=1),
        rule("public.minus1", sequence=-1),
    ]
    order = resolved(*rules, existing=public("one", "zero", "none", "five", "minus9", "minus1"))
    assert set(order[:3]) == {"none", "minus9", "minus1"}
    assert order[3:] == ["zero", "one", "five"]


def test_the_order_depends_on_nothing_but_sequence_and_name() -> None:
    rules = [rule("public.*"), rule("public.b", sequence=-3)]
    tables = public("c", "a", "b")
    assert resolved(*rules, existing=tables) == resolved(*rules, existing=tables[::-1]) == ["a", "b", "c"]


def test_a_line_can_take_tables_out_of_a_wildcard() -> None:
    rules = [rule("public.*"), rule("public.tmp_*", replicate=False), rule("public.tmp_keep")]
    assert resolved(*rules, existing=public("a", "tmp_x", "tmp_keep")) == ["a", "tmp_keep"]
    # A table that is taken out need not exist.
    assert resolved(rule("public.*"), rule("public.gone", replicate=False), existing=public("a")) == ["a"]


def test_names_are_compared_exactly() -> None:
    tables = [TableName("public", "Orders"), TableName("Public", "orders"), TableName("public", "a.b")]
    assert resolved(rule("public.O*"), existing=tables) == ["Orders"]
    assert resolved(rule('public."a.b"'), existing=tables) == ["a.b"]
    assert resolved(rule('"Public".*'), existing=tables) == ["orders"]


def test_a_quoted_name_is_no_wildcard() -> None:
    tables = public("a*", "ab")
    assert resolved(rule('public."a*"'), existing=tables) == ["a*"]
    assert resolved(rule("public.a*"), existing=tables) == ["a*", "ab"]


def test_all_missing_tables_are_reported_together() -> None:
    rules = [rule("public.*"), rule("public.oders"), rule("sales.gone"), rule("public.nothing*")]
    with raises_code("tables-missing") as caught:
        replication(*rules).resolve(public("orders"))
    found = "DEMO.yaml: the master of DEMO_ has no table public.oders (there is public.orders), sales.gone."
    assert str(caught.value).startswith(found)


def test_a_wildcard_never_takes_sluices_own_tables() -> None:
    own = [f"demo_{name}" for name in MASTER_TABLES | SLAVE_TABLES]
    # Another prefix, a slave of a third one, and tables that only look like it.
    others = ["other_items", "other_tables", "other_current_tables", "other_debug_table", "other_longs_table"]
    slave = ["up_checkpoint", "up_blocks", "up_rejects"]
    slave += ["up_stage_12_3_put", "demo_stage_1_1_drop"]
    mine = [
        "demo_orders",
        "demo_stage_plan",
        "items",
        "shop_items",
        "shop_tables",
        "blocks",
        "other_orders",
        "up_orders",
    ]
    assert resolved(rule("public.*"), existing=public(*own, *others, *slave, *mine)) == sorted(mine)


def test_sluices_own_tables_are_those_that_the_sql_files_create() -> None:
    folder = sql_files.folder() / "postgres"

    def created(pattern: str) -> set[str]:
        texts = [file.read_text() for file in sorted(folder.glob(pattern))]
        return {
            name
            for text in texts
            for name in re.findall(r"CREATE TABLE IF NOT EXISTS \$\{schema\}\.\$\{prefix\}(\w+)", text)
        }

    assert created("resources_v*.sql") == MASTER_TABLES
    assert created("slave_resources*.sql") == SLAVE_TABLES
    assert created("*.sql") == MASTER_TABLES | SLAVE_TABLES


def test_tables_of_the_same_name_in_another_schema_are_not_taken_for_another_prefix() -> None:
    tables = [*public("shop_items", "shop_tables"), TableName("other", "shop_current_tables")]
    assert resolved(rule("public.*"), existing=tables) == ["shop_items", "shop_tables"]


def test_sluices_own_tables_cannot_be_named() -> None:
    with raises_code("own-table", match=r"DEMO\.yaml: public\.demo_items belongs to Sluice itself"):
        replication(rule("public.demo_items")).resolve(public("demo_items"))


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "a.", ".b", "*.b", "s?.b", '"a', 'a."b', '"a"x.b', '"".b'])
def test_lines_that_name_no_table_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        TablePattern.parse(text)


@given(st.builds(TableName, names, names))
def test_every_name_can_be_written_as_a_line_that_means_it_alone(table: TableName) -> None:
    schema, name = (part.replace('"', '""') for part in (table.schema, table.name))
    pattern = TablePattern.parse(f'"{schema}"."{name}"')
    assert pattern.table == table
    assert not pattern.wildcard
    assert pattern.matches(table)
    assert not pattern.matches(TableName(table.schema, table.name + "x"))


@given(st.lists(names, unique=True), st.data())
def test_every_table_of_a_schema_is_taken_once_and_exact_lines_never_lose(
    tables: list[str], data: st.DataObject
) -> None:
    exact = data.draw(st.lists(st.sampled_from(tables), unique=True)) if tables else []
    rules = [
        TableRule(TablePattern("s", "*", wildcard=True)),
        *(TableRule(TablePattern("s", name), sequence=number) for number, name in enumerate(exact)),
    ]
    existing = [TableName("s", name) for name in tables]
    found = Replication(Prefix("QQ_"), Endpoint("m"), {}, tuple(rules)).resolve(existing)
    assert sorted(entry.table for entry in found) == sorted(existing)
    assert [entry.table.name for entry in found if entry.sequence >= 0] == exact
    assert [entry.sequence for entry in found] == sorted(entry.sequence for entry in found)
