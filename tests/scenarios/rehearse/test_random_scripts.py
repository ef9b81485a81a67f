"""Random scripts, of definitions and with triggers: nothing differs with capture, and slaves have every row."""

from collections.abc import Callable

import psycopg
import pytest

from devstack.postgres import PostgresServer
from sluice.model.connection import ConnectionInfo
from tests.rig.any_definitions import STEPS, History, seeds
from tests.rig.any_triggers import COUNT_FIRING, Attempt
from tests.scenarios.rehearse.conftest import Rehearse

FOUND_BY = ["by comparison", "event triggers"]
"""How changes of definitions are found."""
TRANSACTIONS = 6


@pytest.fixture
def recorder(postgres: PostgresServer, database: Callable[..., ConnectionInfo]) -> psycopg.Connection:
    """A session on a database without capture, where scripts are made."""
    return postgres.connect(database().database)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("notified", [False, True], ids=FOUND_BY)
@pytest.mark.parametrize("few", [1, pytest.param(10, marks=pytest.mark.long)])
def test_histories_of_definitions(
    rehearse: Rehearse, recorder: psycopg.Connection, request: pytest.FixtureRequest, few: int, notified: bool
) -> None:
    histories = [History(seed, recorder, recorder, f"public.t{seed}") for seed in seeds(request, None, few)]
    made: list[str] = []
    for history in histories:
        history.begin()
        made += history.said
        history.said.clear()
        for _ in range(STEPS):
            history.step()
    _replicate(rehearse, made, [line for history in histories for line in history.said], notified)


@pytest.mark.long
@pytest.mark.parametrize("notified", [False, True], ids=FOUND_BY)
def test_sets_of_triggers(
    rehearse: Rehearse, recorder: psycopg.Connection, request: pytest.FixtureRequest, notified: bool
) -> None:
    attempts = [Attempt(seed) for seed in seeds(request, None, 10)]
    made = [COUNT_FIRING, *(statement for attempt in attempts for statement in attempt.on_master())]
    for statement in made:
        recorder.execute(statement.encode())
    recorder.execute("SET statement_timeout = '2s'")
    script: list[str] = []
    for attempt in attempts:
        for trigger in attempt.later:
            recorder.execute(trigger.encode())
        for _ in range(TRANSACTIONS):
            attempt.run(recorder)
        script += [*attempt.later, *attempt.said]
    _replicate(rehearse, made, script, notified)


def _replicate(rehearse: Rehearse, made: list[str], script: list[str], notified: bool) -> None:
    """`script` does the same on both servers, also where it fails, and the slave has every row."""
    schema, lines = (";\n".join(part) for part in (made, script))
    report = rehearse(lines, schema=schema, notified=notified)
    findings = [f"{one.kind}, {one.place}: {one.text}" for one in report.findings if one.kind != "fails"]
    assert findings == [], lines
    assert report.tables and {table.outcome for table in report.tables} == {"identical"}, lines
