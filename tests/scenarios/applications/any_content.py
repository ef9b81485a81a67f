"""Rows for tables of any shape, written as the application would: what its constraints refuse is left out."""

import random
import uuid
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Json

COLUMNS = """
SELECT c.oid::regclass::text, a.attname::text, t.typname::text, a.atttypmod, a.attnotnull,
    a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a',
    (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum AS e WHERE e.enumtypid = a.atttypid),
    (SELECT array[o.confrelid::regclass::text, p.attname::text]
     FROM pg_constraint AS o JOIN pg_attribute AS p ON p.attrelid = o.confrelid AND p.attnum = o.confkey[1]
     WHERE o.conrelid = c.oid AND o.contype = 'f' AND o.conkey[1] = a.attnum AND cardinality(o.conkey) = 1
     ORDER BY o.oid LIMIT 1)
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid JOIN pg_type AS t ON t.oid = a.atttypid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
AND c.relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY c.oid, a.attnum
"""
TEXTS = ("", " ", "plain", "'quoted' \\ \"double\"", "é 😀\n\t", "NULL", "0", "x" * 300, "trailing ")


def write(session: psycopg.Connection[Any], seed: int, *without: str) -> int:
    """Some rows into each table of this account but `without`, changes of others, and deletions; how many worked.
    `session` is in autocommit mode: each change commits alone."""
    chance, done = random.Random(seed), 0
    tables: dict[str, list[Any]] = {}
    for table, *column in session.execute(COLUMNS).fetchall():
        if table not in without:
            tables.setdefault(table, []).append(column)
    for table, columns in tables.items():
        name = sql.SQL(table)
        for _ in range(3):
            values = {}
            for column in columns:
                if column[5] or (column[4] and chance.random() < 0.6):
                    continue
                values[column[0]] = _value(session, chance, column)
            names = sql.SQL(", ").join(map(sql.Identifier, values)) or sql.SQL("")
            marks = sql.SQL(", ").join([sql.Placeholder()] * len(values))
            query = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(name, names, marks)
            done += _tried(session, query, list(values.values())) if values else 0
        changed = chance.choice(columns)
        if not changed[5]:
            query = sql.SQL("UPDATE {} SET {} = %s WHERE random() < 0.5").format(name, sql.Identifier(changed[0]))
            done += _tried(session, query, [_value(session, chance, changed)])
        if chance.random() < 0.3:
            query = sql.SQL("DELETE FROM {} WHERE ctid = (SELECT max(ctid) FROM {})").format(name, name)
            done += _tried(session, query, [])
    return done


def remove(session: psycopg.Connection[Any], *without: str) -> None:
    """Empties all tables of this account but `without`."""
    tables = dict.fromkeys(table for table, *_ in session.execute(COLUMNS).fetchall() if table not in without)
    session.execute(sql.SQL("TRUNCATE {} CASCADE").format(sql.SQL(", ").join(map(sql.SQL, tables))))


def _tried(session: psycopg.Connection[Any], query: sql.Composed, values: list[Any]) -> bool:
    try:
        return session.execute(query, values).rowcount > 0
    except psycopg.Error:
        return False


def _value(session: psycopg.Connection[Any], chance: random.Random, column: list[Any]) -> Any:
    _, kind, length, required, _, _, labels, refers = column
    if not required and chance.random() < 0.25:
        return None
    if refers:
        parent, key = sql.SQL(refers[0]), sql.Identifier(refers[1])
        found = session.execute(sql.SQL("SELECT {} FROM {} ORDER BY random() LIMIT 1").format(key, parent)).fetchone()
        return found[0] if found else None
    if labels:
        return chance.choice(labels)
    if kind.startswith("_"):
        return "{}"
    if kind in ("text", "varchar", "bpchar"):
        text = chance.choice((*TEXTS, f"text {chance.randrange(10**6)}"))
        return text[: length - 4] if length > 4 else text
    if kind in ("json", "jsonb"):
        return Json(chance.choice(({}, [], {"k\\'": "\n é", "n": 1.5}, [1, None, "x"])))
    return {
        "bool": chance.random() < 0.5,
        "int2": chance.randrange(-100, 100),
        "int4": chance.randrange(10**6),
        "int8": chance.randrange(10**12),
        "float4": chance.randrange(100) / 8,
        "float8": chance.random(),
        "numeric": f"{chance.randrange(1000)}.{chance.randrange(10)}",
        "uuid": str(uuid.UUID(int=chance.getrandbits(128))),
        "bytea": chance.randbytes(chance.randrange(40)),
        "date": f"20{chance.randrange(10, 99)}-02-28",
        "timestamp": f"2026-03-29 02:{chance.randrange(10, 60)}:00.123456",
        "timestamptz": f"2026-03-29 02:{chance.randrange(10, 60)}:00.000001+05:30",
        "time": "23:59:59.999999",
        "interval": f"{chance.randrange(50)} days 00:00:01",
        "inet": f"10.0.0.{chance.randrange(255)}",
    }.get(kind)
