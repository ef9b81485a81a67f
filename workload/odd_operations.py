"""Operations on rare things: values of every type, odd names, keys that are swapped or changed, self-references.

Row numbers come from small ranges, so that writers change the same rows and keys are reused.
"""

from random import Random

from psycopg import sql

from workload import zoo
from workload.operations import Operation, Work


def _identifier(*parts: str) -> sql.Identifier:
    """Returns an identifier for a query with parameters, in which percent signs must be doubled."""
    return sql.Identifier(*(part.replace("%", "%%") for part in parts))


ODD_TABLE = _identifier("Mixed Case", 'Order "Lines".v2 ]]> & <x> %s ${y} {z}')
ODD_COLUMNS = (
    'quo"te', "apo'strophe", "]]>", "<&>", "per%cent %s %(x)s", "dollar $1 ${prefix}", "braces {0}", "back\\slash",
    "semi;colon -- /* comment", "name", "col", "Größe ☃ in €",
)  # fmt: skip
LONG_TABLE = sql.Identifier("Mixed Case", "ein_Name_mit_genau_dreiundsechzig_Bytes_und_einem_ß_am_Ende_ß")
ZOO_IDS = 500
LONGEST_KEY = 700
"""The most characters of a text key that every vendor's index accepts."""
TEXTS = (*zoo.TEXTS, None)


def _slots(count: int) -> sql.Composed:
    return sql.SQL(", ").join([sql.Placeholder()] * count)


# -- type_zoo


def zoo_insert(work: Work, chance: Random) -> None:
    columns = zoo.columns(work.connection)
    values = zoo.row(chance, columns, work.portable)
    upsert: sql.SQL | sql.Composed = sql.SQL("ON CONFLICT DO NOTHING")
    if chance.random() < 0.4:
        column = sql.Identifier(chance.choice(columns))
        upsert = sql.SQL("ON CONFLICT (id) DO UPDATE SET {} = excluded.{}").format(column, column)
    names = sql.SQL(", ").join(map(sql.Identifier, values))
    insert = sql.SQL("INSERT INTO public.type_zoo (id, {}) VALUES (%s, {}) {}").format(
        names, _slots(len(values)), upsert
    )
    work.write(insert, chance.randint(1, ZOO_IDS), *values.values())


def zoo_update(work: Work, chance: Random) -> None:
    columns = chance.sample(zoo.columns(work.connection), chance.randint(1, 8))
    values = zoo.row(chance, columns, work.portable)
    assignments = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(column)) for column in columns)
    update = sql.SQL("UPDATE public.type_zoo SET {}, changed_at = clock_timestamp() WHERE id = %s").format(assignments)
    work.write(update, *values.values(), chance.randint(1, ZOO_IDS))


def zoo_unchanged(work: Work, chance: Random) -> None:
    """Updates a row with its own values, which is captured as a change."""
    work.write("UPDATE public.type_zoo SET id = id, c_text = c_text WHERE id = %s", chance.randint(1, ZOO_IDS))


def zoo_key(work: Work, chance: Random) -> None:
    old, new = chance.randint(1, ZOO_IDS), chance.randint(1, ZOO_IDS)
    free = "AND NOT EXISTS (SELECT FROM public.type_zoo WHERE id = %s)"
    work.write(f"UPDATE public.type_zoo SET id = %s, c_integer = 7 WHERE id = %s {free}", new, old, new)


def zoo_key_swap(work: Work, chance: Random) -> None:
    """Two rows exchange their keys through a third key."""
    one, other = chance.sample(range(1, ZOO_IDS), 2)
    spare = -1 - work.number
    for new, old in ((spare, one), (one, other), (other, spare)):
        work.write("UPDATE public.type_zoo SET id = %s WHERE id = %s", new, old)


def zoo_delete(work: Work, chance: Random) -> None:
    work.write("DELETE FROM public.type_zoo WHERE id = %s", chance.randint(1, ZOO_IDS))


# -- odd names


def odd_insert(work: Work, chance: Random) -> None:
    values = {column: chance.choice(TEXTS) for column in ODD_COLUMNS}
    insert = sql.SQL(
        'INSERT INTO {} ("select", "Mixed Column", "order", "dot.ted.name", {}) VALUES (%s, %s, %s, %s, {})'
        " ON CONFLICT DO NOTHING"
    ).format(ODD_TABLE, sql.SQL(", ").join(map(_identifier, values)), _slots(len(values)))
    work.write(insert, *_odd_key(work, chance), chance.randint(1, 99), "1.10", *values.values())


def odd_update(work: Work, chance: Random) -> None:
    columns = chance.sample(ODD_COLUMNS, 3)
    assignments = sql.SQL(", ").join(sql.SQL("{} = %s").format(_identifier(column)) for column in columns)
    where = sql.SQL(' WHERE "select" = %s AND "Mixed Column" = %s')
    statement = sql.SQL("UPDATE {} SET {}").format(ODD_TABLE, assignments) + where
    work.write(statement, *chance.choices(zoo.TEXTS, k=3), *_odd_key(work, chance))


def odd_key(work: Work, chance: Random) -> None:
    """Changes the second column of a two-column key, a text with spaces and separators."""
    number, text = _odd_key(work, chance)
    new = _key_text(work, chance)
    statement = sql.SQL(
        'UPDATE {table} SET "Mixed Column" = %s WHERE "select" = %s AND "Mixed Column" = %s'
        ' AND NOT EXISTS (SELECT FROM {table} WHERE "select" = %s AND "Mixed Column" = %s)'
    ).format(table=ODD_TABLE)
    work.write(statement, new, number, text, number, new)


def odd_delete(work: Work, chance: Random) -> None:
    work.write(sql.SQL('DELETE FROM {} WHERE "select" = %s').format(ODD_TABLE), chance.randint(1, 40))


def long_name(work: Work, chance: Random) -> None:
    insert = sql.SQL('INSERT INTO {} ("user", "table") VALUES (gen_random_uuid(), %s)').format(LONG_TABLE)
    work.write(insert, chance.choice(zoo.TEXTS))
    rest = 'DELETE FROM {} WHERE "user" IN (SELECT "user" FROM {} ORDER BY "user" OFFSET 200 FOR UPDATE SKIP LOCKED)'
    work.write(sql.SQL(rest).format(LONG_TABLE, LONG_TABLE))


def trigger_names(work: Work, chance: Random) -> None:
    work.write(
        'UPDATE "Mixed Case"."trigger" SET "old" = %s, tg_op = %s, content = %s, repl_key = %s,'
        ' guid = gen_random_uuid() WHERE "new" = %s',
        chance.randint(0, 9), chance.choice(zoo.TEXTS), chance.choice(zoo.TEXTS), chance.randint(0, 9),
        chance.randint(1, 20),
    )  # fmt: skip


def items_by_case(work: Work, chance: Random) -> None:
    name = sql.Identifier("public", chance.choice(("items", "Items", "ITEMS")))
    statement = sql.SQL(
        "INSERT INTO {} (id, note) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET note = excluded.note || '+'"
    ).format(name)
    work.write(statement, chance.randint(1, 30), chance.choice(zoo.TEXTS))
    work.write(sql.SQL("DELETE FROM {} WHERE id = %s").format(name), chance.randint(1, 60))


# -- a table that refers to itself


def staff_change(work: Work, chance: Random) -> None:
    number, boss = chance.randint(1, 300), chance.randint(1, 100)
    insert = (
        "INSERT INTO public.staff SELECT %s, %s, (SELECT id FROM public.staff WHERE id = %s)"
        " ON CONFLICT (id) DO UPDATE SET boss = excluded.boss"
    )
    work.write(insert, number, f"name {number}", boss)


def staff_leave(work: Work, chance: Random) -> None:
    """Deletes a person to whom nobody reports."""
    work.write(
        "DELETE FROM public.staff s WHERE id = %s AND NOT EXISTS (SELECT FROM public.staff WHERE boss = s.id)",
        chance.randint(1, 300),
    )


def staff_renumber(work: Work, chance: Random) -> None:
    """Changes a key before the rows that refer to it; the constraint is deferred to the end of the transaction."""
    old, new = chance.randint(1, 300), chance.randint(301, 400)
    work.run("SET CONSTRAINTS ALL DEFERRED")
    for source, target in ((old, new), (new, old)):
        free = "AND NOT EXISTS (SELECT FROM public.staff WHERE id = %s)"
        if work.write(f"UPDATE public.staff SET id = %s WHERE id = %s {free}", target, source, target):
            work.write("UPDATE public.staff SET boss = %s WHERE boss = %s", target, source)
    work.run("SET CONSTRAINTS ALL IMMEDIATE")


# -- no primary key, but a unique index; no key at all, and JSON


def rate_change(work: Work, chance: Random) -> None:
    """Changes a table whose key of two columns is only a unique index."""
    currency, day = chance.choice(("EUR", "USD", "ß")), chance.randint(1, 60)
    work.write(
        "INSERT INTO public.rates VALUES (%s, date '2024-01-01' + %s::integer, %s, %s)"
        " ON CONFLICT (day, currency) DO UPDATE SET rate = excluded.rate",
        currency, day, chance.choice(zoo.NUMERICS), chance.choice(TEXTS),
    )  # fmt: skip
    gone = "DELETE FROM public.rates WHERE currency = %s AND day = date '2024-01-01' + %s::integer"
    work.write(gone, currency, chance.randint(1, 60))


def reading_change(work: Work, chance: Random) -> None:
    """Inserts equal rows; updates one of several equal rows, and deletes others."""
    work.write(
        "INSERT INTO public.readings SELECT %s, %s, %s, '2024-01-01' FROM generate_series(1, %s)",
        chance.randint(0, 9), _double(work, chance), chance.choice((*zoo.JSONS, None)), chance.randint(1, 4),
    )  # fmt: skip
    some = "(SELECT ctid FROM public.readings WHERE sensor = %s LIMIT %s)"
    work.write(f"UPDATE public.readings SET value = %s WHERE ctid IN {some}", _double(work, chance),
               chance.randint(0, 9), 1)  # fmt: skip
    work.write(f"DELETE FROM public.readings WHERE ctid IN {some}", chance.randint(0, 9), 3)


ODD: tuple[Operation, ...] = (
    zoo_insert, zoo_insert, zoo_update, zoo_update, zoo_update, zoo_unchanged, zoo_key, zoo_key_swap, zoo_delete,
    odd_insert, odd_insert, odd_update, odd_key, odd_delete, long_name, trigger_names, items_by_case, staff_change,
    staff_leave, staff_renumber, rate_change, rate_change, reading_change, reading_change,
)  # fmt: skip
"""Operations that are listed several times are chosen more often."""


def _odd_key(work: Work, chance: Random) -> tuple[int, str]:
    return chance.randint(1, 40), _key_text(work, chance)


def _key_text(work: Work, chance: Random) -> str:
    texts = [text for text in zoo.TEXTS if len(text) <= LONGEST_KEY] if work.portable else zoo.TEXTS
    return chance.choice(texts)


def _double(work: Work, chance: Random) -> str:
    return chance.choice([text for text in zoo.DOUBLES if zoo.portable(text)] if work.portable else zoo.DOUBLES)
