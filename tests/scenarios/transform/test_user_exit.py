"""A user exit from the load to the repair: rows that it changes, omits, and fails for."""

from pathlib import Path

import pytest

from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import Action, resync
from tests.scenarios.transform.conftest import MakeShop

DDL = """
CREATE TABLE public.people (id int PRIMARY KEY, name text UNIQUE, country text, n int CHECK (n > 0));
INSERT INTO public.people SELECT g, 'name' || g, CASE WHEN g % 4 = 0 THEN 'XX' ELSE 'CH' END, g
  FROM generate_series(1, 60) g;
"""
EXIT = """
import pyarrow as pa
import pyarrow.compute as pc

def people(rows):
    if pc.any(pc.equal(rows['name'], 'bad')).as_py():
        raise ValueError('no such name')
    rows = rows.filter(pc.not_equal(rows['country'], 'XX'))
    return rows.set_column(rows.column_names.index('name'), 'name', pc.utf8_slice_codeunits(rows['name'], 0, 2))
"""
WANTED = (
    "SELECT id AS \"ID\", left(name, 2), country, n FROM public.people WHERE country <> 'XX' AND id <> 59 ORDER BY 1"
)


@pytest.mark.parametrize("stage", [10, pytest.param(20_000, marks=pytest.mark.long)])
def test_rows_are_what_the_exit_makes_of_them_and_none_is_lost(
    shop: MakeShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: int
) -> None:
    module = f"people_exit_{stage}"
    (tmp_path / f"{module}.py").write_text(EXIT)
    monkeypatch.syspath_prepend(str(tmp_path))
    rule = {"where": "id <> 59", "columns": {"id": {"rename": "ID"}}, "exit": f"{module}:people"}
    here = shop(DDL, {"public.people": rule}, stage=stage, slave_options={"on_conflict": "reject"})

    def rows() -> tuple[list[object], list[object]]:
        slave = here.slave.execute('SELECT "ID", name, country, n FROM public.people ORDER BY 1').fetchall()
        return slave, here.master.execute(WANTED.encode()).fetchall()

    here.prepare(update := here.update())
    with here.apply() as running:
        here.load_to_normal(update)
        here.await_normal_mode(running)
        assert len(rows()[0]) == 44 and rows()[0] == rows()[1]
        here.master.execute(
            "BEGIN; UPDATE public.people SET country = CASE country WHEN 'XX' THEN 'CH' ELSE 'XX' END WHERE id < 20; "
            "UPDATE public.people SET name = name || '!' WHERE id > 40; DELETE FROM public.people WHERE id = 30; COMMIT"
        )
        here.await_current()
        assert rows()[0] == rows()[1]
        # Of a row for which it fails nothing arrives, of all others everything; it waits in REJECTS, without a value.
        here.master.execute(
            "BEGIN; UPDATE public.people SET n = n + 100 WHERE id BETWEEN 31 AND 45; "
            "UPDATE public.people SET name = 'bad' WHERE id = 33; COMMIT"
        )
        here.await_current()
        slave, master = rows()
        assert [row for row in slave if row not in master] == [(33, "na", "CH", 33)] and len(slave) == len(master)
        store = RejectStore.of(here.pair, here.slave)
        aside = store.open()
        assert [(each.keys, each.content) for each in aside] == [(("33",), None)] * 2
        assert "fails for the row id = '33': “ValueError: no such name”. Fix that" in aside[0].reason
        # The row is fixed on the master, and comes by a repair.
        here.master.execute("UPDATE public.people SET name = 'good' WHERE id = 33")
        here.await_current()
        store_of_requests = redis_store.connect(here.redis_url)
        table = TableName("public", "people")
        found = resync(here.pair, store_of_requests, table, CompareOptions(), Action.REPAIR, 1_000)
        assert found.repaired == 1 and found.outcome is Outcome.IDENTICAL
        assert rows()[0] == rows()[1] and store.open() == []
