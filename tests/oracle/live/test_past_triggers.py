"""Events on an Oracle master's table that its trigger does not see, or that remove the trigger."""

from collections.abc import Callable
from contextlib import closing

import pytest

from sluice.database.errors import LockNotAvailable
from sluice.database.registry import master_of
from sluice.model.names import TableName
from sluice.vendors.oracle.session import Value
from tests.oracle.ivorysql import IvorySession
from tests.oracle.live.master_rig import OracleMasterRig
from tests.oracle.live.test_master import check_definitions


@pytest.mark.parametrize(
    ("statement", "differs"),
    [
        ("alter table T truncate\n  partition P1", True),
        ("ALTER TABLE T EXCHANGE SUBPARTITION P1 WITH TABLE U", True),
        (f"ALTER TABLE T /* {'x' * 3000} */ MOVE INCLUDING\nROWS WHERE ID > 1", True),
        ("ALTER TABLE T MOVE PARTITION P1", False),
    ],
    ids=["truncated", "exchanged", "moved without some rows", "moved"],
)
def test_rows_that_bypass_the_trigger_are_reported(
    master_rig: Callable[..., OracleMasterRig], statement: str, differs: bool
) -> None:
    """Calls what the trigger on the database calls: IvorySQL has neither such a trigger nor such statements."""
    pair = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY)")
    with pair.master.transaction():
        values = {"event": "ALTER", "owner": pair.master.schema, "name": "T", "statement": statement}
        pair.master.call("DEMO_STRUCTURE.ON_DDL(:event, :owner, :name, :statement)", values)
    assert queued(pair, "DIFFER") == ["T"] * differs


def queued(pair: OracleMasterRig, action: str) -> list[str]:
    """The tables of the queued changes of this kind, in order."""
    statement = "SELECT i.TABLENAME FROM DEMO_ITEMS i WHERE i.DB_ACTION = :action ORDER BY i.REPL_KEY"
    return [name for (name,) in pair.master.run(statement, {"action": action})]


@pytest.mark.parametrize(
    ("event", "statement", "queue"),
    [
        ("TRUNCATE", "truncate table P", {"TRUNCATE": ["P"]}),
        ("TRUNCATE", "TRUNCATE TABLE P DROP STORAGE CASCADE", {"TRUNCATE": ["G", "C", "P"]}),
        ("ALTER", "ALTER TABLE P TRUNCATE PARTITION P1 CASCADE", {"DIFFER": ["G", "C", "P"]}),
        ("ALTER", 'ALTER TABLE P EXCHANGE PARTITION P1\nWITH TABLE "other" INCLUDING X', {"DIFFER": ["P", "other"]}),
    ],
)
def test_tables_that_lose_rows_with_another_one_are_reported(
    master_rig: Callable[..., OracleMasterRig], event: str, statement: str, queue: dict[str, list[str]]
) -> None:
    """Calls what the trigger on the database calls. Nothing is queued for a table in between that is not captured."""
    key = "ID NUMBER(10) PRIMARY KEY"
    pair = master_rig(
        f"CREATE TABLE P ({key});\nCREATE TABLE C ({key} REFERENCES P ON DELETE CASCADE);\n"
        f"CREATE TABLE M ({key} REFERENCES C ON DELETE CASCADE);\n"
        f"CREATE TABLE G ({key} REFERENCES M ON DELETE CASCADE);\n"
        f'CREATE TABLE N ({key} REFERENCES P);\nCREATE TABLE "other" ({key})'
    )
    registry = master_of("oracle").capture(pair.master, pair.pair.prefix, "").registry
    registry.remove(TableName(pair.master.schema, "M"))
    with pair.master.transaction():
        values = {"event": event, "owner": pair.master.schema, "name": "P", "statement": statement}
        pair.master.call("DEMO_STRUCTURE.ON_DDL(:event, :owner, :name, :statement)", values)
    assert {action: queued(pair, action) for action in ("TRUNCATE", "DIFFER") if queued(pair, action)} == queue


def test_a_table_that_is_dropped_and_flashed_back_is_captured_once(master_rig: Callable[..., OracleMasterRig]) -> None:
    """Its trigger comes back with a name of the recycle bin."""
    pair = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY)")
    ((trigger,),) = pair.master.run("SELECT t.TRIGGER_NAME FROM DEMO_TABLES t")
    if isinstance(pair.master, IvorySession):
        pair.master.run(f'ALTER TRIGGER "{trigger}" ON T RENAME TO "BIN$x=="')
    else:
        pair.master.run("DROP TABLE T")
        pair.master.run("FLASHBACK TABLE T TO BEFORE DROP")
    check_definitions(pair)
    assert queued(pair, "DIFFER") == ["T"]
    pair.change("INSERT INTO T VALUES (1)")
    assert queued(pair, "INSERT") == ["T"]
    assert pair.master.run("SELECT g.TRIGGER_NAME FROM USER_TRIGGERS g WHERE g.TABLE_NAME = 'T'").fetchall() == [
        (trigger,)
    ]


def test_a_copy_of_a_trigger_is_a_fault_that_loses_nothing(master_rig: Callable[..., OracleMasterRig]) -> None:
    pair = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY)")
    registry = master_of("oracle").capture(pair.master, pair.pair.prefix, "").registry
    (registered,) = registry.read()
    place: dict[str, Value] = {"owner": pair.master.schema, "name": "T"}
    ((text,),) = pair.master.run("SELECT DEMO_CAPTURE.TRIGGER_CODE(:owner, :name) FROM DUAL", place)
    text = text.replace(f'"{registered.trigger}"', '"COPY_TR"')
    if isinstance(pair.master, IvorySession):
        pair.master.run("SELECT make_trigger(:code) FROM DUAL", {"code": text})
    else:
        pair.master.run(text)
    (fault,) = registry.read()[0].faults
    assert "trigger COPY_TR captures the table as well" in fault
    check_definitions(pair)
    pair.change("INSERT INTO T VALUES (1)")
    assert (registry.read()[0].faults, queued(pair, "INSERT"), queued(pair, "DIFFER")) == ((), ["T"], [])


def test_a_definition_that_writers_hold_is_compared_later(master_rig: Callable[..., OracleMasterRig]) -> None:
    """It stops neither the apply, which compares, nor the comparison of other tables."""
    pair = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY);\nCREATE TABLE U (ID NUMBER(10) PRIMARY KEY)")
    for table in "TU":
        pair.master.run(f"ALTER TABLE {table} ADD (N NUMBER(10))")
    pair.master.limit_lock_waits(1)
    writer = pair.connect_master(pair.pair.master_info)
    with closing(writer), writer.transaction():
        writer.run("INSERT INTO T (ID) VALUES (1)")
        check_definitions(pair)
        statuses = pair.master.run("SELECT t.TABLENAME, t.STATUS FROM DEMO_TABLES t").fetchall()
        assert "U" in queued(pair, "ALTER") and ("U", "OK") in statuses
        with pytest.raises(LockNotAvailable):
            pair.master.call("DEMO_STRUCTURE.CHECK_TABLE(:owner, :name)", {"owner": pair.master.schema, "name": "T"})
    check_definitions(pair)
    assert sorted(queued(pair, "ALTER")) == ["T", "U"]
    assert {status for _, status in pair.master.run("SELECT t.TABLENAME, t.STATUS FROM DEMO_TABLES t")} == {"OK"}


def test_a_table_that_cannot_be_captured_any_more_is_reported_once_and_others_go_on(
    master_rig: Callable[..., OracleMasterRig],
) -> None:
    pair = master_rig("CREATE TABLE T (ID NUMBER(10), V NUMBER(10));\nCREATE TABLE U (ID NUMBER(10) PRIMARY KEY)")
    pair.master.run("ALTER TABLE T ADD (L LONG)")
    pair.master.run("ALTER TABLE U ADD (N NUMBER(10))")
    for _ in range(2):
        check_definitions(pair)
    assert (queued(pair, "DIFFER"), queued(pair, "ALTER")) == (["T"], ["U"])
    (why,) = pair.master.run("SELECT i.CONTENT FROM DEMO_ITEMS i WHERE i.DB_ACTION = 'DIFFER'").fetchone() or ("",)
    assert "column L is LONG, which no trigger can read, and there is no key" in why
    pair.change("INSERT INTO T (ID, V) VALUES (1, 2)")
    assert queued(pair, "INSERT") == ["T"]
    pair.master.run("ALTER TABLE T DROP COLUMN L")
    check_definitions(pair)
    assert pair.master.run("SELECT i.NAME FROM DEMO_INFO i WHERE i.NAME LIKE 'unfit%'").fetchall() == []
