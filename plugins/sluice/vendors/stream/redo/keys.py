"""Keys of tables, and the master's incarnations, from the schema checkpoints of OpenLogReplicator."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.vendors.stream.redo.errors import output_damaged, output_unreachable

_NAME = re.compile(r".+-chkpt-(\d+)\.json\Z")
_PRIMARY = 2
"""`type` of a primary key among the constraints."""


@dataclass(frozen=True)
class SchemaCheckpoint:
    """The data of a schema checkpoint."""

    scn: int
    keys: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """The columns of the primary key, by owner and table; tables without one are missing."""
    tables: frozenset[tuple[str, str]] = frozenset()
    incarnations: tuple[tuple[int, int], ...] = ()
    """RESETLOGS_ID of each incarnation, and its first SCN."""


def newest(folder: Path) -> SchemaCheckpoint | None:
    """The newest one with tables; None without one. Raises `output-damaged`, `output-unreachable`."""
    try:
        names = [(int(matched[1]), entry) for entry in folder.iterdir() if (matched := _NAME.match(entry.name))]
        for scn, file in sorted(names, reverse=True):
            text = file.read_text("utf-8")
            try:
                read = _read(scn, json.loads(text))
            except (ValueError, KeyError, TypeError) as error:
                raise output_damaged(file, 0, f"is no schema checkpoint: {error}") from None
            if read.tables:
                return read
    except OSError as error:
        raise output_unreachable(folder, f"cannot be read: {error.strerror}") from error
    return None


def _read(scn: int, values: dict[str, Any]) -> SchemaCheckpoint:
    users = {user["user"]: user["name"] for user in values.get("sys-user", [])}
    tables = {
        each["obj"]: (users[each["owner"]], each["name"])
        for each in values.get("sys-obj", [])
        if each["type"] == 2 and each["owner"] in users
    }
    columns = {(each["obj"], each["int-col"]): each["name"] for each in values.get("sys-col", [])}
    primary = {each["con"]: each["obj"] for each in values.get("sys-cdef", []) if each["type"] == _PRIMARY}
    keys: dict[tuple[str, str], list[str]] = {}
    for each in values.get("sys-ccol", []):
        obj = primary.get(each["con"])
        if obj in tables:
            keys.setdefault(tables[obj], []).append(columns[obj, each["int-col"]])
    incarnations = tuple((each["resetlogs"], each["resetlogs-scn"]) for each in values.get("incarnations", []))
    return SchemaCheckpoint(
        scn, {table: tuple(names) for table, names in keys.items()}, frozenset(tables.values()), incarnations
    )
