"""Reads a stream of redo, for tests."""

from collections.abc import Iterable
from pathlib import Path

from sluice.vendors.stream.files import Files
from sluice.vendors.stream.lines import Change, Commit, parse
from sluice.vendors.stream.redo.merge_state import State


def changes(stream: Path) -> list[Change]:
    """The changes in the stream."""
    files = Files(stream)
    names = files.names()
    found: list[Change] = []
    for file in names:
        index = files.index(file, names)
        read = file.read_bytes()[: index.last.offset]
        found += [line for raw in read.splitlines() if isinstance(line := parse(raw), Change)]
    return found


def assert_ends_show_what_they_say(stream: Path, commits: Iterable[int]) -> None:
    """Checks that the end of a transaction shows an SCN exactly when all changes up to it, and no others, precede it.

    `commits`: the SCN of the commit of each of the master's changes.
    """
    scns, said = list(commits), 0
    for file in Files(stream).names():
        for raw in file.read_bytes().splitlines():
            found = parse(raw)
            if isinstance(found, Commit) and found.source is not None and (state := State.parse(found.source)):
                for scn in range(state.begins, max(scns) + 2):
                    if state.shows(scn):
                        said += 1
                        assert sum(each <= scn for each in scns) == found.position
    assert said, "at least at its end"
