"""Which row wins: two sides that decide independently end with the same rows, whatever was written when."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.model.change import Action, RowChange
from sluice.model.conflict_rule import ConflictRule, Row, Undecidable, Winner, already_applied
from sluice.model.names import TableName
from tests.examples import examples

TABLE = TableName("public", "t")
NEWEST = ConflictRule(newest="at")
MASTER, SLAVE = ConflictRule(Winner.MASTER), ConflictRule(Winner.SLAVE)
EXIT = ConflictRule(exit=f"{__name__}:later")


def later(master: Row | None, slave: Row | None) -> str:
    """A user's function: the row that was written later wins; a deleted one stays deleted."""
    if master is None or slave is None:
        return "master" if master is None else "slave"
    theirs, ours = ((int(str(row["at"])), str(row["v"])) for row in (master, slave))
    return "master" if theirs > ours else "slave"


def change(old: Row, new: Row, *, key: tuple[str, ...] = ("id",), partial: bool = False) -> RowChange:
    action = Action.UPDATE if old and new else Action.INSERT if new else Action.DELETE
    return RowChange(1, TABLE, action, key, new, old, None, None, partial=partial)


def row(at: str | None, value: str = "x") -> dict[str, str | None]:
    return {"id": "1", "at": at, "v": value}


@pytest.mark.parametrize(
    ("theirs", "ours", "winner"),
    [
        ("10", "9", Winner.MASTER),
        ("2026-11-23 07:00:00.000001+00", "2026-11-23 07:00:00+00", Winner.MASTER),
        ("2026-11-23 07:00:00+02", "2026-11-23 06:00:00+00", Winner.SLAVE),
        ("2026-11-23 07:00:00", "2026-11-23 07:00:00.5", Winner.SLAVE),
        (None, "1", Winner.SLAVE),
        ("1", None, Winner.MASTER),
    ],
)
def test_the_newer_of_two_rows_stays(theirs: str | None, ours: str | None, winner: Winner) -> None:
    decision = NEWEST.decide(change(row("0"), row(theirs)), row(ours))
    assert decision.winner is winner
    assert str(theirs) in decision.reason and str(ours) in decision.reason


def test_both_sides_keep_the_same_of_two_rows_with_one_time() -> None:
    for one, other in ((row("5", "a"), row("5", "b")), (row(None, "a"), row(None, "b"))):
        winner = NEWEST.decide(change(row("0"), one), other).winner
        winner_on_other_side = NEWEST.decide(change(row("0"), other), one).winner
        assert {winner, winner_on_other_side} == {Winner.MASTER, Winner.SLAVE}


@pytest.mark.parametrize(
    ("conflicting", "slave_row", "reason"),
    [
        (change({}, row("1")), None, "unique values"),
        (change(row("0"), row("1"), key=()), row("2"), "no key"),
        (change(row("0"), row("1"), partial=True), row("2"), "whole row"),
        (change(row("0"), row("soon")), row("2"), "neither a time nor a number"),
        (change(row("0"), row("2026-11-23")), row("2"), "one is a time"),
        (change({"id": "1"}, {"id": "1"}), {"id": "1"}, "no column at"),
    ],
)
def test_a_conflict_that_the_newest_row_does_not_decide_raises_undecidable(
    conflicting: RowChange, slave_row: Row | None, reason: str
) -> None:
    with pytest.raises(Undecidable, match=reason):
        NEWEST.decide(conflicting, slave_row)


def test_a_repair_brings_back_what_one_side_lacks() -> None:
    assert NEWEST.fixes(row("1"), None) and not NEWEST.fixes(None, row("1"))
    assert NEWEST.fixes(row("2"), row("1")) and not NEWEST.fixes(row("1"), row("2"))
    assert MASTER.fixes(None, row("9")) and not SLAVE.fixes(row("9"), None)


@dataclass
class Side:
    """A database with one table: its rows by key, and its changes that the other side has not applied."""

    rule: ConflictRule
    rows: dict[str, Row] = field(default_factory=dict)
    queue: list[RowChange] = field(default_factory=list)

    def write(self, key: str, new: Row | None) -> None:
        old = self.rows.get(key)
        if old is None and new is None:
            return
        self.queue.append(change(old or {}, new or {}))
        self._put(key, new)

    def receive(self, found: RowChange) -> None:
        """Applies as an apply does: matching changes are applied, the rule decides about others. Nothing is captured
        again."""
        key = str((found.old or found.new)["id"])
        held = self.rows.get(key)
        fits = (held or {}) == found.old or already_applied(found, held)
        if fits or self.rule.decide(found, held).winner is Winner.MASTER:
            self._put(key, found.new or None)

    def _put(self, key: str, new: Row | None) -> None:
        self.rows.pop(key, None)
        if new is not None:
            self.rows[key] = new


STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "write", "delete", "receive"]), st.booleans(), st.integers(0, 3)), max_size=40
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "rules", [(NEWEST, NEWEST), (MASTER, SLAVE), (EXIT, EXIT)], ids=["newest", "one prevails", "exit"]
)
@given(steps=STEPS, ties=st.booleans())
@settings(max_examples=examples(600), deadline=None)
def test_two_sides_that_write_at_the_same_time_end_equal(
    rules: tuple[ConflictRule, ConflictRule], steps: list[tuple[str, bool, int]], ties: bool
) -> None:
    """As documented, each write increases `at`, each key is created on one side only, and no deleted key is
    used again."""
    sides = (Side(rules[1]), Side(rules[0]))  # the first one is what prevails
    deleted: set[str] = set()
    for number, (step, second, which) in enumerate(steps):
        side, other, key = sides[second], sides[not second], str(which)
        if step == "receive":
            if other.queue:
                side.receive(other.queue.pop(0))
        elif step == "delete" and key in side.rows:
            deleted.add(key)
            side.write(key, None)
        elif step == "write" and (key in side.rows or (which % 2 == second and key not in deleted)):
            held = side.rows.get(key)
            at = int(str(held["at"])) + 1 if ties and held else number
            side.write(key, {"id": key, "at": str(at), "v": f"{number} {second}"})
    while any(side.queue for side in sides):
        for side, other in (sides, sides[::-1]):
            if other.queue:
                side.receive(other.queue.pop(0))
    assert sides[0].rows == sides[1].rows
