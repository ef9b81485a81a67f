"""What can be done with rejects."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sluice.model.content import format_row
from sluice.model.guid import key_text
from sluice.model.names import TableName
from sluice.model.reject import MOVES, OPEN, Reject, RejectStatus, before


def reject(newer: int | None, *, force: bool = False) -> Reject:
    now = datetime.now(UTC)
    return Reject(
        7, 100, TableName("public", "t"), "UPDATE", "", "", None, "none", now, ("id",), ("1",), newer,
        RejectStatus.ASKED, force, "anna", now, None, None, None,
    )  # fmt: skip


OLD, NEW = {"a": "1", "b": None}, {"a": "2", "b": None}


def change(action: str, old: dict[str, str | None] | None, new: dict[str, str | None] | None, *key: str) -> Reject:
    changed = {name: value for name, value in (old or {}).items() if not new or new[name] != value or name in key}
    images = [image for image in (old, new) if image]
    return replace(
        reject(None),
        action=action,
        content=format_row(new.items()) if new else None,
        oldcontent=format_row(changed.items()) if old else None,
        key=key,
        keys=tuple(sorted({key_text(image, key) for image in images})) if key else (),
    )


@pytest.mark.parametrize(
    ("found", "touched"),
    [
        (change("INSERT", None, NEW), {("2", None)}),
        (change("DELETE", OLD, None), {("1", None)}),
        (change("UPDATE", OLD, NEW), {("1", None), ("2", None)}),
        (change("UPDATE", OLD, NEW, "a"), {("1",), ("2",)}),
        (change("DELETE", {"a": "1", "b": "x:y"}, None, "b", "a"), {("x:y", "1")}),
    ],
)
def test_a_change_touches_its_rows_and_no_others(found: Reject, touched: set[tuple[str | None, ...]]) -> None:
    others = {("9",), ("x", "y:1"), ("1", ""), ("9", None)}
    width = len(found.key) or 2
    rows = {row for row in touched | others if len(row) == width}
    assert found.touched(("a", "b"), rows) == touched


def test_a_settled_reject_stays_settled() -> None:
    assert {RejectStatus.SET_ASIDE, RejectStatus.ASKED} == OPEN
    assert all(not MOVES[status] for status in RejectStatus if status not in OPEN)
    assert before(RejectStatus.APPLIED) == [RejectStatus.ASKED], "only what somebody asked for is applied"
    assert before(RejectStatus.SET_ASIDE) == [RejectStatus.ASKED], "a refusal"


@pytest.mark.parametrize(("newer", "force", "outdated"), [(None, False, False), (101, False, True), (101, True, False)])
def test_an_outdated_change_needs_force(newer: int | None, force: bool, outdated: bool) -> None:
    assert bool(reject(newer, force=force).outdated) == outdated
