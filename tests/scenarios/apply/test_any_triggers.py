"""Triggers of the application that change the rows of the statement which fires them: the slave equals the master."""

from collections.abc import Callable, Sequence

import pytest

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model.names import TableName
from tests.rig.any_definitions import HUNDRED, seeds
from tests.rig.any_triggers import COUNT_FIRING, Attempt
from tests.rig.rig import Rig

STATEMENTS = 12


def play(pair: Rig, attempts: Sequence[Attempt], *, event_triggers: bool) -> None:
    """Changes rows, with triggers that were made before the capture or are made now."""
    for attempt in attempts:
        for trigger in attempt.later:
            pair.master.execute(trigger.encode())
        if attempt.later and not event_triggers:
            pair.master.execute("SELECT public.demo_check_structure()")
        for _ in range(STATEMENTS):
            attempt.run(pair.master)
        try:
            pair.await_current()
            pair.assert_equal([TableName("public", table.partition(".")[2]) for table in attempt.captured])
        except BaseException as failure:
            failure.add_note(f"seed {attempt.seed}, {attempt.form}: {'; '.join(attempt.triggers)}")
            failure.add_note("\n".join(attempt.said))
            raise


@pytest.mark.parametrize("event_triggers", [False, True], ids=["by comparison", "event triggers"])
@pytest.mark.parametrize("first", [None, *HUNDRED])
def test_whatever_triggers_do_the_slave_equals_the_master(
    rig: Callable[..., Rig],
    postgres: PostgresServer,
    request: pytest.FixtureRequest,
    first: int | None,
    event_triggers: bool,
) -> None:
    attempts = [Attempt(seed) for seed in seeds(request, first, 3)]
    pair = rig("SELECT")
    if event_triggers:
        with postgres.connect(pair.master_info.database) as administrator:
            administrator.execute(sql_files.render("postgres", "event_triggers", prefix="demo_", schema="public"))
    pair.master.execute(COUNT_FIRING)
    for attempt in attempts:
        for statement in attempt.on_master():
            pair.master.execute(statement.encode())
        for statement in attempt.on_slave():
            pair.slave.execute(statement.encode())
    pair.install()
    pair.follow()
    pair.master.execute("SET statement_timeout = '2s'")
    with pair.apply() as running:
        pair.await_normal_mode(running)
        play(pair, attempts, event_triggers=event_triggers)
