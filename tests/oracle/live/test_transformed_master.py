"""A slave with transformed and renamed tables of an Oracle master: loaded, applied, compared and repaired."""

from collections.abc import Callable

from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import Action, resync
from tests.oracle.live.master_rig import OracleMasterRig

TABLES = """
CREATE TABLE PEOPLE (
    ID NUMBER(10), PART VARCHAR2(10), NAME VARCHAR2(60), COUNTRY CHAR(2), MAIL VARCHAR2(60), AT TIMESTAMP(6), DAY DATE,
    BODY BLOB, SALARY NUMBER(10,2), RATE BINARY_DOUBLE, PLAIN NUMBER, CONSTRAINT PEOPLE_PK PRIMARY KEY (ID, PART)
);
CREATE TABLE PLAIN (ID NUMBER(10) PRIMARY KEY, V VARCHAR2(20));
"""
LINES = {
    "PEOPLE": """{
      target: {schema: far, name: 'The "people"'},
      where: COUNTRY = 'CH' OR SALARY > 60,
      columns: {
        PART: {rename: part}, MAIL: {exclude: true}, SALARY: {constant: '1.50'},
        NAME: {expression: "upper(NAME) || coalesce(COUNTRY, '')"}, YEAR: {expression: year(DAY)},
        HALF: {expression: "CAST(PLAIN AS DECIMAL(20,3)) / 2"}, AFTER: {expression: '"AT" + INTERVAL 1 DAY'}
      }
    }""",
    "PLAIN": "{target: {schema: far}}",
}
CHANGES = (
    "UPDATE PEOPLE SET COUNTRY = 'CH' WHERE ID IN (1, 4)",
    "UPDATE PEOPLE SET COUNTRY = 'DE' WHERE ID IN (3, 6)",
    "UPDATE PEOPLE SET MAIL = 'other' WHERE ID = 9",
    "UPDATE PEOPLE SET NAME = 'neu', PLAIN = NULL, SALARY = NULL WHERE ID BETWEEN 9 AND 40",
    "UPDATE PEOPLE SET ID = ID + 1000, PART = 'x' WHERE ID BETWEEN 50 AND 60",
    "DELETE FROM PEOPLE WHERE ID BETWEEN 100 AND 150",
    "INSERT INTO PEOPLE (ID, PART, COUNTRY) VALUES (5000, 'new', 'CH')",
    "INSERT INTO PEOPLE (ID, PART, COUNTRY) VALUES (5001, 'out', 'DE')",
    "UPDATE PLAIN SET V = V || '!'",
)
ON_MASTER = """SELECT ID, PART, NVL2(NAME, UPPER(NAME) || COUNTRY, NULL) FROM PEOPLE
    WHERE COUNTRY = 'CH' OR SALARY > 60 ORDER BY ID, PART"""
ON_SLAVE = 'SELECT "ID", part, "NAME" FROM far."The ""people""" ORDER BY 1, 2'


def fill(pair: OracleMasterRig) -> None:
    insert = (
        "INSERT INTO PEOPLE (ID, PART, NAME, COUNTRY, MAIL, AT, DAY, BODY, SALARY, RATE, PLAIN) VALUES (:id, :part, "
        ":name, :country, :mail, TO_TIMESTAMP(:at, 'YYYY-MM-DD HH24:MI:SS.FF6'), "
        "TO_DATE(:day, 'YYYY-MM-DD HH24:MI:SS'), :body, :salary, TO_BINARY_DOUBLE(:rate), CAST(:plain AS NUMBER))"
    )
    rows = [
        {
            "id": n, "part": f"p{n % 2}", "name": f'n"\n,\\ é {n}', "country": [None, "DE", "CH"][n % 3],
            "mail": f"hunter{n}", "at": f"2020-02-29 12:{n % 60:02}:00.000{n % 10}00",
            "day": f"20{n % 60 + 10}-01-{n % 28 + 1:02} 10:00:00", "body": n.to_bytes(4, "big") if n % 3 else None,
            "salary": n / 4, "rate": str(n / 7), "plain": f"{n}.125" if n % 2 else None,
        }
        for n in range(1, 301)
    ]  # fmt: skip
    with pair.master.transaction():
        pair.master.run_many(insert, rows)
        pair.master.run_many("INSERT INTO PLAIN (ID, V) VALUES (:id, :v)", [{"id": n, "v": f"v{n}"} for n in range(9)])


def assert_transformed(pair: OracleMasterRig) -> None:
    found = [tuple(row) for row in pair.slave.execute(ON_SLAVE.encode()).fetchall()]
    assert found == [(int(key), *row) for key, *row in pair.master.run(ON_MASTER)]


def test_loaded_applied_compared_and_fixed(master_rig: Callable[..., OracleMasterRig]) -> None:
    pair = master_rig(TABLES, lines=LINES, lossy_columns="'*'")
    fill(pair)
    update = pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        pair.finish(update)
        assert_transformed(pair)
        pair.change(*CHANGES)
        pair.await_current()
        assert_transformed(pair)
        pair.slave.execute(b'UPDATE far."The ""people""" SET "NAME" = \'mine\' WHERE "ID" < 12')
        store = redis_store.connect(pair.redis_url)
        for table in pair.tables():
            found = resync(pair.pair, store, table, CompareOptions(), Action.REPAIR, 1_000)
            assert found.outcome is Outcome.IDENTICAL, found.finding
        pair.await_current()
        assert_transformed(pair)
    assert pair.slave.execute(b'SELECT count(*) FROM far."PLAIN"').fetchone() == (9,)
    assert TableName(pair.master.schema, "PEOPLE") in pair.tables()
