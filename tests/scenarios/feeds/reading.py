"""Shared by tests of data sources: sessions of Spark, a table of many types, and the expected rows."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy

from spark_jobs.server import ConnectServer
from spark_jobs.sources import register
from tests.rig.rig import Rig

TYPES = """
CREATE TYPE public.mood AS ENUM ('glad', 'so-so');
CREATE TABLE public.types (
    id bigint PRIMARY KEY, s smallint, n numeric(12,3), "Any ""x""Number" numeric, f double precision, r real,
    b boolean, t text, c char(5), v varchar(20), y bytea, d date, ts timestamp, tz timestamptz, u uuid, j jsonb,
    a int[], m public.mood, "select" text, g bigint GENERATED ALWAYS AS (id * 2) STORED
)
"""
HOSTILE = r"""
INSERT INTO public.types VALUES
    (1, -3, 1234.567, 123456789012345678901234567890.5, 'NaN', 'Infinity', true, E'a\nb,"c";\t\x01]]>', 'ab', '',
     '\x00ff22', '2024-02-29', '2024-02-29 12:34:56.123456', '2024-02-29 12:34:56.123456+02',
     '00000000-0000-0000-0000-000000000001',
     '{"a": [1, null]}', '{1,NULL,3}', 'so-so', '<col name="t">&amp;</col>'),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, 0, 0, 0, 0, 0, false, '', '', '\.', '', '1999-12-31', '1999-12-31 23:59:59', '1999-12-31 23:59:59+00',
     '00000000-0000-0000-0000-000000000002', '""', '{}', 'glad', repeat('ä', 100000))
"""


@contextmanager
def session_of(server: ConnectServer) -> Iterator[SparkSession]:
    session: SparkSession = SparkSession.builder.remote(server.url).create()
    # Of a server that was killed nobody waits for an answer.
    session.client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=1000)])
    try:
        yield session
    finally:
        session.stop()


def registered(session: SparkSession, rig: Rig) -> None:
    register(session, "DEMO_", {"m": rig.master_info})


def as_plain(row: Row) -> dict[str, Any]:
    """A value whose NaN equals itself, and whose binary is bytes."""
    found = row.asDict()
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: object) -> object:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, float) and value != value:
        return "NaN"
    return value


def rows_of(rig: Rig) -> list[dict[str, Any]]:
    """The rows of public.types that Spark should show, read by the database driver."""
    names = [
        "id", "s", "n", 'Any "x"Number', "f", "r", "b", "t", "c", "v", "y", "d", "ts", "tz", "u", "j", "a", "m",
        "select",
    ]  # fmt: skip
    texts = {'Any "x"Number', "c", "u", "j", "a", "m"}
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
    listed = ", ".join(f"{quoted[name]}::text" if name in texts else quoted[name] for name in names)
    found = []
    for values in rig.master.execute(f"SELECT {listed} FROM public.types ORDER BY id".encode()).fetchall():
        row = dict(zip(names, values, strict=True))
        if row["s"] is None:
            row = dict.fromkeys(names) | {"id": row["id"]}
        else:
            row["tz"] = row["tz"].astimezone(datetime.UTC).replace(tzinfo=None)
        found.append({name: _plain(value) for name, value in row.items()})
    return found
