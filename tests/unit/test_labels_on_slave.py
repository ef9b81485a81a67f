"""Labels of a slave's enum follow those of the master, each by its number, whatever it is renamed to."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.model.table_definition import EnumType, TableDefinition
from sluice.vendors.postgres.target import enums

Labels = tuple[tuple[int, str], ...]
NAMES = "abcde"


def enum(labels: Labels) -> EnumType:
    return EnumType("public", "mood", labels)


def definition(labels: Labels) -> TableDefinition:
    return TableDefinition(TableShape(TableName("public", "t"), ()), enums=(enum(labels),))


@st.composite
def histories(draw: st.DrawFn) -> list[Labels]:
    """States of one enum of the master: labels are added anywhere and renamed, several between two states."""
    labels: Labels = ((1, "a"), (2, "b"))
    found, number = [labels], 2
    for _ in range(draw(st.integers(1, 5))):
        for _ in range(draw(st.integers(1, 4))):
            free = [name for name in NAMES if name not in dict(labels).values()]
            if not free:
                break
            name = draw(st.sampled_from(free))
            place = draw(st.integers(0, len(labels) - 1))
            if draw(st.booleans()):
                number += 1
                labels = (*labels[:place], (number, name), *labels[place:])
            else:
                labels = (*labels[:place], (labels[place][0], name), *labels[place + 1 :])
        if draw(st.booleans()):  # what only a comparison sees: two names exchanged
            (one, first), (two, second), *rest = labels
            labels = ((one, second), (two, first), *rest)
        found.append(labels)
    return found


class Slave:
    """An enum whose labels have the identity of the master's; it refuses what PostgreSQL refuses."""

    def __init__(self, labels: Labels):
        self.labels = [list(each) for each in labels]

    @property
    def names(self) -> list[str]:
        return [str(name) for _, name in self.labels]

    def run(self, statement: str, number_of: dict[str, int]) -> None:
        added = re.fullmatch(r".* ADD VALUE IF NOT EXISTS '(.*?)'(?: (BEFORE|AFTER) '(.*)')?", statement)
        if added:
            assert added[1] not in self.names
            place = self.names.index(added[3]) + (added[2] == "AFTER") if added[2] else len(self.labels)
            number = int(added[1].split()[-1]) if " " in added[1] else number_of[added[1]]
            self.labels.insert(place, [number, added[1]])
            return
        renamed = re.fullmatch(r".* RENAME VALUE '(.*)' TO '(.*)'", statement)
        assert renamed and renamed[1] in self.names and renamed[2] not in self.names, statement
        self.labels[self.names.index(renamed[1])][1] = renamed[2]


@st.composite
def items(draw: st.DrawFn) -> list[tuple[Labels, Labels]]:
    """The changes of the enum in the items of two tables; those of the second one skip states."""
    states = draw(histories())
    found, seen = [], states[0]
    for old, new in pairwise(states):
        found.append((old, new))
        if draw(st.booleans()):
            found.append((seen, new))
            seen = new
    return [*found, (seen, states[-1])]


@given(items(), st.integers(1, 4))
def test_any_history_in_any_windows_leaves_the_slave_with_the_masters_labels(
    changes: list[tuple[Labels, Labels]], in_window: int
) -> None:
    slave = Slave(changes[0][0])
    for begin in range(0, len(changes), in_window):
        window = changes[begin : begin + in_window]
        names = enums.Names()
        for old, new in window:
            names.add(enum(old))
            names.add(enum(new))
        for old, new in window:
            before = enums.numbers_of([enum(old)])
            for statement in enums.additions(enum(new), slave.names, names, before):
                slave.run(statement, {name: number for number, name in new})
        for old, new in window:
            for statement in enums.renames(definition(old), enum(new), slave.names):
                slave.run(statement, {})
        assert [tuple(each) for each in slave.labels] == list(window[-1][1])


def test_a_label_of_the_slaves_own_with_the_new_name_is_refused() -> None:
    with pytest.raises(enums.LabelsAmbiguous, match="the label 'b', which is the slave's own"):
        enums.renames(definition(((1, "a"),)), enum(((1, "b"),)), ["a", "b"])


def test_a_slave_with_another_order_and_more_labels_follows_by_the_names() -> None:
    old, new = definition(((1, "a"), (2, "b"))), enum(((1, "x"), (2, "b")))
    statement = "ALTER TYPE \"public\".\"mood\" RENAME VALUE 'a' TO 'x'"
    assert enums.renames(old, new, ["b", "a"]) == enums.renames(old, new, ["a", "own", "b"]) == [statement]
    names = enums.Names()
    names.add(enum(((1, "a"),)))
    names.add(added := enum(((1, "a"), (2, "b"))))
    (statement,) = enums.additions(added, ["a", "own"], names, {1})
    assert statement.endswith("ADD VALUE IF NOT EXISTS 'b' AFTER 'a'")
