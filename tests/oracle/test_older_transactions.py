"""From which SCN on a stream of redo lacks no transaction, tested on a model of Oracle (`transaction_model.py`).

The decision is the product's own. For each of its precautions a test shows what is lost without it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pytest

from sluice.vendors.oracle.source.position import (
    InstanceLost,
    Observation,
    Owner,
    Thread,
    observe,
    older_transactions,
    take,
)
from tests.oracle.transaction_model import Reader, Settings, World

ONE = Settings()
CLUSTER = Settings(instances=3)


def lost(seed: int, settings: Settings, reader_of: Callable[[World], Reader]) -> int:
    """The transactions that are neither in the rows as of the SCN nor in the stream: they began before it."""
    world = World(seed, settings)
    world.run(world.random.randrange(60))
    begins = world.scn[world.random.choice(world.up())]
    reader = reader_of(world)
    world.run(world.random.randrange(20))
    while (found := steady(reader, begins)).older:
        world.run(5)
    world.run(20)
    world.finish()
    return sum(it.start < begins and it.commit is not None and it.commit > found.scn for it in world.committed)


def steady(reader: Reader, begins: int) -> Observation:
    while True:
        try:
            return observe(reader, begins)
        except InstanceLost:
            reader.world.run(3)


@pytest.mark.parametrize("settings", [ONE, CLUSTER])
def test_no_transaction_is_missing_in_the_rows_and_in_the_stream(settings: Settings) -> None:
    assert sum(lost(seed, settings, Reader) for seed in range(600)) == 0


@dataclass
class WithoutPrepared(Reader):
    """Does not read prepared transactions."""

    def prepared(self) -> Collection[int]:
        return ()


@dataclass
class OneInstance(Reader):
    """Reads the SCN of one instance only."""

    def scns(self) -> list[int]:
        return [self.world.scn[self.instance]]


@dataclass
class EarlyScn(Reader):
    """Takes the SCN before it reads the transactions."""

    early: int = 0

    def listed(self) -> Mapping[int, int]:
        self.early = self.early or max(super().scns())
        return super().listed()

    def scns(self) -> Sequence[int]:
        found, self.early = [self.early] if self.early else super().scns(), 0
        return found


@dataclass
class ListedOnce(Reader):
    """Reads the list of running transactions only before the prepared ones."""

    asked: int = 0
    reads: int = 1

    def listed(self) -> Mapping[int, int]:
        self.asked += 1
        return super().listed() if self.asked % 2 == self.reads else {}


@dataclass
class ListedAfter(ListedOnce):
    """Reads the list of running transactions only after the prepared ones."""

    reads: int = 0


class HighestOnly(Reader):
    """Reads transactions although an instance has not reached the start of the stream."""

    def scns(self) -> list[int]:
        return [max(super().scns())]


@dataclass
class Careless(Reader):
    """Ignores instances that start and stop."""

    def threads(self) -> Collection[Thread]:
        return ()


@pytest.mark.one_in(9)
@pytest.mark.parametrize(
    "reader", [WithoutPrepared, OneInstance, EarlyScn, ListedOnce, ListedAfter, HighestOnly, Careless]
)
def test_without_one_of_its_steps_transactions_are_lost(reader: Callable[[World], Reader]) -> None:
    assert any(lost(seed, CLUSTER, reader) for seed in range(4000))


def younger(seed: int, settings: Settings, reader_of: Callable[[World], Reader]) -> int:
    """Transactions that a position of triggers does not cover, and that began before the SCN that it gives for them."""
    world = World(seed, settings)
    world.run(world.random.randrange(60))
    reader, position = reader_of(world), None
    while position is None:
        with suppress(InstanceLost):
            position = take(reader)
        world.run(3)
    world.finish()
    return sum(it.start < position.oldest and (it.commit or 0) > position.scn for it in world.committed)


@pytest.mark.parametrize("settings", [ONE, CLUSTER])
def test_a_position_of_triggers_says_how_old_transactions_are_that_it_does_not_cover(settings: Settings) -> None:
    assert sum(younger(seed, settings, Reader) for seed in range(600)) == 0


def test_the_highest_scn_of_the_instances_is_not_enough() -> None:
    assert any(younger(seed, CLUSTER, HighestOnly) for seed in range(4000))


@dataclass
class Still:
    """A master without activity."""

    running: Mapping[int, int]
    in_doubt: Collection[int] = ()

    def threads(self) -> Collection[Thread]:
        return [Thread(1, "1")]

    def listed(self) -> Mapping[int, int]:
        return self.running

    def prepared(self) -> Collection[int]:
        return self.in_doubt

    def scns(self) -> Collection[int]:
        return [500, 700]

    def pause(self) -> None:
        raise AssertionError("all instances are there")


@pytest.mark.parametrize(
    ("running", "in_doubt", "older"),
    [
        ({}, (), {}),
        ({1: 100}, (), {}),  # the redo with that SCN is read
        ({1: 99, 2: 100, 3: 400}, (), {1: 99}),
        ({1: 0}, (), {1: 0}),  # not known
        ({}, (4,), {4: 0}),
        ({4: 100}, (4,), {}),
        ({4: 99}, (4,), {4: 99}),
    ],
)
def test_transactions_older_than_the_stream_are_awaited(
    running: dict[int, int], in_doubt: tuple[int, ...], older: dict[int, int]
) -> None:
    assert observe(Still(running, in_doubt), 100) == Observation(older, 700)


def test_a_wait_names_its_transactions_and_the_remedy() -> None:
    owners = {1: Owner("2026-11-24 04:00:00", 2, "123,45", "SCOTT", "sqlplus@host")}
    said = str(older_transactions("//db/SHOP", 100, {1: 99, 2: 0}, owners))
    assert "//db/SHOP: transactions run that began before SCN 100" in said
    assert (
        "Transaction 0.0.1, of SCN 99, runs since 2026-11-24 04:00:00 by the master's clock, of SCOTT, sqlplus@host "
        "(ALTER SYSTEM KILL SESSION '123,45,@2' rolls it back)" in said
    )
    assert "Transaction 0.0.2, of SCN unknown, is prepared or has no session (COMMIT FORCE '0.0.2'" in said
    many = str(older_transactions("//db/SHOP", 100, dict.fromkeys(range(9), 7), {}))
    assert "and 4 more" in many
