"""The end is equal, whatever happens on the master while blocks load, for keys of every kind."""

from collections import Counter

import pytest

from sluice.apply.key_events import KeyEvents
from sluice.apply.load_filter import Kept, LoadFilter
from sluice.model.names import TableName
from tests.rig.rig import MakePair
from tests.scenarios.initial_load.traffic import Traffic, Writable

KEYS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "bigint": ("id bigint PRIMARY KEY", ("id",), "floor(random() * 6000)::bigint"),
    "descending": ("id int PRIMARY KEY", ("id",), "-floor(random() * 6000)::int"),
    "sparse": ("id bigint PRIMARY KEY", ("id",), "floor(power(random(), 9) * 9e15)::bigint"),
    "text": ("id text PRIMARY KEY", ("id",), "chr(33 + floor(random() * 900)::int) || floor(random() * 99)::int"),
    "citext": ("id citext PRIMARY KEY", ("id",), "(substr('aBcDeF', 1 + floor(random() * 6)::int, 1) || "
               "chr(65 + floor(random() * 50)::int) || floor(random() * 50)::int)::citext"),
    "uuid": ("id uuid PRIMARY KEY", ("id",), "md5(floor(random() * 6000)::text)::uuid"),
    "timestamptz": ("id timestamptz PRIMARY KEY", ("id",),
                    "'2024-01-01Z'::timestamptz + floor(random() * 6000) * interval '1.000001 hour'"),
    "numeric": ("id numeric PRIMARY KEY", ("id",), "round((random() * 600)::numeric, 1) / 7"),
    "bytea": ("id bytea PRIMARY KEY", ("id",), "decode(md5(floor(random() * 6000)::text), 'hex')"),
    "composite": (
        "a int, b text COLLATE \"C\", c date, PRIMARY KEY (b, a, c)", ("b", "a", "c"),
        "chr(65 + floor(random() * 20)::int), floor(random() * 20)::int, '2024-01-01'::date + floor(random() * 9)::int",
    ),
    "own_types": ("a mood, b citext, PRIMARY KEY (a, b)", ("a", "b"),
                  "(array['sad', 'ok', 'happy'])[1 + floor(random() * 3)::int]::mood, "
                  "chr(65 + floor(random() * 50)::int)::citext"),
    "unique_index": ("x int, id int NOT NULL UNIQUE", ("id",), "floor(random() * 6000)::int"),
    "partitioned": ("id int, PRIMARY KEY (id)", ("id",), "floor(random() * 6000)::int"),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(2))
def test_a_load_under_random_traffic_ends_equal(pair_of: MakePair, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decided: Counter[bool] = Counter()
    keep = LoadFilter.keep

    def counted(self: LoadFilter, found: KeyEvents, table: TableName) -> Kept | None:
        kept = keep(self, found, table)
        decided.update([] if kept is None else kept.tolist())
        return kept

    monkeypatch.setattr(LoadFilter, "keep", counted)
    pair = pair_of(block_rows=150, seconds=0.05)
    master = pair.master
    master.execute("SET search_path TO pg_catalog, public")
    master.execute("CREATE EXTENSION citext SCHEMA public")
    master.execute("CREATE TYPE public.mood AS ENUM ('sad', 'ok', 'happy')")
    writables = []
    for name, (columns, key, make_key) in KEYS.items():
        partition = "PARTITION BY RANGE (id)" if name == "partitioned" else ""
        master.execute(f"CREATE TABLE public.of_{name} ({columns}, v text) {partition}")
        if partition:
            for number in range(3):
                master.execute(
                    f"CREATE TABLE public.part_{number} PARTITION OF public.of_{name} "
                    f"FOR VALUES FROM ({number * 2000}) TO ({number * 2000 + 2000})"
                )
        master.execute(
            f"INSERT INTO public.of_{name} ({', '.join(key)}, v) SELECT {make_key}, 'old ' || g "
            "FROM generate_series(1, 1500) g ON CONFLICT DO NOTHING"
        )
        writables.append(Writable(f"public.of_{name}", key, make_key))
    master.execute("CREATE TABLE public.keyless (v text, n int)")
    master.execute("INSERT INTO public.keyless SELECT 'v' || g % 5, g % 2 FROM generate_series(1, 300) g")
    writables.append(Writable("public.keyless", (), ""))
    master.execute("SET search_path TO pg_catalog, pg_temp")

    pair.capture()
    update = pair.update()
    with Traffic(pair.master_info, writables, seed=seed) as traffic:
        pair.prepare(update)
        with pair.apply():
            reports = pair.load(update, 3)
            pair.await_normal()
    with pair.apply():
        pair.await_current()
    pair.assert_equal()
    found = pair.blocks()
    print(traffic.transactions, "transactions,", sum(report.blocks for report in reports), "blocks,", decided)
    assert sum(report.blocks for report in reports) == len(found) > 30
    assert decided[True] and decided[False], "changes of loaded blocks were applied, and others left to the load"
