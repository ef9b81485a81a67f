"""Migrations of public kinds: what a rehearsal predicts is what happens on a live pair."""

from collections.abc import Callable
from pathlib import Path

import pytest

from devstack.postgres import PostgresServer
from devstack.redis import RedisServer
from devstack.rehearse.psql import Psql
from devstack.rehearse.script import split
from sluice.capture import wildcards
from sluice.load import steps
from sluice.model.connection import ConnectionInfo
from sluice.model.names import TableName
from tests.rig.rig import Rig
from tests.scenarios.rehearse.conftest import Rehearse

SCHEMA = """
CREATE TYPE public.status AS ENUM ('new', 'paid');
CREATE TABLE public.customers (id int PRIMARY KEY, name text NOT NULL, address text, city text);
CREATE TABLE public.orders (id int PRIMARY KEY, customer int NOT NULL REFERENCES public.customers, total numeric(10,2),
    state public.status NOT NULL DEFAULT 'new', note text, at date NOT NULL DEFAULT '2026-01-01');
CREATE VIEW public.notes AS SELECT id, note FROM public.orders;
CREATE TABLE public.events (id int PRIMARY KEY, at date NOT NULL, v text);
INSERT INTO public.customers SELECT g, 'n' || g, 'street ' || g, 'city' FROM generate_series(1, 200) g;
INSERT INTO public.orders SELECT g, 1 + g % 200, g, 'new', 'note ' || g FROM generate_series(1, 1000) g;
INSERT INTO public.events SELECT g, date '2026-01-01' + g % 50, 'v' FROM generate_series(1, 300) g;
"""
MIGRATIONS = {
    "a column with a default": "ALTER TABLE orders ADD COLUMN source text NOT NULL DEFAULT 'web';",
    "a key of another type": """
        BEGIN;
        ALTER TABLE orders ALTER customer TYPE bigint;
        ALTER TABLE customers ALTER id TYPE bigint;
        COMMIT;
        INSERT INTO customers VALUES (3000000000, 'far');""",
    "names": """
        ALTER TABLE customers RENAME TO clients;
        ALTER TABLE clients RENAME COLUMN name TO full_name;
        UPDATE clients SET full_name = full_name || '!' WHERE id < 10;""",
    "swapped tables": """
        BEGIN;
        CREATE TABLE events_new (LIKE events INCLUDING ALL);
        INSERT INTO events_new SELECT id, at, upper(v) FROM events;
        ALTER TABLE events RENAME TO events_old;
        ALTER TABLE events_new RENAME TO events;
        COMMIT;
        INSERT INTO events VALUES (9999, '2026-05-05', 'after');
        DROP TABLE events_old;""",
    "a table in two": """
        BEGIN;
        CREATE TABLE addresses (customer int PRIMARY KEY REFERENCES customers, address text, city text);
        INSERT INTO addresses SELECT id, address, city FROM customers;
        ALTER TABLE customers DROP address, DROP city;
        COMMIT;""",
    "partitions": """
        BEGIN;
        ALTER TABLE events RENAME TO events_old;
        CREATE TABLE events (id int, at date NOT NULL, v text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
        CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
        CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-02-01') TO ('2027-01-01');
        INSERT INTO events SELECT * FROM events_old;
        DROP TABLE events_old;
        COMMIT;
        UPDATE events SET at = '2026-03-03' WHERE id = 1;""",
    "a label": """
        ALTER TYPE status ADD VALUE 'sent' AFTER 'paid';
        UPDATE orders SET state = 'sent' WHERE id <= 20;""",
    "batches": """
        ALTER TABLE orders ADD cents bigint;
        UPDATE orders SET cents = total * 100 WHERE id <= 500;
        UPDATE orders SET cents = total * 100 WHERE id > 500;
        ALTER TABLE orders ALTER cents SET NOT NULL;""",
    "a column under a view": """
        BEGIN;
        DROP VIEW notes;
        ALTER TABLE orders DROP note;
        CREATE VIEW notes AS SELECT id, total FROM orders;
        COMMIT;""",
    "a key that grows online": """
        ALTER TABLE events ADD big bigint;
        CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.big := NEW.id; RETURN NEW; END';
        CREATE TRIGGER keep BEFORE INSERT OR UPDATE ON events FOR EACH ROW EXECUTE FUNCTION keep();
        UPDATE events SET big = id;
        CREATE UNIQUE INDEX CONCURRENTLY events_big ON events (big);
        BEGIN;
        ALTER TABLE events ALTER big SET NOT NULL;
        DROP TRIGGER keep ON events;
        ALTER TABLE events DROP CONSTRAINT events_pkey;
        ALTER TABLE events RENAME id TO id_old;
        ALTER TABLE events RENAME big TO id;
        ALTER TABLE events ADD CONSTRAINT events_pkey PRIMARY KEY USING INDEX events_big;
        ALTER TABLE events DROP id_old;
        COMMIT;
        INSERT INTO events (id, at, v) VALUES (5000000000, '2026-06-06', 'x');""",
    "a partition that was a table": """
        BEGIN;
        ALTER TABLE events RENAME TO events_2026;
        ALTER TABLE events_2026 DROP CONSTRAINT events_pkey, ADD PRIMARY KEY (id, at);
        CREATE TABLE events (LIKE events_2026, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
        ALTER TABLE events_2026 ADD CONSTRAINT y CHECK (at >= '2026-01-01' AND at < '2027-01-01') NOT VALID;
        COMMIT;
        ALTER TABLE events_2026 VALIDATE CONSTRAINT y;
        ALTER TABLE events ATTACH PARTITION events_2026 FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
        CREATE TABLE events_2027 PARTITION OF events FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');
        INSERT INTO events VALUES (9000, '2027-03-03', 'next'), (9001, '2026-03-03', 'this');
        UPDATE events SET at = '2027-04-04' WHERE id = 5;
        ALTER TABLE events DETACH PARTITION events_2026 CONCURRENTLY;
        UPDATE events_2026 SET v = 'alone' WHERE id < 9;""",
    "labels in use": """
        ALTER TYPE status ADD VALUE 'refunded' BEFORE 'paid';
        BEGIN;
        UPDATE orders SET state = 'refunded' WHERE id <= 20;
        ALTER TABLE orders ALTER state SET DEFAULT 'refunded';
        COMMIT;
        ALTER TYPE status RENAME VALUE 'new' TO 'open';
        INSERT INTO orders (id, customer) VALUES (5000, 1);
        UPDATE orders SET state = 'open' WHERE id = 20;""",
    "batches that commit in a loop": """
        ALTER TABLE orders ADD cents bigint;
        DO $$ DECLARE n int; BEGIN LOOP
            UPDATE orders SET cents = total * 100 WHERE id IN (
                SELECT id FROM orders WHERE cents IS NULL ORDER BY id LIMIT 300 FOR UPDATE SKIP LOCKED);
            GET DIAGNOSTICS n = ROW_COUNT;
            EXIT WHEN n = 0;
            COMMIT;
        END LOOP; END $$;
        ALTER TABLE orders ADD CONSTRAINT cents_known CHECK (cents IS NOT NULL) NOT VALID;
        ALTER TABLE orders VALIDATE CONSTRAINT cents_known;
        ALTER TABLE orders ALTER cents SET NOT NULL;
        ALTER TABLE orders DROP CONSTRAINT cents_known;""",
    "an index that fails first": """
        -- fails
        CREATE UNIQUE INDEX CONCURRENTLY customers_city ON customers (city);
        UPDATE customers SET city = city || id;
        DROP INDEX CONCURRENTLY customers_city;
        CREATE UNIQUE INDEX CONCURRENTLY customers_city ON customers (city);
        ALTER TABLE customers ADD CONSTRAINT city_once UNIQUE USING INDEX customers_city;""",
    "a generated column": """
        ALTER TABLE orders ADD gross numeric GENERATED ALWAYS AS (total * 1.19) STORED;
        UPDATE orders SET total = 7 WHERE id < 4;
        ALTER TABLE orders ALTER gross DROP EXPRESSION;
        UPDATE orders SET gross = 1 WHERE id = 1;""",
    "an identity in place of a sequence": """
        CREATE SEQUENCE orders_id_seq OWNED BY orders.id;
        SELECT setval('orders_id_seq', 1000);
        ALTER TABLE orders ALTER id SET DEFAULT nextval('orders_id_seq');
        INSERT INTO orders (customer) VALUES (1);
        BEGIN;
        ALTER TABLE orders ALTER id DROP DEFAULT;
        DROP SEQUENCE orders_id_seq;
        ALTER TABLE orders ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (START 1002);
        COMMIT;
        INSERT INTO orders (customer) VALUES (2);""",
    "a domain in place of another": """
        CREATE DOMAIN amount AS numeric(12,2) CHECK (value >= 0);
        ALTER TABLE orders ALTER total TYPE amount;
        CREATE DOMAIN amount_2 AS numeric(14,2) CHECK (value >= -100);
        ALTER TABLE orders ALTER total TYPE amount_2;
        DROP DOMAIN amount;
        ALTER DOMAIN amount_2 RENAME TO amount;
        INSERT INTO orders (id, customer, total) VALUES (6000, 1, -5);""",
    "a schema": """
        CREATE SCHEMA shop;
        ALTER TABLE events SET SCHEMA shop;
        ALTER SCHEMA shop RENAME TO store;
        INSERT INTO store.events VALUES (9999, '2026-05-05', 'after');
        UPDATE customers SET name = 'x' WHERE id = 1;""",
    "extensions": """
        CREATE EXTENSION citext;
        ALTER TABLE customers ALTER name TYPE citext;
        INSERT INTO customers VALUES (7000, 'Mixed');
        CREATE EXTENSION hstore;
        ALTER TABLE customers ADD tags hstore NOT NULL DEFAULT '';
        UPDATE customers SET tags = 'a=>1' WHERE id < 5;""",
    "names in a circle": """
        BEGIN;
        ALTER TABLE customers RENAME address TO spare;
        ALTER TABLE customers RENAME city TO address;
        ALTER TABLE customers RENAME spare TO city;
        COMMIT;
        UPDATE customers SET city = 'moved' WHERE id < 5;
        BEGIN;
        ALTER TABLE events RENAME TO spare;
        ALTER TABLE customers RENAME TO events;
        ALTER TABLE spare RENAME TO customers;
        COMMIT;
        DELETE FROM customers WHERE id > 290;""",
    "rows that are written again": """
        ALTER TABLE events SET UNLOGGED;
        TRUNCATE events;
        INSERT INTO events SELECT g, '2026-02-02', 'again' FROM generate_series(1, 50) g;
        ALTER TABLE events SET LOGGED;
        WITH old AS (DELETE FROM orders WHERE id > 900 RETURNING id, at)
        INSERT INTO events SELECT id + 10000, at, 'order' FROM old;
        ALTER TABLE events ALTER v TYPE varchar(20) USING left(v, 3);""",
}


@pytest.mark.long
@pytest.mark.parametrize("name", MIGRATIONS)
def test_what_is_predicted_happens(
    name: str,
    rehearse: Rehearse,
    database: Callable[..., ConnectionInfo],
    postgres: PostgresServer,
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    report = rehearse(MIGRATIONS[name], SCHEMA)
    wanted = ["fails"] * MIGRATIONS[name].count("-- fails")
    assert [finding.kind for finding in report.findings if finding.kind in ("differs", "fails")] == wanted
    predicted = {table.name: table.outcome for table in report.tables if table.name.startswith("public.")}

    rig = Rig.empty(
        database, redis_server.url, tmp_path / "live", schema="sluice", interval=0.1,
        slave_options={"on_drop": "keep"},
    )  # fmt: skip
    rig.master.execute(SCHEMA)
    rig.capture()
    wildcards.note(rig.master, rig.replication)
    rig.prepare(update := rig.update())
    with rig.apply():
        rig.load_to_normal(update)
        steps.finish(update)
        with Psql(rig.master_info) as psql:
            for statement in split(MIGRATIONS[name]):
                assert bool(psql.run(statement).error) == ("-- fails" in statement.text), statement
        rig.await_current()
        states = rig.checkpoint.tables

    def outcome(table: TableName) -> str:
        if table in states:
            return str(states.state(table))
        return "identical" if rig.rows(rig.slave, table) == rig.rows(rig.master, table) else "different"

    happened = {str(table): outcome(table) for table in rig.tables(rig.master) if table.schema == "public"}
    assert happened == predicted
    rig.close()
