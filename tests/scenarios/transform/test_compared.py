"""A slave with transformed tables is compared with the transformed master, and repaired; the report names the
transformation."""

import pickle

import pytest
from pyspark import cloudpickle

from sluice.coordination import redis_store
from sluice.executor import ThreadExecutor
from sluice.model.names import TableName
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.page import page
from sluice.verify.report import as_dict
from sluice.verify.resync import Action, TableResult, compare_table, resync
from spark_jobs.comparison import Comparison
from spark_jobs.endpoint import Endpoint
from tests.rig.rig import Rig
from tests.scenarios.transform.conftest import MakeShop
from tests.scenarios.transform.people import PEOPLE, TABLES, Writers, assert_transformed
from tests.scenarios.verify.verifying import counts

ALL = CompareOptions()


def resynced(here: Rig, table: str, action: Action = Action.REPAIR) -> TableResult:
    return resync(here.pair, redis_store.connect(here.redis_url), TableName("public", table), ALL, action, 1_000)


def test_rows_are_compared_after_the_transformation_and_fixed(shop: MakeShop) -> None:
    here = shop(PEOPLE, TABLES)
    churn = ["UPDATE public.people SET salary = salary + 1, mail = mail || 'x' WHERE id % 7 = 0"]
    here.prepare(update := here.update())
    with here.apply() as running:
        here.load_to_normal(update)
        with Writers(here, churn):
            same = resynced(here, "people", Action.VERIFY)
        assert same.outcome is Outcome.IDENTICAL, same.finding
        assert same.finding.rows_master == same.finding.rows_slave > 100
        here.await_normal_mode(running)
        here.slave.execute("UPDATE public.people SET \"full name\" = 'mine', salary = 7 WHERE id = 3")
        here.slave.execute("DELETE FROM public.people WHERE id IN (6, 9)")
        # One that the filter leaves out, one that the master has not.
        here.slave.execute("INSERT INTO public.people (id, \"full name\") VALUES (1, 'n1'), (9999, 'mine')")
        # An executor that has got the task as Spark sends it.
        comparison = Comparison(
            here.pair, here.redis_url, Endpoint(), TableName("public", "people"), "IUD", Action.VERIFY, None, 0, ""
        )
        (there,) = ThreadExecutor().map(pickle.loads(cloudpickle.dumps(comparison)), 1)
        assert there.report is not None
        (table,) = there.report["tables"]
        assert (table["missing"], table["extra"], table["different"]) == (2, 2, 1) and table["apply_seconds"] > 0
        found = resynced(here, "people")
        assert counts(found.finding) == {"missing": 2, "extra": 2, "different": 1}
        assert found.repaired == 5 and found.outcome is Outcome.IDENTICAL
        assert found.finding.columns == {"full name": 1, "salary": 1}
        here.await_current()
        assert_transformed(here)
    told = as_dict("DEMO_", "dr1", "repair", "2026-01-01T00:00:00", [found], ())
    shown = page([told])
    assert "country = &#39;CH&#39; OR salary &gt; 300" in shown and "mail is excluded" in shown
    assert "hunter" not in shown


@pytest.mark.long
def test_many_blocks_and_a_sample(shop: MakeShop) -> None:
    more = PEOPLE + "INSERT INTO public.people (\"Name\", country) SELECT g, 'CH' FROM generate_series(1, 6000) g;"
    here = shop(more + "ANALYZE;", TABLES)
    here.prepare(update := here.update())
    with here.apply():
        here.load_to_normal(update)
        here.slave.execute("DELETE FROM public.people WHERE id = 5000")
        here.await_current()
        store = redis_store.connect(here.redis_url)
        whole = compare_table(here.pair, store, TableName("public", "people"), ALL)
        assert counts(whole) == {"missing": 1} and whole.blocks > 3 and whole.blocks_different == 1
        drawn = compare_table(here.pair, store, TableName("public", "people"), CompareOptions(sample=500))
        assert drawn.sampled > 100 and counts(drawn).keys() <= {"missing"}


@pytest.mark.long
def test_a_table_without_a_key_is_compared_and_not_fixed(shop: MakeShop) -> None:
    ddl = (
        "CREATE TABLE public.log (n int, what text, who text); "
        "INSERT INTO public.log SELECT g % 5, 'w', g FROM generate_series(1, 50) g"
    )
    here = shop(ddl, {"public.log": {"where": "n > 1", "columns": {"who": {"exclude": "true"}}}})
    here.prepare(update := here.update())
    with here.apply() as running:
        here.load_to_normal(update)
        here.await_normal_mode(running)
        here.master.execute(
            "UPDATE public.log SET n = 4 WHERE who IN ('1', '2'); DELETE FROM public.log WHERE who = '3'"
        )
        here.master.execute("UPDATE public.log SET n = 0 WHERE who = '4'; INSERT INTO public.log VALUES (2, 'w', 'x')")
        here.await_current()
        query = "SELECT n, what FROM public.log WHERE n > 1 ORDER BY 1, 2"
        assert here.slave.execute(query).fetchall() == here.master.execute(query).fetchall()
        assert resynced(here, "log").outcome is Outcome.IDENTICAL
        here.slave.execute("INSERT INTO public.log VALUES (2, 'mine')")
        found = resynced(here, "log")
        assert counts(found.finding) == {"extra": 1} and "load it again" in found.refused


@pytest.mark.long
def test_without_an_apply_the_reason_is_reported(shop: MakeShop) -> None:
    here = shop(PEOPLE, TABLES)
    here.prepare(update := here.update())
    with here.apply():
        here.load_to_normal(update)
    found = compare_table(here.pair, redis_store.connect(here.redis_url), TableName("public", "people"), ALL)
    assert found.outcome is Outcome.COULD_NOT_COMPARE and "Start the DAG cdc_apply" in found.reason
    plain = compare_table(here.pair, redis_store.connect(here.redis_url), TableName("public", "plain"), ALL)
    assert plain.outcome is Outcome.IDENTICAL
