"""Finds the position in a stream of redo for a slave that had its changes from triggers before.

A position of triggers has the SCN as of which it was taken: it covers exactly what was committed up to there. So does
the end of a transaction of the stream, if the merge has recorded that. Transactions that ran then and began before the
stream are in neither: there must be none.
"""

from collections.abc import Iterator
from pathlib import Path

from sluice.database.session import Session
from sluice.model.position import Position, ScnPosition, other_source
from sluice.vendors.stream.errors import StreamUnreachable
from sluice.vendors.stream.files import Files, parsed
from sluice.vendors.stream.lines import Commit, Header
from sluice.vendors.stream.position import StreamPosition
from sluice.vendors.stream.redo.errors import between_transactions, not_there_yet, older_open
from sluice.vendors.stream.redo.merge_state import State
from sluice.vendors.stream.session import files_of

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
