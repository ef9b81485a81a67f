"""A slave that is restored from a copy of its database, or cloned (docs/restores.md)."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.errors import raises_code
from tests.rig.rig import Rig

TABLE = "CREATE TABLE public.orders (id int PRIMARY KEY, note text)"
Copies = Callable[[str], str]


@pytest.fixture
def made(rig: Callable[..., Rig]) -> Rig:
    return rig(TABLE)


@pytest.fixture
def copy(made: Rig) -> Iterator[Copies]:
    """`copy("older")` makes a copy of the slave's database, and returns its name."""
    names: list[str] = []

    def make(kind: str) -> str:
        source = made.pair.slave_info.database
        names.append(f"{source[:40]}_{kind}")
        made.slave.close()
        administer(made, f"CREATE DATABASE {quoted(names[-1])} TEMPLATE {quoted(source)}")
        use(made, source)
        return names[-1]

    yield make
    made.slave.close()
    for name in names:
        administer(made, f"DROP DATABASE {quoted(name)} WITH (FORCE)")


def administer(rig: Rig, statement: str) -> None:
    with connect(replace(rig.pair.slave_info, database="postgres"), application="test", autocommit=True) as admin:
        admin.execute(statement.encode())


def use(rig: Rig, database: str) -> None:
    """The connection of the slave leads there from now on."""
    rig.slave.close()
    rig.master.close()
    fresh = Rig.between(replace(rig.pair, slave_info=replace(rig.pair.slave_info, database=database)), rig.redis_url)
    rig.pair, rig.master, rig.slave, rig.failure = fresh.pair, fresh.master, fresh.slave, None


def write(rig: Rig, first: int, count: int = 5) -> None:
    for number in range(first, first + count):
        rig.master.execute("INSERT INTO public.orders VALUES (%s, 'a note')", [number])
    rig.master.execute("UPDATE public.orders SET note = note || '.'")


def expect_goes_on(rig: Rig) -> None:
    with rig.apply():
        rig.await_current()
    assert rig.differences() == {}
    assert rig.state() is SlaveState.NORMAL


@pytest.mark.long
def test_a_slave_restored_older_goes_on_and_one_restored_newer_after_that_too(made: Rig, copy: Copies) -> None:
    write(made, 1)
    expect_goes_on(made)
    older = copy("older")
    write(made, 101)
    expect_goes_on(made)
    newer = copy("newer")
    use(made, older)
    write(made, 201)
    expect_goes_on(made)
    use(made, newer)
    write(made, 301)
    expect_goes_on(made)


def test_a_slave_restored_older_than_the_purge_is_inconsistent(made: Rig, copy: Copies) -> None:
    write(made, 1)
    expect_goes_on(made)
    older = copy("older")
    write(made, 101)
    expect_goes_on(made)
    applied = made.checkpoint.position
    assert applied is not None
    assert PostgresQueue(made.master, made.pair.prefix, "public").purge([applied]) > 0
    use(made, older)
    with made.apply(), raises_code("changes-purged", match="Start an initial update"):
        made.await_current()
    assert made.state() is SlaveState.INCONSISTENT


@pytest.mark.long
def test_two_copies_of_one_slave_both_have_all_until_one_lacks_deleted_changes(
    made: Rig, copy: Copies, tmp_path: Path
) -> None:
    write(made, 1)
    expect_goes_on(made)
    original, clone = made.pair.slave_info.database, copy("clone")
    for number in (101, 201):
        write(made, number)
        expect_goes_on(made)
        use(made, clone)
        write(made, number + 50)
        expect_goes_on(made)
        use(made, original)
    expect_goes_on(made)
    write(made, 301)
    expect_goes_on(made)
    applied = made.checkpoint.position
    assert applied is not None
    assert PostgresQueue(made.master, made.pair.prefix, "public").purge([applied]) > 0
    use(made, clone)
    with made.apply(), raises_code("changes-purged", match="Start an initial update"):
        made.await_current()
    assert made.state() is SlaveState.INCONSISTENT
