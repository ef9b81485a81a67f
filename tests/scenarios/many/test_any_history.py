"""Tables join, leave, are loaded in part and by files, altered and renamed in any order, under kills, as in a model.

Some tables are transformed in each possible way. Another slave must not notice anything.
"""

from pathlib import Path

import pytest

from tests.rig.rig import MakePair
from tests.scenarios.many.histories import History


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "part"),
    [
        *(
            pytest.param(seed, slice(first, None, 4), id=f"quarter of {seed}")
            for first, seed in enumerate((1, 6, 3, 8))
        ),
        *(pytest.param(seed, slice(None), id=str(seed), marks=pytest.mark.long) for seed in range(10)),
    ],
)
def test_any_history_is_as_the_model_says_and_another_slave_never_notices(
    pair_of: MakePair, seed: int, part: slice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    history = History(pair_of, seed, tmp_path)
    history.begin()
    with history.other.rig.apply():
        with history.apply() as apply:
            happens = history.all[part]
            history.chance.shuffle(happens)
            for happening in happens:
                history.register()
                history.change()
                happening(apply)
                history.change()
                history.unnoticed()
            history.register()
            history.check()
        with history.apply():
            history.load_what_is_left()
            history.check()
    assert len(history.done) == len(happens)
