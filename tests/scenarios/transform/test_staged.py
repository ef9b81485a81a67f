"""Large windows of transformed tables are reduced, transformed and staged by executors."""

import logging

import pytest

from tests.scenarios.transform.conftest import MakeShop

DDL = """
CREATE TABLE public.r (id int PRIMARY KEY, land text, n numeric(9,2), secret text);
CREATE TABLE public.log (land text, n int, secret text);
CREATE TABLE public.plain (id int PRIMARY KEY, v text);
INSERT INTO public.r SELECT g, CASE WHEN g % 3 = 0 THEN 'CH' ELSE 'DE' END, g, 'hunter' FROM generate_series(1, 90) g;
INSERT INTO public.log SELECT CASE WHEN g % 2 = 0 THEN 'CH' END, g % 4, 'hunter' || g FROM generate_series(1, 40) g;
INSERT INTO public.plain SELECT g, 'v' FROM generate_series(1, 9) g;
"""
TABLES = {
    "public.*": {},
    "public.r": {
        "where": "land = 'CH' OR n > 80",
        "columns": {
            "id": {"rename": "ID"},
            "secret": {"exclude": "true"},
            "n": {"expression": "CAST(n * 2 AS DECIMAL(9,2))"},
        },
    },
    "public.log": {"where": "land IS NOT NULL", "columns": {"secret": {"exclude": "true"}}},
}
CHANGES = """
BEGIN;
UPDATE public.r SET land = 'CH' WHERE id BETWEEN 10 AND 30;
UPDATE public.r SET land = 'DE' WHERE id BETWEEN 20 AND 50;
UPDATE public.r SET secret = 'other' WHERE id > 50;
UPDATE public.r SET id = id + 1000 WHERE id % 5 = 0;
DELETE FROM public.r WHERE id % 7 = 0;
INSERT INTO public.r SELECT g, 'CH', 1.5, 'hunter' FROM generate_series(200, 240) g ON CONFLICT DO NOTHING;
UPDATE public.log SET n = n + 1, secret = 'x' WHERE n = 2;
UPDATE public.log SET land = 'IT' WHERE n = 1 AND land IS NULL;
DELETE FROM public.log WHERE n = 0;
UPDATE public.plain SET v = v || '!';
COMMIT
"""
QUERIES = {
    'SELECT "ID", land, n FROM public.r ORDER BY 1': "SELECT id, land, (n * 2)::numeric(9,2) FROM public.r "
    "WHERE land = 'CH' OR n > 80 ORDER BY 1",
    "SELECT land, n FROM public.log ORDER BY 1, 2": "SELECT land, n FROM public.log WHERE land IS NOT NULL "
    "ORDER BY 1, 2",
    "SELECT * FROM public.plain ORDER BY 1": "SELECT * FROM public.plain ORDER BY 1",
}


def test_rows_go_in_and_out_of_where_by_way_of_stage_tables(shop: MakeShop, caplog: pytest.LogCaptureFixture) -> None:
    here = shop(DDL, TABLES, stage=20, slave_options={"on_conflict": "reject"})
    here.prepare(update := here.update())
    with here.apply() as running, caplog.at_level(logging.INFO, "sluice.apply"):
        here.load_to_normal(update)
        here.await_normal_mode(running)
        for turn in range(2):
            here.master.execute(CHANGES.encode())
            here.await_current()
            for of_slave, of_master in QUERIES.items():
                assert (turn, here.slave.execute(of_slave.encode()).fetchall()) == (
                    turn,
                    here.master.execute(of_master.encode()).fetchall(),
                )
        assert "staged by" in caplog.text and "reduced by the driver" not in caplog.text
        # A row that is not the master's is set aside, with what the slave gets alone; all else of the window arrives.
        here.slave.execute("UPDATE public.r SET land = 'mine' WHERE \"ID\" = 200")
        here.master.execute("UPDATE public.r SET n = n + 1 WHERE id >= 200")
        here.await_current()
        rows = here.slave.execute('SELECT "ID", land, n FROM public.r WHERE "ID" IN (200, 201)').fetchall()
        assert [(number, land) for number, land, _ in rows if number == 200] == [(200, "mine")]
        (content,) = here.slave.execute("SELECT content FROM public.demo_rejects").fetchone()
        assert "hunter" not in content and "ID" in content
