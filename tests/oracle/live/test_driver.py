"""Answers that only a server of Oracle gives the driver: row counts of array DML, cancellations, timeouts, failures."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sluice.database import errors as kinds
from sluice.model.connection import ConnectionInfo
from sluice.vendors.oracle import errors
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.connection import DriverSession, connect
from tests.oracle import server

ABLE = ["oracle"]
SLEEP = "DBMS_LOCK.SLEEP(:seconds)"
LONG = {"seconds": 300}
TABLES = (
    "CREATE TABLE P (ID NUMBER(10) PRIMARY KEY, V VARCHAR2(10) NOT NULL, N NUMBER(3) CHECK (N < 100))",
    "CREATE TABLE C (ID NUMBER(10) PRIMARY KEY, P NUMBER(10) REFERENCES P)",
    "CREATE OR REPLACE TRIGGER REFUSES BEFORE INSERT ON C FOR EACH ROW WHEN (NEW.ID < 0) "
    "BEGIN RAISE_APPLICATION_ERROR(-20001, 'not here'); END;",
)
INSERT = "INSERT INTO P (ID, V, N) VALUES (:id, :v, :n)"


@pytest.fixture
def info(oracle_database: Callable[[], ConnectionInfo]) -> ConnectionInfo:
    return oracle_database()


@pytest.fixture
def session(info: ConnectionInfo) -> Iterator[DriverSession]:
    with connect(info, application="driver") as session:
        for statement in TABLES:
            session.run(statement)
        session.run_many(INSERT, [{"id": number, "v": "x", "n": number % 2} for number in range(1, 7)])
        yield session


def test_the_server_counts_the_rows_of_each_element_of_an_array(session: DriverSession) -> None:
    elements = [{"n": 0}, {"n": 7}, {"n": 1}]
    assert session.run_many("UPDATE P SET V = 'y' WHERE N = :n", elements) == [3, 0, 3]
    assert session.run_many("DELETE FROM P WHERE ID = :id", [{"id": 1}, {"id": 1}, {"id": 2}]) == [1, 0, 1]


def test_a_failing_array_leaves_nothing_and_the_transaction_goes_on(
    session: DriverSession,
) -> None:
    rows = [{"id": 10, "v": "a", "n": 1}, {"id": 1, "v": "twin", "n": 1}, {"id": 11, "v": "b", "n": 1}]
    with session.transaction():
        session.run("UPDATE P SET V = 'kept' WHERE ID = 1")
        with pytest.raises(kinds.UniqueViolation), session.transaction():
            session.run_many(INSERT, rows)
        session.run("UPDATE P SET V = 'kept' WHERE ID = 2")
    found = dict(session.run("SELECT ID, V FROM P WHERE ID IN (1, 2, 10, 11)").fetchall())
    assert found == {1: "kept", 2: "kept"}


def test_a_call_is_canceled_from_another_thread_and_the_session_lives_on(session: DriverSession) -> None:
    told: list[Exception] = []

    def sleep() -> None:
        try:
            session.call(SLEEP, LONG)
        except kinds.DatabaseError as error:
            told.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    until = time.monotonic() + 60
    while thread.is_alive() and time.monotonic() < until:
        session.cancel()  # before the call has begun there is nothing to cancel
        thread.join(timeout=0.2)
    assert not thread.is_alive() and isinstance(told[0], kinds.Contended)
    assert told[0].server_code == "ORA-1013"
    session.ping()


def test_a_call_that_takes_too_long_ends_and_the_session_lives_on(session: DriverSession) -> None:
    session.limit_statements(1)
    with pytest.raises(kinds.Contended) as told:
        session.call(SLEEP, LONG)
    assert told.value.server_code == "DPY-4024"
    session.ping()


@pytest.mark.parametrize(
    ("statement", "kind", "code", "of_row"),
    [
        ("INSERT INTO P VALUES (1, 'x', 1)", kinds.UniqueViolation, "ORA-1", True),
        ("INSERT INTO P VALUES (9, NULL, 1)", kinds.NotNullViolation, "ORA-1400", True),
        ("UPDATE P SET V = NULL", kinds.NotNullViolation, "ORA-1407", True),
        ("INSERT INTO C VALUES (1, 99)", kinds.ForeignKeyViolation, "ORA-2291", True),
        ("INSERT INTO P VALUES (9, 'x', 100)", kinds.StatementFailed, "ORA-2290", True),
        ("INSERT INTO P VALUES (9, 'longer than ten', 1)", kinds.StatementFailed, "ORA-12899", True),
        ("INSERT INTO P VALUES (9, 'x', 1000)", kinds.StatementFailed, "ORA-1438", True),
        ("INSERT INTO P VALUES ('x', 'x', 1)", kinds.StatementFailed, "ORA-1722", True),
        ("INSERT INTO C VALUES (-1, 1)", kinds.StatementFailed, "ORA-20001", True),
        ("SELECT 1 FROM NOT_THERE", kinds.UndefinedTable, "ORA-942", False),
        ("SELECT NOT_THERE FROM P", kinds.UndefinedTable, "ORA-904", False),
        ("CREATE USER SLUICE_NOBODY NO AUTHENTICATION", kinds.DatabaseRefused, "ORA-1031", False),
        ("DROP INDEX NOT_THERE", kinds.UndefinedObject, "ORA-1418", False),
        ("CREATE TABLE P (A NUMBER)", kinds.StatementFailed, "ORA-955", False),
        ("SELEC 1 FROM DUAL", kinds.StatementFailed, "ORA-900", False),
    ],
)
def test_refusals_of_the_server_are_classified_by_their_code(
    session: DriverSession, statement: str, kind: type[kinds.DatabaseError], code: str, of_row: bool
) -> None:
    with pytest.raises(kinds.DatabaseError) as told:
        session.run(statement)
    said = told.value
    assert (type(said), said.code, errors.of_row(said)) == (kind, code, of_row)
    session.ping()


def test_a_definition_that_somebody_holds_is_not_waited_for(info: ConnectionInfo, session: DriverSession) -> None:
    session.limit_lock_waits(0)
    with connect(info, application="other") as other, other.transaction():
        other.run("UPDATE P SET V = 'z' WHERE ID = 1")
        with pytest.raises(kinds.LockNotAvailable):
            session.run("ALTER TABLE P ADD (MORE NUMBER)")


def test_a_deadlock_is_transient(info: ConnectionInfo, session: DriverSession) -> None:
    told: list[kinds.DatabaseError] = []

    def take(mine: DriverSession, row: int) -> None:
        try:
            mine.run(f"UPDATE P SET V = 'z' WHERE ID = {row}")
        except kinds.DatabaseError as error:
            told.append(error)
            mine.driver.rollback()  # the other one continues

    with connect(info, application="other") as other, session.transaction():
        session.run("UPDATE P SET V = 'z' WHERE ID = 1")
        with other.transaction():
            other.run("UPDATE P SET V = 'z' WHERE ID = 2")
            thread = threading.Thread(target=take, args=(other, 1))
            thread.start()
            take(session, 2)
            thread.join(timeout=60)
    assert [type(error) for error in told] == [kinds.Contended] and told[0].server_code == "ORA-60"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"password": "not this one"}, kinds.DatabaseRefused),
        ({"database": "NO_SUCH_SERVICE"}, kinds.DatabaseUnreachable),
        ({"port": 1}, kinds.DatabaseUnreachable),
    ],
)
def test_a_refused_login_and_an_unreachable_server_are_distinguished(
    info: ConnectionInfo, change: dict[str, str | int], kind: type[kinds.DatabaseError]
) -> None:
    with pytest.raises(kind):
        connect(replace(info, **change), application="driver")


def test_a_session_that_an_administrator_ends_is_unreachable(session: DriverSession) -> None:
    found = server.wanted()
    assert found is not None
    (number,) = session.run("SELECT SYS_CONTEXT('USERENV', 'SESSIONID') FROM DUAL").fetchone() or ("",)
    with found.administrator() as administrator, administrator.cursor() as cursor:
        cursor.execute("SELECT SID || ',' || SERIAL# FROM V$SESSION WHERE AUDSID = :audsid", audsid=number)
        (which,) = cursor.fetchone() or ("",)
        cursor.execute(f"ALTER SYSTEM DISCONNECT SESSION '{which}' IMMEDIATE")
    with pytest.raises(kinds.DatabaseUnreachable):
        session.ping()
    assert session.closed


def test_an_empty_lob_is_never_null(session: DriverSession) -> None:
    session.run("CREATE TABLE L (ID NUMBER(10), C CLOB, B BLOB)")
    text, data = ColumnTexts("C", "CLOB"), ColumnTexts("B", "BLOB")
    for number, value in enumerate((("", "\\x"), (None, None), ("x", "\\x00"))):
        row = {"id": number, "c": text.bind(value[0]), "b": data.bind(value[1])}
        assert session.run_many("INSERT INTO L VALUES (:id, :c, :b)", [row]) == [1]
    session.run("INSERT INTO L VALUES (3, EMPTY_CLOB(), EMPTY_BLOB())")
    found = session.run(f"SELECT {text.text('t')}, {data.text('t')} FROM L t ORDER BY ID")
    shown = [tuple(map(ColumnTexts.shown, row)) for row in found]
    assert shown == [("", "\\x"), (None, None), ("x", "\\x00"), ("", "\\x")]
    for column, value in ((text, ""), (data, "\\x")):
        matched = session.run(
            f"SELECT ID FROM L t WHERE {column.same('t', ':v')} ORDER BY ID", {"v": column.bind(value)}
        )
        assert [number for (number,) in matched] == [0, 3]
