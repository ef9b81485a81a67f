"""What servers say about values of rows: readers of the monitor see the code and the place, and no value."""

import logging
from contextlib import closing

import pytest

from sluice.database.errors import DatabaseError
from sluice.database.registry import vendor_of
from sluice.model.mask import HIDDEN, without_values
from sluice.vendors.oracle import errors as oracle
from tests.vendors.contender import Contender

CANARY = "ZEISIG"
_RAISE = (
    "DO $$ BEGIN RAISE EXCEPTION 'limit of ”ZEISIG” exceeded' "
    "USING ERRCODE = '{code}', DETAIL = 'ZEISIG.', HINT = 'ZEISIG?'; END $$"
)
STATEMENTS = {
    "postgres": (
        "SELECT 'ZEISIG'::int", "SELECT 'ZEISIG'::mood", "SELECT '2024-13-45 ZEISIG'::timestamp",
        "SELECT '2024-01-01 ZEISIG/Nowhere'::timestamptz", "SELECT '{ZEISIG'::json", "SELECT '[\"a\", ZEISIG]'::jsonb",
        "SELECT to_jsonb('ZEISIG'::text)::int", "SELECT '(ZEISIG'::pair", "SELECT '{ZEISIG'::text[]",
        "SELECT 'ZEISIG'::inet", "SELECT 'ZEISIG'::uuid", "SELECT 'ZEISIG'::interval", "SELECT 'ZEISIG'::bytea::int",
        "SELECT decode('ZEISIG', 'hex')", "SELECT 'ZEISIG'::numeric", "SELECT 'ZEISIG'::bit(3)",
        "SELECT to_date('ZEISIG', 'YYYY-MM-DD')", "SELECT now() AT TIME ZONE 'ZEISIG'", "SELECT 'ZEISIG'::short",
        "INSERT INTO t VALUES (1, 'ZEISIG', 1)", "INSERT INTO t VALUES (2, 'ZEISIG', NULL)",
        "INSERT INTO t VALUES (3, 'ZEISIG', -1)", "INSERT INTO t VALUES (4, 'ZEISIG is too long for it', 1)",
        "INSERT INTO child VALUES ('ZEISIG')", "INSERT INTO ranges VALUES ('[B,ZEISIG)')",
        "CREATE UNIQUE INDEX ON twice (v)",
        "SELECT 'ZEISIG'::regclass", "SELECT 'ZEISIG[1'::point",
        "SELECT pg_catalog.set_config('work_mem', 'ZEISIG', false)",
        "SELECT E'ZEISIG\\\\'::text ~ 'ZEISIG('", "SELECT format('%ZEISIG', 1)",
        *(_RAISE.format(code=code) for code in (
            "P0001", "23505", "40001", "40P01", "42501", "53100", "55P03", "57014", "08006", "28000", "3D000",
            "XX000")),
    ),
    "mysql": (
        "INSERT INTO t VALUES ('ZEISIG', 1, 'a')", "INSERT INTO t VALUES (1, 'ZEISIG', 'a')",
        "INSERT INTO u VALUES ('ZEISIG')", "INSERT INTO child VALUES ('ZEISIG')",
        "UPDATE t SET at = 'ZEISIG' WHERE id = 0", "ALTER TABLE twice ADD UNIQUE (v)",
        "INSERT INTO t (id, n, v) VALUES (9, 9, 'ZEISIG is too long for it')",
        "INSERT INTO t (id, f) VALUES (8, 'ZEISIG')",
        "SELECT 'x' REGEXP 'ZEISIG('",
        *(f"SIGNAL SQLSTATE '{state}' SET MESSAGE_TEXT = 'limit of ZEISIG”', MYSQL_ERRNO = {number}"
          for state, number in (
              ("45000", 1644), ("23000", 1062), ("42000", 1142), ("40001", 1213), ("HY000", 1205), ("HY000", 1290))),
    ),
    "h2": ("INSERT INTO \"t\" VALUES ('ZEISIG')", "SELECT CAST('ZEISIG' AS NUMBER(9)) FROM DUAL"),
}  # fmt: skip
TABLES = {
    "postgres": (
        "SET search_path = public", "CREATE TYPE mood AS ENUM ('sad')", "CREATE TYPE pair AS (a int, b int)",
        "CREATE DOMAIN short AS text CHECK (length(VALUE) < 3)",
        "CREATE TABLE t (id int, v varchar(8), n int NOT NULL CHECK (n > 0))", "CREATE UNIQUE INDEX ON t (v)",
        "INSERT INTO t VALUES (0, 'ZEISIG', 1)", "CREATE TABLE parent (v text PRIMARY KEY)",
        "CREATE TABLE child (v text REFERENCES parent)", "CREATE TYPE words AS RANGE (subtype = text)",
        "CREATE TABLE ranges (r words, EXCLUDE USING gist (r WITH &&))", "INSERT INTO ranges VALUES ('[A,ZEISIG)')",
        "CREATE TABLE twice (v text)", "INSERT INTO twice VALUES ('ZEISIG'), ('ZEISIG')",
    ),
    "mysql": (
        "CREATE TABLE t (id int PRIMARY KEY, n int, v varchar(8), at datetime, f double)",
        "INSERT INTO t (id) VALUES (0)",
        "CREATE TABLE u (v varchar(20) PRIMARY KEY)", "INSERT INTO u VALUES ('ZEISIG')",
        "CREATE TABLE parent (v varchar(20) PRIMARY KEY)",
        "CREATE TABLE child (v varchar(20), FOREIGN KEY (v) REFERENCES parent (v))",
        "CREATE TABLE twice (v varchar(20))", "INSERT INTO twice VALUES ('ZEISIG'), ('ZEISIG')",
    ),
    "h2": ('CREATE TABLE "t" ("id" NUMBER(9))',),
}  # fmt: skip


def test_no_value_that_a_server_quotes_is_shown_to_readers_of_the_monitor_or_of_logs(
    target: Contender, caplog: pytest.LogCaptureFixture
) -> None:
    vendor = vendor_of(target.info.vendor)
    name = "h2" if "h2" in type(vendor).__module__ else target.info.vendor
    name = "h2" if target.oracle else name
    leaked, quoting = [], 0
    with closing(vendor.sessions.connect(target.info, application="test", autocommit=True)) as session:
        for statement in TABLES[name]:
            session.execute(statement.encode())
        for statement in STATEMENTS[name]:
            try:
                session.execute(statement.encode()).fetchall()
            except DatabaseError as failure:
                error = failure
            else:
                raise AssertionError(f"no error: {statement}")
            assert target.info.address in str(error), "the place"
            logging.getLogger("sluice.test").error("dr1: %s", error, exc_info=error)
            for text in (str(error), error.reason, f"{error.reason[:-3]}", f"dr1: {error}. Next try in 5 s."):
                quoting += CANARY in text
                shown = without_values(text)
                if CANARY in shown:
                    leaked.append(f"{statement}: {shown}")
                elif CANARY in text:
                    assert HIDDEN in shown
            if name != "h2":  # which is no server that a slave has
                code = error.sqlstate if name == "postgres" else error.server_code
                assert code and code in without_values(str(error)), error
    assert not leaked, "\n".join(leaked)
    assert CANARY not in caplog.text and caplog.text.count("Traceback") == len(STATEMENTS[name]), "nor in a log"
    assert quoting > 2 * len(STATEMENTS[name]), "servers quote values"


@pytest.mark.parametrize("text", [
    "ORA-01438: value larger than specified precision allowed for this column: ZEISIG",
    "ORA-00001: unique constraint (APP.U) violated on table APP.T columns (V) value (ZEISIG)",
    "ORA-20001: limit of ”ZEISIG” exceeded\nORA-06512: at \"APP.CHECK\", line 4\nORA-04088: error during execution",
    "ORA-01722: invalid number: 'ZEISIG' (occurred in column \"V\")",
    "ORA-02291: integrity constraint (A.B) violated: ZEISIG",
    "ORA-01031: insufficient privileges ZEISIG", "ORA-00060: deadlock detected ZEISIG", "ORA-01830: ZEISIG",
])  # fmt: skip
def test_nor_one_of_oracle(text: str) -> None:
    error = oracle.made(oracle.code_of(text), " ".join(text.split()), "db1:1521/shop")
    shown = without_values(f"{error} Then continue.")
    assert CANARY in str(error) and CANARY not in shown and CANARY not in without_values(error.reason)
    assert oracle.code_of(text) in shown and "db1:1521/shop" in shown
