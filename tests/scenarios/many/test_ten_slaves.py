"""Ten slaves of one prefix: each with its own position; the slowest holds the purge, and says so."""

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.airflow.steps_housekeeping import purge_items
from sluice.airflow.task_context import TaskContext
from sluice.load import steps
from sluice.load.progress import progress
from sluice.model.slave_state import SlaveState
from tests.airflow_connections import connect_airflow
from tests.errors import raises_code
from tests.rig.net import Net, until

NAMES = [f"dr{number}" for number in range(1, 11)]
CONFIG = """
prefix: DEMO_
master: {conn_id: m, schema: public}
slaves: {%s}
tables: {'public.*': {}}
initial: {block_rows: 200, block_target_seconds: 0.05}
"""


HELD = "SELECT value FROM public.demo_info WHERE name = 'purge_held'"


def config(*names: str) -> str:
    return CONFIG % ", ".join(f"{name}: {{conn_id: s_{name}, schema: public}}" for name in names)


@pytest.fixture
def ten(net: Net) -> Net:
    net.configure(config(*NAMES))
    net.at("m", "CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    net.at("m", "INSERT INTO public.orders SELECT g, repeat(md5(g::text), 4) FROM generate_series(1, 1000) g")
    return net


@pytest.mark.long
def test_ten_slaves_together_and_one_after_another(ten: Net) -> None:
    net = ten
    updates = {name: net.update("DEMO_", name) for name in NAMES}
    pairs = [("DEMO_", name) for name in NAMES]
    # Six at once: all of them prepared, then loaded, while their applies run.
    for name in NAMES[:6]:
        net.prepare(updates[name])
    with net.applying(*pairs[:6]) as running:
        for name in NAMES[:6]:
            net.load(updates[name], 1)
            net.at("m", "UPDATE public.orders SET v = 'changed for ' || %s WHERE id % 7 = 3".replace("%s", f"'{name}'"))
        until(lambda: all(net.state(*pair) is SlaveState.NORMAL for pair in pairs[:6]), running)
        # Then the others one after another, beside those that continue.
        for name, pair in zip(NAMES[6:], pairs[6:], strict=True):
            net.prepare(updates[name])
            with net.applying(pair) as one:
                net.load(updates[name], 1)
                net.at("m", "INSERT INTO public.orders SELECT max(id) + 1, 'new' FROM public.orders")
                net.await_current(*pair, one)
        for pair in pairs[:6]:
            net.await_current(*pair, running)
    # Each has its own position: those that stopped earlier are behind.
    net.at("m", "DELETE FROM public.orders WHERE id < 10")
    with net.applying(*pairs) as running:
        for pair in pairs:
            net.await_current(*pair, running)
    for name in NAMES:
        net.assert_equal("m", f"s_{name}", "orders")
        assert progress(updates[name]).state is SlaveState.NORMAL
        steps.finish(updates[name])


def purged(net: Net) -> str:
    """Runs the purge; returns the message of housekeeping."""
    context: dict[str, Any] = {"dag": SimpleNamespace(dag_id="housekeeping")}
    return str(purge_items.body(TaskContext(net.replications["DEMO_"], None, context)))


@pytest.mark.long
def test_a_slave_that_is_down_holds_the_purge_until_it_is_taken_out_and_then_needs_a_new_update(
    ten: Net, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    net = ten
    caplog.set_level(logging.INFO, "sluice.airflow")
    net.capture("DEMO_")
    for name in NAMES:
        steps_to_normal(net, name)
    for conn_id, info in net.infos.items():
        connect_airflow(monkeypatch, conn_id, info)
    up = [("DEMO_", name) for name in NAMES[:9]]
    connect_airflow(monkeypatch, "s_dr10", replace(net.infos["s_dr10"], port=1))
    with net.applying(*up) as running:
        net.at("m", "INSERT INTO public.orders SELECT g, 'more' FROM generate_series(5001, 5500) g")
        for pair in up:
            net.await_current(*pair, running)
    waiting = net.items("DEMO_")
    assert waiting >= 500
    assert purged(net).startswith("held: slave dr10 cannot be asked what it has")
    assert "the purge is held by dr10 since 20" in caplog.text
    (noted,) = net.at("m", HELD)
    assert purged(net).startswith("held: ") and net.items("DEMO_") == waiting
    assert net.at("m", HELD) == [noted], "since the first time"
    # Taken out of the configuration it holds nothing any more.
    net.configure(config(*NAMES[:9]))
    assert purged(net) == f"{waiting} changes purged"
    assert net.at("m", HELD) == []
    # Put back, it is told what it lacks, and what to do.
    net.configure(config(*NAMES))
    with raises_code("changes-purged"), net.apply("DEMO_", "dr10"):
        until(lambda: net.state("DEMO_", "dr10") is SlaveState.INCONSISTENT)
    found = net.checkpoint("DEMO_", "dr10")
    assert found and "out of the configuration" in found.message and "Start an initial update" in found.message
    again = net.update("DEMO_", "dr10")
    net.prepare(again)
    with net.applying(("DEMO_", "dr10")) as applies:
        net.load(again)
        net.await_current("DEMO_", "dr10", applies)
    net.assert_equal("m", "s_dr10", "orders")


def steps_to_normal(net: Net, name: str) -> None:
    """Makes the slave NORMAL with the master's rows."""
    net.at(f"s_{name}", "CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    rows = net.at("m", "SELECT id, v FROM public.orders")
    with net.sessions[f"s_{name}"].cursor() as cursor, cursor.copy("COPY public.orders FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    net.follow("DEMO_", name)
