"""Threads become one stream: every transaction once, whole, in the order of commits, after whatever ends in between."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.database.recorder import DEFAULTS, MergeOptions
from sluice.model.change import Action
from sluice.model.names import Prefix
from sluice.vendors.stream.errors import ChangesLost
from sluice.vendors.stream.files import Files
from sluice.vendors.stream.redo.errors import (
    TakenBack,
)
from sluice.vendors.stream.redo.merge import ThreadId
from sluice.vendors.stream.redo.merger import Limits, Merger
from sluice.vendors.stream.session import StreamSession
from sluice.vendors.stream.source import StreamQueue
from tests.errors import raises_code
from tests.examples import examples
from tests.unit.redo_output import (
    BEGAN,
    COLUMNS,
    ONE,
    RESETLOGS,
    SECOND,
    TWO,
    checkpoint,
    ddl,
    delete,
    folder,
    insert,
    row,
    schema,
    transaction,
    update,
    write,
)
from tests.unit.redo_stream import assert_ends_show_what_they_say, changes

PREFIX = Prefix("ORA_")


def merger(root: Path, stream: Path, options: MergeOptions = DEFAULTS, **limits: int) -> Merger:
    return Merger(root, stream, PREFIX, options, Limits(**limits))


def keys(stream: Path) -> list[str]:
    return [str(change.new["id"]) for change in changes(stream) if change.new]


@st.composite
def histories(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """For each of some threads its transactions, as (SCN, number of changes), in the order of commits."""
    count = draw(st.integers(1, 4))
    threads: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    scn = BEGAN + 10
    for _ in range(draw(st.integers(1, 14))):
        scn += draw(st.integers(0, 2))  # Several commits may have one SCN.
        threads[draw(st.integers(0, count - 1))].append((scn, draw(st.integers(1, 3))))
    return threads


def expected(threads: Sequence[Sequence[tuple[int, int]]]) -> list[str]:
    order = sorted((scn, thread, place) for thread, mine in enumerate(threads) for place, (scn, _) in enumerate(mine))
    return [
        str(1000 * thread + 10 * place + each)
        for _, thread, place in order
        for each in range(threads[thread][place][1])
    ]


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(60))
@given(threads=histories(), data=st.data())
def test_each_transaction_is_merged_once_and_in_order_whatever_the_timing(
    threads: list[list[tuple[int, int]]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Threads are late, repeat their output, are cut off, and the merge is killed in between."""
    root, stream = tmp_path_factory.mktemp("threads"), tmp_path_factory.mktemp("stream")
    whole: list[list[list[str]]] = []
    for thread, mine in enumerate(threads):
        made = []
        for place, (scn, size) in enumerate(mine):
            rows = [insert(each, 1000 * thread + 10 * place + each) for each in range(size)]
            made.append(transaction(scn, f"{thread + 1}.{place}.7", rows))
            if data.draw(st.booleans()):
                made.append([checkpoint(scn)])
        whole.append([*made, [checkpoint(10_000)]])
        folder(root, ThreadId(RESETLOGS, thread + 1))
    written = [0] * len(threads)
    wanted = expected(threads)
    while any(done < len(mine) for done, mine in zip(written, whole, strict=True)):
        thread = data.draw(st.sampled_from([at for at, mine in enumerate(whole) if written[at] < len(mine)]))
        here = root / str(ThreadId(RESETLOGS, thread + 1))
        match data.draw(st.sampled_from(["on", "on", "on", "again", "cut", "merge", "merge"])):
            case "again":
                written[thread] = data.draw(st.integers(0, written[thread]))
            case "cut":
                lines = whole[thread][written[thread]]
                text = "\n".join(lines)
                with (here / "1.jsonl").open("a") as opened:
                    opened.write(text[: data.draw(st.integers(0, len(text) - 1))])
            case "merge":
                sizes = {name: data.draw(st.integers(1, 5)) for name in ("group", "read", "waiting")}
                merger(root, stream, **sizes).merge_once()
                so_far = keys(stream)
                assert so_far == wanted[: len(so_far)], "always a beginning of the whole"
            case _:
                write(here, whole[thread][written[thread]])
                written[thread] += 1
    # Behind what was written again a thread continues to its end.
    for thread, mine in enumerate(whole):
        write(root / str(ThreadId(RESETLOGS, thread + 1)), [line for lines in mine for line in lines])
    assert merger(root, stream, read=data.draw(st.integers(1, 5)), waiting=1).merge_once() == 0
    assert keys(stream) == wanted
    assert_ends_show_what_they_say(stream, [scn for mine in threads for scn, size in mine for _ in range(size)])
    before = [file.read_bytes() for file in Files(stream).names()]
    merger(root, stream).merge_once()
    assert keys(stream) == wanted, "a second run changes nothing"
    assert len(before) <= len(Files(stream).names())


def test_a_transaction_waits_for_every_live_thread(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    folder(root, ONE, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(200)])
    second = folder(root, TWO, [checkpoint(100)])
    assert merger(root, stream).merge_once() == 1, "the second thread may have a commit of SCN 100"
    write(second, [*transaction(100, "2.1.1", [insert(0, 2)])])
    assert merger(root, stream).merge_once() == 2
    write(second, [checkpoint(101)])
    assert merger(root, stream).merge_once() == 0
    assert keys(stream) == ["1", "2"]


def test_commits_are_in_the_order_of_their_scns_and_not_of_their_groups(tmp_path: Path) -> None:
    """`c_scn` is the SCN of a group of redo records: a commit in a group that began earlier may be the later one."""
    root, stream = tmp_path / "threads", tmp_path / "stream"
    later = [line.replace('"c_scn":108', '"c_scn":100') for line in transaction(108, "1.1.1", [insert(0, 2)])]
    folder(root, ONE, [*later, checkpoint(200)])
    folder(root, TWO, [*transaction(105, "2.1.1", [insert(0, 1)]), checkpoint(200)])
    assert merger(root, stream).merge_once() == 0
    assert keys(stream) == ["1", "2"]


def test_merged_output_is_deleted_if_configured_and_a_new_merge_goes_on(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    made = folder(root, ONE, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(150)])
    half = transaction(200, "1.2.1", [insert(0, 2)])
    write(made, half[:2], "2.jsonl")
    write(made, [*half[2:], checkpoint(250)], "3.jsonl")
    merger(root, stream, MergeOptions(frees=False)).merge_once()
    assert len(list(made.glob("*.jsonl"))) == 3
    write(made, [*transaction(300, "1.3.1", [insert(0, 3)])], "4.jsonl")
    write(made, transaction(400, "1.4.1", [insert(0, 4)])[:2], "5.jsonl")
    write(made, [checkpoint(350)], "4.jsonl")
    merger(root, stream, MergeOptions(frees=True)).merge_once()
    assert [file.name for file in made.glob("*.jsonl")] == ["5.jsonl"], "the beginning of what is not whole stays"
    write(made, [*transaction(400, "1.4.1", [insert(0, 4)])[2:], checkpoint(500)], "5.jsonl")
    assert merger(root, stream, MergeOptions(frees=True)).merge_once() == 0
    assert keys(stream) == ["1", "2", "3", "4"]


def test_a_silent_thread_is_named_and_a_closed_one_is_waited_for_no_more(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    folder(root, ONE, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(200)])
    second = folder(root, TWO, [checkpoint(90)])
    with raises_code("thread-silent", match=r"Thread 1000000_2 has said nothing beyond SCN 90") as said:
        for _ in Merger(root, stream, PREFIX, MergeOptions(silent_seconds=-1))._turns():
            pass
    assert '{"closed": true} into 1000000_2/thread.json' in str(said.value)
    (second / "thread.json").write_text('{"closed": true}')
    assert merger(root, stream).merge_once() == 0
    assert keys(stream) == ["1"]


def test_a_thread_that_joins_is_complete_from_where_it_says(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    first = folder(root, ONE, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(150)])
    merger(root, stream).merge_once()
    second = folder(root, TWO, [*transaction(160, "2.1.1", [insert(0, 2)]), checkpoint(300)])
    with raises_code("thread-too-late", match="does not say from which SCN on"):
        merger(root, stream).merge_once()
    (second / "thread.json").write_text('{"since": 100}')
    with raises_code("thread-too-late", match="complete from SCN 100 on"):
        merger(root, stream).merge_once()
    (second / "thread.json").write_text('{"since": 155}')
    assert merger(root, stream).merge_once() == 1, "the first thread may have a commit before that"
    write(first, [*transaction(158, "1.2.1", [insert(0, 3)]), checkpoint(400)])
    merger(root, stream).merge_once()
    assert keys(stream) == ["1", "3", "2"]


def test_transactions_undone_by_resetlogs_are_not_merged(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    later = ThreadId(2_000_000, 1)
    both = [(RESETLOGS, BEGAN), (later.resetlogs, 200)]
    lines = [*transaction(100, "1.1.1", [insert(0, 1)]), *transaction(250, "1.2.1", [insert(0, 666)]), checkpoint(260)]
    folder(root, ONE, lines, incarnations=both)
    folder(root, later, [*transaction(210, "1.2.1", [insert(0, 2)]), checkpoint(220)], incarnations=both)
    merger(root, stream).merge_once()
    assert keys(stream) == ["1", "2"]


def test_a_stream_with_undone_transactions_ends(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    later = ThreadId(2_000_000, 1)
    folder(root, ONE, [*transaction(250, "1.1.1", [insert(0, 1)]), checkpoint(300)])
    merger(root, stream).merge_once()
    folder(root, later, incarnations=[(RESETLOGS, BEGAN), (later.resetlogs, 200)])
    with pytest.raises(TakenBack, match="those from 200 on do not exist any more"):
        merger(root, stream).merge_once()


def test_a_transaction_that_goes_on_in_another_file_is_whole(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    lines = transaction(100, "1.1.1", [insert(each, each) for each in range(6)])
    made = folder(root, ONE, lines[:3])
    merger(root, stream).merge_once()
    # OpenLogReplicator continues in the middle, and with messages that are there already.
    write(made, [*lines[2:], checkpoint(200)], "2.jsonl")
    assert merger(root, stream).merge_once() == 0
    assert keys(stream) == [str(each) for each in range(6)]


def test_messages_that_are_missing_stop_it(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    lines = transaction(100, "1.1.1", [insert(each, each) for each in range(6)])
    made = folder(root, ONE, [*lines[:3], *lines[4:], checkpoint(200)])
    with raises_code("output-damaged", match="has num 3 where 2 is next"):
        merger(root, stream).merge_once()
    assert changes(stream) == []
    (made / "1.jsonl").write_text("".join(line + "\n" for line in [*lines, checkpoint(200)]))
    merger(root, stream).merge_once()
    assert len(keys(stream)) == 6


def test_reasons_why_a_merge_cannot_begin(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    with raises_code("output-unreachable", match="cannot be read"):
        merger(root, stream).merge_once()
    made = folder(root, ONE, [checkpoint(60)])
    (made / "TEST-chkpt-60.json").unlink()
    with raises_code("no-keys", match="schema checkpoint"):
        merger(root, stream).merge_once()
    (made / "TEST-chkpt-60.json").write_text("{")
    with raises_code("output-damaged", match="no schema checkpoint"):
        merger(root, stream).merge_once()
    folder(root, ONE)
    (made / "thread.json").write_text('{"closed": 1}')
    with raises_code("output-damaged", match='"closed": true, "since"'):
        merger(root, stream).merge_once()
    (made / "thread.json").write_text('{"timestamp": "s"}')
    with raises_code("output-damaged", match=r"unit of format\.timestamp"):
        merger(root, stream).merge_once()
    (made / "thread.json").unlink()
    write(made, ["what is this"])
    with raises_code("output-damaged", match="is no JSON"):
        merger(root, stream).merge_once()


def test_a_stream_of_a_recorder_is_not_gone_on_with(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    folder(root, ONE, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(200)])
    merger(root, stream).merge_once()
    for file in stream.glob("*.jsonl"):
        file.write_bytes(file.read_bytes().replace(b'\\"redo\\"', b'\\"other\\"'))
    with raises_code("recorded-elsewhere"):
        merger(root, stream).merge_once()


WIDER = schema(columns=[*COLUMNS, {"name": "EMAIL", "type": "varchar2", "length": 10, "nullable": True}])
NARROW = schema(columns=COLUMNS[:2])
RENAMED = schema(columns=[*COLUMNS[:2], {"name": "REMARK", "type": "clob", "length": 4000, "nullable": True}])


@pytest.mark.parametrize(
    ("sql", "of", "actions", "reason"),
    [
        ("ALTER TABLE T ADD (EMAIL VARCHAR2(10))", WIDER, ["ALTER"], None),
        ("ALTER TABLE T ADD (EMAIL VARCHAR2(10)) /* no DEFAULT */", WIDER, ["ALTER"], None),
        ("ALTER TABLE T ADD (EMAIL VARCHAR2(10) DEFAULT 'x')", WIDER, ["ALTER", "DIFFER"], "came with a default"),
        (None, WIDER, ["ALTER", "DIFFER"], "no message says with which default"),
        ("ALTER TABLE T DROP COLUMN NOTE", NARROW, ["ALTER"], None),
        ("ALTER TABLE T RENAME COLUMN NOTE TO REMARK", RENAMED, ["ALTER", "DIFFER"], "may have been renamed"),
        ("TRUNCATE TABLE T", schema(), ["TRUNCATE"], None),
        ("ALTER TABLE T DROP PARTITION P1", schema(), ["DIFFER"], "a partition went"),
        ("ALTER TABLE T RENAME TO U", schema(), ["DIFFER"], "renamed"),
        ("CREATE INDEX I ON T (NAME)", schema(), [], None),
        ("DROP TABLE T", schema(), ["DROP", "CREATE"], None),
    ],
)
def test_ddl_between_changes_becomes_changes_of_definitions_or_says_why_not(
    sql: str | None, of: str, actions: list[str], reason: str | None, tmp_path: Path
) -> None:
    """It is found at the next change, also by a merge that was restarted in between."""
    root, stream = tmp_path / "threads", tmp_path / "stream"
    made = folder(root, ONE, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(110)])
    merger(root, stream).merge_once()
    if sql is not None:
        write(made, [*transaction(120, "1.2.1", [ddl(sql)]), checkpoint(130)])
        merger(root, stream).merge_once()
    write(made, [*transaction(140, "1.3.1", [insert(0, 2, of=of), insert(1, 3, of=of)]), checkpoint(150)])
    merger(root, stream).merge_once()
    found = changes(stream)
    assert [str(change.action) for change in found if change.action is not Action.INSERT] == actions
    assert [change.reason for change in found if change.reason and reason not in change.reason] == []  # type: ignore[operator]
    assert keys(stream) == ["1", "2", "3"]


def test_a_column_may_come_and_go_and_come(tmp_path: Path) -> None:
    """Between DDL a table may have a former structure again."""
    root, stream = tmp_path / "threads", tmp_path / "stream"
    made, texts = folder(root, ONE), ["ADD (EMAIL VARCHAR2(9))", "DROP COLUMN EMAIL"]
    for number in range(5):
        scn, of = 100 + 10 * number, (schema(), WIDER)[number % 2]
        write(made, transaction(scn, f"1.{number}.1", [insert(0, number, of=of)]))
        write(made, [*transaction(scn + 1, f"2.{number}.1", [ddl(f"ALTER TABLE T {texts[number % 2]}")])])
        write(made, [checkpoint(scn + 5)])
        merger(root, stream).merge_once()
    assert [str(change.action) for change in changes(stream) if change.defines] == ["ALTER"] * 4
    assert not any(change.reason for change in changes(stream))


def test_a_backlog_is_read_in_turns_of_the_threads(tmp_path: Path) -> None:
    """Only a limited number of transactions waits: then only the thread is read that they wait for."""
    root, stream = tmp_path / "threads", tmp_path / "stream"
    for thread, offset in ((ONE, 0), (TWO, 1)):
        lines: list[str] = []
        for number in range(200):
            scn = 100 + 2 * number + offset
            lines += [*transaction(scn, f"{thread.thread}.{number}.1", [insert(0, scn)]), checkpoint(scn + 1)]
        folder(root, thread, [*lines, checkpoint(1_000)])
    most = []
    with merger(root, stream, read=10, waiting=20)._begin() as merging:
        while merging.turn():
            most.append(merging.merge.waiting)
    assert keys(stream) == [str(scn) for scn in range(100, 500)]
    assert max(most) <= 30


def test_a_stream_without_changes_still_advances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.vendors.stream.redo.merger.IDLE_SECONDS", -1.0)
    root, stream = tmp_path / "threads", tmp_path / "stream"
    made = folder(root, ONE, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(150)])
    merger(root, stream).merge_once()
    write(made, [checkpoint(200).replace(str(SECOND), str(SECOND + 60 * 10**9))])
    merger(root, stream).merge_once()
    files = Files(stream)
    last = files.index(files.names()[-1], files.names())
    assert (last.end.position, last.end.time) == (1, "2026-02-28T20:44:52.000000+00:00")


def test_an_unknown_row_makes_only_its_table_differ(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    other = schema("OTHER", COLUMNS[1:])
    folder(
        root,
        ONE,
        [
            *transaction(100, "1.1.1", [insert(0, 1), row("d", 1, {"NAME": "x"}, None, other), delete(2, 1)]),
            *transaction(101, "1.2.1", [update(0, 2, {"NAME": "a"}, {"NAME": "b"})]),
            checkpoint(200),
        ],
    )
    merger(root, stream).merge_once()
    found = changes(stream)
    assert [(str(change.action), change.table.name) for change in found] == [
        ("INSERT", "t"),
        ("DIFFER", "other"),
        ("DELETE", "t"),
        ("UPDATE", "t"),
    ]
    assert "SUPPLEMENTAL LOG DATA" in str(found[1].reason)


def test_a_table_that_was_made_empty_is_complete(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    new = schema("NEW", COLUMNS)
    copied = schema("COPIED", COLUMNS)
    rows = [ddl("CREATE TABLE NEW (ID NUMBER)", new), ddl("create table COPIED as\nselect * from T", copied)]
    folder(
        root,
        ONE,
        [
            *transaction(100, "1.1.1", rows),
            *transaction(101, "1.2.1", [insert(0, 1, of=new), insert(1, 1, of=copied)]),
            checkpoint(200),
        ],
    )
    merger(root, stream).merge_once()
    made = [change for change in changes(stream) if change.action is Action.CREATE]
    assert [(change.table.name, change.definition and change.definition.complete) for change in made] == [
        ("new", True),
        ("copied", False),
    ]


def test_exact_names_are_kept(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    folder(root, ONE, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(200)])
    Merger(root, stream, PREFIX, MergeOptions(exact_names=True)).merge_once()
    assert json.loads(Files(stream).names()[0].read_text().splitlines()[1])["table"] == ["APP", "T"]


def test_a_lost_log_ends_the_stream_until_it_is_there_again(tmp_path: Path) -> None:
    root, stream = tmp_path / "threads", tmp_path / "stream"
    made = folder(root, ONE, [*transaction(100, "1.1.1", [insert(0, 1)]), checkpoint(150)])
    folder(root, TWO, [*transaction(120, "2.1.1", [insert(0, 2)]), *transaction(300, "2.2.1", [insert(0, 4)])])
    write(root / str(TWO), [checkpoint(400)])
    (made / "lost").write_text("log 2 of thread 1 is deleted\n")
    for _ in range(2):
        assert merger(root, stream).merge_once() == 1
        assert keys(stream) == ["1", "2"], "what is before it is there, and nothing of what may come behind it"
        session = StreamSession(stream)
        end = StreamQueue(session, PREFIX, "").take()
        with pytest.raises(ChangesLost, match="log 2 of thread 1 is deleted"):
            StreamQueue(session, PREFIX, "").take(end)
    (made / "lost").unlink()
    assert merger(root, stream).merge_once() == 1
    StreamQueue(StreamSession(stream), PREFIX, "").take(end)
    write(made, [*transaction(200, "1.2.1", [insert(0, 3)]), checkpoint(400)])
    assert merger(root, stream).merge_once() == 0
    assert keys(stream) == ["1", "2", "3", "4"]
