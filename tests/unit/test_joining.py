"""Tables that join: their state on a slave, the loads that they need, and the messages about them."""

import itertools
import re

import pytest

from sluice.apply.table_state_tracker import state_after_create
from sluice.model import joining
from sluice.model.joining import Rows, Slave, StartedLoad
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_definition import parse
from sluice.model.table_state import ALL_READY, TableState, TableStates, how_to_load

T, U = TableName("public", 'T "1"'), TableName("a.b", "u")
SHOP = Prefix("SHOP_")


def test_states_are_kept_as_text_and_most_tables_need_none() -> None:
    assert ALL_READY.text() is None and TableStates.parse(None) == ALL_READY and T not in ALL_READY
    states = ALL_READY.put(T, TableState.ABSENT).put(U, TableState.INCONSISTENT)
    assert TableStates.parse(states.text()) == states
    assert list(states) == sorted([T, U]) and T in states
    assert states.put(T, TableState.READY).put(U, TableState.READY) == ALL_READY
    assert ALL_READY.put(T, TableState.READY).text() is None


def test_a_table_that_is_loading_is_not_left_out_and_the_load_knows_since_when() -> None:
    loading = ALL_READY.put(T, TableState.ABSENT).load([T, U], "position")
    assert T not in loading and len(loading) == 0 and loading.loading == tuple(sorted([T, U]))
    assert TableStates.parse(loading.text()) == loading and loading.loading_since == "position"
    given_up = loading.put(T, TableState.INCONSISTENT, 'its row "7" is odd')
    assert TableStates.parse(given_up.text()) == given_up and given_up.loading_since == "position"
    assert given_up.explain(T) == 'inconsistent: its row "7" is odd' and list(given_up) == [T]
    assert given_up.put(U, TableState.READY).loading_since is None, "nothing holds the purge any more"
    assert given_up.renamed(T, TableName("b", "t")).explain(TableName("b", "t")) == given_up.explain(T)
    assert given_up.put_all([T, U], TableState.READY) == ALL_READY


def test_states_of_an_earlier_release_are_understood() -> None:
    assert TableStates.parse('[["public", "t", "inconsistent"]]') == TableStates(
        {TableName("public", "t"): TableState.INCONSISTENT}
    )


def test_a_table_takes_its_state_along_to_its_new_name() -> None:
    states = ALL_READY.put(T, TableState.ABSENT)
    assert states.renamed(T, U).not_ready == {U: TableState.ABSENT}
    assert states.renamed(U, T) == ALL_READY, "a ready table took the name"


@pytest.mark.parametrize(("complete", "loading", "filled"), list(itertools.product([True, False], repeat=3)))
def test_a_table_is_ready_only_where_all_its_rows_come(complete: bool, loading: bool, filled: bool) -> None:
    state = state_after_create(complete=complete, loading=loading, filled=filled)
    assert (state is TableState.READY) == (loading or (complete and not filled))
    assert state in (TableState.READY, TableState.ABSENT)


def test_an_item_says_whether_all_rows_follow() -> None:
    column = '<colname pos="1" type="integer" nullable="false" key="1">id</colname></desc>'
    assert parse(f'<desc complete="true" schema="public" table="t">{column}').complete
    assert not parse(f'<desc schema="public" table="t">{column}').complete
    # Nor is a table of that name mistaken for the word.
    assert not parse(f'<desc schema="public" table="complete=&quot;true&quot;">{column}').complete


def test_a_load_has_the_tables_that_the_slave_lacks_or_will_lack() -> None:
    other, gone = TableName("public", "other"), TableName("public", "gone")
    states = TableStates({T: TableState.ABSENT, gone: TableState.ABSENT})
    assert joining.to_load(states, {U: False, other: True}, [T, U, other]) == [T, U]
    assert joining.to_load(states.load([T], ""), {T: False}, [T, U, other]) == [], "its load is under way"


def test_a_plan_says_of_each_slave_what_it_lacks_and_what_happens_next() -> None:
    slaves = [
        Slave("dr1", joining.LOAD, SlaveState.NORMAL),
        Slave("dr2", joining.WAIT, SlaveState.NORMAL),
        Slave("dr3", joining.LOAD, SlaveState.TRANSITION),
        Slave("dr4", joining.LOAD, None),
    ]
    told = joining.plan(SHOP, {T: Rows(1_000, True), U: Rows(0, True)}, slaves)
    by_hand = "Start the DAG initial_update with prefix SHOP_, slave {} and tables"
    assert told[0] == 'public."T ""1""" joins with 1,000 rows on the master'
    assert "dr1 lacks them" in told[1] and "load_new_tables starts" in told[1]
    assert "dr2 lacks them" in told[2] and by_hand.format("dr2") in told[2]
    assert "dr3 lacks them: it is TRANSITION" in told[3]
    assert "dr4 lacks them: it is not reached" in told[4] and by_hand.format("dr4") in told[4]
    assert told[5:] == ['"a.b".u joins without rows: what comes into it follows, no slave need load it']
    assert (
        joining.plan(SHOP, {U: Rows(2_000_000, False)}, [])[0]
        == '"a.b".u joins with about 2,000,000 rows on the master'
    )
    many = {TableName("public", f"t{number}"): Rows(1, True) for number in range(joining.LISTED + 2)}
    assert joining.plan(SHOP, many, [])[-1] == "and 2 tables more"


def test_the_run_that_loads_names_the_pair_and_the_same_tables_the_same_run() -> None:
    one = joining.run_id(SHOP, "dr 1", [T, U])
    assert one == joining.run_id(SHOP, "dr 1", [U, T]) != joining.run_id(SHOP, "dr 1", [T])
    assert re.fullmatch(r"new_tables_SHOP__dr-1_[0-9a-f]{8}", one)


def test_a_load_that_was_started_is_named_in_the_notice() -> None:
    both = StartedLoad("new_tables_1", (T, U))
    assert joining.what_loads(SHOP, "dr1", [T], None) == how_to_load(SHOP, "dr1", [T])
    said = joining.what_loads(SHOP, "dr1", [T, U], both)
    assert said == "The run new_tables_1 of initial_update was started and loads them."
    said = joining.what_loads(SHOP, "dr1", [T, U], StartedLoad("new_tables_1", (U,)))
    assert said == f"The run new_tables_1 of initial_update was started and loads {U}. {how_to_load(SHOP, 'dr1', [T])}"
    assert joining.what_loads(SHOP, "dr1", [T], StartedLoad("r", (U,))) == how_to_load(SHOP, "dr1", [T])
    assert joining.remaining([T, U], None) == [T, U] and joining.remaining([T, U], both) == []


def test_many_tables_are_named_in_part() -> None:
    told = how_to_load(SHOP, "dr1", [TableName("public", f"t{number:02}") for number in range(25)])
    assert '"public.t19", …] (and 5 more).' in told


def test_a_table_that_left_is_former_where_it_was_kept_and_until_another_one_has_its_name() -> None:
    kept, dropped, never = TableName("public", "kept"), TableName("public", "dropped"), TableName("public", "never")
    states = ALL_READY.put(never, TableState.ABSENT).left(kept, kept=True).left(dropped, kept=False)
    states = TableStates.parse(states.left(never, kept=True).text())
    assert (states.former, dict(states.not_ready)) == ({kept}, {}), "an absent table is none of the master's"
    assert states.put(kept, TableState.ABSENT).former == {kept}, "until it is loaded"
    for other in (states.put(kept, TableState.READY), states.load([kept], "now"), states.renamed(never, kept)):
        assert not other.former
    again = states.put(kept, TableState.ABSENT)
    assert again.left(kept, kept=True).former == again.renamed(kept, never).former == {kept}, "it is still there"
    assert ALL_READY.put(kept, TableState.INCONSISTENT, "a reason").left(kept, kept=True).former == {kept}


@pytest.mark.parametrize(
    ("ended", "active", "expected"),
    [
        ([], [], ("load", False)),
        ([], ["load"], ("load", True)),
        (["load"], [], ("load_1", False)),
        # The tables left and came back; whoever asks next finds that their second load runs.
        (["load"], ["load_1"], ("load_1", True)),
        (["load", "load_1"], ["load_2"], ("load_2", True)),
        (["load", "load_1"], [], ("load_2", False)),
    ],
)
def test_a_load_that_is_under_way_is_not_started_twice(
    ended: list[str], active: list[str], expected: tuple[str, bool]
) -> None:
    exists = {*ended, *active}.__contains__
    assert joining.next_run("load", exists, active.__contains__) == expected
