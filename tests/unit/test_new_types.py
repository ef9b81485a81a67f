"""Composite types follow by their attributes' numbers; what an item says of types is written and read unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import (
    Attribute,
    CollationType,
    CompositeType,
    DomainType,
    RangeType,
    TableDefinition,
    format_definition,
    parse,
)
from sluice.vendors.postgres.target.new_types import AttributesDiffer, _creations, changes, renames
from tests.errors import raises_code

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
ATTRIBUTES = st.builds(Attribute, st.integers(1, 9), NAMES, NAMES, st.none() | NAMES)
COMPOSITES = st.builds(CompositeType, NAMES, NAMES, st.integers(1, 99), st.lists(ATTRIBUTES, max_size=3).map(tuple))
RANGES = st.builds(RangeType, *[NAMES] * 6, *[st.none() | NAMES] * 3)
COLLATIONS = st.builds(CollationType, *[NAMES] * 4, *[st.none() | NAMES] * 4)
DOMAINS = st.builds(DomainType, NAMES, NAMES, NAMES, st.none() | NAMES)
TABLE = TableName("public", "t")


def several(each: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(each, max_size=2).map(tuple)


@given(several(COMPOSITES), several(RANGES), several(COLLATIONS), several(DOMAINS))
def test_types_are_read_as_they_were_written(
    composites: tuple[CompositeType, ...],
    ranges: tuple[RangeType, ...],
    collations: tuple[CollationType, ...],
    domains: tuple[DomainType, ...],
) -> None:
    shape = TableShape(TABLE, (Column("id", "integer", 1),))
    definition = TableDefinition(shape, domains=domains, composites=composites, ranges=ranges, collations=collations)
    assert parse(format_definition(definition)) == definition


def place(*attributes: tuple[int, str], name: str = "place") -> CompositeType:
    return CompositeType("public", name, 7, tuple(Attribute(number, label, "integer") for number, label in attributes))


def applied(names: list[str], statements: list[str]) -> list[str]:
    """What the statements make of a type's attributes."""
    for statement in statements:
        words = statement.split('"')
        if " DROP ATTRIBUTE " in statement:
            names.remove(words[-2])
        elif " RENAME ATTRIBUTE " in statement:
            assert words[-2] not in names, statement
            names[names.index(words[-4])] = words[-2]
        else:
            names.append(words[-2])
    return names


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True), st.data())
def test_any_change_of_attributes_is_made_once_however_often_it_comes(names: list[str], data: st.DataObject) -> None:
    was = place(*enumerate(names, 1))
    kept = [number for number, _ in enumerate(names, 1) if data.draw(st.booleans())]
    labels = data.draw(st.lists(st.sampled_from("abcdefgh"), min_size=len(kept), max_size=8, unique=True))
    numbers = [*kept, *range(len(names) + 1, len(names) + 1 + len(labels) - len(kept))]
    now = place(*zip(numbers, labels, strict=True))
    if [each.name for each in was.attributes] == labels and numbers != list(range(1, len(names) + 1)):
        with pytest.raises(AttributesDiffer, match="another one got its name"):
            changes(was, now, names)
        return
    assert applied(list(names), changes(was, now, names)) == labels
    assert changes(was, now, labels) == []


def test_a_type_of_the_slaves_own_is_not_changed() -> None:
    with pytest.raises(AttributesDiffer, match="has on the slave: x; the master's had: a, b"):
        changes(place((1, "a"), (2, "b")), place((1, "a"), (2, "b"), (3, "c")), ["x"])
    with pytest.raises(AttributesDiffer, match="is no composite type on the slave"):
        changes(place((1, "a")), place((1, "a")), None)


def test_a_renamed_type_is_renamed() -> None:
    assert renames(("public", "place"), ("public", "spot")) == ['ALTER TYPE "public"."place" RENAME TO "spot"']


@pytest.mark.parametrize(
    "definition",
    [
        TableDefinition(TableShape(TABLE, ()), domains=(DomainType("public", "d", "int; DROP TABLE t"),)),
        TableDefinition(TableShape(TABLE, ()), domains=(DomainType("public", "d", "text", 'x"; DROP TABLE t'),)),
        TableDefinition(
            TableShape(TABLE, ()),
            composites=(CompositeType("public", "c", 1, (Attribute(1, "a", "int) ; DROP TABLE t; --"),)),),
        ),
        TableDefinition(
            TableShape(TABLE, ()), ranges=(RangeType("public", "r", "int", "public.evil_ops", "public", "m"),)
        ),
        TableDefinition(
            TableShape(TABLE, ()),
            ranges=(RangeType("public", "r", "int", "pg_catalog.int4_ops", "public", "m", diff="public.evil"),),
        ),
    ],
)
def test_nothing_but_names_and_types_becomes_a_statement(definition: TableDefinition) -> None:
    with raises_code("definition-unreadable"):
        _creations(definition)
