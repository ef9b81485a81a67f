"""An apply that is killed before or after each of its statements on the slave, by SIGKILL: nothing lost or doubled."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from devstack.home import REPOSITORY
from sluice.model.position import Position
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.scenarios.mariadb.rig import Rig

TABLES = """
CREATE TABLE public.accounts (id int PRIMARY KEY, owner varchar(20) UNIQUE DEFERRABLE, balance int NOT NULL);
INSERT INTO public.accounts SELECT n, 'owner ' || n, 100 FROM generate_series(1, 20) AS n;
CREATE TABLE public.log (what text, amount int);
CREATE TABLE public.scratch (id int PRIMARY KEY);
INSERT INTO public.scratch SELECT generate_series(1, 5);
"""
ROWS = [
    "UPDATE public.accounts SET balance = balance - 5 WHERE id <= 10",
    "UPDATE public.accounts SET balance = balance + 5 WHERE id > 10",
    "UPDATE public.accounts SET owner = CASE id WHEN 1 THEN 'owner 2' ELSE 'owner 1' END WHERE id IN (1, 2)",
    "UPDATE public.accounts SET id = id + 100 WHERE id IN (3, 4)",
    "DELETE FROM public.accounts WHERE id = 5; INSERT INTO public.accounts VALUES (50, 'owner 5', 95)",
    "INSERT INTO public.log SELECT 'moved', 5 FROM generate_series(1, 3)",
    "DELETE FROM public.log WHERE ctid IN (SELECT ctid FROM public.log LIMIT 1)",
    "TRUNCATE public.scratch; INSERT INTO public.scratch VALUES (9)",
]
DEFINITIONS = [
    "ALTER TABLE public.accounts ADD COLUMN note varchar(10) DEFAULT 'none'",
    "UPDATE public.accounts SET note = 'one' WHERE id = 6",
    "ALTER TABLE public.accounts RENAME COLUMN owner TO holder",
    "ALTER TABLE public.accounts ALTER COLUMN balance TYPE bigint, ALTER COLUMN note TYPE varchar(20)",
    "UPDATE public.accounts SET holder = holder || '!' WHERE id = 7",
    "ALTER TABLE public.log RENAME TO journal",
    "INSERT INTO public.journal VALUES ('after', 0)",
    "CREATE TABLE public.later (id uuid PRIMARY KEY); DROP TABLE public.scratch",
]
BALANCE = "SELECT SUM(balance) FROM accounts"
MOST_KILLS = 1_000


@contextmanager
def applies(pair: Rig) -> Iterator[Callable[[int, str], str]]:
    """`killed(number, moment)`: runs an apply that is killed there; returns how it ended."""
    infos = {"m": pair.pair.master_info.to_dict(), "s": pair.pair.slave_info.to_dict()}
    starter = subprocess.Popen(
        [sys.executable, "-m", "tests.scenarios.mariadb.killed_apply"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'plugins'}"},
    )
    assert starter.stdin is not None and starter.stdout is not None
    entrance, answers = starter.stdin, starter.stdout

    def killed(number: int, moment: str) -> str:
        print(number, moment, file=entrance, flush=True)
        return answers.readline().strip()

    try:
        print(json.dumps({"connections": infos, "redis_url": pair.redis_url}), file=entrance, flush=True)
        yield killed
    finally:
        entrance.close()
        starter.wait(60)
        answers.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("statements", "stride", "least"),
    [
        pytest.param(ROWS, 1, 40, id="rows, each statement"),
        pytest.param(DEFINITIONS, 4, 60, id="definitions, each fourth statement of each step"),
    ],
)
def test_wherever_it_is_killed_the_next_one_goes_on_exactly(
    rig: Callable[..., Rig], statements: Sequence[str], stride: int, least: int
) -> None:
    pair = rig(TABLES)
    pair.load()
    with pair.apply():
        pair.await_current()
    with pair.master.transaction():
        for statement in statements:
            pair.master.execute(statement.encode())
    pair.capture()
    wanted = PostgresQueue(pair.master, pair.pair.prefix, "public").take()
    kills, place, before = 0, 1, progress(pair)
    with applies(pair) as killed:
        while not covers(pair, wanted):
            moment = ("before", "after")[kills % 2] if stride > 1 else "before"
            assert killed(place, moment) == "killed", f"at statement {place}"
            kills += 1
            assert kills < MOST_KILLS
            assert pair.slave.run(BALANCE).fetchone() == (2_000,), "half a window is to be seen"
            # What comes after a step is struck from its first statement on.
            now = progress(pair)
            place, before = (place + stride, before) if now == before else (1, now)
    assert pair.differences() == {}
    assert pair.rejects.open() == []
    assert kills > least


def progress(pair: Rig) -> tuple[object, ...]:
    """What a step changes on the slave: the position changes with rows, the pending DDL with definitions."""
    found = pair.checkpoint
    return found.position, found.slice_key, found.catching_up


def covers(pair: Rig, wanted: Position) -> bool:
    found = pair.checkpoint
    return found.position is not None and found.position.covers_all_of(wanted) and not found.catching_up
