"""The task that purges ITEMS, again and again under traffic, while slaves are down, lag and are loaded."""

import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice.airflow.steps_housekeeping import purge_items
from sluice.airflow.task_context import TaskContext
from sluice.load import steps
from sluice.load.selection import Selection
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.load.update import Update
from sluice.model.blocks import BlockState
from sluice.model.location import S3Access
from sluice.model.slave_state import SlaveState
from tests.airflow_connections import connect_airflow
from tests.rig.loaders import Background
from tests.rig.net import Net, until
from tests.scenarios.initial_files.carrying import export, location, moved, prepare
from tests.scenarios.initial_load.traffic import Traffic, Writable

CONFIG = """
prefix: DEMO_
master: {conn_id: m, schema: public}
slaves: {one: {conn_id: s1, schema: public}, two: {conn_id: s2, schema: public}}
tables: {'public.*': {}}
initial: {block_rows: 100, block_target_seconds: 0.5}
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
        """Whether its last results all contain that word: the first one may be from before something changed."""
        if self._failure is not None:
            raise self._failure
        return len(self.said) >= times and all(word in said for said in self.said[-times:])

    def _run(self) -> None:
        try:
            while not self._over.wait(0.02):  # others of this process want to get on
                self.said.append(purge_items.body(self._work))
        except BaseException as failure:
            self._failure = failure


def begin(net: Net, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    """Makes both slaves NORMAL, and known to the task."""
    net.configure(CONFIG)
    net.at("m", f"CREATE TABLE {ORDERS.name} (id int PRIMARY KEY, v text)")
    net.at("m", "CREATE TABLE public.other (id int PRIMARY KEY)")
    net.at("m", f"INSERT INTO {ORDERS.name} SELECT g, 'old' FROM generate_series(0, 1400, 2) g")
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    for name, info in net.infos.items():
        connect_airflow(monkeypatch, name, info)
    for pair in (ONE, TWO):
        net.prepare(update := net.update(*pair))
        with net.applying(pair) as running:
            net.load(update)
            until(lambda pair=pair: net.state(*pair) is SlaveState.NORMAL, running)  # type: ignore[misc]


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_purge_never_takes_what_a_slave_still_needs(
    net: Net, monkeypatch: pytest.MonkeyPatch, redis_url: str, rounds: int
) -> None:
    begin(net, monkeypatch, redis_url)
    with Purging(net) as purging, net.applying(ONE) as one:
        with Traffic(net.infos["m"], [ORDERS], writers=2):
            for _ in range(rounds):
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
                # It is loaded again.
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("chosen", "by_files"),
    [
        pytest.param({"tables": [ORDERS.name]}, False, marks=pytest.mark.long, id="a part"),
        pytest.param({"tables": [ORDERS.name]}, True, id="a part by files"),
        pytest.param({}, True, marks=pytest.mark.long, id="all by files"),
    ],
)
def test_changes_that_a_load_must_catch_up_with_are_not_purged(
    net: Net,
    monkeypatch: pytest.MonkeyPatch,
    redis_url: str,
    tmp_path: Path,
    chosen: dict[str, list[str]],
    by_files: bool,
) -> None:
    begin(net, monkeypatch, redis_url)
    update = Update.named(net.pair(*ONE), "again", Selection.from_dict(chosen))
    rig = net.rig(*ONE)
    with net.applying(ONE, TWO) as running, Purging(net) as purging:
        (prepare if by_files else type(rig).prepare)(rig, update)
        with Traffic(net.infos["m"], [ORDERS], writers=1):
            if by_files:
                carried = transfer_steps.folder_of(update, location(tmp_path / "out"), S3Access(), None)
                export(update, carried)
                manifest = transfer_steps.seal(update, carried)
            else:
                held = rig.hold(ORDERS.name)
                loading = Background(lambda: rig.load(update))
                until(lambda: any(block.state is BlockState.BEGUN for block in rig.blocks()), running)
            net.at("m", "INSERT INTO public.other SELECT generate_series(1, 50)")
            for pair in (ONE, TWO) if chosen else (TWO,):
                net.await_current(*pair, running)
            said = len(purging.said)
            until(lambda: purging.says("purged") and len(purging.said) > said + 1, running)
            assert net.at("m", "SELECT count(*) FROM public.demo_items WHERE tablename = 'other'") == [(50,)]
            if by_files:
                steps.open_gate(update, net.store)
                import_in_threads(update, moved(carried, tmp_path / "in"), manifest, 2)
            else:
                held.close()
                assert loading.end() is None
        until(lambda: net.state(*ONE) is SlaveState.NORMAL and not rig.checkpoint.tables.not_ready, running)
        until(lambda: net.items("DEMO_") == 0, running)
        net.await_current(*ONE, running)
        net.await_current(*TWO, running)
    for slave in ("s1", "s2"):
        net.assert_equal("m", slave, 'Orders "x"', "other")
