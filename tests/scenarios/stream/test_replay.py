"""A recorded stream, replayed into a slave by the real apply."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.model.slave_state import SlaveState
from sluice.vendors.postgres.source.queue import PostgresQueue
from sluice.vendors.stream.errors import OtherStream, StreamDamaged
from sluice.vendors.stream.files import Files, file_name
from sluice.vendors.stream.writer import Writer
from tests.airflow_home import ROOT
from tests.errors import raises_code
from tests.rig.rig import Rig
from tests.scenarios.stream.rig import Replay, recorder, replayed

TABLES = """
CREATE TABLE public.t (id int PRIMARY KEY, u text UNIQUE, v text);
CREATE TABLE public.child (id int PRIMARY KEY, t int REFERENCES public.t ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE public.bag (a text, b int);
CREATE SCHEMA "My Schema";
CREATE TABLE "My Schema"."select ""x]]>" (
    "Key a" text, "key.b" char(5), "order" bytea, n numeric, at timestamptz, flag boolean, list text[], doc jsonb,
    PRIMARY KEY ("Key a", "key.b")
);
"""


def write(rig: Rig) -> None:
    """Runs statements of every kind."""
    sql = rig.master.execute
    sql("INSERT INTO public.t SELECT n, 'u' || n, 'v' FROM generate_series(1, 300) n")
    sql("INSERT INTO public.child SELECT n, n FROM generate_series(1, 100) n")
    sql("UPDATE public.t SET id = id + 1000 WHERE id <= 50")
    sql("DELETE FROM public.t WHERE id BETWEEN 60 AND 90")
    sql("INSERT INTO public.bag VALUES ('a', 1), ('a', 1), (NULL, NULL), ('', 0)")
    sql("UPDATE public.bag SET b = 2 WHERE ctid = (SELECT min(ctid) FROM public.bag WHERE a = 'a')")
    sql("DELETE FROM public.bag WHERE a = ''")
    hostile = ["", "NULL", "]]></col>", "x\ty\r\n\\.\n", "<&>\"'", "🐘\x01\x7f", "  blank  ", "k" * 3000]
    for number, text in enumerate(hostile):
        sql(
            'INSERT INTO "My Schema"."select ""x]]>" VALUES (%s, %s, %s, %s, now(), NULL, ARRAY[%s, NULL], %s)',
            [text[:60] + str(number), str(number), text.encode(), "1.50", text, '{"a": [null, "\\u00e9"]}'],
        )
    sql('UPDATE "My Schema"."select ""x]]>" SET "Key a" = "Key a" || %s, flag = true', ["'\""])
    with rig.master.transaction():
        sql("DELETE FROM public.child WHERE id < 80")
        sql("UPDATE public.t SET u = 'other ' || u")
    sql("TRUNCATE public.bag")
    sql("INSERT INTO public.bag VALUES ('after', 1)")


@pytest.fixture
def recorded(rig: Callable[..., Rig], tmp_path: Path) -> tuple[Rig, Path]:
    """A master, and the stream of its changes."""
    master, folder = rig(TABLES), tmp_path / "stream"
    recorder(master, folder).record_once()
    write(master)
    recorder(master, folder, file_bytes=20_000).record_once()
    return master, folder


@pytest.mark.long
def test_a_recorded_stream_makes_the_slave_equal(recorded: tuple[Rig, Path], replay: Callable[..., Replay]) -> None:
    master, folder = recorded
    made = replay(folder, master, tables=TABLES)
    with replayed(made):
        pass
    assert made.differences() == {}
    assert made.checkpoint.changes == made.end.commit, "each change was applied once"
    with replayed(made):
        pass
    assert made.checkpoint.changes == made.end.commit, "a second run has nothing to do"
    assert made.differences() == {}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "options",
    [
        {"batch": 40, "stage": 40},
        {"batch": 1_000, "stage": 40},
        {"options": "on_conflict: reject"},
        {"options": "safe_mode: true"},
    ],
)
def test_however_large_a_transaction_is_and_whatever_the_policy(
    options: dict[str, object], rig: Callable[..., Rig], tmp_path: Path, replay: Callable[..., Replay]
) -> None:
    """In slices, by executors, change by change, idempotently."""
    master, folder = rig(TABLES), tmp_path / "stream"
    recorder(master, folder).record_once()
    write(master)
    recorder(master, folder).record_once()
    made = replay(folder, master, tables=TABLES, **options)
    with replayed(made):
        pass
    assert made.differences() == {}
    assert made.checkpoint.state is SlaveState.NORMAL


@pytest.mark.long
def test_a_stream_that_grows_is_followed(
    rig: Callable[..., Rig], tmp_path: Path, replay: Callable[..., Replay]
) -> None:
    """Recorder and apply run while the master is written to; changes of definitions are among it."""
    master, folder, stop = rig(TABLES), tmp_path / "stream", threading.Event()
    recorder(master, folder).record_once()
    made = replay(folder, master, tables=TABLES)
    recording = recorder(master, folder, file_bytes=5_000)
    thread = threading.Thread(target=recording.run, args=[stop], daemon=True)
    thread.start()
    with made.apply():
        try:
            write(master)
            made.await_that(lambda: bool((here := made.at) and here.commit))
            master.master.execute("ALTER TABLE public.t ADD COLUMN w int DEFAULT 7")
            master.master.execute("ALTER TABLE public.bag RENAME TO sack")
            master.master.execute("INSERT INTO public.sack VALUES ('renamed', 2)")
            master.master.execute("UPDATE public.t SET v = 'w', w = w + 1 WHERE id > 1000")
            master.master.execute("DROP TABLE public.child")
        finally:
            stop.set()
            thread.join(60)
        recorder(master, folder).record_once()
        made.await_current()
    assert made.differences() == {}
    assert len(list(folder.glob("*.jsonl"))) > 1, "the stream goes over several files"


def test_an_apply_that_is_killed_goes_on_and_nothing_comes_twice(
    recorded: tuple[Rig, Path], replay: Callable[..., Replay]
) -> None:
    """Rows without a key would be there twice."""
    master, folder = recorded
    for number in range(60):
        master.master.execute("INSERT INTO public.bag VALUES ('same', 1), (%s, 2)", [str(number)])
        if number % 10 == 0:
            recorder(master, folder).record_once()
    recorder(master, folder).record_once()
    made = replay(folder, master, tables=TABLES, batch=20)
    given = {"prefix": "REC_", "slave": made.pair.slave_info.to_dict(), "redis_url": made.redis_url}
    seen = -1
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.scenarios.stream.killed_apply"],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"},
            cwd=ROOT,
        )
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(json.dumps(given).encode())

        def moved(before: int = seen) -> bool:
            found = made.checkpoints.read() if made.checkpoints.exists() else None
            return found is not None and found.changes > before

        made.await_that(moved)
        process.kill()
        process.wait()
        seen = made.checkpoint.changes
    assert seen < made.end.commit, "it was killed half-way"
    with replayed(made):
        pass
    assert made.differences() == {}
    assert made.checkpoint.changes == made.end.commit, "each change was applied once"


@pytest.mark.long
def test_after_a_restart_changes_may_come_twice(recorded: tuple[Rig, Path], replay: Callable[..., Replay]) -> None:
    """Safe mode lasts to where the stream ended at the start. At the very first start nothing can come twice."""
    master, folder = recorded
    made = replay(folder, master, tables=TABLES)
    with made.apply() as running:
        made.await_current()
        assert not running.loop.mode.on
    middle = made.at
    assert middle is not None
    with master.master.transaction():
        master.master.execute("UPDATE public.t SET u = 'swapped' WHERE id = 200")
        master.master.execute("UPDATE public.t SET u = 'other u200' WHERE id = 201")
    recorder(master, folder).record_once()
    master.master.execute("DELETE FROM public.t WHERE id = 201")
    recorder(master, folder).record_once()
    with replayed(made):
        pass
    made.set_back(middle)
    with made.apply() as running:
        made.await_normal_mode(running)
    assert made.differences() == {}


@pytest.mark.long
def test_a_local_row_with_the_same_unique_value_is_reported(
    rig: Callable[..., Rig], tmp_path: Path, replay: Callable[..., Replay]
) -> None:
    """In safe mode a row of the slave may have to go, and a stream cannot always say what the master has there."""
    master, folder = rig(TABLES), tmp_path / "stream"
    recorder(master, folder).record_once()
    master.master.execute("INSERT INTO public.t VALUES (1, 'one', ''), (2, 'two', '')")
    recorder(master, folder).record_once()
    made = replay(folder, master, tables=TABLES, options="safe_mode: true")
    with replayed(made):
        pass
    made.slave.execute("UPDATE public.t SET u = 'three' WHERE id = 1")
    master.master.execute("INSERT INTO public.t VALUES (3, 'three', '')")
    recorder(master, folder).record_once()
    with made.apply(), raises_code("master-row-unknown", match="no later change of the stream says"):
        made.await_that(lambda: False)
    master.master.execute("UPDATE public.t SET v = 'later' WHERE id = 1")
    recorder(master, folder).record_once()
    with replayed(made):
        pass
    assert made.differences() == {}, "the row's next change says what it was"


@pytest.mark.long
def test_the_checkpoint_may_be_in_redis(rig: Callable[..., Rig], tmp_path: Path, replay: Callable[..., Replay]) -> None:
    keyed, folder = "CREATE TABLE public.t (id int PRIMARY KEY, u text UNIQUE)", tmp_path / "stream"
    master = rig(keyed)
    recorder(master, folder).record_once()
    made = replay(folder, master, tables=keyed, options="checkpoint: redis")
    for number in range(3):
        master.master.execute("INSERT INTO public.t SELECT n, 'u' || n FROM generate_series(%s::int, %s::int) n",
                              [10 * number, 10 * number + 9])  # fmt: skip
        master.master.execute("UPDATE public.t SET u = 'x' || (1000 - id)")
        recorder(master, folder).record_once()
        with replayed(made):
            pass
        assert made.differences() == {}


@pytest.mark.long
def test_a_damaged_line_stops_the_apply_and_loses_nothing(
    recorded: tuple[Rig, Path], replay: Callable[..., Replay]
) -> None:
    master, folder = recorded
    file = next(file for file in folder.glob("*.jsonl") if b'"change":"truncate"' in file.read_bytes())
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"change":"truncate"', b'"change":"truncat"', 1))
    assert file.read_bytes() != whole
    made = replay(folder, master, tables=TABLES)
    with made.apply(), pytest.raises(StreamDamaged, match="truncat"):
        made.await_that(lambda: False)
    file.write_bytes(whole)
    with replayed(made):
        pass
    assert made.differences() == {}


@pytest.mark.long
def test_a_stream_of_another_source_is_refused(
    recorded: tuple[Rig, Path], replay: Callable[..., Replay], tmp_path: Path
) -> None:
    master, folder = recorded
    made = replay(folder, master, tables=TABLES)
    with replayed(made):
        pass
    there = made.at
    with made.slave.transaction():
        made.checkpoints.start_at(PostgresQueue(master.master, master.pair.prefix, "public").take())
    with made.apply(), raises_code("other-source"):
        made.await_that(lambda: False)
    made.set_back(there)
    (folder / "kept").mkdir()
    for file in folder.glob("*.jsonl"):
        file.rename(folder / "kept" / file.name)
    recorder(master, folder).record_once()
    with made.apply(), pytest.raises(OtherStream, match="the slave follows"):
        made.await_that(lambda: False)
    assert made.checkpoint.state is SlaveState.NORMAL, "nothing is lost: the files can be put back"
    (folder / file_name(0)).unlink()
    for file in (folder / "kept").iterdir():
        file.rename(folder / file.name)
    with replayed(made):
        pass
    assert made.differences() == {}


def test_a_recorder_notices_what_was_purged(rig: Callable[..., Rig], tmp_path: Path) -> None:
    master, folder = rig(TABLES), tmp_path / "stream"
    recorder(master, folder).record_once()
    write(master)
    now = PostgresQueue(master.master, master.pair.prefix, "public").take()
    assert PostgresQueue(master.master, master.pair.prefix, "public").purge([now])
    with raises_code("not-recorded", match="purged on the master"):
        recorder(master, folder).record_once()


@pytest.mark.long
def test_a_recorder_that_is_killed_before_its_first_commit_goes_on(
    rig: Callable[..., Rig], tmp_path: Path, replay: Callable[..., Replay]
) -> None:
    master, folder = rig(TABLES), tmp_path / "stream"
    recorder(master, folder).record_once()
    files = Files(folder)
    (file,) = files.names()
    begun = files.index(file, [file])
    Writer(folder, begun.header.stream, begun.end, begun.tables(0)).close()
    write(master)
    assert recorder(master, folder).record_once().position > 0
    made = replay(folder, master, tables=TABLES)
    with replayed(made):
        pass
    assert made.differences() == {}
