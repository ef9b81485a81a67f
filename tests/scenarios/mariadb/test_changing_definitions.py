"""The server's answers about tables whose definitions another session is changing."""

import threading
from collections.abc import Callable, Iterator

import pytest

from sluice.database.errors import Contended
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from sluice.vendors.mysql import catalog, connection
from sluice.vendors.mysql.connection import MySQLSession, connect

BUSY = TableName("public", "busy")
WAITS = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata lock'"


@pytest.fixture
def sessions(mariadb: Callable[[], ConnectionInfo]) -> Iterator[Callable[[], MySQLSession]]:
    info, made = mariadb(), []

    def make() -> MySQLSession:
        made.append(connect(info, application="test"))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_table_that_is_being_changed_is_never_taken_for_one_that_is_not_there(
    sessions: Callable[[], MySQLSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, reader, administrator = sessions(), sessions(), sessions()
    for name in ("busy", "other", "used"):
        apply.run(f"CREATE TABLE {name} (id int PRIMARY KEY, code varchar(5) UNIQUE)")
    # The rename has `busy` to itself, and waits for `used`.
    rename = threading.Thread(target=administrator.run, args=["RENAME TABLE busy TO gone, used TO used2"], daemon=True)
    with reader.transaction():
        reader.run("SELECT 1 FROM used LIMIT 0")
        rename.start()
        while reader.run(WAITS).fetchone() == (0,):
            pass
        with apply.transaction():
            apply.run("SELECT 1 FROM other LIMIT 0")
            monkeypatch.setattr(connection, "SCHEMA_SECONDS", 0.1)
            for look in (catalog.shape, lambda session, table: catalog.own_indexes(session, [table])):
                with pytest.raises(Contended, match="definitions of tables are being changed"):
                    look(apply, BUSY)
    rename.join(10)
    assert catalog.shape(apply, BUSY) is None
    assert catalog.shape(apply, TableName("public", "gone")) is not None
