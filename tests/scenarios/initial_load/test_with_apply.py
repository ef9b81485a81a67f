"""A load while the real apply runs: traffic, TRUNCATE, changed and dropped tables; updates one after another."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from initial_load.conftest import MakePair
from initial_load.pair import Pair
from initial_load.test_restart import until
from initial_load.traffic import Traffic, Writable
from sluice.apply.loop import Apply
from sluice.apply.spread import InThreads
from sluice.domain.state import SlaveState
from sluice.initial import steps
from sluice.initial.update import Update
from sluice.pair import Pair as ApplyPair
from sluice.stores.gate import Gate
from sluice.vendors.postgres import position

ORDERS = Writable("public.orders", ("id",), "floor(random() * 9000)::int")
NOTES = Writable("public.notes", ("a", "b"), "floor(random() * 90)::int, chr(65 + floor(random() * 99)::int)")
SCRATCH = Writable("public.scratch", ("id",), "floor(random() * 3000)::int")
HEAP = Writable("public.heap", (), "")


class Applying:
    """The real apply in a thread; `failure` is what ended it."""

    def __init__(self, pair: Pair):
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        connections = {"m": pair.master_info, "s": pair.slave_info}
        self.loop = Apply(ApplyPair.of(pair.replication, "dr1", connections), pair.store, InThreads(2), self.stop)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.loop.run()
        except BaseException as failure:
            self.failure = failure


@contextmanager
def applying(pair: Pair) -> Iterator[Applying]:
    running = Applying(pair)
    running.thread.start()
    yield running
    running.stop.set()
    running.thread.join(20)
    if running.failure:
        raise running.failure
    assert not running.thread.is_alive()


def await_current(pair: Pair, running: Applying) -> None:
    """Returns when all is applied that the master has committed by now."""
    now = position.take(pair.master, pair.replication.prefix, "public")

    def current() -> bool:
        if running.failure:
            raise running.failure
        found = pair.checkpoint().read()
        return bool(found and found.position and found.position.covers_all_of(now))

    until(current)


def normal(pair: Pair, running: Applying) -> bool:
    if running.failure:
        raise running.failure
    return pair.state() is SlaveState.NORMAL


def make_shop(pair: Pair) -> None:
    pair.master.execute("CREATE TABLE public.orders (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.orders SELECT g, repeat(md5(g::text), 4) FROM generate_series(1, 8000) g")
    pair.master.execute("CREATE TABLE public.notes (b text, a int, v text, PRIMARY KEY (a, b))")
    pair.master.execute(
        "INSERT INTO public.notes SELECT chr(65 + (g / 90)::int), g % 90, 'old' FROM generate_series(1, 3000) g"
    )
    pair.master.execute("CREATE TABLE public.scratch (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.scratch SELECT g, 'old' FROM generate_series(1, 3000) g")
    pair.master.execute("CREATE TABLE public.heap (v text, n int)")
    pair.master.execute("INSERT INTO public.heap SELECT 'v' || g % 5, g % 2 FROM generate_series(1, 300) g")
    pair.master.execute("CREATE TABLE public.doomed AS SELECT g AS id FROM generate_series(1, 2000) g")
    pair.master.execute("ALTER TABLE public.doomed ADD PRIMARY KEY (id)")


def load(pair: Pair, update: Update, running: Applying) -> None:
    pair.load(update, 2)
    until(lambda: normal(pair, running))


def test_truncates_and_definitions_that_change_while_blocks_load(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=100, seconds=0.02)
    make_shop(pair)
    pair.capture()
    update = pair.update()
    pair.prepare(update)
    pair.slow_down("public.scratch", 0.001)
    changing = threading.Event()
    chance = random.Random(5)

    def disturb() -> None:
        for statement in (
            "TRUNCATE public.scratch",
            "ALTER TABLE public.notes ADD COLUMN w int DEFAULT 4",
            "INSERT INTO public.scratch SELECT g, 'new' FROM generate_series(1, 2500) g ON CONFLICT DO NOTHING",
            "DROP TABLE public.doomed",
            "ALTER TABLE public.orders ALTER COLUMN v SET DEFAULT 'd', ADD COLUMN extra text",
            "TRUNCATE public.scratch",
            "INSERT INTO public.scratch SELECT g, 'newer' FROM generate_series(1, 200) g ON CONFLICT DO NOTHING",
            "TRUNCATE public.heap",
            "ALTER TABLE public.notes DROP COLUMN w",
        ):
            changing.wait(chance.random() * 0.3)
            pair.master.execute(statement.encode())

    with applying(pair) as running, Traffic(pair.master_info, [ORDERS, NOTES, SCRATCH, HEAP], writers=2):
        disturber = threading.Thread(target=disturb)
        disturber.start()
        load(pair, update, running)
        disturber.join()
    with applying(pair) as running:
        await_current(pair, running)
    pair.assert_equal()
    assert steps.finish(update).left_out == []
    assert Gate(pair.store, update.prefix, "dr1").closures() == []


def test_a_second_update_of_a_running_slave_and_one_cancelled_under_the_apply(pair_of: MakePair) -> None:
    pair = pair_of(block_rows=400, seconds=0.05)
    make_shop(pair)
    first, cancelled, last = pair.update("first"), pair.update("cancelled"), pair.update("last")
    pair.prepare(first)
    with applying(pair) as running, Traffic(pair.master_info, [ORDERS, NOTES, SCRATCH, HEAP], writers=2):
        load(pair, first, running)
        pair.prepare(cancelled)
        until(lambda: pair.state() is SlaveState.TRANSITION)
        assert steps.cancel(cancelled, pair.store)
        assert pair.state() is SlaveState.INCONSISTENT
        pair.prepare(last)
        load(pair, last, running)
    with applying(pair) as running:
        await_current(pair, running)
    pair.assert_equal()
