"""Any history of a table's definition, with writers in between: a MariaDB slave ends with its names and values."""

from collections.abc import Callable
from functools import partial

import pytest

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model.names import TableName
from sluice.vendors.mysql import catalog as slave_catalog
from sluice.vendors.postgres.connection import connect
from tests.rig.any_definitions import HUNDRED, History, play, seeds
from tests.scenarios.mariadb.rig import Rig


@pytest.mark.one_in(2)
@pytest.mark.parametrize("event_triggers", [False, True], ids=["by comparison", "event triggers"])
@pytest.mark.parametrize("first", [None, *HUNDRED])
def test_any_history_of_definitions_ends_equal(
    rig: Callable[..., Rig],
    postgres: PostgresServer,
    request: pytest.FixtureRequest,
    first: int | None,
    event_triggers: bool,
) -> None:
    pair = rig("SELECT")
    if not event_triggers:  # which a superuser's installation has made
        with postgres.connect(pair.pair.master_info.database) as administrator:
            administrator.execute(
                sql_files.render("postgres", "event_triggers_remove", prefix="demo_", schema="public")
            )
    with connect(pair.pair.master_info, application="writer", autocommit=True) as other:
        histories = [History(seed, pair.master, other, f"public.t{seed}") for seed in seeds(request, first, 2)]
        for history in histories:
            history.begin()
        pair.capture()
        pair.load()
        with pair.apply():
            assert pair.master.execute("SELECT public.demo_has_event_triggers()").fetchone() == (event_triggers,)
            play(histories, partial(compare, pair))


def compare(pair: Rig, history: History) -> None:
    """Waits until the slave has all, and compares."""
    pair.master.execute("SELECT public.demo_check_structure()")
    pair.await_current()
    there = slave_catalog.shape(pair.slave, TableName("public", history.table.removeprefix("public.")))
    assert pair.checkpoint.tables.reasons == {}
    assert there is not None and {column.name for column in there.columns} == {"id", *history.columns()}
    assert pair.differences() == {}
