"""Output of OpenLogReplicator, merged and replayed into a slave by the real apply."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from sluice.database.recorder import MergeOptions
from sluice.model.names import Prefix
from sluice.vendors.oracle.queue_position import Incarnation, QueuePosition
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.position import StreamPosition
from sluice.vendors.stream.redo.merger import Limits, Merger
from tests.airflow_home import ROOT
from tests.errors import raises_code
from tests.scenarios.stream.rig import Replay, replayed
from tests.unit import redo_vectors
from tests.unit.redo_output import ONE, RESETLOGS, TWO, checkpoint, ddl, folder, insert, row, schema, transaction, write

THREADS = (ONE, TWO)
T, BAG = schema("T", owner="PUBLIC"), schema("BAG", owner="PUBLIC")
TABLES = """
CREATE TABLE public.t (id numeric PRIMARY KEY, name text, note text);
CREATE TABLE public.bag (id numeric, name text, note text);
"""
KEYS = {("PUBLIC", "T"): ["ID"], ("PUBLIC", "BAG"): []}
HOSTILE = ["", "NULL", "]]></col>", "<&>\"'", "🐘", "  blank  ", "\\.\\n", "k" * 3000]


class History:
    """Random transactions of an Oracle master with two threads, and the resulting rows."""

    def __init__(self, seed: int, transactions: int):
        self.random = random.Random(seed)
        self.rows: dict[int, tuple[str | None, str | None]] = {}
        self.bag: list[tuple[str, str | None, str | None]] = []
        self.lines: list[tuple[int, list[str]]] = []
        """Of each transaction its thread, and its messages."""
        for number in range(transactions):
            scn = 100 + number
            payloads = [self._change(each) for each in range(self.random.randint(1, 6))]
            self.lines.append((self.random.randint(0, 1), transaction(scn, f"1.{number}.9", payloads)))

    def _change(self, number: int) -> str:
        choice, text = self.random.random(), self.random.choice([*HOSTILE, None])
        if choice < 0.15:
            self.bag.append((str(len(self.bag) % 3), text, None))
            return insert(number, int(self.bag[-1][0]), text, BAG)
        key = self.random.choice([*self.rows]) if self.rows and choice < 0.7 else len(self.rows) + 1000 * number
        if key not in self.rows:
            self.rows[key] = (text, "whole")
            return row("c", number, None, {"ID": key, "NAME": text, "NOTE": "whole"}, T)
        name, note = self.rows[key]
        if choice < 0.3:
            del self.rows[key]
            return row("d", number, {"ID": key, "NAME": name}, None, T)
        if choice < 0.4:
            other = key + 1_000_000
            while other in self.rows:
                other += 1_000_000
            del self.rows[key]
            self.rows[other] = (name, note)
            return row("u", number, {"ID": key}, {"ID": other}, T)
        if choice < 0.5:
            self.rows[key] = (name, "another")
            return row("u", number, {"ID": key}, {"ID": key, "NOTE": "another"}, T)
        self.rows[key] = (text, note)
        return row("u", number, {"ID": key, "NAME": name}, {"ID": key, "NAME": text}, T)


def write_all(root: Path, history: Iterable[tuple[int, list[str]]]) -> None:
    for one in THREADS:
        folder(root, one, keys=KEYS)
    last = 0
    for last, (thread, lines) in enumerate(history):
        write(root / str(THREADS[thread]), [*lines, checkpoint(100 + last)])
    for one in THREADS:
        write(root / str(one), [checkpoint(last + 1_000)])


def rows_of(made: Replay) -> tuple[dict[int, tuple[str | None, str | None]], list[Any]]:
    rows = made.slave.execute("SELECT id, name, note FROM public.t").fetchall()
    bag = made.slave.execute("SELECT id::text, name, note FROM public.bag ORDER BY 1, 2").fetchall()
    return {int(key): (name, note) for key, name, note in rows}, bag


def assert_same(made: Replay, history: History) -> None:
    rows, bag = rows_of(made)
    assert rows == history.rows
    assert sorted(bag, key=repr) == sorted(history.bag, key=repr)


@pytest.fixture
def begun(replay: Callable[..., Replay], database: Callable[..., Any]) -> Callable[..., Replay]:
    """The slave of a stream that was not recorded from a PostgreSQL."""

    def build(stream: Path, **options: object) -> Replay:
        return replay(stream, SimpleNamespace(master=None), **options)

    return build


@pytest.mark.one_in(3)
@pytest.mark.parametrize("options", [{}, {"batch": 15, "stage": 10}, {"options": "safe_mode: true"}])
def test_redo_of_two_threads_makes_the_slave_the_masters(
    options: dict[str, object], tmp_path: Path, begun: Callable[..., Replay]
) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    history = History(7, 150)
    write_all(root, history.lines)
    Merger(root, stream, Prefix("ORA_"), limits=Limits(group=20)).merge_once()
    made = begun(stream, tables=TABLES, **options)
    with replayed(made):
        pass
    assert_same(made, history)
    applied = made.checkpoint.changes
    Merger(root, stream, Prefix("ORA_")).merge_once()
    with replayed(made):
        pass
    assert made.checkpoint.changes == applied, "a second run has nothing to do"


@pytest.mark.long
def test_a_merge_that_is_killed_goes_on_and_nothing_comes_twice(tmp_path: Path, begun: Callable[..., Replay]) -> None:
    """The output grows, is cut off and written again; keyless rows would be there twice."""
    root, stream = tmp_path / "threads", tmp_path / "stream"
    history = History(11, 120)
    write_all(root, [])
    for one in THREADS:
        (root / str(one) / "1.jsonl").write_text("")
    made = None
    for part in range(4):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.scenarios.stream.merging", str(root), str(stream)],
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"},
            cwd=ROOT,
        )
        for number, (thread, lines) in enumerate(history.lines[30 * part : 30 * part + 30], start=30 * part):
            here = root / str(THREADS[thread])
            if number % 7 == 3:
                with (here / "1.jsonl").open("a") as opened:
                    opened.write("\n".join(lines)[: 40 * (number % 20)])
            for one in THREADS:
                write(root / str(one), [*(lines if root / str(one) == here else ()), checkpoint(100 + number)])
        if made is None:
            made = begun(stream, tables=TABLES)
        wanted = 30 * part
        made.await_that(lambda wanted=wanted: merged(stream) > wanted)
        process.kill()
        process.wait()
    assert made is not None
    for one in THREADS:
        write(root / str(one), [checkpoint(10_000)])
    assert Merger(root, stream, Prefix("ORA_")).merge_once() == 0
    with replayed(made):
        pass
    assert_same(made, history)


def merged(stream: Path) -> int:
    """The SCN up to which the stream goes, from 100 on."""
    for file in sorted(stream.glob("*.jsonl"), reverse=True):
        index = Files(stream).index(file, [file]) if file.stat().st_size else None
        if index is not None and index.end.source:
            return int(index.end.source.split('"scn":')[1].split(",")[0]) - 100
    return -1


def test_ddl_of_the_master_comes_to_the_slave(tmp_path: Path, begun: Callable[..., Replay]) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    email = '{"name":"EMAIL","type":"varchar2","length":9,"nullable":true}'
    wider = T.replace('{"name":"NOTE"', f'{email},{{"name":"NOTE"')
    lines = [
        *transaction(100, "1.1.1", [insert(0, 1, "gone", T), insert(1, 9, "kept", BAG)]),
        *transaction(101, "1.2.1", [ddl("TRUNCATE TABLE T", T)]),
        *transaction(102, "1.3.1", [insert(0, 2, "two", T)]),
        *transaction(103, "1.4.1", [ddl("ALTER TABLE T ADD (EMAIL VARCHAR2(9))", T)]),
        *transaction(104, "1.5.1", [row("u", 0, {"ID": 2}, {"ID": 2, "EMAIL": "a@b"}, wider)]),
        checkpoint(200),
    ]
    folder(root, ONE, lines, keys=KEYS)
    Merger(root, stream, Prefix("ORA_")).merge_once()
    made = begun(stream, tables=TABLES)
    with replayed(made):
        pass
    found = made.slave.execute("SELECT id::text, name, note, email FROM public.t").fetchall()
    assert found == [("2", "two", None, "a@b")]
    assert made.slave.execute("SELECT name FROM public.bag").fetchall() == [("kept",)]


def test_a_slave_goes_over_from_triggers_to_redo_without_a_new_load(
    tmp_path: Path, begun: Callable[..., Replay], redis_url: str
) -> None:
    """Rows with and without a key are there once: the stream continues exactly after the changes of the triggers."""
    history, had = History(23, 90), 40
    write_all(tmp_path / "before", history.lines[:had])
    Merger(tmp_path / "before", tmp_path / "by triggers", Prefix("ORA_")).merge_once()
    former = begun(tmp_path / "by triggers", tables=TABLES)
    with replayed(former):
        pass
    by_triggers = former.checkpoint.changes
    scn = 100 + had - 1
    position = QueuePosition(9, 9, frozenset(), frozenset(), Incarnation(1, "", RESETLOGS, 0), scn, scn)
    former.slave.execute("UPDATE public.rec_checkpoint SET position = %s", (position.text(),))

    write_all(tmp_path / "threads", history.lines)
    Merger(tmp_path / "threads", tmp_path / "unfit", Prefix("ORA_")).merge_once()
    unfit = Replay.of(tmp_path / "unfit", former.pair.slave_info, former.master, redis_url)
    with raises_code("between-transactions", match=f"Write {scn} under"), unfit.apply():
        unfit.await_that(lambda: unfit.checkpoint.position != position)
    assert unfit.checkpoint.position == position, "the slave stays where it is"

    Merger(tmp_path / "threads", tmp_path / "stream", Prefix("ORA_"), MergeOptions(ends_at=(scn,))).merge_once()
    made = Replay.of(tmp_path / "stream", former.pair.slave_info, former.master, redis_url)
    with made.apply():
        made.await_that(lambda: isinstance(made.checkpoint.position, StreamPosition))
        made.await_current()
    assert_same(made, history)
    assert made.checkpoint.changes - by_triggers == sum(len(lines) - 2 for _, lines in history.lines[had:])
    with replayed(made):
        pass
    assert_same(made, history)
    for each in (unfit, made):
        each.slave.close()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("scenario", redo_vectors.scenarios())
def test_real_output_leaves_what_logminer_says(scenario: str, tmp_path: Path, begun: Callable[..., Replay]) -> None:
    """Each transaction, with the columns that its format lacks added, through the apply into PostgreSQL."""
    references, columns = redo_vectors.references(scenario), redo_vectors.columns(scenario)
    if scenario in ("boolean-type", "ddl-add-column"):
        pytest.skip("its table differs: the writer could not read a value, or did not say the DDL (tests/unit)")
    lines = [line.replace(f'"{redo_vectors.OWNER}"', '"PUBLIC"') for line in redo_vectors.lines(scenario)]
    keys = {("PUBLIC", table): key for (_, table), key in redo_vectors.keys(scenario).items()}
    made = folder(tmp_path / "threads", ONE, lines, keys=keys)
    (made / "thread.json").write_text('{"closed": true, "timestamp": "s"}')
    Merger(tmp_path / "threads", tmp_path / "stream", Prefix("ORA_")).merge_once()
    replica = begun(tmp_path / "stream", tables=made_of(columns, keys))
    with replayed(replica):
        pass
    wanted: dict[str, dict[tuple[str, ...], dict[str, str | None]]] = {table: {} for table in columns}
    for each in references:
        key = keys["PUBLIC", each["table"]]
        before, after = each.get("before"), each.get("after")
        rows = wanted[each["table"]]
        if before is not None:
            del rows[tuple(before[name] for name in key)]
        if after is not None:
            whole = {**(before or {}), **after}
            rows[tuple(whole[name] for name in key)] = whole
    for table, rows in wanted.items():
        texts = [name for name in (column["name"] for column in columns[table]) if plain(columns[table], name)]
        assert in_slave(replica.slave, table, texts) == sorted(
            [tuple(row.get(name) for name in texts) for row in rows.values()], key=repr
        )


def plain(columns: list[dict[str, Any]], name: str) -> bool:
    """Whether LogMiner shows the column's values unchanged."""
    return next(column["type"] for column in columns if column["name"] == name) in ("number", "varchar2", "char")


def made_of(columns: dict[str, list[dict[str, Any]]], keys: dict[tuple[str, str], list[str]]) -> str:
    kinds = {"number": "numeric", "date": "timestamp", "timestamp": "timestamp", "raw": "bytea"}
    made = []
    for table, described in columns.items():
        key = ", ".join(name.lower() for name in keys["PUBLIC", table])
        listed = ", ".join(f"{each['name'].lower()} {kinds.get(each['type'], 'text')}" for each in described)
        made.append(f"CREATE TABLE public.{table.lower()} ({listed}, PRIMARY KEY ({key}));")
    return "\n".join(made)


def in_slave(connection: psycopg.Connection[Any], table: str, names: list[str]) -> list[tuple[Any, ...]]:
    listed = ", ".join(f"{name.lower()}::text" for name in names)
    return sorted(connection.execute(f"SELECT {listed} FROM public.{table.lower()}".encode()).fetchall(), key=repr)
