"""Positions on Oracle, on a model of its transactions: no change is lost or comes twice, no transaction comes in part.

No Oracle server takes part: `transaction_model.py` states what the model assumes. The code that takes positions is the
product's own. For each of its rules a test shows what goes wrong without it.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from sluice.vendors.oracle.queue_position import QueuePosition
from sluice.vendors.oracle.source.position import InstanceLost, Thread, take
from tests.oracle.transaction_model import HERE, Reader, Settings, World

Window = list[tuple[int, int]]
"""Transactions and keys."""
Order = Callable[[Window], list[int]]
Purge = Callable[[World, list["Slave"]], None]

ONE = Settings()
CLUSTER = Settings(instances=3)
NOTHING = QueuePosition(0, 0, frozenset(), frozenset(), HERE)


def steady(reader: Reader, previous: QueuePosition | None) -> QueuePosition:
    """`take`, repeated while instances start or stop."""
    while True:
        try:
            return take(reader, previous)
        except InstanceLost:
            reader.world.run(3)


def compare_block(world: World, marker: QueuePosition) -> set[str]:
    """The faults of a block that is read as of the marker's SCN, when changes that the marker covers are dropped.

    Purged changes do not come again, whatever a position covers.
    """
    read = {it.xid for it in world.committed if it.commit is not None and it.commit <= marker.scn}
    found = set()
    for xid, key in world.rows():
        if marker.covers(xid, key) and xid not in read:
            found.add("lost in a load")
        if xid in read and not marker.covers(xid, key):
            found.add("twice in a load")
    return found


@dataclass
class Slave:
    """The changes that one slave has received, and its position."""

    position: QueuePosition = NOTHING
    keys: list[int] = field(default_factory=list)
    """Of the changes, as they came."""
    faults: set[str] = field(default_factory=set)
    window_of: dict[int, int] = field(default_factory=dict)
    """By transaction."""
    windows: int = 0

    def follow(self, world: World, reader: Reader, order: Order) -> None:
        """Reads one window, after its end was taken."""
        target = steady(reader, self.position if self.position != NOTHING else None)
        world.run(world.some())
        self.windows += 1
        floor = self.position.floor(target)
        window = [
            (xid, key) for xid, key in world.rows() if target.covers(xid, key) and not self.position.covers(xid, key)
        ]
        self.keys += order(window)
        for xid, key in window:
            if not floor < key <= target.high:
                self.faults.add("outside of the window's range")
            if self.window_of.setdefault(xid, self.windows) != self.windows:
                self.faults.add("half")
        self.faults |= compare_block(world, target)
        self.position = target

    def judge(self, world: World) -> set[str]:
        """What is wrong at the end."""
        times = Counter(self.keys)
        found = set(self.faults)
        if any(key not in times for it in world.committed for key, _ in it.rows):
            found.add("lost")
        if any(time > 1 for time in times.values()):
            found.add("twice")
        place = {key: number for number, key in enumerate(self.keys)}
        for versions in world.versions:
            places = [place[key] for key in versions if key in place]
            if places != sorted(places):
                found.add("order")
        return found


def by_key(window: Window) -> list[int]:
    """Changes in the order in which the product applies them."""
    return sorted(key for _, key in window)


def by_last_key(window: Window) -> list[int]:
    """Changes transaction by transaction."""
    last = dict(sorted(window, key=lambda change: change[1]))
    return [key for _, key in sorted(window, key=lambda change: (last[change[0]], change[1]))]


def purge_covered(world: World, slaves: list[Slave]) -> None:
    """Deletes what every slave has."""
    for xid, key in world.rows():
        if all(slave.position.covers(xid, key) for slave in slaves):
            world.purged.add(key)


def play(
    seed: int, settings: Settings, kind: type[Reader] = Reader, order: Order = by_key, purge: Purge = purge_covered
) -> set[str]:
    """Plays a random history with two slaves and with markers of loads; returns what went wrong.

    `kind`: the class that reads the master.
    """
    world = World(seed, settings)
    chance = random.Random(seed ^ 0x5EED)
    readers = [kind(world, chance.randrange(settings.instances)) for _ in range(3)]
    slaves = [Slave(), Slave()]
    faults: set[str] = set()
    taken: list[tuple[QueuePosition, set[tuple[int, int]]]] = []
    """Positions, and the changes that were not purged then."""

    def mark() -> None:
        marker = steady(readers[2], None)
        faults.update(compare_block(world, marker))
        taken.append((marker, set(world.rows())))

    world.run(chance.randrange(20))
    world.visitor = mark
    for _ in range(chance.randrange(3, 8)):
        world.run(chance.randrange(15))
        place = chance.randrange(2)
        slaves[place].follow(world, readers[place], order)
        taken.append((slaves[place].position, set(world.rows())))
        if chance.random() < 0.5:
            purge(world, slaves)
    world.visitor = None
    world.finish()
    for slave, reader in zip(slaves, readers, strict=False):
        slave.follow(world, reader, order)
        faults |= slave.judge(world)
    for one, rows in taken:
        for other, others in taken:
            if one.covers_all_of(other) and any(other.covers(*row) and not one.covers(*row) for row in rows & others):
                faults.add("covers less than it says")
        if not all(slave.position.covers_all_of(one) for slave in slaves):
            faults.add("never passed")
    return faults


def failing(histories: range, settings: Settings) -> dict[int, set[str]]:
    return {seed: faults for seed in histories if (faults := play(seed, settings))}


@pytest.mark.long
@pytest.mark.parametrize("settings", [ONE, CLUSTER], ids=["one instance", "cluster"])
def test_every_change_comes_once_whole_and_in_order(settings: Settings) -> None:
    assert failing(range(1500), settings) == {}


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 120_000, 10_000))
def test_in_a_hundred_thousand_histories_every_change_comes_once_whole_and_in_order(start: int) -> None:
    settings = CLUSTER if start % 20_000 else ONE
    assert failing(range(start, start + 10_000), settings) == {}


@pytest.mark.long
def test_changes_may_be_applied_transaction_by_transaction_in_the_order_of_their_last_keys() -> None:
    assert not any(play(seed, CLUSTER, order=by_last_key) for seed in range(300))


# What each rule is for: without it, this goes wrong.


class OnlyKeysOfTheRange(Reader):
    """Counts a running transaction as open although a change of it is visible, if its key is older."""

    def visible(self, scn: int, above: int, up_to: int, among: Collection[int]) -> Collection[int]:
        return super().visible(scn, above, up_to, ())


@dataclass
class EndOfTheCache(Reader):
    """Takes as `low` the sequence's last number of the dictionary, which is the end of the cached numbers."""

    draws: int = 0

    def draw(self) -> int:
        self.draws += 1
        drawn = super().draw()
        return drawn + 20 if self.draws % 2 else drawn


class NoPrepared(Reader):
    """Reads prepared transactions from the list of running ones only."""

    def prepared(self) -> Collection[int]:
        return ()


@dataclass
class ListedOnce(Reader):
    """Reads the list of running transactions only before the prepared ones."""

    asked: int = 0
    reads: int = 1

    def listed(self) -> Mapping[int, int]:
        self.asked += 1
        return super().listed() if self.asked % 2 == self.reads else {}


class ListedAfter(ListedOnce):
    """Reads the list of running transactions only after the prepared ones."""

    def __init__(self, world: World, instance: int):
        super().__init__(world, instance, reads=0)


class OwnScn(Reader):
    """Uses the SCN of its own instance only."""

    def scns(self) -> list[int]:
        self._meanwhile()
        return [self.world.scn[self.instance]]


class NoWait(Reader):
    """Uses the highest SCN without waiting for the other instances to reach it."""

    def scns(self) -> list[int]:
        return [max(super().scns())]


class NoThreads(Reader):
    """Does not notice a lost instance."""

    def threads(self) -> Collection[Thread]:
        return ()


def first_keys_order(window: Window) -> list[int]:
    """Changes transaction by transaction, in the order of their first keys, as xmlBlaster does."""
    first: dict[int, int] = {}
    for xid, key in sorted(window, key=lambda change: change[1]):
        first.setdefault(xid, key)
    return [key for _, key in sorted(window, key=lambda change: (first[change[0]], change[1]))]


def purge_by_key(world: World, slaves: list[Slave]) -> None:
    passed = min(slave.position.high for slave in slaves)
    world.purged |= {key for _, key in world.rows() if key <= passed}


STEADY_CLUSTER = replace(CLUSTER, crashes=False)


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    ("kind", "settings", "fault"),
    [
        (OnlyKeysOfTheRange, ONE, "twice"),
        (EndOfTheCache, ONE, "lost"),
        (NoPrepared, ONE, "lost"),
        (ListedOnce, ONE, "lost"),
        (ListedAfter, ONE, "lost"),
        (Reader, replace(ONE, key_first=True), "lost"),
        (Reader, replace(STEADY_CLUSTER, ordered=False), "lost"),
        (OwnScn, STEADY_CLUSTER, "lost in a load"),
        (NoWait, STEADY_CLUSTER, "half"),
        (NoThreads, CLUSTER, "lost in a load"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_without_any_one_rule_some_history_loses_or_doubles_changes(
    kind: type[Reader], settings: Settings, fault: str
) -> None:
    assert any(fault in play(seed, settings, kind) for seed in range(5000))


def test_transactions_in_the_order_of_their_first_keys_break_the_order_of_a_rows_changes() -> None:
    assert any("order" in play(seed, ONE, order=first_keys_order) for seed in range(1000))


def test_a_purge_up_to_a_key_loses_changes() -> None:
    assert any("lost" in play(seed, ONE, purge=purge_by_key) for seed in range(1000))
