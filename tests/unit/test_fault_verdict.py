"""The verdict of the fault runs finds every planted fault, and nothing in a correct run."""

import math
from dataclasses import replace

import pytest

from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from tests.scenarios.faults import audit, verdict
from tests.scenarios.faults.audit import Commit, Point
from tests.scenarios.faults.reader import Look
from workload.tables import JOINING_NAME

HISTORY = {1: [10, 12, 15], 2: [11, 14]}
"""Transaction 13 was rolled back."""


def at(snapshot: str) -> SnapshotPosition:
    return SnapshotPosition.of_snapshot(snapshot, 0, 0)


def point(snapshot: str, epoch: int = 1, target: str | None = None, slice_key: int | None = None) -> Point:
    return Point(epoch, at(snapshot), at(target) if target else None, slice_key)


START = point("10:10:")
FIRST = Commit(501, point("11:13:11"), rows=4, logged=[(1, 1), (1, 2)], versions={("accounts", 1), ("seats", 2)})
SECOND = Commit(502, point("16:16:"), rows=6, logged=[(2, 1), (2, 2), (1, 3)], versions={("accounts", 3)})
WELL = [FIRST, SECOND]


def test_the_history_is_the_masters_log() -> None:
    lines = [(1, 1, 10), (1, 2, 12), (1, 3, 15), (2, 1, 11), (2, 2, 14)]
    assert verdict.of_history(lines) == HISTORY
    with pytest.raises(ValueError, match="line 3 of writer 1 after line 1"):
        verdict.of_history([(1, 1, 10), (1, 3, 15)])


def test_a_run_in_which_all_went_well_has_no_findings() -> None:
    assert verdict.of_commits(WELL, START, HISTORY) == []
    looks = [Look(at("11:13:11"), {1: (2, 2)}, {}), Look(at("16:16:"), {1: (3, 3), 2: (2, 2)}, {})]
    assert verdict.of_looks(looks, HISTORY) == []
    assert verdict.of_acknowledged({1: {(1, 10), (3, 15)}, 2: {(2, 14)}}, HISTORY) == []


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([FIRST, replace(SECOND, logged=[(2, 1), (1, 3)])], "moved the checkpoint to 16:16:"),
        ([FIRST, replace(SECOND, logged=[*SECOND.logged, (1, 2)])], "transaction 2 of writer 1 for the second time"),
        ([FIRST, replace(SECOND, versions={("seats", 2)})], "wrote version 2 of seats, as 501 had done"),
        ([FIRST, replace(SECOND, touched=[(1, 1)])], "changed 1 lines of the log"),
        ([FIRST, replace(SECOND, point=None)], "wrote 6 rows without a checkpoint"),
        ([FIRST, replace(SECOND, point=FIRST.point)], "left the checkpoint where it was"),
        ([replace(FIRST, point=point("11:13:11", epoch=2)), SECOND], "two applies wrote"),
        ([*WELL, Commit(503, point("11:13:11"))], "moved the checkpoint back"),
        ([replace(FIRST, logged=[(1, 1)]), replace(SECOND, logged=[*SECOND.logged, (1, 2)])], "to 11:13:11; writer: "),
    ],
    ids=["lost", "twice", "row twice", "log touched", "no checkpoint", "same checkpoint", "epochs", "back", "late"],
)  # fmt: skip
def test_faults_on_the_slave_are_found(commits: list[Commit], expected: str) -> None:
    assert any(expected in finding for finding in verdict.of_commits(commits, START, HISTORY))


def test_slices_count_together_when_the_last_of_them_is_through() -> None:
    one = Commit(502, point("11:13:11", target="16:16:", slice_key=5), rows=2, logged=[(2, 1)])
    rest = Commit(503, point("16:16:"), rows=4, logged=[(2, 2), (1, 3)])
    assert verdict.of_commits([FIRST, one, rest], START, HISTORY) == []
    findings = verdict.of_commits([FIRST, one, replace(rest, logged=[(1, 3)])], START, HISTORY)
    assert any("moved the checkpoint to 16:16:" in finding for finding in findings)


UNREADABLE = Commit(0, unreadable=True)


def test_a_transaction_that_cannot_be_decoded_brought_what_is_covered_and_nothing_else_brought() -> None:
    third = Commit(503, point("18:18:"), rows=1, logged=[(2, 3)])
    history = {**HISTORY, 2: [11, 14, 16]}
    assert verdict.of_commits([UNREADABLE, SECOND], START, HISTORY) == []
    assert verdict.of_commits([FIRST, UNREADABLE, third], START, history) == []
    assert verdict.of_repeats([FIRST, UNREADABLE, third], START, history) == []


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([UNREADABLE, SECOND, FIRST], "transaction 1 of writer 1 for the second time"),
        ([UNREADABLE, replace(SECOND, logged=[*SECOND.logged, (1, 4)])], "moved the checkpoint to 16:16:"),
        ([FIRST, UNREADABLE, replace(SECOND, point=START)], "moved the checkpoint back"),
        ([UNREADABLE, FIRST, replace(SECOND, logged=[(2, 1), (1, 3)])], "moved the checkpoint to 16:16:"),
    ],
    ids=["twice", "early", "back", "lost later"],
)
def test_faults_around_an_undecodable_transaction_are_found(commits: list[Commit], expected: str) -> None:
    assert any(expected in finding for finding in verdict.of_commits(commits, START, HISTORY))


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (Look(at("11:13:11"), {1: (1, 1)}, {}), "than it covers; writer: (seen, covered): {1: (1, 2)}"),
        (Look(at("11:13:11"), {1: (2, 2), 2: (1, 1)}, {}), "{2: (1, 0)}"),
        (Look(at("16:16:"), {1: (2, 3), 2: (2, 2)}, {}), "saw 2 transactions of writer 1, the last of them number 3"),
        (Look(at("11:13:11"), {1: (2, 2)}, {"notes": (1, 77)}), "do not add up to the log"),
    ],
    ids=["too few", "too many", "gap", "half a transaction"],
)  # fmt: skip
def test_a_state_that_the_master_never_had_is_found(look: Look, expected: str) -> None:
    assert any(expected in finding for finding in verdict.of_looks([look], HISTORY))


AGAIN = Commit(503, point("16:16:", epoch=2), rows=3, logged=[(1, 4)], touched=[(1, 3), (2, 2)])
LONGER = {1: [10, 12, 15, 17], 2: [11, 14]}
"""What follows in the history by the time of `AGAIN`; the checkpoint stays behind."""


def test_repeated_changes_after_a_start_are_no_finding() -> None:
    moved = Commit(504, point("18:18:", epoch=2), rows=1, logged=[(2, 3)])
    history = {**LONGER, 2: [11, 14, 16]}
    assert verdict.of_repeats([*WELL, AGAIN], START, LONGER) == []
    assert verdict.of_repeats([*WELL, AGAIN, moved], START, history) == []
    assert verdict.repeats([*WELL, AGAIN]) == 2


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([*WELL, replace(AGAIN, point=SECOND.point)], "transaction 3 of writer 1 for the second time in an epoch"),
        ([FIRST, AGAIN, replace(SECOND, touched=[(1, 3)], logged=[])], "after one with epoch 2: two applies wrote"),
        ([FIRST, replace(SECOND, point=None)], "wrote 6 rows without a checkpoint"),
        ([FIRST, replace(SECOND, logged=[(2, 1), (1, 3)])], "moved the checkpoint to 16:16:"),
        ([replace(FIRST, logged=[(1, 1), (1, 2), (2, 1)]), SECOND], "to 11:13:11; writer: "),
        ([FIRST, replace(SECOND, logged=[(2, 2), (1, 3)])], "transaction 2 of writer 2 after number 0"),
        ([*WELL, Commit(503, point("11:13:11", epoch=2))], "moved the checkpoint back"),
    ],
    ids=["twice in an epoch", "epochs", "no checkpoint", "lost", "early", "gap", "back"],
)
def test_forbidden_repetitions_are_found(commits: list[Commit], expected: str) -> None:
    assert any(expected in finding for finding in verdict.of_repeats(commits, START, LONGER))


def test_a_state_without_what_had_ended_before_is_found() -> None:
    spans = {1: {1: (0.0, 1.0), 2: (2.0, 3.0)}, 2: {1: (0.5, 1.5), 2: (2.5, math.inf)}}
    here = at("11:13:11")
    assert verdict.of_order([Look(here, {}, {}), Look(here, {1: (2, 2), 2: (1, 1)}, {})], spans) == []
    assert verdict.of_order([Look(here, {2: (2, 2), 1: (1, 1)}, {})], spans) == []  # both were under way
    findings = verdict.of_order([Look(here, {1: (2, 2)}, {})], spans)
    assert len(findings) == 1 and "transaction 2 of writer 1 without number 1 of writer 2" in findings[0]


def test_a_master_that_forgets_is_found() -> None:
    assert verdict.of_acknowledged({1: {(4, 17)}}, HISTORY) == [
        "the master lost transaction 4 of writer 1, which it had confirmed"
    ]
    assert verdict.of_acknowledged({1: {(3, 16)}}, HISTORY)


def test_decoded_lines_are_read() -> None:
    commit = Commit(1)
    text = at("11:13:11").text().replace("'", "''")
    for line in (
        "table public.log: INSERT: writer[integer]:2 n[bigint]:7 xid[bigint]:42 what[text]:'it''s [x]:1' b[integer]:0",
        "table public.notes: INSERT: a[integer]:1 b[text]:'version[bigint]:9'",
        "table public.accounts: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:-1 version[bigint]:8",
        "table public.accounts: DELETE: id[integer]:3",
        'table public."Joins ""late""": INSERT: id[integer]:3 v[text]:null version[bigint]:5',
        "table public.demo_checkpoint: UPDATE: slave[text]:'dr1' message[text]:'' "
        f"\"position\"[text]:'{text}' epoch[bigint]:3 target[text]:null slice_key[bigint]:null",
    ):
        audit.read(commit, line)
    assert commit == Commit(1, point("11:13:11", epoch=3), 4, [(2, 7)], [], {("accounts", 8), (JOINING_NAME.name, 5)})


def test_rows_of_loaders_between_two_stretches_of_normal_are_ignored() -> None:
    start, begun = point("11:11:"), point("12:12:", epoch=2)
    before, load = Commit(1, start, 3, state="NORMAL"), [Commit(2, state="INITIAL"), Commit(3, rows=9)]
    caught_up = [Commit(4, begun, 2, state="TRANSITION"), Commit(5, rows=4), Commit(6, begun, 1, state="NORMAL")]
    after = [Commit(7, rows=0, state=None), Commit(8, begun, 1, state="NORMAL")]
    stretches = audit.around_load([before, *load, *caught_up, *after], start)
    assert stretches == [(start, [before]), (begun, after)]
    assert audit.around_load([before], start) == [(start, [before])]
