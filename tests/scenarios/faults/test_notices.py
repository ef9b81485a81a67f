"""A run notices what must never happen: here a strike changes the slave."""

from pathlib import Path

import pytest

from tests.scenarios.faults import __main__ as soak
from tests.scenarios.faults.hand import Hand
from tests.scenarios.faults.plan import Strike, plan
from tests.scenarios.faults.run import RunFailed, run
from tests.scenarios.faults.servers import Servers

TWICE = "INSERT INTO public.notes VALUES (1, 'twice')"
"""As if a change had been applied twice to a table without a key."""


QUIET = next(each for seed in range(1, 100) if not (each := plan(seed)).spark and each.kept == "slave")


@pytest.fixture(autouse=True)
def another_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every strike a change of the slave."""

    def strike(hand: Hand, _: Strike) -> None:
        with hand.servers.slave.connect(hand.databases["slave"]) as slave:
            slave.execute(TWICE)  # type: ignore[union-attr]

    monkeypatch.setattr(Hand, "_strike", strike)


@pytest.mark.long
def test_a_change_applied_twice_is_found_in_every_way(servers: Servers, tmp_path: Path) -> None:
    with pytest.raises(RunFailed) as caught:
        run(QUIET, servers, tmp_path)
    findings = str(caught.value)
    assert "wrote 1 rows without a checkpoint" in findings
    assert "tables that do not add up to the log; table: (rows, hashes) too many: {'notes': (1, " in findings
    assert "public.notes differs" in findings
    assert f"./sluice soak --seed {QUIET.seed}" in findings


@pytest.mark.long
def test_a_soak_that_finds_something_ends_with_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--minutes", "5", "--seed", str(QUIET.seed)]) == 1
    told = capsys.readouterr().out
    assert f"FAILED. seed {QUIET.seed}: " in told
    assert f"To do it again: ./sluice soak --seed {QUIET.seed}" in told
    assert "nothing found" not in told
