"""Any history of a table's definition, with writers in between: the slave ends with its names, types and values."""

from collections.abc import Callable
from functools import partial

import pytest

from devstack.postgres import PostgresServer
from sluice import sql_files
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect
from tests.rig.any_definitions import HUNDRED, History, play, seeds
from tests.rig.rig import Rig


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
    pair = rig("SELECT", kept="slave")
    if not event_triggers:  # which a superuser's installation has made
        with postgres.connect(pair.master_info.database) as administrator:
            administrator.execute(
                sql_files.render("postgres", "event_triggers_remove", prefix="demo_", schema="public")
            )
    with connect(pair.master_info, application="writer", autocommit=True) as other:
        histories = [History(seed, pair.master, other, f"public.t{seed}") for seed in seeds(request, first, 2)]
        for history in histories:
            history.begin()
            pair.slave.execute(f"CREATE TABLE {history.table} (id int PRIMARY KEY, a int, b int, c text)".encode())
            for row in pair.master.execute(f"SELECT * FROM {history.table}".encode()).fetchall():
                pair.slave.execute(f"INSERT INTO {history.table} VALUES (%s, %s, %s, %s)".encode(), row)
        pair.install()
        pair.follow()
        with pair.apply():
            assert pair.master.execute("SELECT public.demo_has_event_triggers()").fetchone() == (event_triggers,)
            play(histories, partial(compare, pair))


def compare(pair: Rig, history: History) -> None:
    """Waits until the slave has all, and compares."""
    pair.master.execute("SELECT public.demo_check_structure()")
    pair.await_current()
    assert pair.checkpoint.tables.reasons == {}
    table = TableName("public", history.table.removeprefix("public."))
    shapes = [catalog.shape(session, table) for session in (pair.master, pair.slave)]
    wanted, found = ({c.name: c.type for c in shape.columns} if shape else {} for shape in shapes)
    assert found == wanted
    pair.assert_equal([table])
