"""The checkpoints in OpenLogReplicator's state folder: which of them are complete, needed, and safe to continue from.

| file | has |
|---|---|
| `<name>-chkpt.json` | the place up to which the receiver has confirmed |
| `<name>-chkpt-<SCN>.json` | the place from which it reads, and the tables; or `schema-ref-scn`: the file with them |

They are written in place. A file that is no JSON was being written, and is ignored.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sluice import whole_files
from sluice.errors import Terminal
from sluice.redo.program_configuration import ARCHIVE_DESTINATION, ARCHIVE_FORMAT

_READER = re.compile(r"(?P<name>.+)-chkpt-(?P<scn>\d+)\.json\Z")
_SCHEMA = ("sys-", "xdb-")
_REFERS = "schema-ref-scn"
Values = dict[str, Any]


def no_schema_checkpoint(file: Path, reason: str) -> Terminal:
    """There is no schema checkpoint with the master's tables."""
    return Terminal(
        f"{file}: {reason}. Make a schema checkpoint with OpenLogReplicator's gencfg.sql on the master, put it "
        "there, and name it under redo.schema (docs/redo.md).",
        code="no-schema-checkpoint",
    )


def position_file(name: str) -> str:
    return f"{name}-chkpt.json"


def reader_file(name: str, scn: int) -> str:
    return f"{name}-chkpt-{scn}.json"


def read_seed(file: Path) -> Values:
    """The schema checkpoint with which capture begins. Raises `no-schema-checkpoint`."""
    try:
        values = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise no_schema_checkpoint(file, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise no_schema_checkpoint(file, f"is no JSON: {error}") from None
    for key, kind in (("database", str), ("scn", int), ("resetlogs", int), ("context", str), ("users", list)):
        if not isinstance(values, dict) or not isinstance(values.get(key), kind):
            raise no_schema_checkpoint(file, f"has no {key}: it is no schema checkpoint of OpenLogReplicator 1.9.0")
    return {**values, "db-recovery-file-dest": ARCHIVE_DESTINATION, "log-archive-format": ARCHIVE_FORMAT}


def read_folder(folder: Path) -> dict[str, Values]:
    """The values of each complete file."""
    by_file: dict[str, Values] = {}
    for file in sorted(folder.glob("*-chkpt*.json")):
        try:
            values = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(values, dict):
            by_file[file.name] = values
    return by_file


def needed(files: Mapping[str, Values], name: str) -> dict[str, Values]:
    """The files that another machine needs to continue; empty if it could not.

    The reader's newest checkpoint that is not behind the confirmed place, with the one that has its tables.
    """
    readers = {int(match["scn"]): values for file, values in files.items() if (match := _READER.match(file))}
    position = files.get(position_file(name))
    limit = int(position["scn"]) - 1 if position is not None else None  # see `lowered`
    for scn in sorted(readers, reverse=True):
        if limit is not None and scn > limit:
            continue
        refers = readers[scn].get(_REFERS)
        if refers is not None and int(refers) not in readers:
            continue
        scns = {scn, int(refers) if refers is not None else scn}
        kept = {reader_file(name, each): readers[each] for each in scns}
        return {**kept, position_file(name): position} if position is not None else kept
    return {}


def oldest_sequence(kept: Mapping[str, Values]) -> int:
    """The first log, by its sequence, that a program needs to continue from these checkpoints; 0 if unknown."""
    sequences = []
    for file, values in kept.items():
        if _READER.match(file) and int(values.get("seq", 0)):
            oldest = values.get("min-tran", {})
            sequences.append(min(int(values["seq"]), int(oldest.get("seq", values["seq"]))))
    return min(sequences, default=0)


def lowered(position: Values, durable: int | None, files: Mapping[str, Values]) -> Values:
    """The place from which it is safe to continue: before the group of redo records that may be confirmed in part.

    `durable`: SCN of the last message on disk. `files`: the reader's checkpoints, before the first of which nothing can
    be read. OpenLogReplicator leaves out everything up to the SCN in this file, also of a group that was confirmed in
    part.
    """
    scn = int(position["scn"])
    first = min((int(values["scn"]) for file, values in files.items() if _READER.match(file)), default=0)
    return {**position, "scn": max(first, min(scn, durable if durable is not None else scn) - 1), "idx": 0}


def with_beginning(values: Values, first: int) -> Values:
    """The same for an open transaction whose beginning was not read: OpenLogReplicator writes the sequence 0 for it,
    and would begin with any first log. `first`: the sequence of the log with which the capture of the thread began."""
    oldest = values.get("min-tran")
    if not first or not oldest or int(oldest["seq"]):
        return values
    return {**values, "min-tran": {**oldest, "seq": first, "offset": 0}}


def with_tables(reader: Values, tables: Values) -> Values:
    """The place of `reader` with the tables of another thread's checkpoint, which has seen later DDL."""
    own = {key: value for key, value in reader.items() if not key.startswith(_SCHEMA) and key != _REFERS}
    of_tables = {key: value for key, value in tables.items() if key.startswith(_SCHEMA) or key == "users"}
    return {**own, **of_tables, "schema-scn": tables.get("schema-scn", tables["scn"])}


def joining(seed: Values, since: int, published: Iterable[Values]) -> Values:
    """The checkpoint with which a thread begins that joins at the SCN `since`: it sees no DDL of other threads from
    before."""
    newest = max(published, key=lambda values: int(values["scn"]), default=seed)
    return with_tables(seed, newest) if since > int(seed["scn"]) and int(newest["scn"]) > int(seed["scn"]) else seed


def tables_after(files: Mapping[str, Values], scn: int) -> Values | None:
    """The newest checkpoint with tables that is not before `scn`; None without one."""
    checkpoints = [values for file, values in files.items() if _READER.match(file) and _REFERS not in values]
    newest = max(checkpoints, key=lambda values: int(values["scn"]), default=None)
    return newest if newest is not None and int(newest["scn"]) >= scn else None


def write(folder: Path, file: str, values: Values) -> None:
    """A file that appears whole."""
    whole_files.write(folder / file, json.dumps(values), durable=True)
