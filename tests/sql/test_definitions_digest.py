"""The digest that shows cheaply whether definitions must be compared."""

from collections.abc import Callable

import pytest

from sluice.model.connection import ConnectionInfo
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.sql.master import Master

pytestmark = pytest.mark.releases

CHANGES = [
    'CREATE INDEX "In dex" ON "Order" (person)',
    'ALTER INDEX "In dex" RENAME TO other',
    "DROP INDEX other",
    'CREATE INDEX one ON "Order" (person); CREATE INDEX two ON "Order" ("from")',
    "ALTER INDEX one RENAME TO x; ALTER INDEX two RENAME TO one; ALTER INDEX x RENAME TO two",
    "COMMENT ON COLUMN \"Order\".person IS 'a'; COMMENT ON COLUMN \"Order\".price IS 'b'",
    "COMMENT ON COLUMN \"Order\".person IS 'b'; COMMENT ON COLUMN \"Order\".price IS 'a'",
    'ALTER TABLE "Order" ADD CONSTRAINT "UNIQUE" UNIQUE ("from")',
    'ALTER TABLE "Order" DROP CONSTRAINT "UNIQUE"',
    'ALTER TABLE "Order" ADD CONSTRAINT "check" CHECK (id > 0) NOT VALID',
    'ALTER TABLE "Order" VALIDATE CONSTRAINT "check"',
    'ALTER TABLE "Order" RENAME CONSTRAINT "check" TO "a check"',
    'ALTER TABLE "Order" ADD CONSTRAINT "Fk" FOREIGN KEY (person) REFERENCES plain',
    'ALTER TABLE "Order" ALTER CONSTRAINT "Fk" DEFERRABLE',
    'ALTER DOMAIN "Euro" ADD CONSTRAINT "more" CHECK (VALUE < 10000)',
    'ALTER DOMAIN "Euro" DROP CONSTRAINT "more"',
    'ALTER DOMAIN "Euro" SET NOT NULL',
    'ALTER DOMAIN "Euro" DROP NOT NULL',
    'ALTER TABLE "Order" DISABLE TRIGGER ALL',
    'CREATE TABLE "New" (id int)',
    'ALTER TABLE "New" RENAME TO "Newer"',
    'DROP TABLE "Newer"',
]
NONE = [
    'INSERT INTO "Order" VALUES (1, NULL, 1, 1)',
    'ANALYZE "Order"',
    'VACUUM "Order"',
    'TRUNCATE "Order"',
    "CREATE INDEX i ON plain (id)",
    "CREATE TEMPORARY TABLE passing (id int PRIMARY KEY)",
    "CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (2)",
    "DROP TABLE part",
    "GRANT SELECT ON plain TO PUBLIC",
    "SELECT demo_check_structure()",
]


@pytest.fixture
def told(database: Callable[..., ConnectionInfo]) -> Master:
    master = Master(database())
    master.sql(
        "CREATE TABLE plain (id int PRIMARY KEY)",
        'CREATE DOMAIN "Euro" AS int CONSTRAINT "some" CHECK (VALUE >= 0)',
        'CREATE TABLE "Order" (id int PRIMARY KEY, person int, "from" int, price "Euro")',
        "CREATE TABLE parted (id int) PARTITION BY RANGE (id)",
    )
    master.install()
    master.register("Order")
    return master


def digest(master: Master) -> str:
    return PostgresQueue(master.connection, master.prefix, master.schema).definitions_digest()


def test_it_changes_with_reported_definitions_and_with_nothing_else(told: Master) -> None:
    seen = digest(told)
    for statement in NONE:
        told.sql(statement)
        assert digest(told) == seen, statement
    for statement in CHANGES:
        told.sql(statement)
        assert digest(told) != seen, statement
        seen = digest(told)
        assert digest(told) == seen


def test_it_waits_for_no_lock(told: Master) -> None:
    seen = digest(told)
    with told.session(autocommit=False) as other:
        other.execute('LOCK TABLE "Order", plain IN ACCESS EXCLUSIVE MODE')
        told.sql("SET lock_timeout = '1s'")
        assert digest(told) == seen
        other.rollback()
