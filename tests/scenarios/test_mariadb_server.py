"""The MariaDB server that Sluice starts."""

import shutil
from collections.abc import Callable

import pymysql
import pytest

from devstack.account import new_folder
from devstack.mariadb import SUPERUSER, MariaDBServer
from devstack.stack import Stack
from sluice.model.connection import ConnectionInfo


def test_no_account_of_an_administrator_is_without_a_password(mariadb_server: MariaDBServer) -> None:
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT user, host FROM mysql.user WHERE authentication_string = '' AND user <> 'mariadb.sys'")
        assert cursor.fetchall() == ()
    for user, password in ((SUPERUSER, ""), (SUPERUSER, "wrong"), ("", "")):
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            pymysql.connect(host="127.0.0.1", port=mariadb_server.port, user=user, password=password)


def test_an_account_sees_its_own_database_alone(
    mariadb: Callable[[], ConnectionInfo], mariadb_server: MariaDBServer
) -> None:
    one, other = mariadb(), mariadb()
    with mariadb_server.connect(one.database, one.user) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES")
        assert {name for (name,) in cursor.fetchall()} == {"information_schema", one.database}
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        mariadb_server.connect(other.database, one.user)


def test_it_keeps_its_data_and_passwords_from_one_start_to_the_next(mariadb_server: MariaDBServer) -> None:
    mariadb_server.create_account("kept", "kept")
    mariadb_server.kill()
    assert not mariadb_server.is_running()
    mariadb_server.start(die_with_parent=True)
    try:
        mariadb_server.connect("kept", "kept").close()
    finally:
        mariadb_server.drop_account("kept", "kept")


@pytest.mark.long
def test_a_stack_runs_one_beside_its_slaves_and_keeps_it() -> None:
    home = new_folder("sluice-test-stack-")
    try:
        stack = Stack(home, airflow=False, mariadb=True, durable=False)
        stack.up()
        with stack.services.mariadb.connect("demo", "demo") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE kept (id int)")
        killed = stack.kill("mariadb")
        stack.await_running("mariadb", after=killed)
        again = Stack(home)
        assert again.connection("mariadb").vendor == "mysql"
        with again.services.mariadb.connect("demo", "demo") as connection, connection.cursor() as cursor:
            cursor.execute("SHOW TABLES")
            assert cursor.fetchall() == (("kept",),)
    finally:
        Stack(home).down()
        shutil.rmtree(home, ignore_errors=True)
