"""A wait for a lock that timed out: the message names who may hold it, or the privilege to see that."""

import re
from collections.abc import Callable
from contextlib import closing

import pytest

from devstack.mariadb import MariaDBServer
from sluice.database.errors import LockNotAvailable
from sluice.model.connection import ConnectionInfo
from sluice.vendors.mysql.connection import MySQLSession, connect

CHANGE = "UPDATE t SET v = v + 1"


def waited(session: MySQLSession) -> str:
    """The message after the wait."""
    session.limit_lock_waits(1)
    with pytest.raises(LockNotAvailable, match="Lock wait timeout exceeded") as raised, session.transaction():
        session.run(CHANGE)
    return str(raised.value)


def test_the_holder_of_a_lock_is_named_if_the_account_may_see_it(
    mariadb_server: MariaDBServer, mariadb: Callable[[], ConnectionInfo]
) -> None:
    info = mariadb()
    with closing(connect(info, application="holder")) as holder, holder.transaction():
        with closing(connect(info, application="test")) as session:
            session.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
            session.run("INSERT INTO t VALUES (1, 1)")
            holder.run(CHANGE)
            assert re.search(
                rf"shows to an account with PROCESS: GRANT PROCESS ON \*\.\* TO '{info.user}'@", waited(session)
            )
        with mariadb_server.connect() as administrator, administrator.cursor() as cursor:
            cursor.execute(f"GRANT PROCESS ON *.* TO '{info.user}'@'%'")
        with closing(connect(info, application="test")) as session:
            named = rf"one may hold it: session {holder.number} of {info.user}@\S+ since 20\d\d-\S+ [\d:]+ UTC\."
            assert re.search(named, waited(session))
            holder.run("COMMIT")
            session.run(CHANGE)
