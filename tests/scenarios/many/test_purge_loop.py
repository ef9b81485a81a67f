"""The task that purges ITEMS, again and again under traffic, while a slave goes down, lags and is loaded anew."""

import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sluice.airflow.steps_housekeeping import purge_items
from sluice.airflow.task_context import TaskContext
from sluice.load import steps
from sluice.model.slave_state import SlaveState
from tests.airflow_connections import connect_airflow
from tests.rig.net import Net, until
from tests.scenarios.initial_load.traffic import Traffic, Writable

CONFIG = """
prefix: DEMO_
master: {conn_id: m, schema: public}
slaves: {one: {conn_id: s1, schema: public}, two: {conn_id: s2, schema: public}}
tables: {'public.*': {}}
initial: {block_rows: 100, block_target_seconds: 0.05}
"""
ONE, TWO = ("DEMO_", "one"), ("DEMO_", "two")
ORDERS = Writable('public."Orders ""x"""', ("id",), "floor(random() * 1500)::int")


class Purging(AbstractContextManager["Purging"]):
    """The task in a loop, in a thread; `said` is what it answered. Leaving it raises what ended it early."""

    def __init__(self, net: Net):
        self.said: list[str] = []
        self._work = TaskContext(net.replications["DEMO_"], None, {"dag": SimpleNamespace(dag_id="housekeeping")})
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Purging":
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        if kind is None and self._failure is not None:
            raise self._failure

    def says(self, word: str, times: int = 2) -> bool:
        """Whether its last answers all have that word: the first one may come from before something changed."""
        if self._failure is not None:
            raise self._failure
        return len(self.said) >= times and all(word in said for said in self.said[-times:])

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self.said.append(purge_items.body(self._work))
        except BaseException as failure:
            self._failure = failure


def test_a_purge_never_takes_what_a_slave_still_needs(
    net: Net, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    net.configure(CONFIG)
    net.at("m", f"CREATE TABLE {ORDERS.name} (id int PRIMARY KEY, v text)")
    net.at("m", f"INSERT INTO {ORDERS.name} SELECT g, 'old' FROM generate_series(0, 1400, 2) g")
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    for name, info in net.infos.items():
        connect_airflow(monkeypatch, name, info)
    for pair in (ONE, TWO):
        net.prepare(update := net.update(*pair))
        with net.applying(pair) as running:
            net.load(update)
            until(lambda pair=pair: net.state(*pair) is SlaveState.NORMAL, running)  # type: ignore[misc]
    with Purging(net) as purging, net.applying(ONE) as one:
        with Traffic(net.infos["m"], [ORDERS], writers=2):
            for _ in range(2):
                # Its apply is not running. It answers, so that what it has goes, and what it lacks stays.
                until(lambda: purging.says("purged"), one)
                # It does not answer.
                connect_airflow(monkeypatch, "s2", replace(net.infos["s2"], port=1))
                until(lambda: purging.says("slave two cannot be asked"), one)
                waiting = net.items("DEMO_")
                until(lambda waiting=waiting: net.items("DEMO_") > waiting + 50, one)  # type: ignore[misc]
                connect_airflow(monkeypatch, "s2", net.infos["s2"])
                with net.applying(TWO) as two:
                    net.await_current(*TWO, [*one, *two])
                # It is loaded anew.
                update = net.update(*TWO)
                steps.begin(update, net.store)
                until(lambda: purging.says("of slave two is being prepared"), one)
                steps.create_tables(update)
                steps.plan(update, net.store)
                with net.applying(TWO) as two:
                    net.load(update)
                    until(lambda: net.state(*TWO) is SlaveState.NORMAL, [*one, *two])
                steps.finish(update)
        with net.applying(TWO) as two:
            net.await_current(*ONE, one)
            net.await_current(*TWO, two)
            until(lambda: net.items("DEMO_") == 0, [*one, *two])
    rows = f"SELECT id, v FROM {ORDERS.name} ORDER BY id"
    assert net.at("m", rows) == net.at("s1", rows) == net.at("s2", rows) != []
    assert sum(int(said.split(" ")[0].replace(",", "")) for said in purging.said if said.endswith("purged")) > 100
