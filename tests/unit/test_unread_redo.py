"""Redo that is not read: of threads that are not configured, and of a later incarnation."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.model.names import Prefix
from sluice.redo import blocks, redo_thread
from sluice.redo.blocks import LogHeader
from sluice.redo.stager import Archive, Entry
from sluice.redo.unread_redo import UnreadRedo, unread
from sluice.vendors.stream.redo.merge import ThreadId
from sluice.vendors.stream.redo.merger import Merger
from tests.unit.redo_output import ONE, RESETLOGS, checkpoint, folder, insert, transaction, write


def log(thread: int, first: int, following: int | None, resetlogs: int = RESETLOGS, sequence: int = 1) -> LogHeader:
    return LogHeader(thread, sequence, resetlogs, first, following, 2 if following is not None else None)


def stored(root: Path, header: LogHeader) -> Path:
    """A log without redo, where OpenLogReplicator reads."""
    day = root / f"{header.resetlogs}_{header.thread}" / "day"
    day.mkdir(parents=True, exist_ok=True)
    file = day / f"{header.thread}_{header.sequence}_{header.resetlogs}.arc"
    file.write_bytes(blocks.first_block(512, 1) + blocks.header_block(header))
    return file


def test_a_thread_that_nobody_reads_is_named_with_where_its_redo_begins() -> None:
    """But not one whose redo ends before capture begins, nor one of another incarnation."""
    third = [log(3, first, first + 100) for first in (900, 800, 700)]
    found = [log(1, 500, 600), *third, log(4, 700, 800), log(5, 900, 1000, RESETLOGS - 1), log(6, 950, None)]
    assert unread(found, RESETLOGS, [1, 2], 800) == {3: 800, 6: 950}
    assert unread(found, RESETLOGS, [1, 3, 6], 800) == {}


def test_the_merge_waits_where_redo_of_a_thread_begins_that_nobody_reads(tmp_path: Path) -> None:
    """No later transaction comes without the thread's; all come when it is read, or excluded by the configuration."""
    threads, stream = tmp_path / "threads", tmp_path / "stream"
    lines = [*transaction(100, "1.1.9", [insert(0, 1)]), *transaction(200, "1.2.9", [insert(0, 2)]), checkpoint(900)]
    folder(threads, ONE, lines)
    redo = UnreadRedo(threads, RESETLOGS, 60)
    assert redo.saw([log(3, 150, 250)], [1]) == {3}
    assert "3 (from SCN 150 on)" in redo.text
    assert Merger(threads, stream, Prefix("ORA_")).merge_once() == 1, "the second one waits"
    assert redo.saw([], [1]) == {3}, "it is said again, and nothing changes"
    other = ThreadId(RESETLOGS, 3)
    write(threads / str(other), [*transaction(160, "3.1.9", [insert(0, 3)]), checkpoint(900)])
    assert Merger(threads, stream, Prefix("ORA_")).merge_once() == 0
    made = b"".join(file.read_bytes() for file in sorted(stream.glob("*.jsonl")))
    places = [made.index(b'"id":"%d"' % key) for key in (1, 3, 2)]
    assert places == sorted(places), "in the order of commits"
    assert redo.saw([], [1, 3]) == set()
    assert redo.text == "", "it is read"
    (threads / str(other) / "thread.json").write_text('{"closed": true}')
    assert redo.saw([], [1]) == set(), "nobody wants it"
    assert redo_thread.known(threads, RESETLOGS) == [1]


def test_a_later_incarnation_is_reported_and_an_earlier_one_is_not(tmp_path: Path) -> None:
    redo = UnreadRedo(tmp_path, RESETLOGS, 60)
    redo.saw([log(1, 40, 70, RESETLOGS - 1), log(1, 70, 90)], [1])
    assert redo.text == ""
    redo.saw([log(1, 85, 120, RESETLOGS + 1)], [1])
    assert f"logs of the incarnation {RESETLOGS + 1}" in redo.text
    redo.saw([log(1, 70, 90)], [1])
    assert "RESETLOGS" in redo.text, "also where another look does not show it"


def test_with_all_threads_found_ones_are_read_and_not_reported(tmp_path: Path) -> None:
    redo = UnreadRedo(tmp_path, RESETLOGS, 60, every=True)
    assert redo.saw([log(1, 50, 70), log(2, 55, 75)], []) == {1, 2}
    assert redo.text == ""
    assert json.loads((tmp_path / f"{RESETLOGS}_2" / "thread.json").read_text()) == {"since": 55}
    assert redo_thread.known(tmp_path, RESETLOGS) == [1, 2]


def test_logs_of_a_folder_say_which_threads_there_are(tmp_path: Path) -> None:
    """For each thread the first log with needed redo; files that are no logs are skipped."""
    for header in (log(1, 50, 70), log(2, 40, 60), log(2, 60, 80, sequence=2), log(7, 10, 20)):
        stored(tmp_path, header)
    stored(tmp_path, log(2, 30, 40, sequence=0)).write_bytes(b"no log")
    (tmp_path / "notes").mkdir()
    found = [(each.thread, each.first_scn) for each in redo_thread.headers(tmp_path, 60)]
    assert found == [(1, 50), (2, 60)]
    with pytest.raises(OSError, match="none"):
        list(redo_thread.headers(tmp_path / "none", 60))


class Shelf:
    """Logs on a master's machine."""

    def __init__(self, *headers: LogHeader):
        self._files = {
            f"{number}.arc": blocks.first_block(512, 1) + blocks.header_block(each)
            for number, each in enumerate(headers)
        }

    def files(self, folder: str) -> list[Entry]:
        return [Entry(name, len(data)) for name, data in self._files.items()]

    def read(self, path: str, offset: int, length: int) -> bytes:
        return self._files[path.rpartition("/")[2]][offset : offset + length]


def test_logs_of_another_database_in_the_same_folder_are_not_the_masters(tmp_path: Path) -> None:
    mine = [replace(log(thread, 50, 70), database=11) for thread in (1, 2)]
    other = replace(log(3, 50, 70, RESETLOGS + 5), database=12)
    later = replace(log(1, 90, 95, RESETLOGS + 9), database=11)
    redo = UnreadRedo(tmp_path, RESETLOGS, 60)
    assert redo.saw(Archive(Shelf(*mine, other), ["/arch"]).headers(RESETLOGS), [1]) == {2}
    assert "incarnation" not in redo.text
    redo.saw(Archive(Shelf(*mine, other, later), ["/arch"]).headers(RESETLOGS), [1, 2])
    assert f"incarnation {RESETLOGS + 9}" in redo.text
