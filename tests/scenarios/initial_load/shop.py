"""Tables of every kind, with rows, for loads while the apply runs."""

import random
import time
from collections.abc import Iterable

from tests.rig.rig import Rig
from tests.scenarios.initial_load.traffic import Writable

ORDERS = Writable("public.orders", ("id",), "floor(random() * 9000)::int")
NOTES = Writable("public.notes", ("a", "b"), "floor(random() * 90)::int, chr(65 + floor(random() * 99)::int)")
SCRATCH = Writable("public.scratch", ("id",), "floor(random() * 3000)::int")
HEAP = Writable("public.heap", (), "")


def make_shop(pair: Rig) -> None:
    pair.master.execute("CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.orders SELECT g, repeat(md5(g::text), 4) FROM generate_series(1, 4000) g")
    pair.master.execute("CREATE TABLE public.notes (b text, a int, v text, PRIMARY KEY (a, b))")
    pair.master.execute(
        "INSERT INTO public.notes SELECT chr(65 + (g / 90)::int), g % 90, 'old' FROM generate_series(1, 3000) g"
    )
    pair.master.execute("CREATE TABLE public.scratch (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.scratch SELECT g, 'old' FROM generate_series(1, 1500) g")
    pair.master.execute("CREATE TABLE public.heap (v text, n int)")
    pair.master.execute("INSERT INTO public.heap SELECT 'v' || g % 5, g % 2 FROM generate_series(1, 300) g")
    pair.master.execute("CREATE TABLE public.doomed AS SELECT g AS id FROM generate_series(1, 1000) g")
    pair.master.execute("ALTER TABLE public.doomed ADD PRIMARY KEY (id)")


def disturb(pair: Rig, more: Iterable[str] = ()) -> None:
    """Empties, alters and drops tables of the shop on the master, with pauses; calls `more` in the middle of it."""
    chance = random.Random(5)
    for statement in (
        "TRUNCATE public.scratch",
        "ALTER TABLE public.notes ADD COLUMN w int DEFAULT 4",
        "INSERT INTO public.scratch SELECT g, 'new' FROM generate_series(1, 2500) g ON CONFLICT DO NOTHING",
        "DROP TABLE public.doomed",
        "ALTER TABLE public.orders ALTER COLUMN v SET DEFAULT 'd', ADD COLUMN extra text",
        *more,
        "TRUNCATE public.heap",
        "ALTER TABLE public.notes DROP COLUMN w",
    ):
        time.sleep(chance.random() * 0.3)
        pair.master.execute(statement.encode())
