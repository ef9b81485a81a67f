"""The net changes of a transformed table lead the slave from one state of the transformed master to another."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.apply import net_changes
from sluice.apply.slave_changes import SlaveChanges
from sluice.database import xml_images
from sluice.database.net_changes import NetChanges
from sluice.model.transformation import ColumnChange, Computed, Excluded, Renamed
from sluice.transform.table_transform import TableTransform
from tests.examples import examples
from tests.unit.changes import History, Values
from tests.unit.test_transformed_changes import CHANGES, COLUMNS, DICE, EXITS, WHERES, history_of
from tests.unit.transforming import bound, rows, shape

KEY = ("id",)
Row = dict[str, str | None]
ByKey = dict[tuple[str | None, ...], Row]


def states(history: History) -> list[list[Values]]:
    """The master's rows before each item, and at the end."""
    found, now = [[]], []
    for item in history.items:
        old, new = (dict(xml_images.row(item[label] or "")) for label in ("oldcontent", "content"))
        if item["action"] != "INSERT":
            gone = next(row for row in now if row[0] == old["id"])
            now = [row for row in now if row is not gone]
        if item["action"] != "DELETE":
            now = [*now, tuple(new[name] for name in COLUMNS)]
        found.append(now)
    return found


def of_slave(transform: TableTransform, state: list[Values]) -> ByKey:
    return {tuple(row[name] for name in transform.key()): row for row in (rows(transform, *state) if state else [])}


def applied(net: NetChanges, held: ByKey, *, safe: bool, may_lead_back: bool = False) -> ByKey:
    """The slave's rows afterwards; unless safe, each change must match the rows.

    `may_lead_back`: an update may give a row the values that it had before the window.
    """
    held = dict(held)
    for kind in ("deletes", "moves"):
        for change in getattr(net, kind).to_pylist():
            key = tuple(change[f"k{number}"] for number in range(1, len(net.key) + 1))
            if not safe or key in held:
                fits(net, change, held.pop(key))
    for kind in ("updates", "moves", "inserts"):
        for change in getattr(net, kind).to_pylist():
            row = {name: change[f"c{number}"] for number, name in enumerate(net.columns, start=1)}
            key = tuple(row[name] for name in net.key)
            assert safe or (key in held) == (kind == "updates")
            if kind == "updates" and not safe:
                fits(net, change, held[key])
                assert row != held[key] or may_lead_back or not net.compared
            held[key] = row
    return held


def fits(net: NetChanges, change: dict[str, Any], row: Row) -> None:
    for number, name in enumerate(net.columns, start=1):
        if net.compared and name not in net.key:
            assert row[name] == change.get(f"b{number}", change.get(f"c{number}"))


@pytest.mark.long
@settings(max_examples=examples(90), deadline=None)
@given(DICE, WHERES, CHANGES, EXITS, st.booleans())
def test_any_window_leads_from_the_slaves_state_to_the_next(
    dice: random.Random, where: str | None, columns: dict[str, ColumnChange], user_exit: str | None, compare: bool
) -> None:
    history, transform = history_of(dice), bound(shape(**COLUMNS), where, user_exit=user_exit, **columns)
    start = dice.randrange(len(history.items))
    stop = dice.randint(start + 1, len(history.items))
    found = net_changes.events(history.window(start, stop), KEY, xml_images)
    mine, known = SlaveChanges(found, transform), states(history)
    net = mine.net(compare=compare, safe=False)
    after = of_slave(transform, known[stop])
    assert applied(net, of_slave(transform, known[start]), safe=False) == after
    assert net.compared == (compare and bool(net.rows)) or not net.rows
    # In safe mode the slave may be anywhere in the window.
    safe = mine.net(compare=False, safe=True)
    for at in range(start, stop + 1):
        assert applied(safe, of_slave(transform, known[at]), safe=True) == after


@settings(max_examples=examples(60), deadline=None)
@given(DICE, WHERES, CHANGES, EXITS, st.sets(st.integers(1, 9).map(str)))
def test_keys_whose_block_is_read_later_are_left_out(
    dice: random.Random, where: str | None, columns: dict[str, ColumnChange], user_exit: str | None, dropped: set[str]
) -> None:
    history = history_of(dice)
    transform = bound(shape(**COLUMNS), where, user_exit=user_exit, **columns)
    found = net_changes.events(history.window(), KEY, xml_images)
    keep = np.array([guid not in dropped for guid in found.guid.to_pylist()])
    mine = SlaveChanges(found, transform, keep)
    expected = of_slave(transform, [row for row in history.rows if row[0] not in dropped])
    assert applied(mine.net(compare=False, safe=False), {}, safe=False) == expected
    # The same one by one, as a replay gets them.
    items = mine.items()
    again = net_changes.reduce(net_changes.events(items, transform.key(), xml_images))
    assert applied(again, {}, safe=False) == expected


def test_rows_without_old_images_stay_in_where_or_out_of_it() -> None:
    """They are rows that a change of the definition rewrote."""
    history = History(columns=("id", "n"))
    history.insert("1", "7")
    history.insert("2", "3")
    items = pa.Table.from_pylist([item | {"action": "UPDATE"} for item in history.items], history.window().schema)
    transform = bound(shape(id="key integer", n="integer"), "n > 5", n=Renamed("m"))
    for safe in (False, True):
        net = SlaveChanges(net_changes.events(items, KEY, xml_images), transform).net(compare=True, safe=safe)
        assert net.updates.to_pylist() == [{"c1": "1", "c2": "7"}]
        assert (net.columns, net.deletes.num_rows, net.inserts.num_rows) == (("id", "m"), 0, 0)


def test_only_columns_of_the_slave_travel_and_only_old_values_that_differ() -> None:
    history = History(columns=("id", "secret", "n", "note"))
    for number in ("1", "2"):
        history.insert(number, "hunter", "4", "x")
    history.update(("1", "hunter", "4", "x"), ("1", "hunter2", "4", "x"))
    history.update(("2", "hunter", "4", "x"), ("2", "hunter", "5", "x"))
    transform = bound(
        shape(id="key integer", secret="text", n="integer", note="text"),
        "n > 0",
        secret=Excluded(),
        note=Computed("note || n % 4"),
    )
    found = net_changes.events(history.window(2), KEY, xml_images)
    net = SlaveChanges(found, transform).net(compare=True, safe=False)
    assert net.columns == ("id", "n", "note")
    assert net.updates.to_pylist() == [{"c1": "2", "c2": "5", "c3": "x1", "b2": "4", "b3": "x0"}]
