"""The manifest: the second end-of-update message and last file of a folder, which lists what the folder must contain.

A JSON document that people and other tools can read. It has its own SHA-256, so that any altered byte is found. A
forged manifest with a right SHA-256 is found by BLOCKS of the slave, which has the SHA-256 of each file (`faults`), and
by encryption.
"""

import csv
import hashlib
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sluice.errors import Terminal
from sluice.model.blocks import Block, BlockState, Key
from sluice.model.location import BLOCK_PRIORITY, END_PRIORITY, is_file_name, is_folder_name
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.shape import Column, TableShape

FORMAT = "Sluice initial update, version 1"


class ManifestDamaged(Terminal):
    """A manifest was altered or damaged."""

    def __init__(self, location: str, reason: str):
        super().__init__(
            f"{location}: the manifest cannot be used: {reason}. Copy the folder again from where it was made."
        )


@dataclass(frozen=True)
class File:
    """A file of the folder, compressed and perhaps encrypted."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class FileBlock:
    """A block, and the file with its rows."""

    file: File
    table: TableName
    number: int
    lo: Key | None
    hi: Key | None
    marker: Position
    rows: int
    bytes: int
    """The size of the rows before compression."""


@dataclass(frozen=True)
class FileTable:
    """A table of the master at the time of the export."""

    shape: TableShape
    same_order: bool
    """Whether every database sorts its keys in the same order, so that ranges of keys mean the same on the slave."""


@dataclass(frozen=True)
class Addressee:
    """A slave for which the folder is."""

    name: str
    schema: str
    """The schema of its CHECKPOINT and BLOCKS."""
    existing_tables: str
    """Its policy for existing tables."""
    position: Position
    """The start position: later changes are queued."""
    places: tuple[tuple[TableName, TableName], ...] = ()
    """Tables whose names on the slave differ from the master's."""


@dataclass(frozen=True)
class Manifest:
    """The contents of a folder, and the slaves for which it is."""

    prefix: Prefix
    slaves: tuple[Addressee, ...]
    update_id: str
    folder: str
    """The unique timestamp."""
    encrypted: bool
    tables: tuple[FileTable, ...]
    blocks: tuple[FileBlock, ...]
    """In the order of their file names."""
    end: File
    """The first end-of-update message."""

    @property
    def files(self) -> tuple[File, ...]:
        """All files but the manifest itself."""
        return (*(block.file for block in self.blocks), self.end)

    @property
    def names(self) -> list[str]:
        """Of the slaves."""
        return [slave.name for slave in self.slaves]

    def text(self) -> str:
        """The document, with its own SHA-256."""
        values = self._values()
        return _rendered({**values, "sha256": hashlib.sha256(_rendered(values).encode()).hexdigest()})

    @classmethod
    def parse(cls, text: str, location: str, position: Callable[[str], Position]) -> "Manifest":
        """`location` is for messages; `position` reads a position from its text. Raises `ManifestDamaged` for any text
        that `text` did not write."""
        try:
            values = json.loads(text)
            digest = values.pop("sha256")
        except (ValueError, KeyError, AttributeError, RecursionError):
            raise ManifestDamaged(location, "it is cut or altered") from None
        if not isinstance(digest, str) or text != _rendered({**values, "sha256": digest}):
            raise ManifestDamaged(location, "it is altered")
        if values.get("format") != FORMAT:
            raise ManifestDamaged(location, f"its format is {values.get('format')!r}, known is {FORMAT!r}")
        if digest != hashlib.sha256(_rendered(values).encode()).hexdigest():
            raise ManifestDamaged(location, "its SHA-256 is another one")
        try:
            manifest = cls._of(values, position)
        except (KeyError, TypeError, ValueError, AttributeError, Terminal) as error:
            raise ManifestDamaged(location, f"it lacks or misstates {error}") from error
        manifest._expect_harmless(location)  # noqa: SLF001
        if manifest.text() != text:
            raise ManifestDamaged(location, "it says more, or says it otherwise, than one of this version can")
        return manifest

    def _expect_harmless(self, location: str) -> None:
        """Raises `ManifestDamaged` for a name that could lead out of the folder."""
        if not is_folder_name(self.folder):
            raise ManifestDamaged(location, f"{self.folder!r} is no folder of an initial update")
        if not is_file_name(self.end.name, END_PRIORITY):
            raise ManifestDamaged(location, f"{self.end.name!r} is no end-of-update message")
        names = [block.file.name for block in self.blocks]
        for name in names:
            if not is_file_name(name, BLOCK_PRIORITY):
                raise ManifestDamaged(location, f"{name!r} is no file of a block")
        if len(set(names)) < len(names):
            raise ManifestDamaged(location, "it names a file twice")

    def _values(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "prefix": str(self.prefix),
            "slaves": [_addressee_values(slave) for slave in self.slaves],
            "update": self.update_id,
            "folder": self.folder,
            "encrypted": self.encrypted,
            "rows": "CSV with header as PostgreSQL's COPY writes it (NULL is empty, an empty text is quoted), gzip",
            "tables": [_table_values(table) for table in self.tables],
            "files": [
                {
                    **asdict(block.file),
                    "table": [block.table.schema, block.table.name],
                    "block": block.number,
                    "lo": block.lo and list(block.lo),
                    "hi": block.hi and list(block.hi),
                    "marker": json.loads(block.marker.text()),
                    "rows": block.rows,
                    "bytes": block.bytes,
                }
                for block in self.blocks
            ],
            "end": asdict(self.end),
        }

    @classmethod
    def _of(cls, values: Mapping[str, Any], position: Callable[[str], Position]) -> "Manifest":
        return cls(
            Prefix(values["prefix"]),
            tuple(_addressee(slave, position) for slave in values["slaves"]),
            str(values["update"]),
            str(values["folder"]),
            bool(values["encrypted"]),
            tuple(_table(table) for table in values["tables"]),
            tuple(
                FileBlock(
                    _file(block),
                    TableName(*map(str, block["table"])),
                    int(block["block"]),
                    None if block["lo"] is None else tuple(map(str, block["lo"])),
                    None if block["hi"] is None else tuple(map(str, block["hi"])),
                    position(json.dumps(block["marker"])),
                    int(block["rows"]),
                    int(block["bytes"]),
                )
                for block in values["files"]
            ),
            _file(values["end"]),
        )


def faults(manifest: Manifest, prefix: Prefix, slave: str, update_id: str, blocks: Iterable[Block]) -> list[str]:
    """Why this manifest does not fit the slave's BLOCKS, one sentence for each reason; empty if it fits."""
    sentences = []
    if manifest.prefix != prefix:
        sentences.append(f"the manifest is for replication {manifest.prefix}, this one is {prefix}")
    if slave not in manifest.names:
        sentences.append(f"the manifest is for slave {', '.join(manifest.names)}, this one is {slave}")
    if manifest.update_id != update_id:
        sentences.append(
            f"the manifest is of initial update {manifest.update_id}, the slave waits for {update_id}: an older folder?"
        )
    if sentences:
        return sentences
    of_manifest = {block.file.name: block for block in manifest.blocks}
    for block in blocks:
        if block.file is None:
            if block.state is not BlockState.STORED:
                sentences.append(
                    f"block {block.number} of {block.table} was never exported: the export is not complete"
                )
            continue
        listed = of_manifest.get(block.file)
        if listed is None:
            sentences.append(f"{block.file}, which holds block {block.number} of {block.table}, is not in the manifest")
        elif (
            listed.file.sha256 != block.sha256
            or (listed.table, listed.number, listed.lo, listed.hi) != (block.table, block.number, block.lo, block.hi)
            or listed.marker != block.marker
        ):
            sentences.append(f"{block.file} is not what the slave was told of it: an older or a forged manifest?")
    return sentences


def order(blocks: Sequence[FileBlock]) -> tuple[FileBlock, ...]:
    """The blocks as in a manifest."""
    return tuple(sorted(blocks, key=lambda block: block.file.name))


def _rendered(values: Mapping[str, object]) -> str:
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def _table_values(table: FileTable) -> dict[str, object]:
    name = table.shape.table
    return {
        "table": [name.schema, name.name],
        "partitioned": table.shape.partitioned,
        "same_order": table.same_order,
        "columns": [asdict(column) for column in table.shape.columns],
    }


def _table(values: Mapping[str, Any]) -> FileTable:
    columns = tuple(Column(**column) for column in values["columns"])
    shape = TableShape(TableName(*map(str, values["table"])), columns, bool(values["partitioned"]))
    return FileTable(shape, bool(values["same_order"]))


def _addressee_values(slave: Addressee) -> dict[str, object]:
    names = [[table.schema, table.name, on_slave.schema, on_slave.name] for table, on_slave in slave.places]
    return {
        "name": slave.name,
        "schema": slave.schema,
        "existing_tables": slave.existing_tables,
        "position": json.loads(slave.position.text()),
        **({"places": names} if names else {}),
    }


def _addressee(values: Mapping[str, Any], position: Callable[[str], Position]) -> Addressee:
    begins = position(json.dumps(values["position"]))
    names = (tuple(map(str, place)) for place in values.get("places", ()))
    return Addressee(
        str(values["name"]),
        str(values["schema"]),
        str(values["existing_tables"]),
        begins,
        tuple((TableName(schema, name), TableName(*on_slave)) for schema, name, *on_slave in names),
    )


def _file(values: Mapping[str, Any]) -> File:
    return File(str(values["name"]), int(values["size"]), str(values["sha256"]))


# The header of rows in CSV.

_QUOTE, _NEWLINE = b'"\n'


def header(pieces: Iterable[bytes]) -> tuple[list[str], Iterator[bytes]]:
    """The column names in the header of CSV, and all pieces of the CSV. Raises `ValueError` without a header."""
    taken = b""
    rest = iter(pieces)
    while True:
        inside = False
        for index, byte in enumerate(taken):
            inside ^= byte == _QUOTE
            if byte == _NEWLINE and not inside:
                line = taken[:index].decode()
                names = next(csv.reader(io.StringIO(line, newline=""), strict=True), [])
                return names, itertools.chain([taken], rest)
        piece = next(rest, None)
        if piece is None:
            raise ValueError("the rows have no header")
        taken += piece
