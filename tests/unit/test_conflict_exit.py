"""A user's function as the rule for conflicts: the page's example, and functions that are none or fail."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.model.change import Action, RowChange
from sluice.model.conflict_rule import ConflictRule, Row, Undecidable, Winner
from sluice.model.names import TableName

PAGE = Path(__file__).resolve().parents[2] / "docs" / "many-slaves.md"
FAILING = """
def gives_none(master, slave): return None
def fails(master, slave): return master['nmae']
def ends(master, slave): raise SystemExit(1)
no_function = 7
"""
DEARER = ConflictRule(exit="shop_conflicts:dearer")
ROWS = st.fixed_dictionaries(
    {"id": st.just("1"), "price": st.sampled_from(["1", "9", "10.5"]), "note": st.none() | st.text()}
)


@pytest.fixture(scope="module", autouse=True)
def modules(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("conflicts")
    (example,) = re.findall(r"```python\n# plugins/shop_conflicts\.py\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (folder / "shop_conflicts.py").write_text(example)
    (folder / "failing_conflicts.py").write_text(FAILING)
    sys.path.insert(0, str(folder))


def update(new: Row) -> RowChange:
    return RowChange(1, TableName("shop", "prices"), Action.UPDATE, ("id",), new, {"id": "1"}, None, None)


def test_the_pages_example_chooses() -> None:
    cheap, dear = {"id": "1", "price": "9"}, {"id": "1", "price": "10.5"}
    decision = DEARER.decide(update(dear), cheap)
    assert decision.winner is Winner.MASTER and decision.reason == "shop_conflicts:dearer chose the master's row"
    assert DEARER.decide(update(cheap), dear).winner is Winner.SLAVE
    assert DEARER.decide(update(dear), None).winner is Winner.SLAVE  # deleted here
    assert DEARER.mends(dear, cheap) and not DEARER.mends(cheap, dear)


@given(ROWS, ROWS)
def test_both_sides_choose_the_same_row(one: Row, other: Row) -> None:
    if one != other:
        assert DEARER.mends(one, other) is not DEARER.mends(other, one)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("failing_conflicts:gives_none", "gives None, and neither 'master' nor 'slave'"),
        ("failing_conflicts:fails", "failing_conflicts:fails fails: KeyError: 'nmae'"),
        ("failing_conflicts:ends", "fails: SystemExit: 1"),
        ("failing_conflicts:no_function", "has no function no_function"),
        ("no_such_conflicts:f", "cannot be imported on"),
    ],
)
def test_one_that_does_not_choose_leaves_it_to_on_conflict(function: str, told: str) -> None:
    rule = ConflictRule(exit=function)
    with pytest.raises(Undecidable, match=re.escape(told)):
        rule.decide(update({"id": "1"}), {"id": "1", "v": "x"})
    with pytest.raises(Undecidable, match=re.escape(told)):
        rule.mends({"id": "1"}, None)
