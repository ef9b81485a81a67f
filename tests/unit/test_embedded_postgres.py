"""The embedded PostgreSQL server: its life, its passwords, its permissions."""

from collections.abc import Callable

import psycopg
import pytest

from embedded.postgres import PostgresServer, binary
from sluice.domain.connection import ConnectionInfo


def test_a_fresh_database_speaks_utf8_and_is_version_18(postgres: PostgresServer, database: Callable[..., ConnectionInfo]) -> None:
    info = database(name='Odd "Name".x')
    with postgres.connect(info.database) as connection:
        assert connection.execute("SELECT current_setting('server_encoding'), upper('ä😀')").fetchone() == ("UTF8", "Ä😀")
        assert connection.info.server_version // 10000 == 18
