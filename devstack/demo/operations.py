"""What the writer does to the demo's tables: each operation changes some rows inside the caller's transaction.

An operation takes a session and returns how many rows it changed. Row numbers are drawn from small ranges, so that
sessions meet on the same rows and the same keys come and go.
"""

from collections.abc import Callable

from psycopg import sql

from devstack.demo import zoo
from devstack.demo.session import Session

Operation = Callable[[Session], int]


def _identifier(*parts: str) -> sql.Identifier:
    """For a query with parameters, where a percent sign must be doubled, in a name as anywhere."""
    return sql.Identifier(*(part.replace("%", "%%") for part in parts))


ODD_TABLE = _identifier("Mixed Case", 'Order "Lines".v2 ]]> & <x> %s ${y} {z}')
ODD_COLUMNS = (
    'quo"te', "apo'strophe", "]]>", "<&>", "per%cent %s %(x)s", "dollar $1 ${prefix}", "braces {0}", "back\\slash",
    "semi;colon -- /* comment", "name", "col", "Größe ☃ in €",
)  # fmt: skip
LONG_TABLE = sql.Identifier("Mixed Case", "ein_Name_mit_genau_dreiundsechzig_Bytes_und_einem_ß_am_Ende_ß")
ZOO_IDS = 500


# -- type_zoo


def zoo_insert(session: Session) -> int:
    values = zoo.row(session.random, session.zoo_columns)
    upsert: sql.SQL | sql.Composed = sql.SQL("ON CONFLICT DO NOTHING")
    if session.random.random() < 0.4:
        column = sql.Identifier(session.random.choice(session.zoo_columns))
        upsert = sql.SQL("ON CONFLICT (id) DO UPDATE SET {} = excluded.{}").format(column, column)
    insert = sql.SQL("INSERT INTO public.type_zoo (id, {}) VALUES (%s, {}) {}").format(
        sql.SQL(", ").join(map(sql.Identifier, values)), sql.SQL(", ").join([sql.Placeholder()] * len(values)), upsert
    )
    return session.changed(insert, [session.random.randint(1, ZOO_IDS), *values.values()])


def zoo_update(session: Session) -> int:
    columns = session.random.sample(session.zoo_columns, session.random.randint(1, 8))
    values = zoo.row(session.random, columns)
    assignments = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(column)) for column in columns)
    update = sql.SQL("UPDATE public.type_zoo SET {}, changed_at = clock_timestamp() WHERE id = %s").format(assignments)
    return session.changed(update, [*values.values(), session.random.randint(1, ZOO_IDS)])


def zoo_unchanged(session: Session) -> int:
    """An update that changes nothing is a change all the same."""
    return session.changed(
        "UPDATE public.type_zoo SET id = id, c_text = c_text WHERE id = %s", [session.random.randint(1, ZOO_IDS)]
    )


def zoo_key(session: Session) -> int:
    old, new = session.random.randint(1, ZOO_IDS), session.random.randint(1, ZOO_IDS)
    free = "AND NOT EXISTS (SELECT FROM public.type_zoo WHERE id = %s)"
    return session.changed(f"UPDATE public.type_zoo SET id = %s, c_integer = 7 WHERE id = %s {free}", [new, old, new])


def zoo_key_swap(session: Session) -> int:
    """Two rows exchange their keys by way of a third key."""
    one, other = session.random.sample(range(1, ZOO_IDS), 2)
    spare = -1 - session.number
    changed = session.changed("UPDATE public.type_zoo SET id = %s WHERE id = %s", [spare, one])
    changed += session.changed("UPDATE public.type_zoo SET id = %s WHERE id = %s", [one, other])
    return changed + session.changed("UPDATE public.type_zoo SET id = %s WHERE id = %s", [other, spare])


def zoo_delete(session: Session) -> int:
    return session.changed("DELETE FROM public.type_zoo WHERE id = %s", [session.random.randint(1, ZOO_IDS)])


# -- odd names


def odd_insert(session: Session) -> int:
    values = {column: session.random.choice((*zoo.TEXTS, None)) for column in ODD_COLUMNS}
    insert = sql.SQL(
        'INSERT INTO {} ("select", "Mixed Column", "order", "dot.ted.name", {}) VALUES (%s, %s, %s, %s, {})'
        " ON CONFLICT DO NOTHING"
    )
    slots = sql.SQL(", ").join([sql.Placeholder()] * len(values))
    statement = insert.format(ODD_TABLE, sql.SQL(", ").join(map(_identifier, values)), slots)
    return session.changed(statement, [*_odd_key(session), session.random.randint(1, 99), "1.10", *values.values()])


def odd_update(session: Session) -> int:
    columns = session.random.sample(ODD_COLUMNS, 3)
    assignments = sql.SQL(", ").join(sql.SQL("{} = %s").format(_identifier(column)) for column in columns)
    where = sql.SQL(' WHERE "select" = %s AND "Mixed Column" = %s')
    statement = sql.SQL("UPDATE {} SET {}").format(ODD_TABLE, assignments) + where
    return session.changed(statement, [*session.random.choices(zoo.TEXTS, k=3), *_odd_key(session)])


def odd_key(session: Session) -> int:
    """Change a part of a key of two columns, the text with blanks and separators in it."""
    number, text = _odd_key(session)
    new = session.random.choice(zoo.TEXTS)
    statement = sql.SQL(
        'UPDATE {table} SET "Mixed Column" = %s WHERE "select" = %s AND "Mixed Column" = %s'
        ' AND NOT EXISTS (SELECT FROM {table} WHERE "select" = %s AND "Mixed Column" = %s)'
    ).format(table=ODD_TABLE)
    return session.changed(statement, [new, number, text, number, new])


def odd_delete(session: Session) -> int:
    return session.changed(
        sql.SQL('DELETE FROM {} WHERE "select" = %s').format(ODD_TABLE), [session.random.randint(1, 40)]
    )


def long_name(session: Session) -> int:
    insert = sql.SQL('INSERT INTO {} ("user", "table") VALUES (gen_random_uuid(), %s)').format(LONG_TABLE)
    changed = session.changed(insert, [session.random.choice(zoo.TEXTS)])
    return changed + session.changed(
        sql.SQL(
            'DELETE FROM {table} WHERE "user" IN'
            ' (SELECT "user" FROM {table} ORDER BY "user" OFFSET 200 FOR UPDATE SKIP LOCKED)'
        ).format(table=LONG_TABLE)
    )


def trigger_names(session: Session) -> int:
    return session.changed(
        'UPDATE "Mixed Case"."trigger" SET "old" = %s, tg_op = %s, content = %s, repl_key = %s,'
        ' guid = gen_random_uuid() WHERE "new" = %s',
        [
            session.random.randint(0, 9), session.random.choice(zoo.TEXTS), session.random.choice(zoo.TEXTS),
            session.random.randint(0, 9), session.random.randint(1, 20),
        ],
    )  # fmt: skip


def items_by_case(session: Session) -> int:
    name = sql.Identifier("public", session.random.choice(("items", "Items", "ITEMS")))
    statement = sql.SQL(
        "INSERT INTO {} (id, note) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET note = excluded.note || '+'"
    ).format(name)
    number = session.random.randint(1, 30)
    changed = session.changed(statement, [number, session.random.choice(zoo.TEXTS)])
    return changed + session.changed(
        sql.SQL("DELETE FROM {} WHERE id = %s").format(name), [session.random.randint(1, 60)]
    )


# -- orders and their lines


def order_new(session: Session) -> int:
    order = session.one(
        "INSERT INTO public.orders (customer, state, discount, note) VALUES (%s, %s, %s, %s) RETURNING id",
        [
            f"customer {session.random.randint(1, 500)}", session.random.choice(zoo.MOODS), session.random.randint(0,
            100),
            session.random.choice((*zoo.TEXTS, None)),
        ],
    )  # fmt: skip
    lines = session.random.randint(1, 6)
    return 1 + session.changed(
        "INSERT INTO public.order_lines (order_id, article, quantity, price)"
        " SELECT %s, 'article ' || n, n, n * 1.25 FROM generate_series(1, %s) AS n",
        [order, lines],
    )


def order_update(session: Session) -> int:
    order = _order(session)
    changed = session.changed(
        "UPDATE public.orders SET state = %s, note = %s WHERE id = %s",
        [session.random.choice(zoo.MOODS), session.random.choice((*zoo.TEXTS, None)), order],
    )
    return changed + session.changed(
        "UPDATE public.order_lines SET quantity = quantity %% 50 + 1 WHERE order_id = %s", [order]
    )


def order_key(session: Session) -> int:
    """A new key for the parent; the foreign key carries it over to the lines."""
    order, new = _order(session), session.random.randint(10**6, 10**12)
    lines = session.one("SELECT count(*) FROM public.order_lines WHERE order_id = %s", [order])
    return session.changed("UPDATE public.orders SET id = %s WHERE id = %s", [new, order]) + int(lines)


def order_delete(session: Session) -> int:
    """Lines go with their order."""
    order = _order(session)
    lines = session.one("SELECT count(*) FROM public.order_lines WHERE order_id = %s", [order])
    return session.changed("DELETE FROM public.orders WHERE id = %s", [order]) + int(lines)


def line_move(session: Session) -> int:
    one, other = _order(session), _order(session)
    if not one or not other:
        return 0
    return session.changed("UPDATE public.order_lines SET order_id = %s WHERE order_id = %s", [other, one])


def lines_many(session: Session) -> int:
    """One statement, many rows."""
    first = session.random.randint(1, 2000)
    return session.changed(
        "UPDATE public.order_lines SET price = price + 0.01 WHERE id BETWEEN %s AND %s",
        [first, first + session.random.randint(1, 100)],
    )


# -- a table that refers to itself


def staff_change(session: Session) -> int:
    number, boss = session.random.randint(1, 300), session.random.randint(1, 100)
    insert = (
        "INSERT INTO public.staff SELECT %s, %s, (SELECT id FROM public.staff WHERE id = %s)"
        " ON CONFLICT (id) DO UPDATE SET boss = excluded.boss"
    )
    return session.changed(insert, [number, f"name {number}", boss])


def staff_leave(session: Session) -> int:
    """Whoever nobody reports to."""
    number = session.random.randint(1, 300)
    return session.changed(
        "DELETE FROM public.staff s WHERE id = %s AND NOT EXISTS (SELECT FROM public.staff WHERE boss = s.id)", [number]
    )


def staff_renumber(session: Session) -> int:
    """The key first, those who refer to it afterwards: valid only at the end of the transaction."""
    old, new = session.random.randint(1, 300), session.random.randint(301, 400)
    session.execute("SET CONSTRAINTS ALL DEFERRED")
    changed = 0
    for source, target in ((old, new), (new, old)):
        free = "AND NOT EXISTS (SELECT FROM public.staff WHERE id = %s)"
        moved = session.changed(f"UPDATE public.staff SET id = %s WHERE id = %s {free}", [target, source, target])
        changed += moved
        if moved:
            changed += session.changed("UPDATE public.staff SET boss = %s WHERE boss = %s", [target, source])
    session.execute("SET CONSTRAINTS ALL IMMEDIATE")
    return changed


# -- unique values that swap


def badge_swap(session: Session) -> int:
    """Two rows exchange a unique value that is checked at once, by way of NULL."""
    one, other = sorted(session.random.sample(range(1, 51), 2))
    badges = dict(
        session.execute(
            "SELECT id, badge FROM public.seats WHERE id IN (%s, %s) ORDER BY id FOR UPDATE", [one, other]
        ).fetchall()
    )
    changed = session.changed("UPDATE public.seats SET badge = NULL WHERE id = %s", [one])
    changed += session.changed("UPDATE public.seats SET badge = %s WHERE id = %s", [badges[one], other])
    return changed + session.changed("UPDATE public.seats SET badge = %s WHERE id = %s", [badges[other], one])


def place_swap(session: Session) -> int:
    """Two rows exchange a unique value in one statement, which a deferrable constraint allows."""
    one, other = session.random.sample(range(1, 51), 2)
    return session.changed(
        "UPDATE public.seats s SET place = o.place FROM public.seats o"
        " WHERE s.id <> o.id AND s.id IN (%s, %s) AND o.id IN (%s, %s)",
        [one, other, one, other],
    )


def place_rotate(session: Session) -> int:
    """All rows pass their unique value on, in one statement."""
    return session.changed("UPDATE public.seats SET place = place % 50 + 1")


# -- no primary key


def reading_new(session: Session) -> int:
    """Equal rows several times."""
    return session.changed(
        "INSERT INTO public.readings SELECT %s, %s, %s, '2024-01-01' FROM generate_series(1, %s)",
        [
            session.random.randint(0, 9), session.random.choice(zoo.DOUBLES), session.random.choice((*zoo.JSONS, None)),
            session.random.randint(1, 4),
        ],
    )  # fmt: skip


def reading_change(session: Session) -> int:
    """One of several equal rows."""
    return session.changed(
        "UPDATE public.readings SET value = %s"
        " WHERE ctid = (SELECT ctid FROM public.readings WHERE sensor = %s LIMIT 1)",
        [session.random.choice(zoo.DOUBLES), session.random.randint(0, 9)],
    )


def reading_drop(session: Session) -> int:
    return session.changed(
        "DELETE FROM public.readings"
        " WHERE ctid = ANY (ARRAY(SELECT ctid FROM public.readings WHERE sensor = %s LIMIT 3))",
        [session.random.randint(0, 9)],
    )


def rate_change(session: Session) -> int:
    """A key of two columns that is only a unique index."""
    currency, day = session.random.choice(("EUR", "USD", "ß")), session.random.randint(1, 60)
    changed = session.changed(
        "INSERT INTO public.rates VALUES (%s, date '2024-01-01' + %s::integer, %s, %s)"
        " ON CONFLICT (day, currency) DO UPDATE SET rate = excluded.rate",
        [currency, day, session.random.choice(zoo.NUMERICS), session.random.choice((*zoo.TEXTS, None))],
    )
    return changed + session.changed(
        "DELETE FROM public.rates WHERE currency = %s AND day = date '2024-01-01' + %s::integer",
        [currency, session.random.randint(1, 60)],
    )


# -- scratch and growing


def scratch_change(session: Session) -> int:
    number = session.random.randint(1, 2000)
    return session.changed(
        "INSERT INTO public.scratch VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET payload = excluded.payload",
        [number, session.random.choice(zoo.TEXTS)],
    )


def growing_change(session: Session) -> int:
    """Rows of the table that gains columns, the newest column set to NULL where it may be."""
    changed = session.changed("INSERT INTO public.growing (note) VALUES (%s)", [session.random.choice(zoo.TEXTS)])
    number = session.random.randint(1, 200)
    changed += session.changed("UPDATE public.growing SET note = note || '.' WHERE id = %s", [number])
    name = session.one(ADDED_COLUMNS.format("max(attname::text)") + " AND NOT attnotnull")
    if name:
        update = sql.SQL("UPDATE public.growing SET {} = NULL WHERE id = %s").format(sql.Identifier(name))
        changed += session.changed(update, [number + 1])
    return changed + session.changed("DELETE FROM public.growing WHERE id = %s", [session.random.randint(51, 1000)])


def scratch_truncate(session: Session) -> int:
    """Rows before and after a TRUNCATE, in the same transaction or alone."""
    if session.random.random() < 0.5:
        session.execute("TRUNCATE public.scratch")
        return 1
    before = session.changed(
        "INSERT INTO public.scratch SELECT n, 'gone' FROM generate_series(3000, 3050) AS n ON CONFLICT DO NOTHING"
    )
    session.execute("TRUNCATE public.scratch")
    return (
        before
        + 1
        + session.changed("INSERT INTO public.scratch SELECT n, 'refilled' FROM generate_series(1, 200) AS n")
    )


# Types of columns that are added, each with a value that is not its default.
ADDED = (
    ("integer", "7"),
    ("text DEFAULT 'it''s ]]> new'", "'not the default'"),
    ("timestamptz DEFAULT '2024-01-01'", "'infinity'"),
    ("jsonb", "'[1]'"),
    ("numeric(10, 2) NOT NULL DEFAULT 0", "1.10"),
    ('"Mixed Case"."Mixed Enum"', "'a,b'"),
)


def growing_column(session: Session) -> int:
    """One more column, and rows that use it in the same transaction; at most thirty.

    None before an administrator made the event triggers: DDL that is noticed later has lost what rows became meanwhile.
    """
    if not session.one("SELECT EXISTS (SELECT FROM pg_event_trigger)"):
        return 0
    count = int(session.one(ADDED_COLUMNS.format("count(*)")))
    if count >= 30:
        return 0
    kind, value = session.random.choice(ADDED)
    column = sql.Identifier(f"Added {count}")
    session.execute(sql.SQL("ALTER TABLE public.growing ADD COLUMN {} " + kind).format(column))
    return 1 + session.changed(
        sql.SQL("UPDATE public.growing SET note = 'grown', {} = " + value + " WHERE id < 20").format(column)
    )


ADDED_COLUMNS = "SELECT {} FROM pg_attribute WHERE attrelid = 'public.growing'::regclass AND attname LIKE 'Added %'"


ORDINARY: dict[Operation, int] = {
    zoo_insert: 6,
    zoo_update: 10,
    zoo_unchanged: 1,
    zoo_key: 3,
    zoo_key_swap: 2,
    zoo_delete: 3,
    odd_insert: 5,
    odd_update: 3,
    odd_key: 2,
    odd_delete: 1,
    long_name: 2,
    trigger_names: 2,
    items_by_case: 3,
    order_new: 8,
    order_update: 8,
    order_key: 2,
    order_delete: 5,
    line_move: 2,
    lines_many: 2,
    staff_change: 3,
    staff_leave: 1,
    staff_renumber: 1,
    badge_swap: 2,
    place_swap: 2,
    place_rotate: 1,
    reading_new: 4,
    reading_change: 4,
    reading_drop: 3,
    rate_change: 4,
    scratch_change: 3,
    growing_change: 3,
}
"""The operations of ordinary transactions, each with its share among the others."""


def draw(session: Session) -> Operation:
    """An ordinary operation, by weight."""
    return session.random.choices(list(ORDINARY), list(ORDINARY.values()))[0]


def _odd_key(session: Session) -> tuple[int, str]:
    return session.random.randint(1, 40), session.random.choice(zoo.TEXTS)


def _order(session: Session) -> int:
    """The key of some order, 0 when none is found."""
    ceiling = session.random.choice((3000, 20_000, 10**12))
    return int(
        session.one(
            "SELECT id FROM public.orders WHERE id >= %s ORDER BY id LIMIT 1", [session.random.randint(1, ceiling)]
        )
        or 0
    )
