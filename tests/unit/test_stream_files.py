"""A recorded stream is read from files: each change comes once, from any position, and defects raise errors."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.database import registry
from sluice.database.changes import ChangeReader, Share, TooManyBytes
from sluice.database.registry import source_of, vendor_of
from sluice.database.vendor import Source
from sluice.model.change import Action
from sluice.model.names import Prefix, TableName
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.stream import files
from sluice.vendors.stream.errors import OtherStream, StreamDamaged, StreamUnreachable
from sluice.vendors.stream.files import file_name
from sluice.vendors.stream.lines import Change, Commit, Header, write
from sluice.vendors.stream.position import StreamPosition
from sluice.vendors.stream.reader import Reader
from sluice.vendors.stream.session import StreamSession
from sluice.vendors.stream.source import StreamQueue
from sluice.vendors.stream.writer import Writer
from tests.errors import raises_code
from tests.examples import examples
from tests.unit.streams import STREAM, TABLE, TIME, at, defined, delete, insert, recorded, update, window

PREFIX = Prefix("REC_")


def keys(reader: ChangeReader, begins: int, ends: int, above: int = 0, up_to: int | None = None) -> list[int]:
    return reader.items(window(begins, ends, above, up_to)).column("repl_key").to_pylist()


def end(folder: Path, previous: StreamPosition | None = None) -> StreamPosition:
    return StreamQueue(StreamSession(folder), PREFIX, "").take(previous)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(20))
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8), file_bytes=st.integers(1, 2_000), data=st.data())
def test_any_window_holds_its_changes_once_and_in_order(
    sizes: Sequence[int], file_bytes: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    recorded(folder, *([insert(f"{number}.{each}") for each in range(size)] for number, size in enumerate(sizes)),
             file_bytes=file_bytes)  # fmt: skip
    commits = [0, *(sum(sizes[: number + 1]) for number in range(len(sizes)))]
    assert end(folder) == at(commits[-1])
    reader, session = Reader(folder), StreamSession(folder)
    for _ in range(4):
        begins = data.draw(st.sampled_from(commits))
        most = data.draw(st.integers(1, 20))
        target = StreamPosition.of(StreamQueue(session, PREFIX, "").window_end(at(begins), most))
        assert target.commit in commits
        assert target.commit > begins or begins == commits[-1]
        whole = list(range(begins + 1, target.commit + 1))
        assert keys(reader, begins, target.commit) == whole
        assert keys(reader, begins, commits[-1]) == list(range(begins + 1, commits[-1] + 1)), "over many files"
        cut = data.draw(st.integers(begins, target.commit))
        assert keys(reader, begins, target.commit, above=cut) == [key for key in whole if key > cut]
        assert keys(reader, begins, target.commit, up_to=cut) == [key for key in whole if key <= cut]
        survey = reader.survey(window(begins, target.commit), limit=most)
        assert (survey.changes, survey.more) == (min(most, len(whole)), most < len(whole))


def test_the_parts_of_an_item_are_those_of_its_change(tmp_path: Path) -> None:
    folder = recorded(
        tmp_path,
        [insert("a", None), insert("b", "")],
        [update("a", "<&>"), Change(Action.TRUNCATE, TABLE), delete("b")],
    )
    items = Reader(folder).items(window(0, 5)).to_pylist()
    assert [item["action"] for item in items] == ["INSERT", "INSERT", "UPDATE", "TRUNCATE", "DELETE"]
    assert [item["guid"] for item in items] == ["a", "b", "a", "", "b"]
    assert [item["trans_key"] for item in items] == [1, 1, 3, 3, 3]
    assert not at(2).covers(3)
    assert at(5).covers(3)
    assert items[0]["content"] == '<col name="Key a">a</col><col name="order" type="null"></col>'
    assert items[1]["content"].endswith('<col name="order"></col>')


def test_the_methods_of_a_window_for_an_apply(tmp_path: Path) -> None:
    moved = Change(Action.UPDATE, TABLE, new={"Key a": "z", "order": "v"}, old={"Key a": "a"})
    folder = recorded(tmp_path, [insert("a"), insert("b"), moved, Change(Action.TRUNCATE, TABLE)])
    reader, span = Reader(folder), window(0, 4)
    survey = reader.survey(span)
    assert (survey.changes, survey.last, survey.key_changes, survey.more) == (4, 4, 1, False)
    assert [(cut.repl_key, cut.transaction, cut.action) for cut in survey.cuts] == [(4, 1, "TRUNCATE")]
    assert reader.survey(span, max_bytes=1).changes == 1, "one is always taken"
    assert reader.key_changes(span).column("repl_key").to_pylist() == [3]
    assert reader.key_changes(span, guids={TABLE: ["a"]}).column("repl_key").to_pylist() == [1, 3]
    shares = [reader.items(span, share=Share(number, 3)).column("repl_key").to_pylist() for number in range(3)]
    assert sorted(key for share in shares for key in share) == [1, 2], "what has two keys, or none, is in no share"
    assert not reader.unordered(span)
    with pytest.raises(TooManyBytes):
        reader.items(span, max_bytes=10)


def test_a_large_transaction_is_read_from_its_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = 50
    monkeypatch.setattr(files, "STEP", step)
    count = 3 * step + 5
    folder = recorded(tmp_path, [insert("first")], [insert(str(number)) for number in range(count)])
    reader = Reader(folder)
    names = reader.files.names()
    place = reader.files.index(names[0], names).place(2 * step + 10)
    assert place.number == 2 * step + 1
    assert keys(reader, 1, count + 1, above=2 * step + 10, up_to=2 * step + 12) == [2 * step + 11, 2 * step + 12]
    item = reader.items(window(1, count + 1, 2 * step + 10, 2 * step + 11)).to_pylist()[0]
    assert (item["trans_key"], item["guid"]) == (2, str(2 * step + 9))


def test_nothing_is_read_of_files_before_the_place(tmp_path: Path) -> None:
    folder = recorded(tmp_path, *([insert(str(number))] for number in range(20)), file_bytes=400)
    names = Reader(folder).files.names()
    assert len(names) > 5
    for former in names[:4]:
        former.write_bytes(b"\xff")
    begins = int(names[4].stem)
    assert keys(Reader(folder), begins, 20) == list(range(begins + 1, 21))
    assert end(folder, at(begins)) == at(20)


def test_a_file_grows_while_it_is_read(tmp_path: Path) -> None:
    """A transaction exists when the line that ends it is complete."""
    folder = recorded(tmp_path, [insert("a")])
    file = folder / file_name(0)
    session, reader = StreamSession(folder), Reader(folder)
    more = write(insert("b")) + write(insert("c")) + write(Commit(3, TIME))
    for byte in (more[number : number + 1] for number in range(len(more))):
        assert StreamQueue(session, PREFIX, "").take() == at(1)
        with file.open("ab") as opened:
            opened.write(byte)
    assert StreamQueue(session, PREFIX, "").window_end(at(1), 100) == at(3)
    assert keys(reader, 1, 3) == [2, 3]
    with file.open("ab") as opened:
        opened.write(write(Commit(3, "2026-11-22T11:00:00Z")))
    assert StreamQueue(session, PREFIX, "").window_end(at(3), 100).time == "2026-11-22T11:00:00Z", "nothing has changed"


def test_an_unfinished_transaction_of_a_dead_recorder_is_ignored(tmp_path: Path) -> None:
    folder = recorded(tmp_path, [insert("a")])
    file = folder / file_name(0)
    with file.open("ab") as opened:
        opened.write(write(insert("void")) + write(insert("void"))[:20])
    with Writer(folder, STREAM, Commit(1, TIME), {TABLE: defined()}) as writer:
        with raises_code("recorder-runs"):
            Writer(folder, STREAM, Commit(1, TIME), {TABLE: defined()})
        writer.add([insert("b")])
        assert end(folder) == at(1)
        writer.commit(TIME)
    assert end(folder) == at(2)
    assert [item["guid"] for item in Reader(folder).items(window(0, 2)).to_pylist()] == ["a", "b"]


def test_a_file_without_a_commit_is_taken_over(tmp_path: Path) -> None:
    folder = recorded(tmp_path, [insert("a")])
    session = StreamSession(folder)
    with Writer(folder, STREAM, Commit(1, TIME), {TABLE: defined()}) as writer:
        writer.add([insert("void")])
    assert StreamQueue(session, PREFIX, "").take() == at(1)
    with Writer(folder, STREAM, Commit(1, TIME), {TABLE: defined()}) as writer:
        writer.add([insert("b")])
        writer.commit(TIME)
    assert StreamQueue(session, PREFIX, "").take() == at(2)


def test_a_change_that_a_reader_would_refuse_is_not_written(tmp_path: Path) -> None:
    recorded(tmp_path, [insert("a")])
    with Writer(tmp_path, STREAM, Commit(1, TIME), {TABLE: defined()}) as writer, raises_code("not-recordable"):
        writer.add([Change(Action.INSERT, TABLE, new={"other": "1"})])
    assert end(tmp_path) == at(1)


def lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("line", "becomes", "reason"),
    [
        (3, [], "a transaction ends at 1, but its last change has the number 0"),
        (3, [write(insert("x")), write(insert("x"))], "ends at 1, but its last change has the number 2"),
        (4, [write(Commit(1, TIME)), write(Commit(1, TIME)), write(Commit(0, TIME))], "ends at 0"),
        (5, [b"\x00\x00\x00\n"], "no JSON"),
        (5, [write(Header(STREAM, 1))], "second head"),
        (5, [write(defined())], "behind changes"),
        (1, [write(Header(STREAM, 7))], "then the file's name is"),
        (1, [write(insert("x"))], "no head of a file"),
    ],
)
def test_a_damaged_file_is_named_with_the_line(tmp_path: Path, line: int, becomes: list[bytes], reason: str) -> None:
    folder = recorded(tmp_path, [insert("a")], [insert("b")], [insert("c")])
    file = folder / file_name(0)
    found = lines(file)
    file.write_bytes(b"".join([*found[: line - 1], *becomes, *found[line:]]))
    with pytest.raises(StreamDamaged, match="Nothing from there on was applied") as damaged:
        end(folder)
        keys(Reader(folder), 0, 3)
    assert reason in str(damaged.value)
    assert str(file) in str(damaged.value)
    assert "clear the task apply" in str(damaged.value)


def test_a_damaged_value_is_named_with_the_line(tmp_path: Path) -> None:
    """Changes of rows are counted without parsing them; they are parsed when they are read."""
    folder = recorded(tmp_path, [insert("a"), insert("b")])
    file = folder / file_name(0)
    found = lines(file)
    found[3] = found[3].replace(b'"order":"v"', b'"order":5')
    file.write_bytes(b"".join(found))
    assert keys(Reader(folder), 0, 2, up_to=1) == [1]
    with pytest.raises(StreamDamaged, match="line 4: new: column 'order' is 5"):
        keys(Reader(folder), 0, 2)


def test_a_missing_file_is_noticed(tmp_path: Path) -> None:
    folder = recorded(tmp_path, *([insert(str(number))] for number in range(9)), file_bytes=400)
    names = Reader(folder).files.names()
    names[1].unlink()
    with pytest.raises(StreamDamaged, match="transactions are missing, or a file between them"):
        keys(Reader(folder), 0, 9)
    names[0].unlink()
    with pytest.raises(OtherStream, match="all changes behind 0 are needed"):
        end(folder, at(0))


def test_a_stream_that_ends_before_the_slave_is_refused(tmp_path: Path) -> None:
    folder = recorded(tmp_path, [insert("a")])
    with pytest.raises(OtherStream, match="ends with change 1; the slave has all up to 7"):
        end(folder, at(7))
    with pytest.raises(OtherStream, match="the slave follows 'other'"):
        end(folder, StreamPosition("other", 1))
    with raises_code("other-source", match="taken from another source"):
        StreamQueue(StreamSession(folder), PREFIX, "").take(SnapshotPosition(5, 5))
    longer = recorded(tmp_path / "longer", [insert("a"), insert("b")], [insert("c")])
    with pytest.raises(OtherStream, match="no transaction that ends with change 1"):
        StreamQueue(StreamSession(longer), PREFIX, "").window_end(at(1), 10)


def test_a_file_of_another_stream_is_refused(tmp_path: Path) -> None:
    folder = recorded(tmp_path, [insert("a")])
    with Writer(folder, "other", Commit(1, TIME), {TABLE: defined()}) as writer:
        writer.add([insert("b")])
        writer.commit(TIME)
    with pytest.raises(OtherStream, match="is of the stream 'other', not of 's'"):
        keys(Reader(folder), 0, 2)


def test_a_folder_that_is_not_there_is_awaited(tmp_path: Path) -> None:
    with pytest.raises(StreamUnreachable, match="cannot be read"):
        end(tmp_path / "none")
    with pytest.raises(StreamUnreachable, match="holds no file of a stream"):
        end(tmp_path)
    (tmp_path / "notes.txt").write_text("no file of the stream")
    (tmp_path / file_name(0)).write_bytes(write(Header(STREAM, 0))[:10])
    with pytest.raises(StreamUnreachable, match="has no first line yet"):
        end(tmp_path)


def test_a_table_that_changes_without_an_alter_line_is_refused(tmp_path: Path) -> None:
    folder = recorded(tmp_path, [insert("a")])
    with Writer(folder, STREAM, Commit(1, TIME), {TABLE: defined(columns=("Key a", "order", "new"))}) as writer:
        writer.commit(TIME)
        writer.add([Change(Action.INSERT, TABLE, new={"Key a": "b", "order": "", "new": ""})])
        writer.commit(TIME)
    with pytest.raises(StreamDamaged, match="no alter line says so"):
        keys(Reader(folder), 0, 2)


def test_definitions_are_those_of_the_place(tmp_path: Path) -> None:
    wider, other = defined(columns=("Key a", "order", "new")), TableName("public", "joins")
    folder = recorded(tmp_path, [insert("a")])
    row = {"Key a": "b", "order": "", "new": ""}
    with Writer(folder, STREAM, Commit(1, TIME), {TABLE: defined()}) as writer:
        writer.add([Change(Action.ALTER, TABLE, definition=wider, former=defined())])
        writer.add([Change(Action.INSERT, TABLE, new=row)])
        writer.commit(TIME)
    with Writer(folder, STREAM, Commit(3, TIME), {TABLE: wider, other: defined(other)}) as writer:
        writer.add([insert("x", table=other), Change(Action.DROP, TABLE)])
        writer.commit(TIME)
    session = StreamSession(folder)

    def known(place: int) -> dict[str, int]:
        found = StreamQueue(session, PREFIX, "").definitions([TABLE, other], at(0), place)
        return {table.name: len(shape.columns) for table, shape in found.items()}

    assert known(0) == known(1) == {TABLE.name: 2, "joins": 2}
    assert known(2) == known(3) == {TABLE.name: 3, "joins": 2}
    assert known(5) == {"joins": 2}
    assert StreamQueue(session, PREFIX, "").registered() == [other]
    assert keys(Reader(folder), 0, 5) == [1, 2, 3, 4, 5]


def test_a_slave_begins_where_a_transaction_ends(tmp_path: Path) -> None:
    folder = recorded(tmp_path, [insert("a"), insert("b")], [insert("c")])
    session = StreamSession(folder)
    assert StreamQueue(session, PREFIX, "").beginning(None) == at(0)
    assert StreamQueue(session, PREFIX, "").beginning(2) == at(2)
    with pytest.raises(OtherStream, match="no transaction ends with change 1"):
        StreamQueue(session, PREFIX, "").beginning(1)


def test_a_position_is_kept_as_text(tmp_path: Path) -> None:
    assert registry.parse_position(at(7).text()) == at(7)
    assert StreamPosition.of(registry.parse_position(at(7).text())).time == TIME
    assert at(7).covers_all_of(at(7))
    assert not at(7).covers_all_of(at(8))
    for text in ("{}", '{"stream":"s","commit":-1,"time":""}', '{"stream":1,"commit":1,"time":""}'):
        with pytest.raises(ValueError, match="no position of a stream"):
            StreamPosition.parse(text)
    assert json.loads(at(7).text())["vendor"] == "stream"


def test_a_stream_is_a_source_and_no_database() -> None:
    found: Source = source_of("stream")
    assert not hasattr(found, "rows")
    with raises_code("no-database", match=r"docs/stream\.md"):
        vendor_of("stream")
