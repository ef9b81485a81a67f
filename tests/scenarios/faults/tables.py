"""The tables of a run. The log has a line for each transaction, with the change it made to each table's digest.

A digest is the number of rows and the sum of their hashes. In every state of the master the sums of the log's
changes are the digests of the tables: a slave that shows half a transaction, a lost change or one applied twice does
not add up, whenever one looks.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table; the digest is over `columns`, the first of which is never NULL."""

    name: str
    columns: tuple[str, ...]
    versioned: bool = False
    """Each write of a row gives it a `version` that no other write has."""

    def hash(self, row: str) -> str:
        """SQL: the hash of a row known as `row`."""
        return f"hashtext(ROW({', '.join(f'{row}.{column}' for column in self.columns)})::text)"


TABLES = (
    Table("accounts", ("id", "balance", "version"), versioned=True),
    Table("seats", ("id", "place", "code", "version"), versioned=True),
    Table("orders", ("id", "note")),
    Table("lines", ("order_id", "line", "amount")),
    Table("notes", ("a", "b")),
    Table("scratch", ("id", "version"), versioned=True),
    Table("changing", ("id", "value", "version"), versioned=True),
    Table("bulk", ("id", "payload", "version"), versioned=True),
)
BY_NAME = {table.name: table for table in TABLES}

_DELTAS = ", ".join(f"{table.name}_rows int NOT NULL, {table.name}_sum bigint NOT NULL" for table in TABLES)

DDL = f"""
CREATE SEQUENCE public.stamp;
CREATE TABLE public.accounts (id int PRIMARY KEY, balance bigint NOT NULL, version bigint NOT NULL);
CREATE TABLE public.seats (
    id int PRIMARY KEY, place int UNIQUE DEFERRABLE INITIALLY IMMEDIATE, code text UNIQUE, version bigint NOT NULL
);
CREATE TABLE public.orders (id bigint PRIMARY KEY, note text);
CREATE TABLE public.lines (
    order_id bigint REFERENCES public.orders ON DELETE CASCADE ON UPDATE CASCADE, line int, amount int,
    PRIMARY KEY (order_id, line)
);
CREATE TABLE public.notes (a int NOT NULL, b text);
CREATE TABLE public.scratch (id bigint PRIMARY KEY, version bigint NOT NULL);
CREATE TABLE public.changing (id int PRIMARY KEY, value text, version bigint NOT NULL);
CREATE TABLE public.bulk (id bigint PRIMARY KEY, payload text, version bigint NOT NULL);
CREATE TABLE public.log (writer int, n bigint, xid bigint NOT NULL, what text, {_DELTAS}, PRIMARY KEY (writer, n));
"""

EVERY = ", ".join(f"public.{name}" for name in (*BY_NAME, "log"))
"""For LOCK TABLE: TRUNCATE and DDL are not seen by snapshot, so a reader of several tables locks them all first."""

IMBALANCE = " UNION ALL ".join(
    f"SELECT '{table.name}', count(*) - (SELECT coalesce(sum({table.name}_rows), 0) FROM public.log),"
    f" coalesce(sum({table.hash('t')}), 0) - (SELECT coalesce(sum({table.name}_sum), 0) FROM public.log)"
    f" FROM public.{table.name} t"
    for table in TABLES
)
"""Of each table what its digest is off the log's sums: rows, hashes."""
