"""A master with DbResources installed."""

from collections.abc import Callable

import pytest

from sluice.model.connection import ConnectionInfo
from tests.sql.master import ORDERS, Master


@pytest.fixture
def master(database: Callable[..., ConnectionInfo]) -> Master:
    """The resources of prefix DEMO_ in schema public of an empty database; its account is a superuser."""
    return Master(database(installed=True))


@pytest.fixture(params=["event triggers", "comparison"])
def any_master(request: pytest.FixtureRequest, database: Callable[..., ConnectionInfo]) -> Master:
    """A master with a superuser's event triggers, and one whose account may not create any."""
    superuser = request.param == "event triggers"
    made = Master(database(role=not superuser, installed=superuser))
    made.sql("CREATE SCHEMA IF NOT EXISTS public", ORDERS)
    if not superuser:
        made.install()
    assert made.value("SELECT demo_has_event_triggers()") is (request.param == "event triggers")
    made.register("orders")
    made.sql("INSERT INTO orders VALUES (1, 'a', 10)")
    return made
