"""What is tried after a failed attempt at a window."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.apply.transaction import Attempt, Escalation
from sluice.database.conflicts import CommitRefused
from sluice.model.names import TableName

A, B, C = (TableName("app", name) for name in "abc")
TABLES = frozenset({A, B, C})
ALONE = Escalation(
    tables=TABLES,
    related=lambda table: {table},
    safe=False,
    final=True,
    rejecting=False,
    cascades=False,
    in_slices=False,
)
FIRST = Attempt()


def refused(table: TableName = A, constraint: str = '"app"."a_v_key"', *, unique: bool = True) -> CommitRefused:
    return CommitRefused(table, constraint, "a free value", "another row with it", unique=unique)


def test_a_table_whose_changes_collide_is_replayed_alone_and_then_all_together() -> None:
    second = ALONE.after_collision(FIRST, A)
    assert second == Attempt(replayed=frozenset({A}))
    assert ALONE.after_collision(second, B) == Attempt(replayed=frozenset({A, B}))
    third = ALONE.after_collision(second, A)
    assert third == Attempt(replayed=TABLES)
    assert ALONE.after_collision(third, A) is None


def test_related_tables_are_replayed_together_if_foreign_keys_act() -> None:
    related = replace(ALONE, related=lambda table: {table, B})
    assert related.after_collision(FIRST, A) == Attempt(replayed=frozenset({A, B}))


def test_a_conflict_stops_where_no_order_of_changes_could_explain_it() -> None:
    assert ALONE.after_conflict(FIRST, A) is None


@pytest.mark.parametrize("escalation", [replace(ALONE, rejecting=True), replace(ALONE, cascades=True)])
def test_a_conflict_is_traced_to_one_change_where_that_can_tell_more(escalation: Escalation) -> None:
    assert escalation.after_conflict(FIRST, A) == Attempt(replayed=frozenset({A}))
    assert escalation.after_conflict(Attempt(frozenset({A})), A) == Attempt(replayed=TABLES)
    assert escalation.after_conflict(Attempt(TABLES), A) is None


def test_a_conflict_of_a_table_beside_replayed_ones_leads_to_all_of_them_together() -> None:
    assert ALONE.after_conflict(Attempt(frozenset({A})), B) == Attempt(replayed=TABLES)


def test_a_conflict_that_the_definitions_may_explain_is_not_traced() -> None:
    assert replace(ALONE, rejecting=True, final=False).after_conflict(FIRST, A) is None


def test_a_unique_value_in_another_hand_is_taken_in_safe_mode_once() -> None:
    safe = replace(ALONE, safe=True)
    second = safe.after_commit(FIRST, refused())
    assert second == Attempt(replayed=frozenset({A}), deferrable=True)
    assert safe.after_commit(second, refused()) is None
    assert safe.after_commit(FIRST, refused(unique=False)) is None
    assert ALONE.after_commit(FIRST, refused()) is None


def test_with_reject_a_constraint_is_checked_with_each_change_once() -> None:
    rejecting = replace(ALONE, rejecting=True)
    second = rejecting.after_commit(FIRST, refused())
    assert second == Attempt(replayed=frozenset({A}), immediate=frozenset({refused().constraint}))
    assert rejecting.after_commit(second, refused()) is None
    third = rejecting.after_commit(second, refused(B, '"app"."b_v_key"'))
    assert third is not None and len(third.immediate) == 2 and third.replayed == {A, B}


def test_between_slices_a_larger_slice_helps_more_than_rejects() -> None:
    assert replace(ALONE, rejecting=True, in_slices=True).after_commit(FIRST, refused()) is None


def test_a_conflict_of_an_unknown_table_replays_all() -> None:
    partition = refused(TableName("app", "a_2026"))
    found = replace(ALONE, rejecting=True).after_commit(FIRST, partition)
    assert found is not None and found.replayed == TABLES


FAILURES = st.lists(
    st.tuples(
        st.sampled_from(["collision", "conflict", "commit"]),
        st.sampled_from([A, B, C, TableName("app", "a_2026")]),
        st.booleans(),
        st.sampled_from(["one", "two"]),
    ),
    min_size=30,
    max_size=30,
)
"""What fails, of which table, whether it is a unique constraint, its name."""


@given(FAILURES, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_each_attempt_does_more_until_there_is_none(
    failures: list[tuple[str, TableName, bool, str]],
    safe: bool,
    final: bool,
    rejecting: bool,
    cascades: bool,
    in_slices: bool,
) -> None:
    escalation = Escalation(TABLES, lambda table: {table}, safe, final, rejecting, cascades, in_slices)
    attempt = FIRST
    for kind, table, unique, constraint in failures:
        if kind == "commit":
            following = escalation.after_commit(attempt, refused(table, constraint, unique=unique))
        else:
            after = escalation.after_collision if kind == "collision" else escalation.after_conflict
            following = after(attempt, table if table in TABLES else A)
        if following is None:
            return
        assert following != attempt
        assert following.replayed >= attempt.replayed and following.immediate >= attempt.immediate
        assert following.deferrable >= attempt.deferrable
        attempt = following
    pytest.fail("thirty attempts were not enough")
