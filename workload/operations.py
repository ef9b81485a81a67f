"""Operations of transactions. Each changes a few rows of few tables, so that transactions conflict."""

from collections.abc import Callable
from random import Random
from typing import Any

import psycopg
from psycopg import sql

from workload.tables import BY_NAME, JOINING, PARTITIONS

KEYS = 60
"""The number of keys of the small tables. It is low, so that transactions conflict."""
TEXTS = ("", "a", "\\N", "\\.", "x\ty\r\n\\.\n", "<&>", "]]></col>", '{"a",NULL}', "NULL", "'; --", "🐘", None)
STAMP = "nextval('public.stamp')"
PARTITION_GONE = "a partition with rows was dropped or detached"
LABEL_ADDED, LABEL_RENAMED = "a label was added", "a label was renamed"
EVENTS = frozenset({PARTITION_GONE, LABEL_ADDED, LABEL_RENAMED})
"""Events that must happen in a run."""
LABELS = 30
"""The most labels of the enum."""

Statement = str | sql.SQL | sql.Composed


class Work:
    """An open transaction: it runs statements and counts the changed rows."""

    def __init__(self, connection: psycopg.Connection[Any], number: int = 0, portable: bool = False):
        """`number`: the writer's. `portable`: without values that only PostgreSQL can store."""
        self.connection = connection
        self.number = number
        self.portable = portable
        self.changes = 0
        self.events: list[str] = []

    def run(self, statement: Statement, *values: Any) -> Any:
        """Runs a statement that changes no replicated table, and returns its first row."""
        cursor = self.connection.execute(_query(statement), values or None)
        return cursor.fetchone() if cursor.description else None

    def write(self, statement: Statement, *values: Any) -> int:
        """Runs an INSERT, UPDATE or DELETE, and returns the number of changed rows."""
        changed = max(0, self.connection.execute(_query(statement), values or None).rowcount)
        self.changes += changed
        return changed

    def change(self, name: str, statement: str, *values: Any) -> None:
        """Runs such a statement on one of `TABLES`, without RETURNING. A subclass that records digests adds that."""
        self.write(statement, *values)

    def note(self, name: str, rows: int, total: int) -> None:
        """Records a change of a table's digest that another statement than `change` made."""

    def state(self) -> Any:
        """Returns the counts that `restore` sets again after the rollback of a savepoint."""
        return self.changes, list(self.events)

    def restore(self, state: Any) -> None:
        self.changes, self.events = state

    def digest(self, name: str, where: str, *values: Any) -> tuple[int, int]:
        """Returns the digest of some rows of a table."""
        table = BY_NAME[name]
        select = f"SELECT count(*), coalesce(sum({table.hash('t')}), 0) FROM public.{name} t"
        row = self.run(f"{select} WHERE {where}", *values)
        return row[0], int(row[1])


def _query(statement: Statement) -> Any:
    return statement.encode() if isinstance(statement, str) else statement


def transfer(work: Work, chance: Random) -> None:
    amount, one, other = chance.randint(1, 100), chance.randint(1, KEYS), chance.randint(1, KEYS)
    for key, change in sorted(((one, amount), (other, -amount))):
        work.change(
            "accounts", f"INSERT INTO public.accounts VALUES (%s, %s, {STAMP}) ON CONFLICT (id) DO UPDATE"
            " SET balance = accounts.balance + excluded.balance, version = excluded.version", key, change,
        )  # fmt: skip


def interest(work: Work, chance: Random) -> None:
    """Updates many rows in one statement."""
    first = chance.randint(1, KEYS)
    work.change(
        "accounts", f"UPDATE public.accounts SET balance = balance + 1, version = {STAMP} WHERE id IN"
        " (SELECT id FROM public.accounts WHERE id BETWEEN %s AND %s ORDER BY id FOR UPDATE)", first, first + 8,
    )  # fmt: skip


def rename(work: Work, chance: Random) -> None:
    """Changes a key to one that another row may have had before."""
    old, new = chance.randint(1, KEYS), chance.choice((-1, 1)) * chance.randint(1, KEYS)
    work.change(
        "accounts", f"UPDATE public.accounts SET id = %s, version = {STAMP} WHERE id = %s"
        " AND NOT EXISTS (SELECT FROM public.accounts WHERE id = %s)", new, old, new,
    )  # fmt: skip


def shift(work: Work, chance: Random) -> None:
    """Increases several successive keys by one, from the last."""
    first = chance.randint(1, KEYS)
    work.change("accounts", "DELETE FROM public.accounts WHERE id = %s", first + 4)
    for key in range(first + 3, first - 1, -1):
        work.change("accounts", f"UPDATE public.accounts SET id = id + 1, version = {STAMP} WHERE id = %s", key)


def replace(work: Work, chance: Random) -> None:
    """Deletes a row, and mostly inserts another one with its key."""
    key = chance.randint(1, KEYS)
    work.change("accounts", "DELETE FROM public.accounts WHERE id = %s", key)
    if chance.random() < 0.8:
        work.change("accounts", f"INSERT INTO public.accounts VALUES (%s, %s, {STAMP})", key, chance.randint(0, 9))


def sit(work: Work, chance: Random) -> None:
    key = chance.randint(1, KEYS)
    work.change(
        "seats", f"INSERT INTO public.seats VALUES (%s, %s, %s, {STAMP}) ON CONFLICT (id) DO UPDATE SET"
        " version = excluded.version", key, key, f"code {key}",
    )  # fmt: skip


def rotate(work: Work, chance: Random) -> None:
    """Two to four rows exchange unique values in one statement."""
    keys = chance.sample(range(1, KEYS + 1), chance.randint(2, 4))
    work.run("SELECT count(*) FROM (SELECT FROM public.seats WHERE id = ANY(%s) ORDER BY id FOR UPDATE) q", keys)
    work.change(
        "seats", f"UPDATE public.seats SET place = o.place, version = {STAMP} FROM public.seats o"
        " WHERE o.id = (%s::int[])[array_position(%s::int[], seats.id)]", keys[1:] + keys[:1], keys,
    )  # fmt: skip


def swap(work: Work, chance: Random) -> None:
    """Two rows exchange unique values through NULL."""
    one, other = sorted(chance.sample(range(1, KEYS + 1), 2))
    rows = work.connection.execute(
        "SELECT id, code FROM public.seats WHERE id = ANY(%s) ORDER BY id FOR UPDATE", [[one, other]]
    ).fetchall()
    if len(rows) == 2:
        statement = f"UPDATE public.seats SET code = %s, version = {STAMP} WHERE id = %s"
        for key, code in ((rows[0][0], None), (rows[1][0], rows[0][1]), (rows[0][0], rows[1][1])):
            work.change("seats", statement, code, key)


def stand(work: Work, chance: Random) -> None:
    work.change("seats", "DELETE FROM public.seats WHERE id = %s", chance.randint(1, KEYS))


def order(work: Work, chance: Random) -> None:
    """Inserts or updates a parent and its children."""
    key = chance.randint(1, KEYS)
    work.change("orders", "INSERT INTO public.orders VALUES (%s, %s) ON CONFLICT (id) DO UPDATE"
                " SET note = excluded.note", key, chance.choice(TEXTS))  # fmt: skip
    for line in range(1, chance.randint(2, 5)):
        work.change("lines", "INSERT INTO public.lines VALUES (%s, %s, %s) ON CONFLICT (order_id, line)"
                    " DO UPDATE SET amount = excluded.amount", key, line, chance.randint(1, 1000))  # fmt: skip


def cascade(work: Work, chance: Random) -> None:
    """Deletes a parent or changes its key; the foreign key cascades to its children."""
    old, new = chance.randint(1, KEYS), chance.randint(1, KEYS)
    if not work.run("SELECT 1 FROM public.orders WHERE id = %s FOR UPDATE", old):
        return
    before = work.digest("lines", "order_id = %s", old)
    if chance.random() < 0.5:
        work.change("orders", "DELETE FROM public.orders WHERE id = %s", old)
        after = (0, 0)
    elif old == new or work.run("SELECT 1 FROM public.orders WHERE id = %s", new):
        return
    else:
        work.change("orders", "UPDATE public.orders SET id = %s WHERE id = %s", new, old)
        after = work.digest("lines", "order_id = %s", new)
    work.note("lines", after[0] - before[0], after[1] - before[1])


def scribble(work: Work, chance: Random) -> None:
    """Changes a table without a key, in which rows may be equal."""
    for _ in range(chance.randint(1, 4)):
        work.change("notes", "INSERT INTO public.notes VALUES (%s, %s)", chance.randint(1, 5), chance.choice(TEXTS))
    if chance.random() < 0.4:
        work.change("notes", "DELETE FROM public.notes WHERE ctid IN (SELECT ctid FROM public.notes WHERE a = %s"
                    " LIMIT 2)", chance.randint(1, 5))  # fmt: skip
    if chance.random() < 0.2:
        work.change("notes", "UPDATE public.notes SET b = %s WHERE ctid IN (SELECT ctid FROM public.notes WHERE a = %s"
                    " LIMIT 3)", chance.choice(TEXTS), chance.randint(1, 5))  # fmt: skip


def scratch(work: Work, chance: Random) -> None:
    work.change("scratch", f"INSERT INTO public.scratch SELECT g, {STAMP} FROM generate_series(%s::int, %s::int) g"
                " ON CONFLICT DO NOTHING", first := chance.randint(1, 500), first + chance.randint(0, 20))  # fmt: skip


def value(work: Work, chance: Random) -> None:
    work.change(
        "changing", f"INSERT INTO public.changing (id, value, version) VALUES (%s, %s, {STAMP}) ON CONFLICT (id)"
        " DO UPDATE SET value = excluded.value, version = excluded.version",
        chance.randint(1, KEYS), chance.choice(TEXTS),
    )  # fmt: skip


def truncate(work: Work, _: Random) -> None:
    work.run("LOCK TABLE public.scratch IN ACCESS EXCLUSIVE MODE")
    rows, total = work.digest("scratch", "true")
    work.run("TRUNCATE public.scratch")
    work.note("scratch", -rows, -total)


def define(work: Work, chance: Random) -> None:
    """Adds or drops a column, and writes rows before and after it in the same transaction.

    Does nothing without event triggers, because DDL that is noticed later loses changes made meanwhile.
    """
    if not work.run("SELECT 1 FROM pg_event_trigger LIMIT 1"):
        return
    value(work, chance)
    name = f"extra_{chance.randint(1, 3)}"
    exists = work.run("SELECT 1 FROM pg_attribute WHERE attrelid = 'public.changing'::regclass AND attname = %s"
                      " AND NOT attisdropped", name)  # fmt: skip
    if exists:
        work.run(f"ALTER TABLE public.changing DROP COLUMN {name}")
    else:
        work.run(f"ALTER TABLE public.changing ADD COLUMN {name} text DEFAULT 'as it was'")
    value(work, chance)


def sow(work: Work, chance: Random) -> None:
    """Writes rows of one or two partitions."""
    first = chance.randint(0, KEYS)
    work.change(
        "parted", "INSERT INTO public.parted SELECT g, %s FROM generate_series(%s::int, %s::int) g"
        " ON CONFLICT (id) DO UPDATE SET v = excluded.v", chance.choice(TEXTS), first, first + chance.randint(0, 8),
    )  # fmt: skip
    if chance.random() < 0.3:
        work.change("parted", "DELETE FROM public.parted WHERE id BETWEEN %s AND %s", first := chance.randint(0, KEYS),
                    first + 5)  # fmt: skip


def part(work: Work, chance: Random) -> None:
    """Drops and makes a partition, or detaches, changes and attaches it."""
    name, (low, high) = chance.choice(sorted(PARTITIONS.items()))
    bounds = f"FOR VALUES FROM ({low}) TO ({high})"
    work.run("LOCK TABLE public.parted IN ACCESS EXCLUSIVE MODE")
    before = work.digest("parted", "id >= %s AND id < %s", low, high)
    if not before[0]:
        sow(work, chance)
        return
    if chance.random() < 0.7:
        work.run(f"DROP TABLE public.{name}")
        work.run(f"CREATE TABLE public.{name} PARTITION OF public.parted {bounds}")
        if chance.random() < 0.7:
            work.run(f"INSERT INTO public.parted SELECT g, 'again' FROM generate_series({low}, {high - 1}, 3) g")
    else:
        work.run(f"ALTER TABLE public.parted DETACH PARTITION public.{name}")
        work.run(f"UPDATE public.{name} SET v = 'apart' WHERE id % 2 = 0")
        work.run(f"ALTER TABLE public.parted ATTACH PARTITION public.{name} {bounds}")
    after = work.digest("parted", "id >= %s AND id < %s", low, high)
    work.note("parted", after[0] - before[0], after[1] - before[1])
    work.events.append(PARTITION_GONE)


def visit(work: Work, chance: Random) -> None:
    """Writes rows of the table that joins during a fault run, if it exists."""
    if work.run("SELECT to_regclass(%s)", JOINING) == (None,):
        return
    key = chance.randint(1, 700)
    work.run(
        f"INSERT INTO {JOINING} VALUES (%s, %s, {STAMP}) ON CONFLICT (id)"
        " DO UPDATE SET v = excluded.v, version = excluded.version", key, chance.choice(TEXTS),
    )  # fmt: skip
    if chance.random() < 0.3:
        work.run(f"DELETE FROM {JOINING} WHERE id BETWEEN %s AND %s", key + 1, key + 3)
    if chance.random() < 0.2:
        work.run(f"UPDATE {JOINING} SET id = -id, version = {STAMP} WHERE id = %s AND NOT EXISTS"
                 f" (SELECT FROM {JOINING} WHERE id = %s)", key, -key)  # fmt: skip


def feel(work: Work, chance: Random) -> None:
    """Writes a row with any label of the enum."""
    labels = "enum_range(NULL::public.feeling)"
    any_label = f"({labels})[1 + floor(%s * cardinality({labels}))::int]"
    work.change(
        "moods", f"INSERT INTO public.moods VALUES (%s, {any_label}, {STAMP})"
        " ON CONFLICT (id) DO UPDATE SET mood = excluded.mood, version = excluded.version",
        chance.randint(1, KEYS), chance.random(),
    )  # fmt: skip


def label(work: Work, chance: Random) -> None:
    """Adds a label at any place, or renames one. No name is used twice."""
    (name,) = work.run(f"SELECT 'l''{chance.randint(0, 9)} ' || {STAMP}")
    (labels,) = work.run("SELECT enum_range(NULL::public.feeling)::text[]")
    one, new = (text.replace("'", "''") for text in (chance.choice(labels), name))
    if len(labels) < LABELS and chance.random() < 0.6:
        work.run(f"ALTER TYPE public.feeling ADD VALUE '{new}' {chance.choice(('BEFORE', 'AFTER'))} '{one}'")
        work.events.append(LABEL_ADDED)
    else:
        # Without the lock a writer may hold the type for longer than the rename waits, see docs/capture.md.
        work.run("LOCK TABLE public.moods IN SHARE ROW EXCLUSIVE MODE")
        work.run(f"ALTER TYPE public.feeling RENAME VALUE '{one}' TO '{new}'")
        work.events.append(LABEL_RENAMED)


def pour(work: Work, chance: Random, rows: tuple[int, int] = (200, 2500)) -> None:
    """Writes more rows than fit a window in the driver, so that the window is staged and divided into slices."""
    first, count, width = chance.randint(1, 6_000), chance.randint(*rows), chance.randint(5, 120)
    work.change(
        "bulk", f"INSERT INTO public.bulk SELECT g, repeat(md5(g::text), %s) , {STAMP}"
        " FROM generate_series(%s::int, %s::int) g ON CONFLICT (id) DO UPDATE SET payload = excluded.payload,"
        " version = excluded.version", width // 32 + 1, first, first + count,
    )  # fmt: skip
    if chance.random() < 0.6:
        start = chance.randint(1, 6_000)
        work.change("bulk", f"UPDATE public.bulk SET payload = payload || 'x', version = {STAMP}"
                    " WHERE id BETWEEN %s AND %s", start, start + count // 2)  # fmt: skip
    if chance.random() < 0.5:
        start = chance.randint(1, 6_000)
        work.change("bulk", "DELETE FROM public.bulk WHERE id BETWEEN %s AND %s", start, start + count // 2)
    if chance.random() < 0.3:
        start = chance.randint(1, 6_000)
        work.change(
            "bulk", f"UPDATE public.bulk SET id = -id, version = {STAMP} WHERE id BETWEEN %s AND %s"
            " AND NOT EXISTS (SELECT FROM public.bulk o WHERE o.id = -bulk.id)", start, start + 200,
        )  # fmt: skip


Operation = Callable[[Work, Random], None]

SMALL: tuple[Operation, ...] = (
    transfer, transfer, transfer, interest, rename, shift, replace, sit, sit, rotate, swap, stand, order, order,
    cascade, scribble, scratch, value, sow, feel, visit,
)  # fmt: skip
"""Operations of short transactions. Those that are listed several times are chosen more often."""
