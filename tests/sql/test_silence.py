"""An account that is no superuser disables triggers and foreign keys, once an administrator allows it."""

from collections.abc import Callable

import pytest

from devstack.postgres import PostgresServer
from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres import accounts, session_settings
from sluice.vendors.postgres.connection import connect

pytestmark = pytest.mark.releases


def test_the_statement_that_is_named_lets_the_account_switch_them_off(
    postgres: PostgresServer, database: Callable[..., ConnectionInfo]
) -> None:
    info = database(role=True, name='The "slave"')
    with connect(info, application="test") as connection:
        assert not session_settings.may_silence(connection)
        assert not session_settings.begin_applying(connection, origin="DEMO_")
        allow = session_settings.allow_silence(connection)
    with postgres.connect(info.database) as administrator:
        administrator.execute(allow.encode())
    with connect(info, application="test") as connection:
        connection.execute(
            "CREATE TABLE public.parent (id int PRIMARY KEY);"
            "CREATE TABLE public.child (id int REFERENCES public.parent)"
        )
        connection.commit()
        assert session_settings.may_silence(connection)
        assert session_settings.begin_applying(connection, origin="DEMO_")
        connection.execute("INSERT INTO public.child VALUES (1)")
        connection.commit()
    with postgres.connect(info.database) as administrator:
        for statement in accounts.revokes(administrator, info.user):
            administrator.execute(statement.encode())
    with connect(info, application="test") as connection:
        assert not session_settings.may_silence(connection)
