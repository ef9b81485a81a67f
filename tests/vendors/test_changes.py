"""Changes reach a slave as sets of rows and one by one: exactly, reported if they do not match, repeatable."""

from collections.abc import Callable

import pytest

from sluice.apply import net_changes
from sluice.apply.window_runs import CutItem
from sluice.database import xml_images
from sluice.database.apply import ReplayOptions
from sluice.database.conflicts import Conflict
from sluice.model.change import Action
from sluice.model.conflict_rule import ConflictRule, Winner
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from tests.unit.changes import TABLE, History
from tests.vendors.contender import INTEGER, TEXT, Contender


def filled(target: Contender, count: int = 6) -> tuple[History, int]:
    """Inserts the rows 0 … count - 1 on both sides; returns the place in the history."""
    target.create()
    history = History()
    for number in range(count):
        history.insert(str(number), f"v{number}")
    target.merge(history)
    return history, len(history.items)


def same(target: Contender, history: History) -> None:
    assert target.rows(history.table) == target.expected(history.rows, history.table)


def test_a_window_of_changes_makes_the_slave_equal(target: Contender) -> None:
    history, at = filled(target)
    history.update(("1", "v1"), ("1", ""))
    history.update(("2", "v2"), ("7", None))
    history.delete("3", "v3")
    history.insert("3", "again")
    history.delete("4", "v4")
    history.insert("8", "tab\t, newline\n, \\N, ' and ]]>")
    target.merge(history, at, images=True)
    same(target, history)


def test_keys_that_change_places_and_shift_arrive(target: Contender) -> None:
    history, at = filled(target)
    history.update(("5", "v5"), ("6", "v5"))
    for number in (4, 3, 2, 1):
        history.update((str(number), f"v{number}"), (str(number + 1), f"v{number}"))
    history.update(("0", "v0"), ("9", "v0"))
    history.update(("6", "v5"), ("0", "v5"))
    target.merge(history, at, images=True)
    same(target, history)


def test_without_a_key_rows_are_counted(target: Contender) -> None:
    target.create({"a": INTEGER, "b": TEXT}, key=())
    history = History(columns=("a", "b"), key=())
    for row in (("1", "x"), ("1", "x"), ("1", "x"), ("2", None), ("2", None)):
        history.insert(*row)
    target.merge(history)
    same(target, history)
    at = len(history.items)
    history.delete("1", "x")
    history.update(("2", None), ("1", "x"))
    history.delete("2", None)
    history.insert("3", "")
    target.merge(history, at)
    same(target, history)


@pytest.mark.parametrize("name", ["Odd \"na'me` %s", "select"])
def test_hostile_names_work(target: Contender, name: str) -> None:
    table, columns = TableName("public", name), ("group", "%s \"q' `b`", "Id")
    if target.oracle:
        table, columns = TableName("public", name.replace('"', "")), ("group", "%s q' `b` :a", "Id")
    target.create(dict(zip(columns, (INTEGER, TEXT, TEXT), strict=True)), key=("group",), table=table)
    history = History(table, columns, ("group",))
    history.insert("1", "a", "b")
    target.merge(history)
    history.update(("1", "a", "b"), ("2", "a", None))
    target.merge(history, 1, images=True)
    same(target, history)


def gone(history: History) -> None:
    history.update(("1", "not there"), ("1", "x"))


def changed(history: History) -> None:
    history.delete("2", "other")


def there(history: History) -> None:
    history.insert("5", "twin")


@pytest.mark.parametrize("misfit", [gone, changed, there])
@pytest.mark.parametrize("way", ["merged", "replayed"])
def test_a_change_that_does_not_match_is_reported_with_its_row(
    target: Contender, misfit: Callable[[History], None], way: str
) -> None:
    history, at = filled(target)
    fitting = sorted(history.rows)
    other = History()
    other.rows = [("1", "not there"), ("2", "other")]
    misfit(other)
    session, merger = target.applying()
    with pytest.raises(Conflict) as conflict, session.transaction():
        merger.begin()
        if way == "merged" and misfit is not there:
            found = net_changes.events(other.window(), ("id",), xml_images)
            merger.merge([net_changes.reduce(found, before=True)])
        else:
            merger.replayer().replay(other.changes(), ReplayOptions(images=[TABLE]))
    assert "public.t" in str(conflict.value) and "id" in str(conflict.value)
    assert sorted(target.rows(), key=repr) == fitting
    assert len(history.items) == at


def test_a_reject_leaves_the_rest_applied(target: Contender) -> None:
    history, at = filled(target)
    history.update(("0", "v0"), ("0", "fine"))
    history.rows.append(("1", "elsewhere"))
    history.update(("1", "elsewhere"), ("1", "lost"))
    history.insert("9", "fine too")
    session, merger = target.applying()
    with session.transaction():
        merger.begin()
        done = merger.replayer().replay(history.changes(at), ReplayOptions(images=[TABLE], reject=True))
    assert [reject.change.key_of(reject.change.new) for reject in done.rejects] == [{"id": "1"}]
    found = {row[0]: row[1] for row in target.rows()}
    assert (found["0"], found["1"], found["9"]) == ("fine", "v1", "fine too")


@pytest.mark.parametrize("winner", list(Winner))
def test_a_rule_decides_whose_row_stays_and_the_conflict_is_kept(target: Contender, winner: Winner) -> None:
    filled(target)
    misfits = History()
    misfits.rows = [("1", "elsewhere"), ("2", "elsewhere"), ("6", "gone here")]
    misfits.update(("1", "elsewhere"), ("1", "the master's"))
    misfits.delete("2", "elsewhere")
    misfits.update(("6", "gone here"), ("6", "the master's"))
    misfits.insert("3", "twin")
    misfits.insert("4", "v4")  # as it is there already
    misfits.insert("9", "fits")
    session, merger = target.applying()
    with session.transaction():
        merger.begin()
        rules = {TABLE: ConflictRule(wins=winner)}
        done = merger.replayer().replay(misfits.changes(), ReplayOptions(images=[TABLE], rules=rules))
    found = dict(target.rows())
    wins = winner is Winner.MASTER
    assert found["1"] == ("the master's" if wins else "v1")
    assert found.get("2") == (None if wins else "v2")
    assert found.get("6") == ("the master's" if wins else None)
    assert found["3"] == ("twin" if wins else "v3")
    assert (found["4"], found["9"]) == ("v4", "fits")
    assert [str(reject.status) for reject in done.rejects] == ["applied" if wins else "dropped"] * 4
    assert [reject.slave_row and reject.slave_row.get("v") for reject in done.rejects] == ["v1", "v2", None, "v3"]


@pytest.mark.parametrize("way", ["merged", "replayed"])
def test_in_safe_mode_a_window_may_come_again_from_any_place(target: Contender, way: str) -> None:
    history, at = filled(target)
    history.update(("1", "v1"), ("7", "moved"))
    history.delete("2", "v2")
    history.insert("2", "again")
    history.update(("3", "v3"), ("3", "x"))
    history.delete("4", "v4")
    for stop in range(at, len(history.items) + 1):
        session, merger = target.applying()
        for begin in (at, at):
            with session.transaction():
                merger.begin()
                if way == "replayed":
                    merger.replayer().replay(history.changes(begin, stop), ReplayOptions(safe=True))
                elif stop > begin:
                    found = net_changes.events(history.window(begin, stop), ("id",), xml_images)
                    merger.merge([net_changes.reduce(found, safe=True)], safe=True)
    same(target, history)


def item(
    number: int, action: Action, new: TableDefinition | None = None, old: TableDefinition | None = None
) -> CutItem:
    table = (old or new or TableDefinition(TableShape(TABLE, ()))).table
    return CutItem(number, number, action, table, defined=new, former=old)


def defined(*columns: Column, table: TableName = TABLE) -> TableDefinition:
    return TableDefinition(TableShape(table, columns))


def test_definitions_follow_and_may_come_twice(target: Contender) -> None:
    """Types are PostgreSQL's, as those of a PostgreSQL master."""
    key, value = Column("id", "integer", 1, False, 1), Column("v", "text", 2)
    first = defined(key, value)
    more = defined(key, value, Column("n", "numeric(10,2)", 3))
    named = defined(key, Column("w", "text", 2), Column("n", "numeric(10,2)", 3))
    less = defined(key, Column("n", "numeric(10,2)", 3))
    moved = defined(key, Column("n", "numeric(10,2)", 3), table=TableName("public", "u"))
    session, merger = target.applying()
    alterer = target.alterer(merger)
    steps = [
        (item(1, Action.CREATE, first), TABLE, ("id", "v")),
        (item(2, Action.ALTER, more, first), TABLE, ("id", "v", "n")),
        (item(3, Action.ALTER, named, more), TABLE, ("id", "w", "n")),
        (item(4, Action.ALTER, less, named), TABLE, ("id", "n")),
        (item(5, Action.ALTER, moved, less), moved.table, ("id", "n")),
    ]
    for step, table, columns in steps:
        for _ in range(2):
            alterer.prepare([step])
            with session.transaction():
                merger.begin()
                alterer.apply(step)
        shape = target.vendor.rows.shape(target.session(), table)
        assert shape is not None and tuple(column.name for column in shape.columns) == columns, step
        assert [column.name for column in shape.key] == ["id"]
        if step.repl_key == 1:
            history = History()
            history.insert("1", "a")
            target.merge(history)
    assert target.rows(moved.table) == [("1", None)]
    assert target.vendor.rows.shape(target.session(), TABLE) is None


def test_truncate_empties_tables_together(target: Contender) -> None:
    history, _ = filled(target)
    other = TableName("public", "other")
    target.create(table=other)
    session, merger = target.applying()
    with session.transaction():
        merger.begin()
        target.alterer(merger).truncate([TABLE, other])
    assert target.rows() == [] and target.rows(other) == []
    assert history.rows


def test_a_truncate_of_a_loading_table_deletes_only_the_rows_with_the_given_keys(target: Contender) -> None:
    history, _ = filled(target)
    session, merger = target.applying()
    alterer = target.alterer(merger)
    with session.transaction():
        merger.begin()
        keys = sorted(alterer.keys(item(1, Action.TRUNCATE)))
        assert keys == sorted((row[0],) for row in history.rows)
        assert alterer.delete(TABLE, keys[:4]) == 4
    assert [row[0] for row in target.rows()] == [key for (key,) in keys[4:]]
