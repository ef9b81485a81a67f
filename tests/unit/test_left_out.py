"""Transactions that OpenLogReplicator reports as left out: stored, and a loss if rows were read before."""

from pathlib import Path

import pytest

from sluice.redo import checkpoints, left_out
from sluice.redo.left_out import LeftOut, Transaction

SAID = (
    "skipping transaction with no beginning: scn: {scn} seq: 0 offset: 0 xid: 0x0009.003.0000568e flags: 0/{rolled}/"
    "{system} op: {changes} chunks: 1 sz: 208"
)


def said(scn: int = 4711, rolled: int = 0, system: int = 0, changes: int = 3) -> str:
    return SAID.format(scn=scn, rolled=rolled, system=system, changes=changes)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (said(), Transaction("9.3.22158", 4711, True)),
        (said(changes=0), Transaction("9.3.22158", 4711, False)),
        (said(changes=0, system=1), Transaction("9.3.22158", 4711, True)),
        (said(rolled=1), None),
        ("skipping something else", None),
    ],
)
def test_a_transaction_that_was_committed_is_known_by_the_words(text: str, found: Transaction | None) -> None:
    assert left_out.transaction(text) == found


def test_repeated_messages_count_once_and_survive_a_crash(tmp_path: Path) -> None:
    first, second = Transaction("1.1.1", 100, True), Transaction("1.2.1", 200, False)
    found = LeftOut().more([first]).more([first, second]).more([second])
    assert found == LeftOut(2, 200, 100, "1.1.1")
    assert left_out.read(tmp_path) == LeftOut()
    left_out.write(tmp_path, found)
    assert left_out.read(tmp_path) == found


def test_it_is_a_loss_where_rows_were_read_before_it_was_committed() -> None:
    found = LeftOut(2, 200, 100, "1.1.1")
    assert left_out.lost(found, None) == "", "nobody read rows"
    assert left_out.lost(found, 100) == "", "they were read behind it"
    assert "transaction 1.1.1 was committed at SCN 100" in left_out.lost(found, 99)
    assert left_out.lost(LeftOut(2, 200), 99) == "", "nobody knows whether it changed anything"


def test_lacking_transactions_are_reported_until_rows_are_read_after_them(tmp_path: Path) -> None:
    found = LeftOut(2, 200, 100, "1.1.1")
    assert "Load others as of that SCN" in left_out.explained(found, None, tmp_path)
    assert "2 transactions" in left_out.explained(found, 150, tmp_path)
    assert left_out.explained(found, 200, tmp_path) == ""
    parts = left_out.explained(LeftOut(parts=1, part="incomplete row"), 200, tmp_path)
    assert "left out 1 change that it could not put together (incomplete row)" in parts
    assert str(tmp_path / left_out.FILE) in parts


def test_a_program_goes_on_from_the_first_log_where_it_does_not_know_when_a_transaction_began() -> None:
    """It then writes the sequence 0, and would begin with the first log in the folder."""
    unknown = {"scn": 9, "seq": 7, "min-tran": {"seq": 0, "offset": 0, "xid": "0x0009.003.0000568e"}}
    fixed = checkpoints.with_beginning(unknown, 5)
    assert fixed["min-tran"] == {"seq": 5, "offset": 0, "xid": "0x0009.003.0000568e"}
    assert checkpoints.oldest_sequence({"T-chkpt-9.json": fixed}) == 5, "no log behind that is deleted"
    assert checkpoints.with_beginning(unknown, 0) is unknown
    for known in ({"scn": 9, "seq": 7}, {"scn": 9, "seq": 7, "min-tran": {"seq": 6, "offset": 512}}):
        assert checkpoints.with_beginning(known, 5) is known
