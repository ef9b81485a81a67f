"""Partitions are dropped, and created again with rows of the same keys, while blocks of their table load."""

import random
from itertools import count

import pytest

from sluice.model.blocks import BlockState
from sluice.model.slave_state import SlaveState
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig

TABLE = 'public."Parted ""by"""'
PARTITIONS, WIDTH = 5, 200
ENOUGH = 15
"""Partitions dropped while blocks load; then the load may end."""


def make(pair: Rig, key: str) -> None:
    pair.master.execute(f"CREATE TABLE {TABLE} (id int{key}, v text) PARTITION BY RANGE (id)".encode())
    for number in range(PARTITIONS):
        pair.master.execute(created(number).encode())
    pair.master.execute(
        f"INSERT INTO {TABLE} SELECT g, 'old' FROM generate_series(0, {PARTITIONS * WIDTH - 1}) g".encode()
    )


def created(number: int) -> str:
    bounds = f"FROM ({number * WIDTH}) TO ({number * WIDTH + WIDTH})"
    return f'CREATE TABLE public."p {number}" PARTITION OF {TABLE} FOR VALUES {bounds}'


def loading(pair: Rig) -> bool:
    """Whether the load has begun and not ended."""
    states = {block.state for block in pair.blocks()}
    return not states <= {BlockState.STORED} and not states <= {BlockState.PLANNED}


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("told", "read", "key"),
    [
        pytest.param(True, "committed", " PRIMARY KEY", id="event triggers"),
        pytest.param(False, "committed", " PRIMARY KEY", id="comparison"),
        pytest.param(True, "locked", " PRIMARY KEY", id="event triggers, locked"),
        pytest.param(False, "locked", " PRIMARY KEY", id="comparison, locked"),
        pytest.param(True, "locked", "", id="event triggers, no key"),
        pytest.param(False, "locked", "", id="comparison, no key"),
    ],
)
def test_partitions_dropped_while_blocks_load_end_equal(pair_of: MakePair, told: bool, read: str, key: str) -> None:
    pair = pair_of(block_rows=40, seconds=0.02, role=not told)
    make(pair, key)
    pair.capture()
    update = pair.update(read=read)
    pair.prepare(update)
    pair.slow_down(TABLE, 0.003)
    chance, values = random.Random(f"{told} {read} {key}"), count(1)
    gone_while_loading: list[int] = []

    def drop_again_and_again() -> None:
        while pair.state() is not SlaveState.NORMAL and len(gone_while_loading) < ENOUGH:
            number, value = chance.randrange(PARTITIONS), next(values)
            keys = f"generate_series({number * WIDTH}, {number * WIDTH + WIDTH - 1}, {chance.choice((1, 3, 7))}) g"
            with pair.master.transaction():
                pair.master.execute(f'DROP TABLE public."p {number}"'.encode())
                pair.master.execute(created(number).encode())
                if chance.random() < 0.5:
                    pair.master.execute(f"INSERT INTO {TABLE} SELECT g, 'again {value}' FROM {keys}".encode())
            if loading(pair):
                gone_while_loading.append(number)
            pair.master.execute(
                f"INSERT INTO {TABLE} SELECT g, 'more {value}' FROM {keys} "
                f"WHERE NOT EXISTS (SELECT FROM {TABLE} o WHERE o.id = g)".encode()
            )
            pair.master.execute(f"UPDATE {TABLE} SET v = 'changed {value}' WHERE id % 10 = {value % 10}".encode())

    with pair.apply():
        dropping = Background(drop_again_and_again)
        pair.load(update, 2)
        pair.full_speed()
        pair.await_normal()
        assert dropping.end() is None
    with pair.apply():
        pair.await_current()
        pair.master.execute(f"UPDATE {TABLE} SET v = 'last' WHERE id % 7 = 0".encode())
        pair.await_current()
    pair.assert_equal()
    queued = pair.master.execute("SELECT count(*) FROM public.demo_items WHERE db_action = 'DELETE WHERE'").fetchone()
    assert len(gone_while_loading) > 2 and queued is not None and queued[0] >= len(set(gone_while_loading))
