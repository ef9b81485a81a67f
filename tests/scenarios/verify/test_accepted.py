"""A function of the user's says which differences are no fault."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.preflight.checks import of_slave
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.page import page
from sluice.verify.report import as_dict
from sluice.verify.resync import Action, TableResult, resync
from tests.rig.rig import Rig
from tests.scenarios.verify.verifying import counts, look

PAGE = Path(__file__).resolve().parents[3] / "docs" / "verify.md"
TABLES = """
CREATE TABLE public.people (id int PRIMARY KEY, name text, mail text);
CREATE TABLE public.orders (id int PRIMARY KEY, v text);
CREATE TABLE public.words (word text)"""
FAILING = """
def fails(table, master, slave): return master["nmae"]
def ends(table, master, slave): raise SystemExit(1)
def gives_text(table, master, slave): return "yes"
def words(table, master, slave): return slave == {"word": "mine"}
no_function = 7
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (example,) = re.findall(r"```python\n# plugins/shop_checks\.py\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (tmp_path / "shop_checks.py").write_text(example)
    (tmp_path / "failing_checks.py").write_text(FAILING)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("shop_checks", "failing_checks"):
        sys.modules.pop(name, None)


def asking(pair: Rig, function: str) -> Rig:
    return pair.with_options(verify=replace(pair.replication.verify, accept=function))


def verified(pair: Rig, table: str, action: Action, sample: int = 0) -> TableResult:
    store = redis_store.connect(pair.redis_url)
    return resync(pair.pair, store, TableName("public", table), CompareOptions(sample=sample), action, 1_000)


def test_what_it_accepts_is_no_fault_is_not_repaired_and_is_told(rig: Callable[..., Rig]) -> None:
    pair = asking(rig(TABLES), "shop_checks:harmless")
    pair.master.execute(
        "INSERT INTO public.people SELECT i, 'p' || i, 'p' || i || '@A.ch' FROM generate_series(1, 2500) i"
    )
    pair.master.execute("INSERT INTO public.orders SELECT i, 'v' FROM generate_series(1, 100) i")
    with pair.apply():
        pair.await_current()
        pair.slave.execute("UPDATE public.people SET mail = lower(mail) WHERE id <= 2000")
        pair.slave.execute("UPDATE public.people SET mail = 'x', name = 'mine' WHERE id = 7")
        pair.slave.execute("DELETE FROM public.people WHERE id = 2500")
        pair.slave.execute("INSERT INTO public.orders VALUES (101, 'deleted'), (102, 'deleted')")
        orders = verified(pair, "orders", Action.VERIFY).finding
        assert (orders.outcome, orders.accepted, counts(orders)) == (Outcome.IDENTICAL, 2, {})
        assert verified(pair, "orders", Action.VERIFY, sample=50).finding.outcome is Outcome.IDENTICAL
        people = verified(pair, "people", Action.REPAIR)
        assert people.finding.accepted == 1999 and counts(people.finding) == {"different": 1, "missing": 1}
        assert people.repaired == 2 and people.outcome is Outcome.IDENTICAL
    assert pair.slave.execute("SELECT mail FROM public.people WHERE id IN (6, 7, 2500) ORDER BY id").fetchall() == [
        ("p6@a.ch",), ("p7@A.ch",), ("p2500@A.ch",)
    ]  # fmt: skip
    report = as_dict("DEMO_", "dr1", "repair", "2026-01-01T00:00:00", [people])
    assert report["tables"][0]["accepted"] == 1999
    assert "<b>1,999</b> rows more differ as verify.accept accepts" in page([report])


@pytest.mark.long
def test_copies_of_a_table_without_a_key_and_a_slave_whose_apply_stopped_are_judged_too(
    rig: Callable[..., Rig],
) -> None:
    pair = asking(rig(TABLES), "failing_checks:words")
    pair.master.execute("INSERT INTO public.words VALUES ('a'), ('a'), ('b')")
    with pair.apply():
        pair.await_current()
    pair.slave.execute("INSERT INTO public.words VALUES ('mine'), ('mine'), ('a')")
    finding = look(pair, "words")
    assert finding.accepted == 2 and counts(finding) == {"extra": 1}
    assert [example.slave for example in finding.examples] == [{"word": "a"}]
    pair = asking(pair, "shop_checks:harmless")
    pair.master.execute("INSERT INTO public.orders VALUES (1, 'waits')")
    pair.slave.execute("INSERT INTO public.orders VALUES (1, 'mine'), (2, 'mine')")
    finding = look(pair, "orders")
    assert finding.waiting == 1 and finding.accepted == 2 and counts(finding) == {}


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("failing_checks:fails", "failing_checks:fails fails: “KeyError: 'nmae'”"),
        pytest.param("failing_checks:ends", "fails: “SystemExit: 1”", marks=pytest.mark.long),
        pytest.param("failing_checks:gives_text", "returns str, and neither True", marks=pytest.mark.long),
        pytest.param("failing_checks:no_function", "has no function no_function", marks=pytest.mark.long),
    ],
)
def test_a_function_that_does_not_decide_leaves_the_table_not_compared(
    rig: Callable[..., Rig], function: str, told: str
) -> None:
    pair = asking(rig(TABLES), function)
    pair.master.execute("INSERT INTO public.orders VALUES (1, 'v')")
    with pair.apply():
        pair.await_current()
        pair.slave.execute("UPDATE public.orders SET v = 'mine'")
        finding = verified(pair, "orders", Action.VERIFY).finding
    assert finding.outcome is Outcome.COULD_NOT_COMPARE and told in finding.reason
    found = of_slave(pair.slave, pair.replication, pair.pair.slave, master=pair.master)
    missing = [issue for issue in found if "verify.accept" in str(issue)]
    assert bool(missing) is ("no_function" in function)
