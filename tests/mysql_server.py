"""A server of MySQL or MariaDB that somebody else runs, for tests of a slave: SLUICE_TEST_MYSQL names it.

    SLUICE_TEST_MYSQL=mysql://root@127.0.0.1:3306/mysql MYSQL_PWD=… ./sluice test tests/scenarios/mariadb tests/vendors

Databases and accounts `sluice_test_…` are made there and dropped again; LOAD DATA LOCAL is allowed on it.
"""

import os
import secrets
from dataclasses import replace

from devstack.mariadb import quoted
from sluice.model.connection import ConnectionInfo
from sluice.vendors.mysql.connection import MySQLSession, connect
from sluice.vendors.mysql.vendor import MYSQL

VARIABLE = "SLUICE_TEST_MYSQL"


class GivenServer:
    """The server, used as its administrator."""

    def __init__(self, url: str):
        self._info = MYSQL.located(url)
        with self._session() as session:
            session.run("SET GLOBAL local_infile = 1")

    def make(self, number: int) -> ConnectionInfo:
        """Creates an empty database, with an account that has all privileges in it and no others."""
        name, password = f"sluice_test_{os.getpid()}_{number}", secrets.token_urlsafe(18) + "aA1!"
        with self._session() as session:
            session.run("SET SESSION sql_mode = ''")
            session.run(f"CREATE DATABASE {quoted(name)}")
            session.run("CREATE USER %s@'%%' IDENTIFIED BY %s", (name, password))
            pattern = quoted(name).replace("_", "\\_")
            session.run(f"GRANT ALL ON {pattern}.* TO '{name}'@'%'")
        return replace(self._info, database=name, user=name, password=password)

    def drop(self, info: ConnectionInfo) -> None:
        with self._session() as session:
            session.run("SET SESSION sql_mode = ''")
            session.run(f"DROP DATABASE IF EXISTS {quoted(info.database)}")
            session.run(f"DROP USER IF EXISTS '{info.user}'@'%'")

    def _session(self) -> MySQLSession:
        return connect(self._info, application="sluice tests")
