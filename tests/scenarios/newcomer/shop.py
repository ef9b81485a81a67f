"""A newcomer's shop: partitions, uuid keys, enums, sequences, a view; an owner, a writer; traffic."""

import random
import threading
from typing import Any

import psycopg

from devstack.postgres import PostgresServer
from sluice.model.connection import ConnectionInfo

OWNER, WRITER = "shop_owner", "shop_writer"
DATABASE = "shop"

SCHEMA = """
CREATE TYPE status AS ENUM ('new', 'paid', 'sent');
CREATE TABLE customers (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    email text NOT NULL UNIQUE,
    data jsonb NOT NULL DEFAULT '{}'
);
CREATE TABLE orders (
    id bigserial PRIMARY KEY,
    customer uuid NOT NULL REFERENCES customers ON DELETE CASCADE,
    status status NOT NULL DEFAULT 'new',
    total numeric(12, 2) NOT NULL CHECK (total >= 0),
    placed timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON orders (customer);
CREATE TABLE payments (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    "order" bigint NOT NULL REFERENCES orders ON DELETE CASCADE,
    paid numeric(12, 2) NOT NULL
);
CREATE TABLE events (
    id bigint GENERATED ALWAYS AS IDENTITY,
    day date NOT NULL,
    what text,
    PRIMARY KEY (id, day)
) PARTITION BY RANGE (day);
CREATE TABLE events_2026_10 PARTITION OF events FOR VALUES FROM ('2026-10-01') TO ('2026-11-01');
CREATE TABLE events_2026_11 PARTITION OF events FOR VALUES FROM ('2026-11-01') TO ('2026-12-01')
    PARTITION BY RANGE (id);
CREATE TABLE "Events of November" PARTITION OF events_2026_11 DEFAULT;
CREATE TABLE "Order Notes" ("order" bigint PRIMARY KEY, "Note ""a"" b" text);
CREATE SEQUENCE invoice_number START 1000;
CREATE VIEW open_orders AS SELECT * FROM orders WHERE status = 'new';
INSERT INTO customers (email) SELECT 'customer' || g || '@example.com' FROM generate_series(1, 1000) g;
INSERT INTO orders (customer, total) SELECT id, 10 FROM customers;
INSERT INTO orders (customer, total) SELECT id, 20 FROM customers;
INSERT INTO payments ("order", paid) SELECT id, total FROM orders WHERE id % 2 = 0;
INSERT INTO events (day, what) SELECT date '2026-10-01' + g % 60, 'visit ' || g FROM generate_series(1, 5000) g;
INSERT INTO "Order Notes" SELECT id, 'Grüße' FROM orders WHERE id % 3 = 0;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO shop_writer;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO shop_writer;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO shop_writer;
"""

TABLES = ("customers", "orders", "payments", "events", '"Order Notes"')

TRAFFIC = (
    "INSERT INTO customers (email) VALUES ('c' || gen_random_uuid())",
    "INSERT INTO orders (customer, total) SELECT id, 5 FROM customers ORDER BY random() LIMIT 2",
    "UPDATE orders SET status = 'paid', total = total + 1"
    " WHERE id IN (SELECT id FROM orders ORDER BY random() LIMIT 3)",
    'INSERT INTO payments ("order", paid) SELECT id, total FROM orders ORDER BY random() LIMIT 2',
    "INSERT INTO events (day, what) VALUES ('2026-11-20', 'buy')",
    "UPDATE events SET what = 'bought' WHERE id IN (SELECT id FROM events ORDER BY random() LIMIT 2)",
    "DELETE FROM customers WHERE id IN (SELECT id FROM customers ORDER BY random() LIMIT 1)",
    "UPDATE events SET day = day + 1"
    " WHERE id IN (SELECT id FROM events WHERE day < '2026-11-29' ORDER BY random() LIMIT 1)",
)


def make(server: PostgresServer) -> None:
    """Creates the database of the shop as its owner."""
    for role in (OWNER, WRITER):
        server.create_role(role)
    server.create_database(DATABASE, owner=OWNER)
    with server.connect(DATABASE) as connection:
        # Before PostgreSQL 15 the schema public belongs to the superuser.
        connection.execute("ALTER SCHEMA public OWNER TO shop_owner")
    with as_role(server, OWNER) as connection:
        connection.execute(SCHEMA.encode())


def as_role(server: PostgresServer, role: str) -> psycopg.Connection[Any]:
    """A session of an application."""
    return open_session(server.info(DATABASE, role))


def open_session(info: ConnectionInfo) -> psycopg.Connection[Any]:
    return psycopg.connect(
        host=info.host, port=info.port, dbname=info.database, user=info.user, password=info.password, autocommit=True
    )


class Traffic(threading.Thread):
    """Runs the writer's statements, some twenty a second, until stopped; `errors` has their errors."""

    def __init__(self, server: PostgresServer, seed: int) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.random = random.Random(seed)
        self.statements = 0
        self.errors: list[str] = []
        self._stop_asked = threading.Event()

    def run(self) -> None:
        with as_role(self.server, WRITER) as connection:
            while not self._stop_asked.wait(0.05):
                statement = self.random.choice(TRAFFIC)
                try:
                    connection.execute(statement.encode())
                    self.statements += 1
                except psycopg.Error as error:
                    self.errors.append(f"{statement}: {error}")

    def stop(self) -> None:
        self._stop_asked.set()
        self.join(60)
        assert not self.is_alive() and not self.errors, self.errors


def content(connection: psycopg.Connection[Any], tables: tuple[str, ...] = TABLES) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of each table, as texts, sorted."""
    return {
        table: sorted(connection.execute(f"SELECT t::text FROM public.{table} t".encode()).fetchall())
        for table in tables
    }
