"""The text of a trigger is what was given to the parser."""

import re
from collections.abc import Callable

from tests.oracle import parse
from tests.oracle.live.master_rig import OracleMasterRig

TABLES = """
CREATE TABLE ORDERS (
    ID NUMBER(10), "Odd' name" VARCHAR2(40), NOTE VARCHAR2(4000), AMOUNT NUMBER(12,2), RATE BINARY_DOUBLE,
    AT TIMESTAMP(6), MOMENT TIMESTAMP(6) WITH TIME ZONE, HERE TIMESTAMP(6) WITH LOCAL TIME ZONE, DAY DATE, BODY BLOB,
    LONGER CLOB, SHORT RAW(20), WIDE RAW(2000), CODE CHAR(6), Y INTERVAL YEAR(4) TO MONTH,
    D INTERVAL DAY(4) TO SECOND(6), L LONG, PRIMARY KEY (ID, "Odd' name")
);
CREATE TABLE LOG (AT TIMESTAMP(6), WORDS VARCHAR2(40), N NUMBER(20,5))
"""


def test_the_text_of_a_trigger_is_the_one_that_was_parsed(master_rig: Callable[..., OracleMasterRig]) -> None:
    master = master_rig(TABLES).master
    made = []
    for table in ("ORDERS", "LOG"):
        values = {"schema": master.schema, "name": table}
        row = master.run("SELECT DEMO_CAPTURE.TRIGGER_CODE(:schema, :name) FROM DUAL", values).fetchone()
        assert row is not None
        text = re.sub(r"(TRIGGER) \"[^\"]+\"", r'\1 "DEMO_TRIGGER"', row[0]).replace(master.schema, "SHOP")
        made.append(text.strip())
    assert made == parse.triggers()
