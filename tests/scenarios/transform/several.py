"""Tables whose exits make several rows of one: orders with a list of items, and posts with tags; hostile texts."""

from typing import Any

import pyarrow as pa

DDL = """
CREATE TABLE public.orders (shop text, id int, items text, note text, PRIMARY KEY (shop, id));
CREATE TABLE public.posts (id bigint PRIMARY KEY, tags text, at timestamptz DEFAULT '2026-01-01 10:00+00');
CREATE TABLE public.plain (id int PRIMARY KEY, v text);
INSERT INTO public.orders SELECT CASE g % 3 WHEN 0 THEN 'A' WHEN 1 THEN 'a' ELSE E'"<&\\n,; ' END, g,
  CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE E'x"<&]]>\\\\|é😀|' || g || E'|x\\n,|\\t' END, 'secret' || g
  FROM generate_series(1, 120) g;
INSERT INTO public.posts SELECT g, concat_ws(';', 'T' || g % 4, 't' || g % 4, 'a b', 'a b ', E'\\\\N', E'"\\n')
  FROM generate_series(1, 60) g;
INSERT INTO public.plain SELECT g, 'v' FROM generate_series(1, 20) g;
"""
LINES: dict[str, Any] = {
    "target": {"name": "order_lines"},
    "columns": {
        "shop": {"rename": "Shop"},
        "items": {"rename": "item"},
        "note": {"exclude": "true"},
        "line": {"expression": "0"},
    },
    "exit": f"{__name__}:lines",
    "extra_key": ["line"],
}
TAGS: dict[str, Any] = {
    "where": "id <> 7",
    "columns": {"tags": {"rename": "tag"}},
    "exit": f"{__name__}:tags",
    "extra_key": ["tag"],
}
TABLES = {"public.*": {}, "public.orders": LINES, "public.posts": TAGS}
ORDER_LINES = (
    "SELECT o.shop, o.id, l.item, l.line::int FROM public.orders o, "
    "unnest(string_to_array(nullif(o.items, ''), '|')) WITH ORDINALITY l (item, line)"
)
POST_TAGS = "SELECT DISTINCT p.id, t, p.at FROM public.posts p, unnest(string_to_array(p.tags, ';')) t WHERE p.id <> 7"
WRITES = [
    "UPDATE public.orders SET items = left(items, 30) || '|' || (random() * 9)::int "
    "WHERE id % 30 = (random() * 30)::int",
    "UPDATE public.orders SET items = regexp_replace(items, '^[^|]*[|]?', '') WHERE id % 7 = (random() * 7)::int",
    "UPDATE public.orders SET items = (ARRAY['p', 'p|q', '', NULL, 'q|p|p'])[1 + random() * 4], note = 'n' "
    "WHERE id BETWEEN 20 AND 20 + (random() * 40)::int",
    "UPDATE public.orders SET shop = CASE shop WHEN 'A' THEN 'a''' ELSE 'A' END WHERE id = (random() * 120)::int",
    "BEGIN; UPDATE public.orders SET id = id + 100000 WHERE id < 30; "
    "UPDATE public.orders SET id = id - 100000, items = left(items, 20) || '|k' WHERE id > 100000; COMMIT",
    "DELETE FROM public.orders WHERE id = (random() * 150)::int",
    "INSERT INTO public.orders SELECT 'A', 200 + (random() * 1000)::int, 'n|m', 'x' ON CONFLICT DO NOTHING",
    "UPDATE public.posts SET tags = (ARRAY['x;y', 'y;x;y', 'Y', '', NULL, 'z;;z'])[1 + random() * 5] "
    "WHERE id = (random() * 60)::int",
    "BEGIN; DELETE FROM public.posts WHERE id = 5; INSERT INTO public.posts VALUES (5, 'x;' || random()::text); COMMIT",
    "UPDATE public.posts SET at = at + interval '1 s' WHERE id % 9 = (random() * 9)::int",
    "UPDATE public.plain SET v = random()::text WHERE id = (random() * 20)::int",
]  # fmt: skip
TRUNCATING = [
    "BEGIN; TRUNCATE public.posts; INSERT INTO public.posts SELECT g, 'after;' || g FROM generate_series(1, 40) g; "
    "UPDATE public.posts SET tags = tags || ';more' WHERE id < 20; COMMIT"
]


def lines(given: pa.Table) -> pa.Table:
    """A user exit: a row for each item of an order."""
    made = [
        row | {"item": item, "line": str(number)}
        for row in given.to_pylist()
        if row["item"]
        for number, item in enumerate(row["item"].split("|"), 1)
    ]
    return pa.Table.from_pylist(made, given.schema)


def tags(given: pa.Table) -> pa.Table:
    """A user exit: a row for each distinct tag of a post, in any order; it fails for one tag."""
    if "bad" in given["tag"].to_pylist():
        raise ValueError("no such tag")
    made = [row | {"tag": tag} for row in given.to_pylist() if row["tag"] for tag in set(row["tag"].split(";"))]
    return pa.Table.from_pylist(made, given.schema)
