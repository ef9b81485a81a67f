"""Values that are longer than a statement may be on the slave's server, which has a default of 16 MiB."""

from collections.abc import Callable, Iterator

import pytest

from devstack.mariadb import MariaDBServer
from sluice.coordination import redis_store
from sluice.database.errors import StatementFailed
from sluice.model.names import TableName
from sluice.verify.compare import compare
from sluice.verify.findings import CouldNotCompare, Outcome
from sluice.verify.pinned_sessions import at_one_position
from tests.scenarios.mariadb.rig import Rig

TABLES = """
CREATE TABLE public.texts (id int PRIMARY KEY, place int UNIQUE, v text);
CREATE TABLE public.bytes (id int PRIMARY KEY, v bytea);
"""
LONG = "INSERT INTO public.{} VALUES ({}, repeat('x', 3000000){})"


@pytest.fixture
def limited(mariadb_server: MariaDBServer) -> Iterator[None]:
    """New sessions may send 1 MiB."""
    with mariadb_server.connect() as admin, admin.cursor() as cursor:
        cursor.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        yield
    finally:
        with mariadb_server.connect() as admin, admin.cursor() as cursor:
            cursor.execute("SET GLOBAL max_allowed_packet = 1073741824")


def compared(pair: Rig, table: str) -> Outcome:
    with at_one_position(pair.pair, redis_store.connect(pair.redis_url)) as view:
        return compare(view, TableName("public", table)).outcome


@pytest.mark.usefixtures("limited")
def test_they_are_loaded_and_merged_and_what_cannot_be_done_is_reported_with_the_remedy(
    rig: Callable[..., Rig],
) -> None:
    pair = rig(TABLES, on_conflict="reject")
    pair.master.execute(LONG.format("texts", "1, 1", "").encode())
    update = pair.load()
    refused = pytest.raises(StatementFailed, match=r"takes 1,048,576\. .* SET GLOBAL max_allowed_packet = 1073741824")
    with refused, pair.apply():
        pair.await_current()
        pair.master.execute(LONG.format("texts", "2, 2", "").encode())
        pair.master.execute(LONG.format("bytes", "1", "::bytea").encode())
        pair.await_current()
        pair.finish(update)
        assert pair.differences() == {}
        assert compared(pair, "texts") is Outcome.IDENTICAL
        with pytest.raises(CouldNotCompare, match="raise it, to twice the longest value"):
            compared(pair, "bytes")
        pair.slave.run("INSERT INTO texts VALUES (99, 3, 'mine')")
        with pair.master.transaction():  # whose changes are applied one by one
            pair.master.execute("INSERT INTO public.texts VALUES (3, 3, 'c')")
            pair.master.execute(LONG.format("texts", "4, 4", "").encode())
        pair.await_current()
