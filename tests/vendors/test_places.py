"""A slave of each vendor with a table under another name (`target`): everything is done to that table alone."""

import pytest

from sluice.configuration.placement import Placement
from sluice.database.apply import ReplayOptions
from sluice.database.conflicts import Conflict
from sluice.model.change import Action
from sluice.model.names import TableName
from sluice.model.shape import Column
from tests.unit.changes import TABLE, History
from tests.vendors.contender import Contender
from tests.vendors.test_changes import defined, item

ELSEWHERE = TableName("public", "Leute select")
OWN = [("1", "the slave's own")]


@pytest.fixture
def elsewhere(target: Contender) -> Contender:
    """A slave with its own table under the master's name."""
    target.create()
    history = History()
    history.insert(*OWN[0])
    target.merge(history)
    target.placement = Placement.of_tables({TABLE: ELSEWHERE})
    return target


def own_rows(target: Contender) -> list[tuple[str | None, ...]]:
    placement, target.placement = target.placement, Placement()
    try:
        return target.rows()
    finally:
        target.placement = placement


def test_rows_are_merged_replayed_emptied_and_compared_there(elsewhere: Contender) -> None:
    elsewhere.create()
    history = History()
    for number in range(6):
        history.insert(str(number), f"v{number}")
    elsewhere.merge(history)
    at = len(history.items)
    history.update(("1", "v1"), ("7", "moved"))
    history.update(("2", "v2"), ("2", "new"))
    history.delete("3", "v3")
    elsewhere.merge(history, at, images=True)
    assert elsewhere.rows() == elsewhere.expected(history.rows)
    at = len(history.items)
    history.update(("2", "new"), ("2", "again"))
    history.insert("9", "nine")
    session, merger = elsewhere.applying()
    with session.transaction():
        merger.begin()
        merger.replayer().replay(history.changes(at), ReplayOptions(images=[TABLE]))
    assert elsewhere.rows() == elsewhere.expected(history.rows)
    misfit = History()
    misfit.rows = [("4", "elsewhere")]
    misfit.update(("4", "elsewhere"), ("4", "x"))
    with pytest.raises(Conflict) as conflict, session.transaction():
        merger.begin()
        merger.replayer().replay(misfit.changes(), ReplayOptions(images=[TABLE]))
    assert conflict.value.table == TABLE and "Leute select" in str(conflict.value)
    with session.transaction():
        merger.begin()
        elsewhere.alterer(merger).truncate([TABLE])
    assert elsewhere.rows() == [] and own_rows(elsewhere) == OWN


def test_definitions_follow_there(elsewhere: Contender) -> None:
    key, value = Column("id", "integer", 1, False, 1), Column("v", "text", 2)
    first, named = defined(key, value), defined(key, Column("w", "text", 2), Column("n", "integer", 3))
    moved = defined(*named.shape.columns, table=TableName("public", "moved"))
    session, merger = elsewhere.applying()
    alterer = elsewhere.alterer(merger)
    steps = [
        (item(1, Action.CREATE, first), TABLE, ["id", "v"]),
        (item(2, Action.ALTER, named, first), TABLE, ["id", "w", "n"]),
        # No line names the new one a place.
        (item(3, Action.ALTER, moved, named), moved.table, ["id", "w", "n"]),
        (item(4, Action.DROP, old=moved), moved.table, []),
    ]
    for step, table, columns in steps:
        alterer.prepare([step])
        with session.transaction():
            merger.begin()
            alterer.apply(step)
        shape = elsewhere.vendor.rows.shape(elsewhere.session(), table)
        assert [column.name for column in shape.columns] == columns if shape else not columns, step
    assert elsewhere.vendor.rows.shape(elsewhere.session(), TABLE) is None
    assert own_rows(elsewhere) == OWN


def test_a_load_finds_and_makes_it_there(elsewhere: Contender) -> None:
    session = elsewhere.session()
    assert elsewhere.vendor.rows.shapes(session, [TABLE]) == {}
    elsewhere.create()
    shapes = elsewhere.vendor.rows.shapes(session, [TABLE])
    assert list(shapes) == [TABLE]
    history = History()
    history.insert("5", "five")
    elsewhere.merge(history)
    load = elsewhere.vendor.load_target
    assert load.not_tables(session, [TABLE]) == {} and load.missing_privileges(session, [TABLE]) == {}
    load.empty(session, [shapes[TABLE]])
    assert elsewhere.rows() == []
    with session.transaction():
        load.drop_table(session, TABLE)
    assert elsewhere.vendor.rows.shapes(session, [TABLE]) == {}
    assert own_rows(elsewhere) == OWN
