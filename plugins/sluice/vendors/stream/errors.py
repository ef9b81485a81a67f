"""Errors of a recorded stream or its folder. None of them loses anything: the slave stays as it is."""

from pathlib import Path

from sluice.errors import RESTART_APPLY, DataLost, Terminal, Transient


class StreamUnreachable(Transient):
    """The folder of the stream cannot be read at the moment, or has no file yet."""

    def __init__(self, folder: Path, reason: str):
        super().__init__(
            f"{folder}: {reason}. The stream's files are awaited there. Mount the folder, or let the recorder write it "
            "(docs/stream.md)."
        )


class StreamDamaged(Terminal):
    """A line of a file is not a valid line of a recorded stream."""

    def __init__(self, file: Path, line: int, reason: str):
        super().__init__(
            f"{file}, line {line}: {reason}. Nothing from there on was applied. Put the file back as it was recorded, "
            f"then {RESTART_APPLY}."
        )


class OtherStream(Terminal):
    """The files in the folder are not those that the slave has followed so far, or some are missing."""

    def __init__(self, folder: Path, reason: str):
        super().__init__(
            f"{folder}: {reason}. Put the files of the stream that the slave follows back, then {RESTART_APPLY}; or "
            "load the slave's tables again and begin with this stream (docs/stream.md)."
        )


class ChangesLost(DataLost):
    """The stream says that later changes of the master are lost."""

    def __init__(self, folder: Path, reason: str):
        super().__init__(
            f"{folder}: what the master committed behind the end of this stream is lost: {reason}. Load the slave's "
            "tables again and begin with a new stream in another folder (docs/stream.md)."
        )


class Malformed(Exception):
    """An invalid line; the reader of the file adds its place."""
