"""A user's function as the rule for conflicts: the page's example, invalid functions, and failing ones."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.model.change import Action, RowChange
from sluice.model.conflict_rule import ConflictRule, Row, Undecidable, Winner
from sluice.model.names import TableName
from tests.examples import examples

PAGE = Path(__file__).resolve().parents[2] / "docs" / "many-slaves.md"
FAILING = """
def gives_none(master, slave): return None
def fails(master, slave): return master['nmae']
def ends(master, slave): raise SystemExit(1)
no_function = 7
"""
LATER = ConflictRule(exit="shop_conflicts:later")
ROWS = st.fixed_dictionaries(
    {
        "id": st.just("1"),
        "version": st.sampled_from(["1", "9", "10"]),
        "site": st.none() | st.sampled_from(["shop", "head office"]),
    }
)


@pytest.fixture(scope="module", autouse=True)
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("conflicts")
    (example,) = re.findall(r"```python\n# plugins/shop_conflicts\.py\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (folder / "shop_conflicts.py").write_text(example)
    (folder / "failing_conflicts.py").write_text(FAILING)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(folder))
        yield
    for name in ("shop_conflicts", "failing_conflicts"):
        sys.modules.pop(name, None)


def update(new: Row) -> RowChange:
    return RowChange(1, TableName("shop", "prices"), Action.UPDATE, ("id",), new, {"id": "1"}, None, None)


def test_the_pages_example_chooses() -> None:
    older, newer = ({"id": "1", "version": version, "site": "shop"} for version in ("9", "10"))
    decision = LATER.decide(update(newer), older)
    assert decision.winner is Winner.MASTER and decision.reason == "shop_conflicts:later chose the master's row"
    assert LATER.decide(update(older), newer).winner is Winner.SLAVE
    assert LATER.decide(update(newer), None).winner is Winner.SLAVE  # deleted here
    assert LATER.fixes(newer, older) and not LATER.fixes(older, newer)


@settings(max_examples=examples(60), deadline=None)
@given(ROWS, ROWS)
def test_both_sides_choose_the_same_row(one: Row, other: Row) -> None:
    if one != other:
        assert LATER.fixes(one, other) is not LATER.fixes(other, one)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("failing_conflicts:gives_none", "gives None, and neither 'master' nor 'slave'"),
        ("failing_conflicts:fails", "failing_conflicts:fails fails: “KeyError: 'nmae'”"),
        ("failing_conflicts:ends", "fails: “SystemExit: 1”"),
        ("failing_conflicts:no_function", "has no function no_function"),
        ("no_such_conflicts:f", "cannot be imported on"),
    ],
)
def test_one_that_does_not_choose_leaves_it_to_on_conflict(function: str, told: str) -> None:
    rule = ConflictRule(exit=function)
    with pytest.raises(Undecidable, match=re.escape(told)):
        rule.decide(update({"id": "1"}), {"id": "1", "v": "x"})
    with pytest.raises(Undecidable, match=re.escape(told)):
        rule.fixes({"id": "1"}, None)
