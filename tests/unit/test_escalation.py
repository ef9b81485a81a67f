"""What is tried after a failed attempt at a window."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.apply.escalation import (
    LADDER,
    MOST_COMPARED,
    SAME_PLAN,
    Attempt,
    CannotReplay,
    ConstraintsOutdated,
    Escalation,
    Rung,
    rungs,
    table_at_fault,
)
from sluice.database.apply import DefinitionNotFollowed
from sluice.database.conflicts import Collision, ColumnMissing, CommitRefused, Drift
from sluice.database.errors import StatementFailed
from sluice.errors import SluiceError, Terminal
from sluice.model.mask import NO_PATTERNS
from sluice.model.names import TableName
from sluice.transform.table_transform import RowNotTransformed
from tests.unit.streams import window

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
WINDOW = window(1, 9)
FIRST = Attempt(WINDOW)


def refused(table: TableName = A, constraint: str = '"app"."a_v_key"', *, unique: bool = True) -> CommitRefused:
    return CommitRefused(table, constraint, "a free value", "another row with it", unique=unique)


def test_a_table_whose_changes_collide_is_replayed_alone_and_then_all_together() -> None:
    second = ALONE.after_collision(FIRST, A)
    assert second == Attempt(WINDOW, replayed=frozenset({A}))
    assert ALONE.after_collision(second, B) == Attempt(WINDOW, replayed=frozenset({A, B}))
    third = ALONE.after_collision(second, A)
    assert third == Attempt(WINDOW, replayed=TABLES)
    assert ALONE.after_collision(third, A) is None


def test_related_tables_are_replayed_together_if_foreign_keys_act() -> None:
    related = replace(ALONE, related=lambda table: {table, B})
    assert related.after_collision(FIRST, A) == Attempt(WINDOW, replayed=frozenset({A, B}))


def test_a_conflict_stops_where_no_order_of_changes_could_explain_it() -> None:
    assert ALONE.after_conflict(FIRST, A) is None


@pytest.mark.parametrize("escalation", [replace(ALONE, rejecting=True), replace(ALONE, cascades=True)])
def test_a_conflict_is_traced_to_one_change_where_that_can_tell_more(escalation: Escalation) -> None:
    assert escalation.after_conflict(FIRST, A) == Attempt(WINDOW, replayed=frozenset({A}))
    assert escalation.after_conflict(Attempt(WINDOW, replayed=frozenset({A})), A) == Attempt(WINDOW, replayed=TABLES)
    assert escalation.after_conflict(Attempt(WINDOW, replayed=TABLES), A) is None


def test_a_conflict_of_a_table_beside_replayed_ones_leads_to_all_of_them_together() -> None:
    assert ALONE.after_conflict(Attempt(WINDOW, replayed=frozenset({A})), B) == Attempt(WINDOW, replayed=TABLES)


def test_a_conflict_that_the_definitions_may_explain_is_not_traced() -> None:
    assert replace(ALONE, rejecting=True, final=False).after_conflict(FIRST, A) is None


def test_a_unique_value_in_another_hand_is_taken_in_safe_mode_once() -> None:
    safe = replace(ALONE, safe=True)
    second = safe.after_commit(FIRST, refused())
    assert second == Attempt(WINDOW, replayed=frozenset({A}), deferrable=True)
    assert safe.after_commit(second, refused()) is None
    assert safe.after_commit(FIRST, refused(unique=False)) is None
    assert ALONE.after_commit(FIRST, refused()) is None


def test_with_reject_a_constraint_is_checked_with_each_change_once() -> None:
    rejecting = replace(ALONE, rejecting=True)
    second = rejecting.after_commit(FIRST, refused())
    assert second == Attempt(WINDOW, replayed=frozenset({A}), immediate=frozenset({refused().constraint}))
    assert rejecting.after_commit(second, refused()) is None
    third = rejecting.after_commit(second, refused(B, '"app"."b_v_key"'))
    assert third is not None and len(third.immediate) == 2 and third.replayed == {A, B}


def test_between_slices_a_larger_slice_helps_more_than_rejects() -> None:
    assert replace(ALONE, rejecting=True, in_slices=True).after_commit(FIRST, refused()) is None


def test_a_conflict_of_an_unknown_table_replays_all() -> None:
    partition = refused(TableName("app", "a_2026"))
    found = replace(ALONE, rejecting=True).after_commit(FIRST, partition)
    assert found is not None and found.replayed == TABLES


def drift(table: TableName) -> Drift:
    return Drift(table, {"id": "1"}, "UPDATE", "one row", "none")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Collision(A, "two rows exchange values"), [Rung.REPLAY]),
        (CannotReplay(Collision(A, "no order")), [Rung.CONSTRAINTS, Rung.TABLE]),
        (drift(A), [Rung.REPLAY, Rung.CONSTRAINTS, Rung.DEFINITIONS, Rung.TABLE]),
        (ColumnMissing(A, "v", ["id"]), [Rung.CONSTRAINTS, Rung.COLUMNS, Rung.TABLE]),
        (ConstraintsOutdated(), [Rung.CONSTRAINTS]),
    ],
)
def test_the_cheapest_move_comes_first(failure: SluiceError, expected: list[Rung]) -> None:
    assert list(rungs(failure)) == expected


@pytest.mark.parametrize(
    ("failure", "altering", "table"),
    [
        (drift(B), None, B),
        (drift(B), A, B),
        (StatementFailed("no"), A, A),
        (DefinitionNotFollowed(B, "A is renamed to B, and the slave cannot follow"), A, A),
        (StatementFailed("no"), None, None),
    ],
)
def test_the_table_at_fault_is_the_one_that_the_window_knows(
    failure: Terminal, altering: TableName | None, table: TableName | None
) -> None:
    assert table_at_fault(failure, altering) == table


def test_constraints_are_dropped_once_if_they_may_be_the_cause() -> None:
    for failure in (drift(A), CannotReplay(Collision(A, "")), StatementFailed(""), ConstraintsOutdated()):
        assert ALONE.may_drop_constraints(FIRST, failure, altering=False)
        assert not ALONE.may_drop_constraints(FIRST.without_constraints(()), failure, altering=False)
    missing = ColumnMissing(A, "v", ["id"])
    assert not ALONE.may_drop_constraints(FIRST, missing, altering=False)
    assert ALONE.may_drop_constraints(FIRST, missing, altering=True)


def test_a_conflict_counts_once_the_definitions_explain_it_no_more() -> None:
    second = FIRST.with_definitions(A, WINDOW, changed=False, safe=False)
    assert not second.final, "another table may conflict, too"
    assert second.with_definitions(A, WINDOW, changed=False, safe=False).final
    assert not second.with_definitions(A, WINDOW, changed=True, safe=False).final
    assert second.with_definitions(B, WINDOW, changed=False, safe=True).final, "in safe mode every conflict counts"
    attempt = FIRST
    for _ in range(MOST_COMPARED):
        assert not attempt.final
        attempt = attempt.with_definitions(A, WINDOW, changed=True, safe=False)
    assert attempt.final


FAILURES = st.sampled_from(
    [
        failure
        for table in sorted(TABLES)
        for failure in (
            Collision(table, "two rows exchange values"),
            drift(table),
            refused(table),
            refused(table, '"app"."b_v_key"', unique=False),
            ColumnMissing(table, "v", ["id"]),
            RowNotTransformed(table, [{"id": "1"}], NO_PATTERNS, "an exit", "no", "Fix it"),
            StatementFailed("no"),
        )
    ]
)
ROWS_SET_ASIDE = 4
"""How often rows can be set aside; in truth as often as more rows are named, up to a hundred a table."""


def climbed(
    failure: SluiceError, attempt: Attempt, plan: Escalation, draw: st.DataObject
) -> tuple[Rung, Attempt] | None:
    """As `WindowApplier`, with what the databases say drawn."""
    table = getattr(failure, "table", A)
    for rung in rungs(failure):
        following: Attempt | None = None
        if rung is Rung.REPLAY and isinstance(failure, Collision):
            following = plan.after_collision(attempt, failure.table)
        elif rung is Rung.REPLAY and not isinstance(failure, CommitRefused):
            following = plan.after_conflict(attempt, table)
        elif rung is Rung.COMMIT and isinstance(failure, CommitRefused):
            following = plan.after_commit(attempt, failure)
        elif rung is Rung.CONSTRAINTS:
            altering, dropped = draw.draw(st.booleans()), draw.draw(st.booleans())
            if dropped and plan.may_drop_constraints(attempt, failure, altering=altering):
                following = attempt.without_constraints(())
        elif rung is Rung.COLUMNS and not attempt.tables_read_again:
            following = attempt.with_tables_read()
        elif rung is Rung.DEFINITIONS and not attempt.final:
            changed, safe = draw.draw(st.booleans()), draw.draw(st.booleans())
            following = attempt.with_definitions(table, WINDOW, changed=changed, safe=safe)
        elif rung is Rung.ROWS and attempt.set_aside < ROWS_SET_ASIDE:
            following = attempt.with_rows_set_aside(FIRST)
        elif rung is Rung.TABLE and table not in attempt.isolated:
            following = attempt.with_isolated({**attempt.isolated, table: "why"}, FIRST)
        if following is not None:
            return rung, following
    return climbed(CannotReplay(failure), attempt, plan, draw) if isinstance(failure, Collision) else None


@given(st.data(), st.booleans(), st.booleans(), st.booleans())
def test_no_history_of_failures_keeps_the_ladder_turning(
    draw: st.DataObject, rejecting: bool, cascades: bool, in_slices: bool
) -> None:
    attempt, attempts = FIRST, 0
    while True:
        plan = Escalation(TABLES, lambda table: {table}, attempt.safe, attempt.final, rejecting, cascades, in_slices)
        failure = draw.draw(FAILURES)
        taken = climbed(failure, attempt, plan, draw)
        if taken is None:
            return
        rung, following = taken
        assert following.height > attempt.height
        attempts += 1
        attempt = following if rung in SAME_PLAN else following.planned(())
        # A level's attempts, times those of the levels above it.
        assert attempts <= (len(TABLES) + ROWS_SET_ASIDE + 1) * (MOST_COMPARED + 1) * 2 * 2 * (len(TABLES) + 4)


def test_the_page_draws_the_ladder_as_it_is() -> None:
    page = Path(__file__).parents[2].joinpath("docs/apply.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^\| \d \| ([a-z' ]+) \|", page, re.MULTILINE)
    assert drawn == [str(rung) for rung in LADDER]
