"""An account that is no superuser disables triggers and foreign keys, once an administrator allows it."""

from collections.abc import Callable

import pytest

from devstack.postgres import PostgresServer
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres import accounts, sessions
from sluice.vendors.postgres.connection import connect

pytestmark = pytest.mark.releases


def test_the_statement_that_is_named_lets_the_account_switch_them_off(
    postgres: PostgresServer, database: Callable[..., ConnectionInfo]
) -> None:
    info = database(role=True, name='The "slave"')
    with connect(info, application="test") as connection:
        assert not sessions.may_silence(connection)
        assert not sessions.begin_applying(connection, origin="DEMO_")
        allow = sessions.allow_silence(connection)
    with postgres.connect(info.database) as administrator:
        administrator.execute(allow.encode())
    with connect(info, application="test") as connection:
        connection.execute(
            "CREATE TABLE public.parent (id int PRIMARY KEY);"
            "CREATE TABLE public.child (id int REFERENCES public.parent)"
        )
        connection.commit()
        assert sessions.may_silence(connection)
        assert sessions.begin_applying(connection, origin="DEMO_")
        connection.execute("INSERT INTO public.child VALUES (1)")
        connection.commit()
    with postgres.connect(info.database) as administrator:
        for statement in accounts.revokes(administrator, info.user):
            administrator.execute(statement.encode())
    with connect(info, application="test") as connection:
        assert not sessions.may_silence(connection)
