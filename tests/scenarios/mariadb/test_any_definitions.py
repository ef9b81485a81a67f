"""Any history of a table's definition, with writers in between: a MariaDB slave ends with its names and values."""

from collections.abc import Callable

import pytest

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model.names import TableName
from sluice.vendors.mysql import catalog as slave_catalog
from sluice.vendors.postgres.connection import connect
from tests.rig.any_definitions import History
from tests.scenarios.mariadb.rig import Rig

STEPS = 8
HUNDRED = [pytest.param(first, marks=pytest.mark.long) for first in range(0, 100, 10)]


@pytest.mark.parametrize("event_triggers", [False, True], ids=["by comparison", "event triggers"])
@pytest.mark.parametrize("first", [None, *HUNDRED])
def test_any_history_of_definitions_ends_equal(
    rig: Callable[..., Rig],
    postgres: PostgresServer,
    request: pytest.FixtureRequest,
    first: int | None,
    event_triggers: bool,
) -> None:
    number = request.config.option.run_number
    seeds = range(first, first + 10) if first is not None else range(number * 2, number * 2 + 2)
    pair = rig("SELECT")
    if event_triggers:
        with postgres.connect(pair.pair.master_info.database) as administrator:
            administrator.execute(sql_files.render("postgres", "event_triggers", prefix="demo_", schema="public"))
    with connect(pair.pair.master_info, application="writer", autocommit=True) as other:
        histories = [History(seed, pair.master, other, f"public.t{seed}", wide=True) for seed in seeds]
        for history in histories:
            history.begin()
        pair.capture()
        pair.load()
        with pair.apply():
            for history in histories:
                for _ in range(STEPS):
                    history.step()
                    if history.chance.random() < 0.3:
                        settled(pair, history)
                settled(pair, history)


def settled(pair: Rig, history: History) -> None:
    """Waits until the slave has all, and compares."""
    try:
        pair.master.execute("SELECT public.demo_check_structure()")
        pair.await_current()
        there = slave_catalog.shape(pair.slave, TableName("public", history.table.removeprefix("public.")))
        assert there is not None and {column.name for column in there.columns} == {"id", *history.columns()}
        assert pair.differences() == {}
    except BaseException as failure:
        failure.add_note(f"seed {history.seed}:\n" + ";\n".join(history.said))
        raise
