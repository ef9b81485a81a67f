"""Random histories of a real master, recorded at random times, replayed with interruptions: equal at the end."""

import random
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.rig.rig import Rig
from tests.scenarios.stream.rig import Replay, recorder, replayed

TABLES = """
CREATE TABLE public.t (id int PRIMARY KEY, u int UNIQUE, v text);
CREATE TABLE public.two ("Key A" text, "order" int, v text DEFAULT 'd', PRIMARY KEY ("order", "Key A"));
CREATE TABLE public.child (id int PRIMARY KEY, t int REFERENCES public.t ON UPDATE CASCADE ON DELETE SET NULL);
CREATE TABLE public.bag (a text, b int);
"""
TEXTS = ["", "NULL", "]]></col>", "<&>", "x\ty\n", "🐘", None, "'; --"]


def step(chance: random.Random, number: int) -> tuple[str, list[object]]:
    """Runs a statement that may fail, like an application's."""
    one, other, text = chance.randrange(12), chance.randrange(12), chance.choice(TEXTS)
    choices: list[tuple[str, list[object]]] = [
        ("INSERT INTO public.t VALUES (%s, %s, %s)", [one, other, text]),
        ("INSERT INTO public.t SELECT n, 100 + n FROM generate_series(%s, %s) n ON CONFLICT DO NOTHING", [one, 40]),
        ("UPDATE public.t SET v = %s WHERE id < %s", [text, one]),
        ("UPDATE public.t SET id = id + 1 WHERE id = (SELECT max(id) FROM public.t)", []),
        ("UPDATE public.t SET u = %s WHERE id = %s", [one, other]),
        ("DELETE FROM public.t WHERE id %% 7 = %s", [one % 7]),
        ("INSERT INTO public.two VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", [text or "k", one, text]),
        ('UPDATE public.two SET "Key A" = "Key A" || %s', [str(number)[-1]]),
        ('DELETE FROM public.two WHERE "order" = %s', [one]),
        ("INSERT INTO public.child VALUES (%s, %s)", [one, other]),
        ("UPDATE public.child SET t = %s WHERE id = %s", [one, other]),
        ("INSERT INTO public.bag VALUES (%s, %s), (%s, %s)", [text, one, text, one]),
        ("UPDATE public.bag SET a = %s WHERE ctid = (SELECT min(ctid) FROM public.bag)", [text]),
        ("DELETE FROM public.bag WHERE b = %s", [one]),
        ("TRUNCATE public.bag", []),
        (f"ALTER TABLE public.two ADD COLUMN c{number} int DEFAULT {one}", []),
        (f"ALTER TABLE public.bag RENAME COLUMN b TO b{number}", []),
    ]
    return chance.choice(choices)


def write(connection: psycopg.Connection[object], chance: random.Random, number: int) -> None:
    """Runs one transaction of some statements; it may be rolled back."""
    try:
        with connection.transaction(force_rollback=chance.random() < 0.1):
            for _ in range(chance.randint(1, 4)):
                connection.execute(*step(chance, number))  # type: ignore[arg-type]
    except psycopg.Error:
        return  # the application's own mistake, which leaves nothing behind


@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(number, marks=pytest.mark.long) for number in (1, 2, 4, 5, 6, 7, 8))]
)
def test_a_random_history_ends_as_its_master(
    seed: int, rig: Callable[..., Rig], tmp_path: Path, replay: Callable[..., Replay]
) -> None:
    chance, folder = random.Random(seed), tmp_path / "stream"
    master = rig(TABLES)
    recorder(master, folder).record_once()
    made = replay(folder, master, tables=TABLES, batch=chance.choice([3, 50, 1_000_000]))
    for number in range(30):
        write(master.master, chance, number)
        if chance.random() < 0.3:
            recorder(master, folder, file_bytes=chance.choice([500, 1_000_000])).record_once()
        if chance.random() < 0.08:
            with replayed(made):
                pass
            if chance.random() < 0.5:
                recorder(master, folder).record_once()
    recorder(master, folder).record_once()
    with replayed(made):
        pass
    assert made.differences() == {}, f"seed {seed}"
    assert made.at == made.end
