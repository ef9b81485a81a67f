"""Reading a recorded stream: windows as Arrow (`sluice.database.changes.ChangeReader`)."""

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa

from sluice.database.changes import Cut, Share, Survey, TooManyBytes, WaitingChange
from sluice.database.items import ITEMS
from sluice.model import content
from sluice.model.change import ROW_ACTIONS, Action
from sluice.model.guid import key_text
from sluice.model.names import TableName
from sluice.model.position import Window
from sluice.model.table_definition import TableDefinition
from sluice.vendors.stream.errors import Malformed, OtherStream, StreamDamaged, StreamUnreachable
from sluice.vendors.stream.files import OF_ROWS, Files, Index, follow, parsed
from sluice.vendors.stream.lines import Change, Commit, RowChange, Values, items_of

# Reads row changes in the form in which Sluice writes them, five times as fast as `lines` does.
#
# Any other line takes the strict way through `lines.parse` and `lines.items_of`, which also say what is wrong with it.

_DECODE = msgspec.json.Decoder(RowChange).decode
_ENCODE = msgspec.json.Encoder().encode
_ACTIONS = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}


class Item(NamedTuple):
    """One change of a window, with the columns of `ITEMS`."""

    number: int
    transaction: int
    """The number of the first change of its transaction."""
    schema: str
    table: str
    guid: str | None
    action: str
    content: str | None
    oldcontent: str | None

    @property
    def bytes(self) -> int:
        """The size of its contents, as texts."""
        return len(self.content or "") + len(self.oldcontent or "")

    @property
    def changes_key(self) -> bool:
        """Whether it is an UPDATE that changes a key."""
        return self.guid is None and self.action == Action.UPDATE


class RowLines:
    """Reads lines under the definitions of `tables`. Call `defined` whenever these have changed."""

    def __init__(self, tables: Mapping[TableName, TableDefinition]):
        self._tables = tables
        self._forms: dict[tuple[str, str], _Form] = {}

    def defined(self) -> None:
        """Forgets what it knows of the tables."""
        self._forms.clear()

    def read(self, raw: bytes, number: int, transaction: int) -> Item | None:
        """The change of a line with its end; None if `lines` must read it."""
        try:
            row = _DECODE(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        # Duplicate names, unknown fields and odd escapes are lost in decoding, so they do not come back.
        if _ENCODE(row) + b"\n" != raw:
            return None
        form = self._forms.get(row.table)
        if form is None:
            definition = self._tables.get(TableName(*row.table))
            if definition is None:
                return None
            form = self._forms[row.table] = _Form(definition)
        return form.item(row, number, transaction)


class _Form:
    """The form of a table's rows in items."""

    def __init__(self, definition: TableDefinition):
        self._names = tuple(column.name for column in definition.shape.replicated)
        self._key = tuple(column.name for column in definition.shape.key)
        self._heads = [f'<col name="{content.escape(name)}">' for name in self._names]
        self._nulls = [content.format_column(name, None) for name in self._names]
        self._plain = "".join(head.replace("%", "%%") + "%s</col>" for head in self._heads)

    def item(self, row: RowChange, number: int, transaction: int) -> Item | None:
        """None if `lines` must make it, or refuse it."""
        new, old, action = row.new, row.old, _ACTIONS.get(row.change)
        if row.partial or action is None or (new is None) != (action == "DELETE"):
            return None
        whole, former = (old, None) if new is None else (new, old)
        if whole is None or len(whole) != len(self._names) or (former is not None and action == "INSERT"):
            return None
        try:
            values = tuple([whole[name] for name in self._names])
            key = [whole[name] for name in self._key]
        except KeyError:
            return None
        guid: str | None = ""
        if self._key:
            if None in key:
                return None
            guid = key_text(whole, self._key)
            if former is not None and [former.get(name, whole[name]) for name in self._key] != key:
                guid = None
        elif action == "UPDATE" and former is None:
            return None
        formed, before = self._formed(values), None
        if former is not None:
            before = self._former(former)
            if before is None:
                return None
        elif new is None:
            formed, before = None, formed
        return Item(number, transaction, *row.table, guid, action, formed, before)

    def _formed(self, values: tuple[str | None, ...]) -> str | None:
        complete = None not in values
        texts = "".join(values if complete else filter(None, values))  # type: ignore[arg-type]  # no None among them
        if not texts.isprintable() or "<" in texts or "&" in texts or "]]>" in texts:
            return content.format_row(zip(self._names, values, strict=True))
        if complete:
            return self._plain % values
        columns = zip(values, self._heads, self._nulls, strict=True)
        return "".join([null if value is None else f"{head}{value}</col>" for value, head, null in columns])

    def _former(self, former: Values) -> str | None:
        """The former values in the order of the columns; None if one is of no column."""
        found = [(name, former[name]) for name in self._names if name in former]
        return content.format_row(found) if len(found) == len(former) else None


BATCH = 20_000
"""Items that become columns at once."""


class Reader:
    """Reads windows of the stream in one folder."""

    def __init__(self, folder: Path, files: Files | None = None):
        self.files = files or Files(folder)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def items(
        self,
        window: Window,
        *,
        share: Share | None = None,
        images: bool = False,
        max_bytes: int | None = None,
        rows_of: TableName | None = None,
    ) -> pa.Table:
        """The changes in order, with the columns of `ITEMS` and always with old images. `rows_of`: only its rows.
        Raises `TooManyBytes`, `StreamDamaged`, `OtherStream`, `StreamUnreachable`."""
        del images
        if rows_of is not None:
            names = (rows_of.schema, rows_of.name)
            return self._table(
                window, lambda item: (item.schema, item.table) == names and item.action in ROW_ACTIONS, max_bytes
            )
        return self._table(window, None if share is None else lambda item: _is_of(item, share), max_bytes)

    def key_changes(
        self,
        window: Window,
        *,
        guids: Mapping[TableName, Collection[str]] | None = None,
        images: bool = False,
    ) -> pa.Table:
        """UPDATEs that change a key; with `guids`, also all changes of these keys."""
        del images
        keys_of = {(table.schema, table.name): frozenset(keys) for table, keys in (guids or {}).items()}
        return self._table(
            window, lambda item: item.changes_key or item.guid in keys_of.get((item.schema, item.table), ())
        )

    def survey(self, window: Window, *, limit: int | None = None, max_bytes: int | None = None) -> Survey:
        """Counts the window, or its first `limit` changes and `max_bytes` of contents, at least one change."""
        changes = size = key_changes = 0
        last: int | None = None
        cuts: list[Cut] = []
        for item in self._read(window):
            full = limit is not None and changes >= limit
            if full or (changes and max_bytes is not None and size + item.bytes > max_bytes):
                return Survey(changes, last, size, key_changes, tuple(cuts), True)
            changes, size, last = changes + 1, size + item.bytes, item.number
            key_changes += item.changes_key
            if item.action not in ROW_ACTIONS:
                cuts.append(Cut(item.number, item.transaction, item.action, TableName(item.schema, item.table)))
        return Survey(changes, last, size, key_changes, tuple(cuts), False)

    def unordered(self, window: Window) -> bool:
        """See `sluice.database.changes.Reader`."""
        return any(item.action == Action.DELETE_WHERE for item in self._read(window))

    def all_of(self, window: Window) -> Iterator[Item]:
        """The changes in order."""
        return self._read(window)

    def of_table(self, window: Window, table: TableName) -> Iterator[WaitingChange]:
        """All changes of one table, those of its definition as well."""
        for item in self._read(window):
            if (item.schema, item.table) == (table.schema, table.name):
                yield item.action, item.content, item.oldcontent

    def close(self) -> None:
        """Does nothing, since nothing stays open."""

    def _table(self, window: Window, selects: Callable[[Item], bool] | None, max_bytes: int | None = None) -> pa.Table:
        """The `selects` items of a window, all without it."""
        size = 0
        batches: list[pa.RecordBatch] = []
        batch: list[Item] = []
        for item in self._read(window) if selects is None else filter(selects, self._read(window)):
            size += item.bytes
            if max_bytes is not None and size > max_bytes:
                raise TooManyBytes(max_bytes)
            batch.append(item)
            if len(batch) == BATCH:
                batches.append(_columns(batch))
                batch.clear()
        if batch:
            batches.append(_columns(batch))
        return pa.Table.from_batches(batches, ITEMS)

    def _read(self, window: Window) -> Iterator[Item]:
        floor = max(window.above, window.previous.floor(window.target))
        ceiling = window.target.high if window.up_to is None else min(window.up_to, window.target.high)
        if floor >= ceiling:
            return
        names = self.files.names()
        tables: dict[TableName, TableDefinition] | None = None
        for file in names[names.index(self.files.containing(floor, names)) :]:
            index = self.files.index(file, names)
            tables = self._begin(index, tables, floor)
            for item in self._of_file(index, tables, floor):
                yield item
                if item.number >= ceiling:
                    return
        raise OtherStream(
            self.files.folder, f"{file.name} ends with change {index.end.position}, but {ceiling} was read before"
        )

    @staticmethod
    def _begin(
        index: Index, before: dict[TableName, TableDefinition] | None, floor: int
    ) -> dict[TableName, TableDefinition]:
        """The tables at the place where reading begins in a file. `before`: the end of the file before it."""
        if before is None:
            return index.tables(index.place(floor).number)
        now = index.tables(index.header.after)
        for table, definition in now.items():
            was = before.get(table)
            if was is not None and was.shape != definition.shape:
                raise StreamDamaged(
                    index.file, 1, f"{table} is another one than the file before left it, and no alter line says so"
                )
        return now

    @staticmethod
    def _of_file(index: Index, tables: dict[TableName, TableDefinition], floor: int) -> Iterator[Item]:
        """The changes of a file after `floor`, up to its last commit. `tables` is updated with them."""
        commit, end = index.place(floor), index.last.offset
        offset, line, number, begins = commit.offset, commit.line, commit.number, commit.begins
        try:
            with index.file.open("rb") as opened:
                opened.seek(offset)
                rows = RowLines(tables)
                for raw in opened:
                    if offset >= end:
                        return
                    offset, line = offset + len(raw), line + 1
                    if raw.startswith(OF_ROWS):
                        if number < floor:
                            number += 1
                            continue
                        item = rows.read(raw, number + 1, begins + 1)
                        if item is not None:
                            number += 1
                            yield item
                            continue
                    parsed_line = parsed(index.file, line, raw)
                    if isinstance(parsed_line, Commit):
                        begins = number
                    if not isinstance(parsed_line, Change):
                        continue
                    number += 1
                    if number > floor:
                        yield _item(index.file, line, number, begins + 1, parsed_line, tables)
                    if parsed_line.defines:
                        follow(tables, parsed_line.table, parsed_line.definition)
                        rows.defined()
        except OSError as error:
            raise StreamUnreachable(index.file.parent, f"{index.file.name}: {error.strerror}") from error


def _columns(items: Sequence[Item]) -> pa.RecordBatch:
    columns = zip(zip(*items, strict=True), ITEMS, strict=True)
    return pa.record_batch([pa.array(values, kind.type) for values, kind in columns], ITEMS)


def _item(
    file: Path, line: int, number: int, transaction: int, change: Change, tables: Mapping[TableName, TableDefinition]
) -> Item:
    try:
        guid, content, oldcontent = items_of(change, tables.get(change.table))
    except Malformed as reason:
        raise StreamDamaged(file, line, str(reason)) from None
    table = change.table
    return Item(number, transaction, table.schema, table.name, guid, str(change.action), content, oldcontent)


def _is_of(item: Item, share: Share) -> bool:
    if item.action not in ROW_ACTIONS or item.guid is None:
        return False
    # A keyless table is one unit: inserted and deleted copies must be together to cancel out.
    return zlib.crc32((item.guid or str(TableName(item.schema, item.table))).encode()) % share.of == share.number
