"""A table of people, of which a slave gets a part, and operations on it; two other tables without a transformation."""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

from sluice.vendors.postgres.connection import connect
from tests.rig.loaders import Background
from tests.rig.rig import Rig

PEOPLE = """
CREATE TABLE public.people (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "Name" text NOT NULL, country char(2), mail text UNIQUE,
  born date, salary numeric(10,2) CHECK (salary >= 0), notes jsonb);
CREATE INDEX by_country ON public.people (country);
CREATE INDEX by_salary ON public.people (salary);
CREATE INDEX by_name ON public.people (lower("Name"));
CREATE TABLE public.orders (id int PRIMARY KEY, person bigint REFERENCES public.people, sum numeric);
CREATE TABLE public.plain (id int PRIMARY KEY, v text);
INSERT INTO public.people ("Name", country, mail, born, salary, notes)
  SELECT 'n' || g, CASE WHEN g % 3 = 0 THEN 'CH' WHEN g % 3 = 1 THEN 'DE' END, 'hunter' || g || '@example.com',
         date '1970-01-01' + g, g, jsonb_build_object('g', g, 'text', E'a"b,\\n<&]]>')
  FROM generate_series(1, 400) g;
INSERT INTO public.orders SELECT g, g, g FROM generate_series(1, 100) g;
INSERT INTO public.plain SELECT g, E'x"\\n,' || g FROM generate_series(1, 100) g;
"""
TABLES = {
    "public.*": {},
    "public.people": {
        "where": "country = 'CH' OR salary > 300",
        "columns": {
            "Name": {"rename": "full name"},
            "mail": {"exclude": "true"},
            "salary": {"constant": "0.00"},
            "year": {"expression": "CAST(year(born) AS INTEGER)"},
            "origin": {"constant": "master"},
        },
    },
}
ON_MASTER = (
    "SELECT id, \"Name\", country, born, 0.00, notes, extract(year from born)::int, 'master' FROM public.people "
    "WHERE country = 'CH' OR salary > 300 ORDER BY id"
)
ON_SLAVE = 'SELECT id, "full name", country, born, salary, notes, year, origin FROM public.people ORDER BY id'


def assert_transformed(shop: Rig) -> None:
    assert shop.slave.execute(ON_SLAVE.encode()).fetchall() == shop.master.execute(ON_MASTER.encode()).fetchall()
    for table in ("orders", "plain"):
        query = f"SELECT * FROM public.{table} ORDER BY 1".encode()
        assert shop.slave.execute(query).fetchall() == shop.master.execute(query).fetchall()


class Writers(AbstractContextManager["Writers"]):
    """Repeats the statements until it is left."""

    def __init__(self, shop: Rig, statements: Sequence[str]):
        self._over = threading.Event()
        self._shop, self._statements = shop, statements
        self._background = Background(self._write)

    def __enter__(self) -> "Writers":
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        assert self._background.end() is None

    def _write(self) -> None:
        with connect(self._shop.master_info, application="writers", autocommit=True) as master:
            while not self._over.is_set():
                for statement in self._statements:
                    master.execute(statement.encode())
