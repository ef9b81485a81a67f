"""What may become of changes that are set aside."""

from datetime import UTC, datetime

import pytest

from sluice.domain.names import TableName
from sluice.domain.reject import MOVES, OPEN, Reject, RejectStatus, before


def reject(newer: int | None, *, force: bool = False) -> Reject:
    now = datetime.now(UTC)
    return Reject(
        7, 100, TableName("public", "t"), "UPDATE", "", "", None, "none", now, ("id",), ("1",), newer,
        RejectStatus.ASKED, force, "anna", now, None, None, None,
    )  # fmt: skip


def test_what_is_settled_stays_settled() -> None:
    assert {RejectStatus.SET_ASIDE, RejectStatus.ASKED} == OPEN
    assert all(not MOVES[status] for status in RejectStatus if status not in OPEN)
    assert before(RejectStatus.APPLIED) == [RejectStatus.ASKED], "only what somebody asked for is applied"
    assert before(RejectStatus.SET_ASIDE) == [RejectStatus.ASKED], "a refusal"


@pytest.mark.parametrize(("newer", "force", "outdated"), [(None, False, False), (101, False, True), (101, True, False)])
def test_an_outdated_change_needs_force(newer: int | None, force: bool, outdated: bool) -> None:
    assert bool(reject(newer, force=force).outdated) == outdated
