"""Changes that leave columns out: these columns keep their values, however the changes are applied."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.errors import raises_code
from tests.rig.rig import Rig
from tests.scenarios.stream.rig import Replay, recorder, replayed

TABLES = """
CREATE TABLE public.t (id int PRIMARY KEY, u text UNIQUE, v text, w text DEFAULT 'default');
CREATE TABLE public.pair (a text, b int, c text, PRIMARY KEY (a, b));
"""


def thinned(folder: Path) -> int:
    """Removes from the lines what a source that knows only changed columns lacks; returns the number of lines."""
    count = 0
    for file in folder.glob("*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        keys = {
            tuple(line["table"]): [column["name"] for column in line["columns"] if column.get("key")]
            for line in lines
            if "columns" in line
        }
        for line in lines:
            key = keys.get(tuple(line.get("table", ())), [])
            if line.get("change") == "update":
                changed = {name for name, value in line["new"].items() if line["old"].get(name, value) != value}
                line["new"] = {name: value for name, value in line["new"].items() if name in {*changed, *key}}
                line["old"] = {name: value for name, value in line["old"].items() if name in {*changed, *key}}
            elif line.get("change") == "delete":
                line["old"] = {name: value for name, value in line["old"].items() if name in key}
            else:
                continue
            line["partial"] = True
            count += 1
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return count


def write(rig: Rig) -> None:
    sql = rig.master.execute
    sql("INSERT INTO public.t SELECT n, 'u' || n, 'v' FROM generate_series(1, 100) n")
    sql("INSERT INTO public.pair SELECT n % 7, n, 'c' FROM generate_series(1, 100) n")
    with rig.master.transaction():
        sql("INSERT INTO public.t VALUES (500, 'new', 'v', 'w')")
        sql("UPDATE public.t SET v = '<&]]>' WHERE id = 500")
        sql("UPDATE public.t SET w = NULL WHERE id = 500")
    sql("UPDATE public.t SET v = 'only v' WHERE id <= 50")
    sql("UPDATE public.t SET w = 'only w' WHERE id <= 30")
    sql("UPDATE public.t SET id = id + 1000 WHERE id <= 10")
    sql("UPDATE public.pair SET a = 'moved', c = NULL WHERE b < 20")
    sql("UPDATE public.pair SET c = '' WHERE b < 10")
    sql("DELETE FROM public.t WHERE id BETWEEN 90 AND 95")
    sql("DELETE FROM public.pair WHERE b % 5 = 0")
    sql("INSERT INTO public.t VALUES (91, 'again')")
    sql("UPDATE public.t SET v = 'v' WHERE id = 91")


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch": 20},
        {"stage": 20},
        {"options": "on_conflict: reject"},
        {"options": "safe_mode: true"},
        {"options": "checkpoint: redis"},
    ],
)
def test_omitted_columns_keep_their_values(
    options: dict[str, object], rig: Callable[..., Rig], tmp_path: Path, replay: Callable[..., Replay]
) -> None:
    master, folder = rig(TABLES), tmp_path / "stream"
    recorder(master, folder).record_once()
    write(master)
    recorder(master, folder).record_once()
    assert thinned(folder) > 100
    made = replay(folder, master, tables=TABLES, **options)
    with replayed(made):
        pass
    assert made.differences() == {}
    there = made.at
    assert there is not None
    with replayed(made):
        pass
    assert made.differences() == {}


@pytest.mark.long
def test_a_row_of_which_only_a_part_is_known_is_not_made_up(
    rig: Callable[..., Rig], tmp_path: Path, replay: Callable[..., Replay]
) -> None:
    """In safe mode an update inserts a missing row, but a partial row cannot be inserted."""
    master, folder = rig(TABLES), tmp_path / "stream"
    recorder(master, folder).record_once()
    master.master.execute("INSERT INTO public.t VALUES (1, 'one', 'v')")
    recorder(master, folder).record_once()
    made = replay(folder, master, tables=TABLES, options="safe_mode: true")
    with replayed(made):
        pass
    row = made.slave.execute("DELETE FROM public.t RETURNING id, u, v, w").fetchone()
    master.master.execute("UPDATE public.t SET v = 'other'")
    recorder(master, folder).record_once()
    thinned(folder)
    with made.apply(), raises_code("master-row-unknown", match="id = '1'"):
        made.await_that(lambda: False)
    assert row is not None
    made.slave.execute("INSERT INTO public.t VALUES (%s, %s, %s, %s)", row)
    with replayed(made):
        pass
    assert made.differences() == {}


@pytest.mark.long
def test_after_a_restart_partial_changes_may_come_twice(
    rig: Callable[..., Rig], tmp_path: Path, replay: Callable[..., Replay]
) -> None:
    """Also those of rows that were deleted later: it is right that these are missing."""
    master, folder = rig(TABLES), tmp_path / "stream"
    recorder(master, folder).record_once()
    master.master.execute("INSERT INTO public.t VALUES (1, 'one', 'v'), (2, 'two', 'v')")
    recorder(master, folder).record_once()
    made = replay(folder, master, tables=TABLES)
    with replayed(made):
        pass
    middle = made.at
    assert middle is not None
    master.master.execute("UPDATE public.t SET v = 'other'")
    master.master.execute("UPDATE public.t SET id = 3 WHERE id = 2")
    recorder(master, folder).record_once()
    master.master.execute("DELETE FROM public.t WHERE id = 1")
    recorder(master, folder).record_once()
    thinned(folder)
    with replayed(made):
        pass
    made.set_back(middle)
    with made.apply() as running:
        made.await_normal_mode(running)
    assert made.differences() == {}
