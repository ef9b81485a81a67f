"""An initial update as files: exact under live traffic, restartable, and closed to foreign files."""

import csv
import gzip
import io
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sluice.load import steps
from sluice.load.load_ownership import LoadEnded
from sluice.load.transfer import transfer_folder as carried_module
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.load.transfer.transfer_folder import FileDamaged, NotComplete
from sluice.model.blocks import BlockState
from sluice.model.location import S3Access
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.storage.folder import FileGone
from tests.errors import raises_code
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_files.carrying import KEY, export, exported, location, moved, prepare, shop
from tests.scenarios.initial_load.shop import HEAP, NOTES, ORDERS, make_shop
from tests.scenarios.initial_load.traffic import Traffic
from tests.waiting import until


@pytest.mark.one_in(2)
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_changes_made_while_the_folder_travels_are_applied_by_marker(
    pair_of: MakePair, tmp_path: Path, key: bytes | None
) -> None:
    pair = pair_of(block_rows=200, seconds=0.02)
    make_shop(pair)
    update = pair.update()
    prepare(pair, update)
    with pair.apply(), Traffic(pair.master_info, [ORDERS, NOTES, HEAP], writers=2) as traffic:
        carried = transfer_steps.folder_of(update, location(tmp_path / "out"), S3Access(), key)
        export(update, carried)
        manifest = transfer_steps.seal(update, carried)
        # As many as the sizes come to that the pace of the machine chose; more than a worker takes, though.
        assert len(manifest.blocks) > 6
        assert pair.checkpoints.read().message == f"Manual Data transfer: WAITING (stored on '{carried.location}')"  # type: ignore[union-attr]
        before = traffic.transactions
        until(lambda: traffic.transactions > before + 50)
        assert pair.state() is SlaveState.TRANSITION
        there = moved(carried, tmp_path / "in")
        assert transfer_steps.examine(update, there) == manifest
        steps.open_gate(update, pair.store)
        report = import_in_threads(update, there, manifest, 3)
        assert report.blocks == len(manifest.blocks) and report.rows == sum(block.rows for block in manifest.blocks)
        pair.await_normal()
    with pair.apply():
        pair.await_current()
    pair.assert_equal()
    assert steps.finish(update).left_out == []
    assert transfer_steps.left_to_import(update) == 0


@pytest.mark.long
def test_an_open_gate_loses_nothing_while_the_files_travel(pair_of: MakePair, tmp_path: Path) -> None:
    """As after a loss of Redis: BLOCKS alone keep the apply from dropping changes that the files lack."""
    pair = pair_of(block_rows=200, seconds=0.02)
    make_shop(pair)
    update = pair.update()
    prepare(pair, update)
    pair.store.flushall()
    with pair.apply(), Traffic(pair.master_info, [ORDERS, NOTES, HEAP], writers=2):
        carried = transfer_steps.folder_of(update, location(tmp_path / "out"), S3Access(), None)
        export(update, carried)
        manifest = transfer_steps.seal(update, carried)
        pair.master.execute("TRUNCATE public.scratch")
        pair.master.execute("INSERT INTO public.scratch VALUES (1, 'after the truncate')")
        import_in_threads(update, carried, manifest, 2)
        pair.await_normal()
    with pair.apply():
        pair.await_current()
    pair.assert_equal()


@pytest.mark.long
def test_tables_altered_during_the_export_and_the_journey(pair_of: MakePair, tmp_path: Path) -> None:
    pair = pair_of(block_rows=300, seconds=0.02)
    make_shop(pair)
    update = pair.update()
    prepare(pair, update)
    carried = transfer_steps.folder_of(update, location(tmp_path / "out"), S3Access(), None)
    export(update, carried, 1, lambda: any(block.state is BlockState.EXPORTED for block in pair.blocks("orders")))
    pair.master.execute("ALTER TABLE public.orders ADD COLUMN extra text DEFAULT 'x', DROP COLUMN v")
    pair.master.execute("INSERT INTO public.orders VALUES (100000, 'y')")
    export(update, carried, 1)
    manifest = transfer_steps.seal(update, carried)
    pair.master.execute("ALTER TABLE public.notes ADD COLUMN late int DEFAULT 3")
    pair.master.execute("DROP TABLE public.doomed")
    with raises_code("tables-do-not-fit", match="the slave's table lacks extra"):
        import_in_threads(update, carried, manifest, 2, wait_seconds=0.5)
    with pair.apply():
        steps.open_gate(update, pair.store)
        import_in_threads(update, carried, manifest, 2, wait_seconds=60)
        pair.await_normal()
        pair.await_current()
    pair.assert_equal()


def test_a_table_dropped_during_the_export_is_left_out(pair_of: MakePair, tmp_path: Path) -> None:
    pair = shop(pair_of)
    update = pair.update()
    prepare(pair, update)
    pair.master.execute("DROP TABLE public.doomed")
    carried = transfer_steps.folder_of(update, location(tmp_path / "out"), S3Access(), None)
    export(update, carried, 1)
    doomed = TableName("public", "doomed")
    assert "public.doomed was dropped or renamed" in pair.checkpoint.tables.explain(doomed)
    manifest = transfer_steps.seal(update, carried)
    assert doomed not in {block.table for block in manifest.blocks}
    with pair.apply():
        steps.open_gate(update, pair.store)
        import_in_threads(update, carried, manifest, 2)
        pair.await_normal()
        pair.await_current()
    pair.assert_equal()


@pytest.fixture
def zoo(pair_of: MakePair, tmp_path: Path) -> Rig:
    """Values and names that are difficult in a file."""
    pair = pair_of(block_rows=3)
    pair.master.execute("CREATE TYPE public.mood AS ENUM ('so,so', 'a\"b')")
    pair.master.execute(
        'CREATE TABLE public."Odd ""name"", x" (id int PRIMARY KEY, "a,b" text, "q""" bytea, "new\nline" text[], '
        "j jsonb, n numeric, d date, r int4range, f float8, m public.mood, iv interval, t timestamptz, "
        "twice int GENERATED ALWAYS AS (id * 2) STORED)"
    )
    values: list[list[Any]] = [
        ["", b"", [], "{}", "NaN", "infinity", "empty", float("-inf"), "so,so", "1 mon -2 days", "-infinity"],
        [None] * 11,
        ['\\.', b"\x00\xff,\"\n", [None, "", "NULL", "a,b"], '{"k": "\\u20ac"}', "1e-300", "0044-03-15 BC", "[1,)",
         0.1 + 0.2, 'a"b', "178000000 years", "1999-01-01"],
        ['\n\\.\n', b"," * 3, ['"'], "[]", "-0", "5874897-12-31", "(,)", 5e-324, None, "00:00:00.000001", "epoch"],
        [' \t "quoted", \r\n\\N \x01 \U0001f600', b'"', ["\n"], "null", "1" * 1000, *[None] * 6],
    ]  # fmt: skip
    for number, row in enumerate(values):
        pair.master.execute(
            'INSERT INTO public."Odd ""name"", x" VALUES (%s' + ", %s" * 4 + ", %s::numeric, %s::date, %s::int4range, "
            "%s, %s::public.mood, %s::interval, %s::timestamptz)",
            [number, *row],
        )
    pair.master.execute("CREATE TABLE public.one (v text)")
    pair.master.execute("INSERT INTO public.one VALUES (''), (NULL), ('\\.'), (E'\\n'), ('')")
    pair.master.execute("CREATE TABLE public.none ()")
    pair.master.execute("INSERT INTO public.none DEFAULT VALUES")
    pair.master.execute("INSERT INTO public.none DEFAULT VALUES")
    pair.master.execute("CREATE TABLE public.empty (id int PRIMARY KEY)")
    pair.master.execute("CREATE TABLE public.wide (id int PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.wide VALUES (1, repeat('0123456789\"', 3000000))")
    return pair


@pytest.mark.long
def test_every_value_travels_exactly_and_other_tools_read_the_files(zoo: Rig, tmp_path: Path) -> None:
    update = zoo.update()
    carried, manifest = exported(zoo, update, location(tmp_path / "out"))
    import_in_threads(update, carried, manifest, 2)
    zoo.assert_equal()
    (block,) = [block for block in manifest.blocks if block.table.name == "one"]
    content = gzip.decompress((Path(carried.location.path) / block.file.name).read_bytes()).decode()
    assert sorted(csv.reader(io.StringIO(content, newline=""))) == [[], [""], [""], ["\n"], ["\\."], ["v"]]
    by_hand = zoo.slave.cursor()
    by_hand.execute("CREATE TABLE public.by_hand (v text)")
    with by_hand.copy("COPY public.by_hand FROM STDIN (FORMAT csv, HEADER)") as copy:
        copy.write(content)
    same = "SELECT count(*) FROM (TABLE public.by_hand EXCEPT ALL TABLE public.one) AS d"
    assert by_hand.execute(same.encode()).fetchone() == (0,)
    assert by_hand.execute("SELECT count(*) FROM public.by_hand").fetchone() == (5,)


@pytest.mark.long
def test_a_folder_is_what_the_documents_say(zoo: Rig, tmp_path: Path) -> None:
    carried, manifest = exported(zoo, zoo.update("u 1"), location(tmp_path / "out"))
    names = sorted(os.listdir(carried.location.path))
    assert names[:-2] == [block.file.name for block in manifest.blocks]
    assert names[-2].startswith("8-") and names[-1].startswith("9-")
    values = json.loads((Path(carried.location.path) / names[-1]).read_text())
    assert (values["prefix"], values["update"]) == ("DEMO_", "u 1")
    assert [(slave["name"], slave["schema"]) for slave in values["slaves"]] == [("dr1", "public")]
    found = {block.file: block for block in zoo.blocks()}
    assert set(found) == set(names[:-2]), "BLOCKS holds every file, with its SHA-256"
    assert {block.file.sha256 for block in manifest.blocks} == {block.sha256 for block in found.values()}
    tables = {tuple(table["table"]): table for table in values["tables"]}
    assert [column["name"] for column in tables["public", 'Odd "name", x']["columns"]][:3] == ["id", "a,b", 'q"']


@pytest.mark.long
def test_a_kept_table_stays_readable_and_its_old_rows_are_deleted(pair_of: MakePair, tmp_path: Path) -> None:
    pair = pair_of(policy="keep", block_rows=10)
    for side in (pair.master, pair.slave):
        side.execute("CREATE TABLE public.k (id int PRIMARY KEY, v text)")
        side.execute("CREATE TABLE public.t (id text PRIMARY KEY, v text)")
    pair.master.execute("INSERT INTO public.k SELECT g, 'new' FROM generate_series(1, 50) g")
    pair.slave.execute("INSERT INTO public.k SELECT g, 'old' FROM generate_series(0, 90, 7) g")
    pair.slave.execute("INSERT INTO public.t VALUES ('x', 'old')")
    update = pair.update()
    carried, manifest = exported(pair, update, location(tmp_path / "out"))
    assert pair.slave.execute("SELECT count(*) FROM public.k").fetchone() == (13,)
    import_in_threads(update, carried, manifest, 2)
    pair.assert_equal()


@pytest.mark.long
def test_an_export_goes_on_where_it_was_and_reads_no_block_twice(
    pair_of: MakePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = shop(pair_of)
    update, out = pair.update(), location(tmp_path / "out")
    prepare(pair, update)
    carried = transfer_steps.folder_of(update, out, S3Access(), None)
    written = carried_module.TransferFolder.write
    names: list[str] = []

    def failing(self: Any, name: str, *args: Any, **options: Any) -> Any:
        if len(names) == 7:
            raise FileGone(self.location, "has just been unplugged")
        file = written(self, name, *args, **options)
        names.append(name)
        return file

    with monkeypatch.context() as patched:
        patched.setattr(carried_module.TransferFolder, "write", failing)
        with pytest.raises(FileGone):
            export(update, carried, 1)
    first = set(carried.folder.sizes())
    with pytest.raises(NotComplete, match="lacks"):
        transfer_steps.seal(update, carried)
    assert transfer_steps.folder_of(update, out, S3Access(), None) == carried
    # As if a loader had died between its file and BLOCKS.
    shutil.copy(Path(carried.location.path) / names[0], Path(carried.location.path) / "7-20200101T000000.000000000Z")
    export(update, carried)
    manifest = transfer_steps.seal(update, carried)
    assert first - {"INCOMPLETE"} <= {block.file.name for block in manifest.blocks}
    assert "7-20200101T000000.000000000Z" not in carried.folder.sizes()
    assert transfer_steps.seal(update, carried) == manifest, "twice is once"
    import_in_threads(update, carried, manifest, 2)
    pair.assert_equal()


@pytest.mark.long
def test_everything_wrong_is_listed_at_once_and_nothing_is_loaded(pair_of: MakePair, tmp_path: Path) -> None:
    pair = shop(pair_of)
    update = pair.update()
    carried, manifest = exported(pair, update, location(tmp_path / "out"))
    folder = Path(carried.location.path)
    cut, altered, gone, link = (folder / block.file.name for block in manifest.blocks[:4])
    contents = {path: path.read_bytes() for path in folder.iterdir()}
    cut.write_bytes(contents[cut][:-3])
    altered.write_bytes(contents[altered][:50] + bytes([contents[altered][50] ^ 1]) + contents[altered][51:])
    gone.unlink()
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    (folder / manifest.end.name).write_text("The end?")
    with pytest.raises(transfer_steps.NotAsSent) as raised:
        transfer_steps.examine(update, carried)
    problems = raised.value.problems
    assert len(problems) == 5
    for path, words in ((cut, "bytes instead of"), (altered, "SHA-256"), (gone, "missing"), (link, "is a link")):
        assert any(path.name in problem and words in problem for problem in problems), (path.name, problems)
    assert transfer_steps.left_to_import(update) == len(manifest.blocks)
    link.unlink()
    for path, content in contents.items():
        path.write_bytes(content)
    (folder / ".DS_Store").write_bytes(b"left by a file manager")
    assert transfer_steps.examine(update, carried) == manifest
    steps.cancel(update, pair.store)
    with pytest.raises(LoadEnded):
        transfer_steps.examine(update, carried)


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "places"),
    [
        pytest.param(None, 4, id="plain", marks=pytest.mark.long),
        pytest.param(KEY, 4, id="encrypted", marks=pytest.mark.long),
        pytest.param(KEY, 1, id="encrypted, one a file"),
    ],
)
def test_random_bytes_flipped_in_every_file_are_found(
    pair_of: MakePair, tmp_path: Path, key: bytes | None, places: int
) -> None:
    pair = shop(pair_of)
    update = pair.update()
    carried, manifest = exported(pair, update, location(tmp_path / "out"), key=key)
    chance = random.Random(5)
    files = sorted(Path(carried.location.path).iterdir())
    assert len(files) == len(manifest.blocks) + 2
    for path in files:
        content = path.read_bytes()
        found = {0, len(content) - 1, *(chance.randrange(len(content)) for _ in range(2))}
        for place in chance.sample(sorted(found), min(places, len(found))):
            path.write_bytes(content[:place] + bytes([content[place] ^ chance.randint(1, 255)]) + content[place + 1 :])
            with pytest.raises(transfer_steps.NotAsSent) as raised:
                transfer_steps.examine(update, carried)
            assert path.name in str(raised.value)
        path.write_bytes(content)
    assert transfer_steps.examine(update, carried) == manifest


@pytest.mark.long
def test_a_file_that_goes_bad_after_the_check_is_not_stored(pair_of: MakePair, tmp_path: Path) -> None:
    pair = shop(pair_of)
    update = pair.update()
    carried, manifest = exported(pair, update, location(tmp_path / "out"))
    block = max((block for block in manifest.blocks if block.table.name == "orders"), key=lambda block: block.number)
    path = Path(carried.location.path) / block.file.name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FileDamaged):
        import_in_threads(update, carried, manifest, 2)
    (left,) = [found for found in pair.blocks("orders") if found.file == block.file.name]
    assert left.state is BlockState.EXPORTED
    path.write_bytes(content)
    import_in_threads(update, carried, manifest, 2)
    pair.assert_equal()


@pytest.mark.long
def test_an_older_folder_is_not_taken_for_the_newer_one(pair_of: MakePair, tmp_path: Path) -> None:
    pair = shop(pair_of)
    old_update = pair.update("old")
    old, _ = exported(pair, old_update, location(tmp_path / "out"))
    steps.cancel(old_update, pair.store)
    update = pair.update("new")
    new, manifest = exported(pair, update, location(tmp_path / "out"))
    assert new.location != old.location
    with pytest.raises(transfer_steps.NotAsSent, match="is of initial update old, the slave waits for new"):
        transfer_steps.examine(update, old)
    # Under the new folder's name it is not taken either.
    shutil.rmtree(new.location.path)
    shutil.move(old.location.path, new.location.path)
    with pytest.raises(transfer_steps.NotAsSent, match="give the folder that name again"):
        transfer_steps.examine(update, new)
    assert transfer_steps.left_to_import(update) == len(manifest.blocks)


@pytest.mark.long
def test_canceled_while_it_waits_and_while_it_imports(pair_of: MakePair, tmp_path: Path) -> None:
    pair = shop(pair_of)
    update = pair.update()
    carried, manifest = exported(pair, update, location(tmp_path / "out"))
    pair.slow_down("public.orders", 0.002)
    importing = Background(lambda: import_in_threads(update, carried, manifest, 2))
    until(lambda: any(block.state is BlockState.BEGUN for block in pair.blocks("orders")))
    assert steps.cancel(update, pair.store)
    assert isinstance(importing.end(30), LoadEnded)
    assert pair.state() is SlaveState.INCONSISTENT
    assert pair.checkpoints.read().message == "Initial Update interrupted by the ADMIN"  # type: ignore[union-attr]
    pair.slave.execute("DROP TRIGGER slow ON public.orders")
    online = pair.update()
    pair.prepare(online)
    pair.load(online)
    pair.assert_equal()


def test_a_slave_of_a_former_version_learns_of_files(pair_of: MakePair) -> None:
    pair = pair_of()
    pair.slave.execute(
        "CREATE TABLE public.demo_blocks (slave text, schema text, tablename text, block int, lo text, hi text, "
        "state text NOT NULL CHECK (state IN ('planned', 'begun', 'stored')), marker text, "
        "planned_at timestamptz DEFAULT now(), begun_at timestamptz, stored_at timestamptz, rows bigint, "
        "bytes bigint, loader text, PRIMARY KEY (slave, schema, tablename, block))"
    )
    pair.checkpoints.ensure()
    pair.checkpoints.ensure()
    insert = "INSERT INTO public.demo_blocks (slave, schema, tablename, block, state) VALUES ('a', 'b', 'c', 1, %s)"
    pair.slave.execute(insert.encode(), ["exported"])
    with pytest.raises(psycopg.errors.CheckViolation):
        pair.slave.execute(insert.replace("1", "2").encode(), ["lost"])
