"""From an Oracle master's first row to a PostgreSQL slave that is verified."""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from sluice.capture import reconcile, resources, uninstall
from sluice.coordination import redis_store
from sluice.database.capture import TablesUnfit
from sluice.database.errors import StatementFailed
from sluice.database.registry import master_of, vendor_of
from sluice.load.read_modes import SnapshotLost
from sluice.model.names import Prefix, TableName
from sluice.vendors.oracle.errors import made
from sluice.vendors.oracle.session import EmptyLob, OracleSession, Value
from sluice.verify.findings import Kind, Outcome
from sluice.verify.resync import repair
from tests.oracle.live.master_rig import OracleMasterRig
from tests.vendors.contender import Writer

TABLES = """
CREATE TABLE ORDERS (
    ID NUMBER(10) PRIMARY KEY, CUSTOMER NUMBER(10), NOTE VARCHAR2(400 CHAR), AMOUNT NUMBER(12,2), PLAIN NUMBER,
    RATE BINARY_DOUBLE, AT TIMESTAMP(6), MOMENT TIMESTAMP(6) WITH TIME ZONE, DAY DATE, BODY BLOB, LONGER CLOB,
    SHORT RAW(20), CODE CHAR(6)
);
CREATE INDEX ORDERS_CUSTOMER ON ORDERS (CUSTOMER, DAY);
CREATE TABLE LINES (
    ORDER_ID NUMBER(10), LINE NUMBER(5), ITEM VARCHAR2(40) NOT NULL, CONSTRAINT LINES_PK PRIMARY KEY (ORDER_ID, LINE)
);
CREATE TABLE PARENTS (ID NUMBER(10) PRIMARY KEY, V VARCHAR2(20));
CREATE TABLE CHILDREN (ID NUMBER(10) PRIMARY KEY, PARENT NUMBER(10) REFERENCES PARENTS);
CREATE TABLE LOG (AT TIMESTAMP(6), WORDS VARCHAR2(40), N NUMBER(20,5));
"""


def fill(pair: OracleMasterRig) -> None:
    insert = (
        "INSERT INTO ORDERS (ID, CUSTOMER, NOTE, AMOUNT, PLAIN, RATE, AT, MOMENT, DAY, BODY, LONGER, SHORT, CODE) "
        "VALUES (:id, :customer, :note, :amount, CAST(:plain AS NUMBER), TO_BINARY_DOUBLE(:rate), "
        "TO_TIMESTAMP(:at, 'YYYY-MM-DD HH24:MI:SS.FF6'), "
        "TO_TIMESTAMP_TZ(:moment, 'YYYY-MM-DD HH24:MI:SS.FF6 TZH:TZM'), TO_DATE(:day, 'YYYY-MM-DD HH24:MI:SS'), "
        ":body, :longer, :short, :code)"
    )
    texts = (None, "NULL", 'a,"b"\n\\\\ é 😀 <&]]>', "x" * 300, "'")
    rows = [
        {
            "id": n, "customer": n % 7, "note": texts[n % 5], "amount": n / 4, "plain": f"{n}.125" if n % 2 else None,
            "rate": str(n / 7), "at": f"2020-02-29 12:{n % 60:02}:00.000{n % 10}00",
            "moment": f"2020-02-29 12:{n % 60:02}:00.000001 +02:00", "day": f"2020-01-{n % 28 + 1:02} 10:00:00",
            "body": (None, EmptyLob.BYTES, n.to_bytes(4, "big"))[n % 3],
            "longer": "long " * (n % 50) or (EmptyLob.TEXT if n % 100 else None),
            "short": n.to_bytes(3, "big"), "code": f"c{n % 10}" if n % 10 else " ",
        }
        for n in range(1, 401)
    ]  # fmt: skip
    with pair.master.transaction():
        pair.master.run_many(insert, rows)
        lines = "INSERT INTO LINES (ORDER_ID, LINE, ITEM) VALUES (:id, 1, :item)"
        pair.master.run_many(lines, [{"id": n, "item": f"item {n}"} for n in range(1, 151)])
        pair.master.run_many("INSERT INTO PARENTS VALUES (:id, 'p')", [{"id": n} for n in range(1, 21)])
        children = [{"id": n, "parent": n % 20 + 1} for n in range(1, 61)]
        pair.master.run_many("INSERT INTO CHILDREN VALUES (:id, :parent)", children)
        pair.master.run_many("INSERT INTO LOG VALUES (NULL, 'x', :n)", [{"n": n % 3} for n in range(20)])


CHANGES = (
    "UPDATE ORDERS SET NOTE = NOTE || '!', RATE = -RATE, AMOUNT = AMOUNT + 1 WHERE MOD(ID, 5) = 0",
    "DELETE FROM ORDERS WHERE MOD(ID, 11) = 0",
    "UPDATE ORDERS SET ID = ID + 100000 WHERE MOD(ID, 13) = 0 AND ID < 100000",
    "UPDATE ORDERS SET LONGER = LONGER || ' <&]]> é', BODY = NULL WHERE MOD(ID, 7) = 0",
    "UPDATE ORDERS SET LONGER = EMPTY_CLOB(), BODY = EMPTY_BLOB() WHERE MOD(ID, 17) = 0",
    "UPDATE ORDERS SET LONGER = NULL, BODY = NULL WHERE MOD(ID, 19) = 0",
    "DELETE FROM ORDERS WHERE DBMS_LOB.GETLENGTH(LONGER) = 0 AND MOD(ID, 23) = 0",
    "UPDATE LINES SET LINE = LINE + 1",
    "UPDATE LINES SET ITEM = 'a key that moved', ORDER_ID = -ORDER_ID WHERE ORDER_ID = 5",
    "DELETE FROM CHILDREN WHERE PARENT = 3",
    "DELETE FROM PARENTS WHERE ID = 3",
    "INSERT INTO PARENTS VALUES (3, 'again')",
    "INSERT INTO CHILDREN VALUES (3000, 3)",
    "DELETE FROM CHILDREN WHERE ID = 3000",
    "UPDATE LOG SET WORDS = 'y' WHERE N = 2",
    "DELETE FROM LOG WHERE N = 1",
    "INSERT INTO LOG VALUES (NULL, NULL, NULL)",
    "INSERT INTO LOG VALUES (NULL, NULL, NULL)",
)


def equal(pair: OracleMasterRig) -> None:
    findings = pair.compared()
    assert {str(table): finding.outcome for table, finding in findings.items()} == {
        str(table): Outcome.IDENTICAL for table in findings
    }
    assert all(finding.rows_master == finding.rows_slave for finding in findings.values())


@pytest.mark.parametrize("read", ["committed", "snapshot"])
def test_loaded_applied_and_proved_equal(master_rig: Callable[..., OracleMasterRig], read: str) -> None:
    pair = master_rig(TABLES, stage=500, block_rows=150, read=read)
    fill(pair)
    update = pair.load()
    with pair.apply() as running:
        pair.await_current()
        equal(pair)
        assert dict(pair.finish(update).left_out) == {}
        for _ in range(2):
            pair.change(*CHANGES)
            pair.await_current()
            equal(pair)
        running.await_normal_mode()
        pair.change(*CHANGES)
        pair.await_current()
        equal(pair)
    assert [v for _, v in pair.rows("PARENTS", "ID")].count("again") == 1


def test_definitions_follow(master_rig: Callable[..., OracleMasterRig]) -> None:
    pair = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY, V VARCHAR2(10), W VARCHAR2(10))")
    pair.change("INSERT INTO T VALUES (1, 'a', 'x')")
    pair.load()
    with pair.apply():
        pair.await_current()
        pair.master.run("ALTER TABLE T ADD (N NUMBER(10))")
        check_definitions(pair)
        pair.change("INSERT INTO T (ID, V, N) VALUES (2, 'b', 8)")
        pair.await_current()
        assert pair.rows("T", "ID") == [(1, "a", "x", None), (2, "b", None, 8)]
        pair.master.run("ALTER TABLE T RENAME COLUMN V TO U")
        check_definitions(pair)
        pair.change("UPDATE T SET U = 'c' WHERE ID = 1")
        pair.await_current()
        assert pair.rows("T", "ID") == [(1, "c", "x", None), (2, "b", None, 8)]
        pair.master.run("ALTER TABLE T DROP COLUMN U")
        check_definitions(pair)
        pair.change("UPDATE T SET W = 'y' WHERE ID = 2")
        pair.await_current()
        assert pair.rows("T", "ID") == [(1, "x", None), (2, "y", 8)]
        equal(pair)


def test_an_added_column_with_values_is_reported_and_other_tables_go_on(
    master_rig: Callable[..., OracleMasterRig],
) -> None:
    pair = master_rig(
        "CREATE TABLE T (ID NUMBER(10) PRIMARY KEY);\nCREATE TABLE U (ID NUMBER(10) PRIMARY KEY);\n"
        "INSERT INTO T VALUES (1)"
    )
    pair.load()
    with pair.apply():
        pair.await_current()
        pair.master.run("ALTER TABLE T ADD (N NUMBER(10) DEFAULT 7)")
        check_definitions(pair)
        pair.change("INSERT INTO U VALUES (5)")
        pair.await_current()
        (told,) = pair.rejects.open()
        assert told.table.name == "T" and "rows have values in the column N, which was added" in told.reason
        assert pair.rows("U", "ID") == [(5,)]


def check_definitions(pair: OracleMasterRig) -> None:
    """Compares definitions, as the apply does regularly."""
    master_of("oracle").queue(pair.master, pair.pair.prefix, "").check_definitions()


def test_damaged_rows_are_found_and_repaired(master_rig: Callable[..., OracleMasterRig]) -> None:
    pair = master_rig("CREATE TABLE ITEMS (ID NUMBER(10) PRIMARY KEY, NAME VARCHAR2(40), WEIGHT BINARY_DOUBLE)")
    rows = [{"id": n, "name": f"é {n}", "weight": str(n / 3)} for n in range(1, 301)]
    with pair.master.transaction():
        pair.master.run_many("INSERT INTO ITEMS VALUES (:id, :name, TO_BINARY_DOUBLE(:weight))", rows)
    pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        table = f'"{pair.master.schema}"."ITEMS"'
        pair.slave.execute(f'UPDATE {table} SET "WEIGHT" = 5 WHERE "ID" = 7'.encode())
        pair.slave.execute(f'DELETE FROM {table} WHERE "ID" BETWEEN 100 AND 120'.encode())
        pair.slave.execute(f'INSERT INTO {table} ("ID", "NAME") VALUES (-1, $$mine$$)'.encode())
        ((_, finding),) = pair.compared().items()
        assert {str(kind): finding.found[kind].count for kind in Kind} == {"missing": 21, "extra": 1, "different": 1}
        repair(pair.pair, redis_store.connect(pair.redis_url), finding)
        equal(pair)


def undo_lasts(monkeypatch: pytest.MonkeyPatch, master: OracleSession, rows: int) -> None:
    """From now on a read of more rows fails because the undo is gone."""
    kind = type(master)
    real = kind.stream

    def stream(self: OracleSession, query: str, values: Mapping[str, Value] | None = None) -> Iterator[list[Any]]:
        names, *batches = real(self, query, values)
        if sum(map(len, batches)) > rows and "ITEMS" not in query:
            raise made("ORA-1555", "ORA-01555: snapshot too old", self.server)
        yield from (names, *batches)

    monkeypatch.setattr(kind, "stream", stream)


def test_a_block_whose_undo_is_gone_is_read_again_half_as_large(
    master_rig: Callable[..., OracleMasterRig], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = with_300_rows(master_rig)
    undo_lasts(monkeypatch, pair.master, rows=60)
    pair.load()
    with pair.apply():
        pair.await_current()
        assert len(pair.rows("T", "ID")) == 300


def test_a_snapshot_whose_undo_is_gone_is_taken_anew(
    master_rig: Callable[..., OracleMasterRig], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = with_300_rows(master_rig, read="snapshot")
    update = pair.begin_load()
    with monkeypatch.context() as patch:
        undo_lasts(patch, pair.master, rows=60)
        with pytest.raises(
            SnapshotLost, match=r"ORA-01555: snapshot too old\. If that comes again, let the master keep"
        ):
            pair.load(update)
    pair.load(update)
    with pair.apply():
        pair.await_current()
        assert len(pair.rows("T", "ID")) == 300


def with_300_rows(master_rig: Callable[..., OracleMasterRig], read: str = "committed") -> OracleMasterRig:
    pair = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY)", block_rows=100, read=read)
    with pair.master.transaction():
        pair.master.run_many("INSERT INTO T VALUES (:id)", [{"id": n} for n in range(300)])
    return pair


def test_changes_committed_in_another_order_than_written_come_once(
    master_rig: Callable[..., OracleMasterRig],
) -> None:
    pair = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY, V NUMBER(10))")
    pair.load()
    chance = random.Random(7)
    writers = [Writer(pair.connect_master(pair.pair.master_info)) for _ in range(6)]
    committed = 0
    with pair.apply():
        for step in range(150):
            writer = chance.choice(writers)
            if not writer.open:
                writer.begin()
                writer.written = 0
            writer.do(f"INSERT INTO T VALUES ({step}, 1)")
            writer.written += 1
            if chance.random() < 0.3:
                if chance.random() < 0.8:
                    writer.commit()
                    committed += writer.written
                else:
                    writer.rollback()
        for writer in writers:
            if writer.open:
                writer.rollback()
            writer.session.close()
        pair.await_current()
        assert len(pair.rows("T", "ID")) == committed
        equal(pair)


def test_names_of_any_kind_are_captured_and_applied(master_rig: Callable[..., OracleMasterRig]) -> None:
    pair = master_rig(
        'CREATE TABLE "Mixed case" ("a b" NUMBER(10) PRIMARY KEY, "select" VARCHAR2(20), "It\'s <x>&" VARCHAR2(20));\n'
        "INSERT INTO \"Mixed case\" VALUES (1, 'a', 'b')"
    )
    pair.load()
    with pair.apply():
        pair.change(
            "INSERT INTO \"Mixed case\" VALUES (2, ']]>', 'NULL')",
            'UPDATE "Mixed case" SET "It\'s <x>&" = "select", "a b" = 3 WHERE "a b" = 1',
        )
        pair.await_current()
        assert pair.rows("Mixed case", "a b") == [(2, "]]>", "NULL"), (3, "a", "a")]
        equal(pair)


def test_a_table_that_cannot_be_captured_is_refused_by_name(master_rig: Callable[..., OracleMasterRig]) -> None:
    with pytest.raises(TablesUnfit, match=r"T.* has column V of type INTERVAL YEAR.* in its key"):
        master_rig("CREATE TABLE T (V INTERVAL YEAR(4) TO MONTH PRIMARY KEY)")
    with pytest.raises(TablesUnfit, match=r"T.* has column L of type LONG, which no trigger can read, and no key"):
        master_rig("CREATE TABLE T (ID NUMBER(10), L LONG)")


EXTREMES = """
CREATE TABLE EXTREMES (
    ID NUMBER(10) PRIMARY KEY, WHOLE NUMBER(38,0), PLAIN NUMBER, SINGLE BINARY_FLOAT, DOUBLED BINARY_DOUBLE,
    HERE TIMESTAMP(6) WITH LOCAL TIME ZONE, MS TIMESTAMP(3), DAY DATE
)
"""
EXTREME_ROWS = (
    "1, 99999999999999999999999999999999999999, 0.00000000000000000000000000000000000001234, 3.4028234E38, 1.7E308, "
    "TIMESTAMP '2020-01-01 00:00:00.123456', TIMESTAMP '9999-12-31 23:59:59.999', DATE '9999-12-31'",
    "2, -99999999999999999999999999999999999999, -123456789012345678901234567890123456789, 0.1, -2.2E-308, "
    "TIMESTAMP '1970-01-01 00:00:00', TIMESTAMP '0001-01-01 00:00:00', DATE '0001-01-01'",
    "3, 0, 0, -1.17549435E-38, 0, NULL, NULL, NULL",
    f"6, 1, -15{'0' * 99}, NULL, NULL, NULL, NULL, NULL",
    f"7, 1, 0.{'0' * 75}125, NULL, NULL, NULL, NULL, NULL",
    "8, 1, -0.5, NULL, NULL, NULL, NULL, NULL",
)


def fill_extremes(pair: OracleMasterRig) -> None:
    for row in EXTREME_ROWS:
        pair.master.run(f"INSERT INTO EXTREMES VALUES ({row})")


EXTREME_CHANGES = (
    "UPDATE EXTREMES SET WHOLE = -WHOLE, PLAIN = -PLAIN, SINGLE = -SINGLE, DOUBLED = -DOUBLED",
    "INSERT INTO EXTREMES (ID, SINGLE) VALUES (4, 0.3)",
    "UPDATE EXTREMES SET ID = 5, HERE = NULL, DAY = NULL WHERE ID = 1",
)

UNREAD = """
CREATE TABLE LETTERS (ID NUMBER(10) PRIMARY KEY, SUBJECT VARCHAR2(40) UNIQUE, L LONG);
CREATE TABLE SCANS (ID NUMBER(10), PART NUMBER(5), R LONG RAW, V VARCHAR2(10), PRIMARY KEY (ID, PART));
CREATE TABLE DOCS (ID NUMBER(10) PRIMARY KEY, X XMLTYPE, Y INTERVAL YEAR(4) TO MONTH, D INTERVAL DAY(5) TO SECOND(6))
"""
LETTERS = (None, 'a,"b"\n\\ é 😀 <&]]>', "x" * 9_000, '<col name="L" type="unchanged"></col>', "'")
INTERVALS = (("'-3-02'", "'-1 02:03:04.5'"), ("'0-0'", "'0 00:00:00'"), ("'1-1'", "'5 00:00:00'"), ("NULL", "NULL"))


def fill_unread(pair: OracleMasterRig) -> None:
    pair.master.run_many(
        "INSERT INTO LETTERS VALUES (:id, :subject, :l)",
        [{"id": n, "subject": f"s{n}", "l": LETTERS[n % 5]} for n in range(1, 41)],
    )
    pair.master.run_many(
        "INSERT INTO SCANS VALUES (:id, 1, :r, 'v')",
        [{"id": n, "r": bytes(range(n)) or None} for n in range(40)],
    )
    for n, (months, seconds) in enumerate(INTERVALS):
        text = f"'<a n=\"{n}\">é &lt; <b/></a>', TO_YMINTERVAL({months}), TO_DSINTERVAL({seconds})"
        pair.master.run(f"INSERT INTO DOCS VALUES ({n}, {text})")


UNREAD_CHANGES = (
    "UPDATE LETTERS SET L = 'first' WHERE ID = 1",
    "UPDATE LETTERS SET L = 'second' WHERE ID = 1",
    "UPDATE LETTERS SET SUBJECT = SUBJECT || '!' WHERE ID IN (2, 3)",
    "INSERT INTO LETTERS VALUES (100, 'comes and goes', 'x')",
    "UPDATE LETTERS SET L = 'y' WHERE ID = 100",
    "DELETE FROM LETTERS WHERE ID IN (4, 100)",
    "UPDATE LETTERS SET ID = ID + 1000, L = 'moved' WHERE ID = 5",
    "UPDATE LETTERS SET SUBJECT = 'was 6' WHERE ID = 6",
    "UPDATE LETTERS SET SUBJECT = 's6' WHERE ID = 7",
    "UPDATE SCANS SET PART = PART + 1 WHERE ID < 3",
    "UPDATE SCANS SET R = HEXTORAW('00ff') WHERE ID = 5",
    "DELETE FROM SCANS WHERE ID > 35",
    "UPDATE DOCS SET X = '<c/>', Y = TO_YMINTERVAL('9999-11'), D = TO_DSINTERVAL('-9999 23:59:59.999999') WHERE ID = 0",
    "UPDATE DOCS SET X = NULL, Y = TO_YMINTERVAL('-0-01'), D = TO_DSINTERVAL('-0 00:00:00.000001') WHERE ID = 1",
    "DELETE FROM DOCS WHERE ID = 2",
    "INSERT INTO DOCS VALUES (7, '<d/>', NULL, TO_DSINTERVAL('1 00:00:00'))",
)


EARLY = "CREATE TABLE EARLY (ID NUMBER(10) PRIMARY KEY, DAY DATE, AT TIMESTAMP(6), MOMENT TIMESTAMP(6) WITH TIME ZONE)"
EARLY_MOMENTS = {"-0044-03-15 12:00:00": "0044-03-15 12:00:00 BC", "-4712-01-01 00:00:00": "4712-01-01 00:00:00 BC"}


def fill_early(pair: OracleMasterRig, first: int) -> None:
    texts = ["TO_DATE({}, 'SYYYY-MM-DD HH24:MI:SS')", "TO_TIMESTAMP({}, 'SYYYY-MM-DD HH24:MI:SS')"]
    texts.append("TO_TIMESTAMP_TZ({}, 'SYYYY-MM-DD HH24:MI:SS TZH:TZM')")
    for number, moment in enumerate([*EARLY_MOMENTS, "0001-01-01 00:00:00"], start=first):
        given = [f"'{moment}'", f"'{moment}'", f"'{moment} +00:00'"]
        values = ", ".join(text.format(value) for text, value in zip(texts, given, strict=True))
        pair.change(f"INSERT INTO EARLY VALUES ({number}, {values})")


def test_years_before_the_first_are_kept(master_rig: Callable[..., OracleMasterRig]) -> None:
    pair = master_rig(EARLY)
    fill_early(pair, 1)
    pair.load()
    with pair.apply():
        fill_early(pair, 11)
        pair.await_current()
        equal(pair)
        query = f'SELECT "DAY"::text, "AT"::text FROM "{pair.master.schema}"."EARLY" ORDER BY "ID"'
        moments = [*EARLY_MOMENTS.values(), "0001-01-01 00:00:00"]
        assert pair.slave.execute(query.encode()).fetchall() == [(moment, moment) for moment in moments * 2]


def test_columns_that_no_trigger_can_read_are_read_by_key(
    master_rig: Callable[..., OracleMasterRig],
) -> None:
    pair = master_rig(f"{UNREAD};\n{EXTREMES}", block_rows=15)
    fill_unread(pair)
    fill_extremes(pair)
    pair.load()
    with pair.apply() as running:
        pair.await_current()
        equal(pair)
        running.await_normal_mode()
        pair.change(*UNREAD_CHANGES, *EXTREME_CHANGES)
        pair.await_current()
        equal(pair)
        found = {row[0]: row[2] for row in pair.rows("LETTERS", "ID")}
        assert (found[1], found[2], found[1005]) == ("second", LETTERS[2], "moved")
        waiting = "FROM DEMO_ITEMS i JOIN DEMO_LONGS_TABLE l ON l.REPL_KEY = i.REPL_KEY"
        mine = "i.TABLENAME = 'SCANS' AND i.DB_ACTION = 'UPDATE'"
        contents = pair.master.run(f"SELECT i.CONTENT, l.CONTENT {waiting} WHERE {mine}").fetchall()
        assert contents and all(own is None and "unchanged" not in kept for own, kept in contents)
        assert not pair.rejects.open()


def test_a_trigger_of_the_applications_is_neither_replaced_nor_removed(
    master_rig: Callable[..., OracleMasterRig],
) -> None:
    pair = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY);\nCREATE TABLE U (ID NUMBER(10) PRIMARY KEY)")
    table = TableName(pair.master.schema, "U")
    registry = master_of("oracle").capture(pair.master, pair.pair.prefix, "").registry
    registry.remove(table)
    pair.master.run("CREATE TRIGGER OWN_TR BEFORE INSERT ON U FOR EACH ROW BEGIN NULL; END;")
    registry.register(table, trigger="OWN_TR")
    with pytest.raises(StatementFailed, match="Trigger OWN_TR is there already, and is not the one that captures"):
        registry.capture(table)
    registry.remove(table)
    there = "SELECT COUNT(*) FROM USER_TRIGGERS g WHERE g.TRIGGER_NAME = 'OWN_TR'"
    assert pair.master.run(there).fetchone() == (1,)


def test_two_prefixes_share_an_account_and_each_captures_for_itself(
    master_rig: Callable[..., OracleMasterRig],
) -> None:
    pair = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY)")
    other = Prefix("OTHER_")
    resources.install(pair.master, other, "")
    reconcile.reconcile(
        pair.master, other, "", pair.pair.replication.resolve(vendor_of("oracle").rows.tables(pair.master))
    )
    pair.change("INSERT INTO T VALUES (1)")
    counted = "SELECT COUNT(*) FROM {}ITEMS i WHERE i.DB_ACTION = 'INSERT' AND i.TABLENAME = 'T'"
    assert [pair.master.run(counted.format(prefix)).fetchone() for prefix in ("DEMO_", "OTHER_")] == [(1,), (1,)]
    assert uninstall.uninstall(pair.master, other, "")
    pair.change("INSERT INTO T VALUES (2)")
    assert pair.master.run(counted.format("DEMO_")).fetchone() == (2,)


def test_resources_are_removed_and_tables_stay(master_rig: Callable[..., OracleMasterRig]) -> None:
    pair = master_rig("CREATE TABLE T (ID NUMBER(10) PRIMARY KEY)")
    assert not resources.install(pair.master, pair.pair.prefix, "").changed, "a second run changes nothing"
    assert uninstall.uninstall(pair.master, pair.pair.prefix, "")
    pair.change("INSERT INTO T VALUES (1)")
    left = vendor_of("oracle").rows.tables(pair.master)
    assert [table.name for table in left if table.schema == pair.master.schema] == ["T"]
    assert not uninstall.uninstall(pair.master, pair.pair.prefix, "")
