"""The clauses of ALTER TABLE that lead from any definition to any other one, one after another."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.target.alter_plan import plan
from tests.examples import examples

TABLE = TableName("public", "t")
NAMES = ["a", "b", "c", "d", "third", 'Odd "name"', "ä"]

definitions = st.lists(st.sampled_from(NAMES), unique=True).flatmap(
    lambda names: st.lists(st.integers(1, len(NAMES)), unique=True, min_size=len(names), max_size=len(names)).map(
        lambda numbers: dict(zip(sorted(numbers), names, strict=True))
    )
)
"""Names of columns by their numbers."""


def defined(names: Mapping[int, str]) -> TableDefinition:
    columns = tuple(Column(name, "integer", number) for number, name in names.items())
    return TableDefinition(TableShape(TABLE, columns))


@given(before=definitions, after=definitions)
@settings(max_examples=examples(200))
def test_any_columns_are_dropped_renamed_and_added_in_an_order_in_which_no_name_is_taken(
    before: dict[int, str], after: dict[int, str]
) -> None:
    numbers: dict[str, int | None] = {quoted(name): number for number, name in before.items()}
    for clause in plan(defined(before), defined(after), defined(before).shape, 180000):
        verb, rest = clause.split(" COLUMN ")
        if verb == "DROP":
            del numbers[rest]
        elif verb == "RENAME":
            old, new = rest.split(" TO ")
            assert new not in numbers, clause
            numbers[new] = numbers.pop(old)
        else:
            name = rest.removesuffix(" integer")
            assert name not in numbers, clause
            numbers[name] = None
    assert numbers == {quoted(name): number if number in before else None for number, name in after.items()}


def computed(names: Mapping[int, str], expression: str) -> TableDefinition:
    of = defined(names)
    column = Column("g", "integer", 9, default=expression, generated="s")
    return TableDefinition(TableShape(TABLE, (*of.shape.columns, column)))


def test_a_column_is_computed_otherwise_if_its_expression_names_other_columns() -> None:
    was = computed({1: "a", 2: "b"}, "(a || 'b')")
    renamed = computed({1: "c", 2: "b"}, "(c || 'b')")
    assert plan(was, renamed, was.shape, 180000) == ['RENAME COLUMN "a" TO "c"']
    other = computed({2: "a"}, "(a || 'b')")
    expected = [
        'RENAME COLUMN "a" TO "sluice_dropped_1"',
        'RENAME COLUMN "b" TO "a"',
        "ALTER COLUMN \"g\" SET EXPRESSION AS ((a || 'b'))",
        'DROP COLUMN "sluice_dropped_1"',
    ]
    assert plan(was, other, was.shape, 170000) == expected
    again = "ADD COLUMN \"g\" integer GENERATED ALWAYS AS ((a || 'b')) STORED"
    assert plan(was, other, was.shape, 160000) == [
        'DROP COLUMN "g"', 'DROP COLUMN "a"', 'RENAME COLUMN "b" TO "a"', again
    ]  # fmt: skip
