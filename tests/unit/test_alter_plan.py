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
