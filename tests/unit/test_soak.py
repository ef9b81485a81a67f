"""`./sluice soak`: its duration, its seeds, and its final message. Other tests cover the runs themselves."""

import argparse
import ast
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from devstack import soak as command
from devstack.account import require_enterable, service_account
from tests.scenarios.faults import __main__ as soak
from tests.scenarios.faults.plan import Plan
from tests.scenarios.faults.run import Result, RunFailed

RUN_SECONDS = 0.25


class Clock:
    """Stands for `time`: each run takes `RUN_SECONDS`."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds that were run; seed 13 has a finding."""
    done: list[int] = []
    clock = Clock()
    monkeypatch.setattr(soak, "time", clock)

    def run(plan: Plan, _: object, folder: Path) -> Result:
        done.append(plan.seed)
        clock.now += RUN_SECONDS
        if plan.seed == 13:
            raise RunFailed(plan, ["a strike"], ["a finding"], folder)
        return Result(plan.seed, RUN_SECONDS, 1, 1, 1, 0, 1, 1, 1, 0, 0, ("a strike",))

    def servers() -> AbstractContextManager[None]:
        return nullcontext()

    monkeypatch.setattr(soak, "run", run)
    monkeypatch.setattr(soak, "Servers", servers)
    return done


Told = Callable[[], str]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    return lambda: capsys.readouterr().out


def test_it_goes_on_until_the_time_is_up_each_time_with_another_seed(seeds: list[int], told: Told) -> None:
    assert soak.main(["--minutes", "0.01"]) == 0
    assert seeds == list(range(seeds[0], seeds[0] + 3)), "the third run ends after 0.6 s"
    assert "3 runs, nothing found" in told()


def test_seeds_are_new_each_time(seeds: list[int]) -> None:
    for _ in range(4):
        soak.main(["--runs", "1"])
    assert len(set(seeds)) > 1


def test_no_time_at_all_is_one_run(seeds: list[int]) -> None:
    assert soak.main(["--minutes", "0", "--seed", "3"]) == 0
    assert seeds == [3]


def test_it_ends_with_the_first_finding_and_says_how_to_do_it_again(seeds: list[int], told: Told) -> None:
    assert soak.main(["--minutes", "1", "--seed", "11"]) == 1
    assert seeds == [11, 12, 13]
    words = told()
    assert "FAILED. seed 13: " in words and "a finding" in words and "./sluice soak --seed 13" in words


def test_one_seed_is_run_once_or_as_often_as_one_likes_and_shows_its_strikes(seeds: list[int], told: Told) -> None:
    assert soak.main(["--seed", "17"]) == 0
    assert "a strike" in told()
    assert soak.main(["--seed", "17", "--runs", "3"]) == 0
    assert seeds == [17] * 4


@pytest.mark.parametrize("status", [0, 1])
def test_the_command_hands_on_its_options_and_the_exit_status_and_keeps_the_logs_of_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    seen = tmp_path / "seen"
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"open({str(seen)!r}, 'w').write(repr((sys.argv[1:], os.environ['TMPDIR'])))\nsys.exit({status})\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args(["--minutes", "2.5", "--seed", "0", "--slave", "mariadb"])) == status
    arguments, folder = ast.literal_eval(seen.read_text())
    assert arguments == ["-m", "tests.scenarios.faults", "--minutes", "2.5", "--seed", "0", "--slave", "mariadb"]
    assert Path(folder).exists() == bool(status)
    if status:
        require_enterable(Path(folder), service_account())
        shutil.rmtree(folder)
