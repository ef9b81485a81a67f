"""A stream of redo beside the rows of its master: the position in it at which a block of an initial update was read.

The end of the stream has the SCN up to which all commits are in it. A block that is read as of that SCN has exactly
what the stream has up to its end. So the marker of a block is a position of the stream, and BLOCKS decides as for any
other source (`sluice.model.blocks`). A loader reads the end after it has committed its block as begun; the stream only
grows, so the marker covers every window that an apply has taken before.

Beside the stream's folder a file stores the SCN from which on the stream lacks no transaction
(`sluice.vendors.oracle.source.position`). Without it, it is determined again, at a later SCN.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from sluice import whole_files
from sluice.database.session import Session
from sluice.model.names import TableName
from sluice.model.position import Moment, Position, ScnPosition, other_source
from sluice.vendors.stream.errors import ChangesLost, StreamUnreachable
from sluice.vendors.stream.files import Files, parsed
from sluice.vendors.stream.lines import Commit, Header
from sluice.vendors.stream.position import StreamPosition
from sluice.vendors.stream.redo.errors import (
    BetweenCommits,
    between_transactions,
    no_keys,
    not_there_yet,
    older_open,
    other_incarnation,
)
from sluice.vendors.stream.redo.merge_state import State
from sluice.vendors.stream.redo.threads import folders, newest
from sluice.vendors.stream.session import StreamSession, files_of
from sluice.vendors.stream.source import synced

# Finds the position in a stream of redo for a slave that had its changes from triggers before.
#
# A position of triggers has the SCN as of which it was taken: it covers exactly what was committed up to there. So does
# the end of a transaction of the stream, if the merge has recorded that. Transactions that ran then and began before
# the stream are in neither: there must be none.

_COMMIT = b'{"commit":'


def position_in_stream(connection: Session, position: Position) -> Position | None:
    """The position in the stream that covers what `position` covers; None if that is one of a stream itself.

    Raises `other-source`, `older-open`, `between-transactions`, `not-there-yet`, and what `Files` raises.
    """
    if isinstance(position, StreamPosition):
        return None
    if not isinstance(position, ScnPosition):
        raise other_source(position, "the redo of an Oracle master")
    files = files_of(connection)
    names = files.names()
    shown = 0
    for file in reversed(names):
        for end in reversed(list(_ends(files, file, names))):
            state = State.parse(end.source) if end.source is not None else None
            if state is None or position.resetlogs not in {thread.resetlogs for thread in state.threads}:
                raise other_source(position, "the redo of this incarnation of the master")
            if position.oldest < state.begins:
                raise older_open(files.folder, position, state.begins)
            if state.shows(position.scn):
                return StreamPosition(files.index(file, names).header.stream, end.position, end.time)
            shown = max(shown, state.shown)
    if shown < position.scn:
        raise not_there_yet(files.folder, position.scn, shown)
    raise between_transactions(files.folder, position.scn)


def _ends(files: Files, file: Path, names: list[Path]) -> Iterator[Commit]:
    """The commits of all complete transactions; the first one is that of the file before, from this file's head."""
    end, at = files.index(file, names).last.offset, 0
    try:
        with file.open("rb") as opened:
            for line, raw in enumerate(opened, start=1):
                at += len(raw)
                if at > end:
                    return
                parsed_line = parsed(file, line, raw) if line == 1 or raw.startswith(_COMMIT) else None
                if isinstance(parsed_line, Header) and parsed_line.source is not None:
                    yield Commit(parsed_line.after, parsed_line.time, parsed_line.source)
                elif isinstance(parsed_line, Commit):
                    yield parsed_line
    except OSError as error:
        raise StreamUnreachable(files.folder, f"{file.name} cannot be read: {error.strerror}") from error


THREADS = "threads"
"""The folder of the threads' folders, beside that of the stream."""
COMPLETE_FILE = "complete.json"
"""A file beside the stream's folder: the name of the stream, and the SCN."""


class Recorded:
    """See `sluice.database.recorder.RedoStream`. For one thread at a time."""

    def __init__(self, folder: Path):
        self._folder, self._threads, self._complete = folder, folder.parent / THREADS, folder.parent / COMPLETE_FILE
        self._session = StreamSession(folder)
        self._captured: tuple[list[Path] | None, dict[TableName, tuple[str, ...]]] = (None, {})
        """The schema checkpoints of the threads, and the data of the newest one of each thread."""

    def moment(self, resetlogs: int) -> Moment:
        """Raises `ChangesLost`, `other-incarnation`, `BetweenCommits`, and what `Files` raises."""
        stream, end, state = self._end()
        if end.lost is not None:
            raise ChangesLost(self._folder, end.lost)
        if resetlogs != (incarnation := max(thread.resetlogs for thread in state.threads)):
            raise other_incarnation(self._folder, incarnation, resetlogs)
        if state.through is None or not state.shows(state.through):
            raise BetweenCommits(self._folder)
        return Moment(StreamPosition(stream, end.position, end.time), state.through)

    def begins(self) -> int:
        """Raises `StreamUnreachable`."""
        return self._end()[2].begins

    def incarnations(self) -> Collection[int]:
        """Raises `StreamUnreachable`."""
        return {thread.resetlogs for thread in self._end()[2].threads}

    def threads(self) -> Collection[int]:
        """Raises `StreamUnreachable`."""
        threads = self._end()[2].threads
        newest = max(thread.resetlogs for thread in threads)
        return {thread.thread for thread in threads if thread.resetlogs == newest}

    def complete_from(self) -> int | None:
        """Raises `StreamUnreachable`."""
        stream = self._end()[0]
        try:
            kept = json.loads(self._complete.read_text("utf-8"))
            return int(kept["scn"]) if kept["stream"] == stream else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StreamUnreachable(self._complete, f"cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError):
            return None  # It was cut off, or belongs to another stream: it is written again.

    def keep_complete_from(self, scn: int) -> None:
        """Raises `StreamUnreachable`."""
        text = json.dumps({"stream": self._end()[0], "scn": scn})
        try:
            whole_files.write(self._complete, text)
        except OSError as error:
            raise StreamUnreachable(self._complete, f"cannot be written: {error.strerror}") from error

    def secure(self, position: Position) -> None:
        """Raises `StreamUnreachable`."""
        synced(self._session, position)

    def keys(self) -> Mapping[TableName, tuple[str, ...]]:
        """Raises `no-keys`, and what reading schema checkpoints and `Files` raise."""
        checkpoints = sorted(self._threads.glob("*/*-chkpt-*.json"))
        if checkpoints != self._captured[0]:
            self._captured = (checkpoints, self._of_checkpoints())
        files = self._session.files
        names = files.names()
        end = files.index(names[-1], names)
        described = {
            table: tuple(column.name for column in definition.shape.key)
            for table, definition in end.tables(end.end.position).items()
        }
        return {**self._captured[1], **described}

    def _end(self) -> tuple[str, Commit, State]:
        """The stream's name, its last commit, and the state of the merge there. Raises `StreamUnreachable`."""
        files = self._session.files
        names = files.names()
        last = files.index(names[-1], names)
        state = State.parse(last.end.source) if last.end.source is not None else None
        if state is None or not state.threads:
            raise StreamUnreachable(files.folder, "does not say yet which redo threads are in it")
        return last.header.stream, last.end, state

    def _of_checkpoints(self) -> dict[TableName, tuple[str, ...]]:
        checkpoints = [read for folder in folders(self._threads).values() if (read := newest(folder)) is not None]
        if not checkpoints:
            raise no_keys(self._threads)
        keys: dict[TableName, tuple[str, ...]] = {}
        for each in sorted(checkpoints, key=lambda checkpoint: checkpoint.scn):
            keys |= {TableName(*table): each.keys.get(table, ()) for table in each.tables}
        return keys
