"""Random rows, random `where`, `columns` and `exit`, updates that move rows in and out, interruptions of everything: at
the end the slave is the transformed master, and a comparison says so.
"""

import random
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sluice.coordination import redis_store
from sluice.model.names import TableName
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Outcome
from sluice.verify.resync import compare_table
from tests.rig.rig import Rig
from tests.scenarios.transform.conftest import MakeShop
from tests.scenarios.transform.people import Writers
from tests.waiting import until

DDL = """
CREATE TABLE public.r (id int, part text COLLATE "C", land text, n numeric(9,2), seen timestamp, note text,
                       PRIMARY KEY (id, part));
INSERT INTO public.r SELECT g, chr(97 + g % 3), CASE g % 4 WHEN 0 THEN 'CH' WHEN 1 THEN 'DE' WHEN 2 THEN '' END,
  g % 11 - 5, timestamp '2026-01-01' + g * interval '7 hours', E'a"<&]]>\\n' || g FROM generate_series(1, 300) g;
"""
WHERES = [
    ("land = 'CH' OR n > 2", "land = 'CH' OR n > 2"),
    ("n BETWEEN -2 AND 3", "n BETWEEN -2 AND 3"),
    ("land IS NULL OR part <> 'b'", "land IS NULL OR part <> 'b'"),
    ("month(seen) % 2 = 0", "extract(month FROM seen)::int % 2 = 0"),
]
"""As the configuration says it, and as the master's own SQL."""
COLUMNS = [
    ({"land": {"rename": "country"}}, "land AS country"),
    ({"note": {"exclude": "true"}}, None),
    ({"n": {"constant": "7.00"}}, "7.00::numeric(9,2) AS n"),
    ({"note": {"expression": "upper(left(note, 3)) || coalesce(land, '?')"}},
     "upper(left(note, 3)) || coalesce(land, '?') AS note"),
    ({"part": {"rename": "PART"}}, 'part AS "PART"'),
    ({"twice": {"expression": "n * 2"}}, "n * 2 AS twice"),
]  # fmt: skip
EXIT = """
import pyarrow.compute as pc

def rows(given):
    return given.filter(pc.invert(pc.ends_with(given['id'], '7'))).sort_by('id')
"""
WITHOUT_SEVENS = "id % 10 <> 7"
WRITES = [
    "UPDATE public.r SET land = (ARRAY['CH', 'DE', NULL, ''])[1 + random() * 3], n = random() * 20 - 10 "
    "WHERE id BETWEEN 20 + (random() * 300)::int AND 30 + (random() * 300)::int",
    "INSERT INTO public.r SELECT 1000 + random() * 500000, 'x', 'CH', random() * 9, '2026-05-05', '</col>' "
    "ON CONFLICT DO NOTHING",
    "DELETE FROM public.r WHERE id = (SELECT id FROM public.r OFFSET (random() * 200)::int LIMIT 1)",
    "UPDATE public.r SET part = CASE part WHEN 'a' THEN 'A' ELSE 'a' END "
    "WHERE id = (random() * 300)::int AND part <> 'x'",
    "UPDATE public.r SET seen = seen + interval '20 days', note = 'n' WHERE id % 17 = (random() * 17)::int",
    "BEGIN; UPDATE public.r SET id = id + 1000000 WHERE id < 40; "
    "UPDATE public.r SET id = id - 1000000 WHERE id > 1000000; COMMIT",
]  # fmt: skip


def chosen(dice: random.Random) -> tuple[dict[str, Any], str]:
    """A line of the configuration, and the query for the rows that the slave must have."""
    where, condition = dice.choice(WHERES)
    columns: dict[str, Any] = {}
    shown = {name: name for name in ("id", "part", "land", "n", "seen", "note")}
    for change, text in dice.sample(COLUMNS, 3):
        (name,) = change
        if name in columns:
            continue
        columns |= change
        if text is None:
            del shown[name]
        else:
            shown[name] = text
    rule: dict[str, Any] = {"where": where, "columns": columns}
    if dice.random() < 0.6:
        rule["exit"], condition = "random_rows:rows", f"({condition}) AND {WITHOUT_SEVENS}"
    return rule, f"SELECT {', '.join(shown.values())} FROM public.r WHERE {condition}"


def as_texts(connection: "psycopg.Connection[Any]", query: str) -> list[str]:
    return sorted(
        repr(sorted(row.items()))
        for row in connection.cursor(row_factory=psycopg.rows.dict_row).execute(query.encode()).fetchall()
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_the_slave_is_the_transformed_master_whatever_is_interrupted(
    shop: MakeShop, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random_rows.py").write_text(EXIT)
    monkeypatch.syspath_prepend(str(tmp_path))
    dice = random.Random(seed)
    rule, query = chosen(dice)
    here = shop(DDL, {"public.r": rule}, block_rows=40, seconds=0.02, stage=dice.choice([8, 20_000]))
    here.prepare(update := here.update())
    with Writers(here, WRITES):
        with here.apply():
            here.load_to_normal(update)
        for _ in range(4):
            interrupted(here, dice)
    with here.apply():
        here.await_current()
        found = compare_table(
            here.pair, redis_store.connect(here.redis_url), TableName("public", "r"), CompareOptions()
        )
    assert found.outcome is Outcome.IDENTICAL, (rule, found)
    assert as_texts(here.slave, "SELECT * FROM public.r") == as_texts(here.master, query), rule


def interrupted(here: Rig, dice: random.Random) -> None:
    """Runs an apply until its sessions on the slave were cut several times; then it ends, and starts again later."""
    with here.apply():
        for _ in range(dice.randint(1, 4)):
            before = here.checkpoint.changes
            until(lambda before=before: here.checkpoint.changes > before)
            here.slave.execute(
                b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sluice DEMO%%' "
                b"AND datname = current_database()"
            )
