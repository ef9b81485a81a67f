"""Whether a redo thread can be read on, from the master's list of its archived logs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.database.redo_files import ArchivedLogs, LogCopy
from sluice.redo.missing_logs import Danger, Finding, LogWatch, Need, explained, judged

RESETLOGS = 1_224_959_854
AREA, OUTSIDE = "/u01/fra", "/u02/arch"


def copy(sequence: int, name: str | None = None, **more: int | bool) -> LogCopy:
    """A copy of a log of thread 1, by default in the fast recovery area; an empty name: it is deleted."""
    name = f"{AREA}/{sequence}.arc" if name is None else name
    made = LogCopy(RESETLOGS, 1, sequence, 100 * sequence, 100 * sequence + 100, name, name.startswith(AREA))
    return replace(made, **more)  # type: ignore[arg-type]


def gone(sequence: int, **more: int) -> LogCopy:
    return copy(sequence, "", **more)


def said(*copies: LogCopy, area_used: float = 0.0) -> ArchivedLogs:
    return ArchivedLogs(RESETLOGS, copies, area_used)


def need(first: int, *here: int, scn: int = 0, folders: tuple[str, ...] = ()) -> Need:
    return Need(RESETLOGS, 1, first, scn, here, folders)


@pytest.mark.parametrize(
    ("found", "danger", "words"),
    [
        (judged(said(copy(5), copy(6)), need(5)), None, ""),
        (judged(said(), need(5)), None, ""),
        (judged(said(gone(5), copy(6)), need(5)), Danger.LOST, "log 5 of thread 1 is deleted"),
        (judged(said(gone(5), copy(6)), need(5, 5)), None, ""),
        (
            judged(said(gone(5, backups=1), gone(6, backups=1), copy(7)), need(5)),
            Danger.GONE,
            "RESTORE ARCHIVELOG FROM SEQUENCE 5 UNTIL SEQUENCE 6 THREAD 1",
        ),
        (judged(said(copy(5), copy(7)), need(5)), Danger.GONE, "lists no such log"),
        (judged(said(gone(5, backups=1), copy(6), gone(7)), need(5)), Danger.LOST, "log 7 of thread 1"),
        # The newest one is gone, and no later one tells of it.
        (judged(said(copy(5), gone(6)), need(6, 5)), Danger.LOST, "log 6"),
        # Nothing was read yet: the log with the SCN at which capture begins is the first one.
        (judged(said(copy(4), gone(5), copy(6)), need(0, scn=550)), Danger.LOST, "log 5"),
        (judged(said(copy(6)), need(0, scn=550)), Danger.GONE, "log 5"),
        (judged(said(copy(4)), need(0, scn=550)), None, ""),
    ],
)
def test_logs_that_are_missing_are_named_with_the_remedy(
    found: Finding | None, danger: Danger | None, words: str
) -> None:
    assert (found.danger if found else None) is danger
    assert words in (found.text if found else "")


def test_a_log_outside_of_the_recovery_area_is_there_and_one_in_an_unread_folder_is_reported() -> None:
    outside = said(gone(5), copy(5, f"{OUTSIDE}/5.arc"), copy(6))
    assert judged(outside, need(5)) is None
    assert judged(outside, need(5, folders=(AREA, f"{OUTSIDE}/"))) is None
    found = judged(outside, need(5, folders=(AREA,)))
    assert found is not None and found.danger is Danger.ELSEWHERE
    assert OUTSIDE in found.text and "redo.archived" in found.text and f"TO '{AREA}'" in found.text


def test_a_folder_holds_those_below_it_as_a_recovery_area_has_one_for_each_day() -> None:
    day = said(copy(5, "/fra/ORCL/archivelog/2026_11_23/o1_mf_1_5_m3x.arc"))
    assert judged(day, need(5, folders=("/fra/ORCL/archivelog",))) is None
    for other in ("/fra/ORCL/archive", "/fra/ORCL/archivelog/2026_11_2", "/fra/orcl/archivelog"):
        found = judged(day, need(5, folders=(other,)))
        assert found is not None and found.danger is Danger.ELSEWHERE
    disks = said(copy(5, "+FRA/ORCL/ARCHIVELOG/2026_11_23/thread_1_seq_5.261.1"))
    assert judged(disks, need(5, folders=("+fra/orcl/",))) is None


def test_a_log_that_is_next_to_be_deleted_is_reported_before() -> None:
    kept = [*(gone(each) for each in range(1, 11)), *(copy(each) for each in range(11, 31))]
    assert judged(said(*kept), need(25)) is None
    found = judged(said(*kept), need(13))
    assert found is not None and found.danger is Danger.SOON
    assert "BACKUP ARCHIVELOG FROM SEQUENCE 13 UNTIL SEQUENCE 30 THREAD 1" in found.text
    # A master that keeps one log alone is no reason to tell of the one that was just written.
    assert judged(said(gone(1), gone(2), copy(3)), need(3)) is None


def test_a_full_recovery_area_endangers_what_lies_there_alone() -> None:
    there = said(copy(5), area_used=0.97)
    found = judged(there, need(5))
    assert found is not None and found.danger is Danger.SOON and "97%" in found.text
    assert judged(said(copy(5), copy(5, f"{OUTSIDE}/5.arc"), area_used=0.97), need(5)) is None
    assert judged(there, need(5, 5)) is None


def test_another_incarnation_of_the_master_is_reported() -> None:
    found = judged(ArchivedLogs(RESETLOGS + 1, (copy(5),)), need(6, 5))
    assert found is not None and found.danger is Danger.OTHER_INCARNATION


COPIES = st.lists(
    st.builds(
        lambda sequence, name, backups, thread, later: replace(
            copy(sequence, name), backups=backups, thread=thread, resetlogs=RESETLOGS - later
        ),
        st.integers(1, 12),
        st.sampled_from(["", f"{AREA}/x.arc", f"{OUTSIDE}/x.arc"]),
        st.integers(0, 1),
        st.sampled_from([1, 1, 2]),
        st.sampled_from([0, 0, 1]),
    ),
    max_size=30,
)


@given(COPIES, st.integers(1, 12), st.sets(st.integers(1, 12)))
def test_no_missing_log_is_passed_over_and_none_is_invented(copies: list[LogCopy], first: int, here: set[int]) -> None:
    mine = [each for each in copies if each.thread == 1 and each.resetlogs == RESETLOGS]
    newest = max((each.sequence for each in mine), default=0)
    absent = {each for each in range(first, newest + 1) if each not in here} - {
        each.sequence for each in mine if each.there
    }
    lost = {each for each in absent if each in {one.sequence for one in mine}} - {
        each.sequence for each in mine if each.backups
    }
    found = judged(said(*copies), need(first, *here))
    missing = found is not None and found.danger > Danger.SOON
    assert missing == bool(absent)
    if found is not None and missing:
        worst = lost or absent
        assert found.danger is (Danger.LOST if lost else Danger.GONE)
        assert found.first == min(worst)
        assert set(range(found.first, found.last + 1)) <= worst and found.last + 1 not in worst
    # Where a copy lies, what other threads have and in what turn it is told is all the same.
    moved = [replace(each, in_recovery_area=not each.in_recovery_area) for each in reversed(mine)]
    assert judged(said(*moved), need(first, *here)) == found


@pytest.mark.parametrize(
    ("later", "what", "restore"),
    [
        (17, "log 16 of thread 2 is not there", "RESTORE ARCHIVELOG SEQUENCE 16 THREAD 2"),
        (20, "logs 16 to 19 of thread 2 are not", "RESTORE ARCHIVELOG FROM SEQUENCE 16 UNTIL SEQUENCE 19 THREAD 2"),
    ],
)
def test_the_programs_message_about_a_gap_is_explained(later: int, what: str, restore: str) -> None:
    found = explained(2, f"couldn't find archive log for seq: 16, found: {later}, sleeping 1000000 us")
    assert found is not None and what in found.text and restore in found.text
    assert explained(2, "something else") is None


@pytest.fixture
def watch(tmp_path: Path) -> Callable[[ArchivedLogs, Need, float, bool], bool]:
    """Runs a check; returns whether the loss is final."""
    made = LogWatch(tmp_path, grace=60)

    def check(logs: ArchivedLogs, needed: Need, now: float, idle: bool = True) -> bool:
        made.check(logs, needed, idle=idle, now=now)
        assert bool(made.explained()) == (made.finding is not None)
        return (tmp_path / "lost").exists()

    return check


def test_a_lost_log_is_given_up_after_a_time_once_all_before_it_is_read(
    watch: Callable[[ArchivedLogs, Need, float, bool], bool],
) -> None:
    lost = said(copy(4), gone(5), copy(6))
    assert not watch(lost, need(4), 0, True)
    assert not watch(lost, need(4), 1000, True), "log 4 is not read yet"
    assert not watch(lost, need(5), 1001, True)
    assert not watch(lost, need(5), 1062, False), "it still sends"
    assert watch(lost, need(5), 1063, True)
    assert not watch(said(copy(5), copy(6)), need(5), 1064, True), "it is there again"
    assert not watch(lost, need(5), 1065, True), "the time begins again"


def test_a_log_of_which_there_is_a_backup_is_waited_for(
    watch: Callable[[ArchivedLogs, Need, float, bool], bool],
) -> None:
    for now in (0, 10_000):
        assert not watch(said(gone(5, backups=1), copy(6)), need(5), now, True)
