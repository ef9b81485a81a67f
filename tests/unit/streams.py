"""Writes recorded streams without a master, for tests."""

from collections.abc import Sequence
from pathlib import Path

from sluice.model.change import Action
from sluice.model.names import TableName
from sluice.model.position import Window
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from sluice.vendors.stream.lines import Change, Commit
from sluice.vendors.stream.position import StreamPosition
from sluice.vendors.stream.writer import Writer

TABLE = TableName("My Schema", 'select "x]]>')
COLUMNS = ("Key a", "order")
STREAM = "s"
TIME = "2026-11-22T10:00:00.000000Z"


def defined(
    table: TableName = TABLE, columns: Sequence[str] = COLUMNS, key: Sequence[str] = COLUMNS[:1]
) -> TableDefinition:
    """A table of text columns."""
    made = [
        Column(name, "text", at, nullable=name not in key, key=key.index(name) + 1 if name in key else 0)
        for at, name in enumerate(columns, start=1)
    ]
    return TableDefinition(TableShape(table, tuple(made)))


def insert(key: str, value: str | None = "v", table: TableName = TABLE) -> Change:
    return Change(Action.INSERT, table, new={"Key a": key, "order": value})


def update(key: str, value: str | None, table: TableName = TABLE, **old: str | None) -> Change:
    return Change(Action.UPDATE, table, new={"Key a": key, "order": value}, old={"Key a": key, **old})


def delete(key: str, value: str | None = "v", table: TableName = TABLE) -> Change:
    return Change(Action.DELETE, table, old={"Key a": key, "order": value})


def recorded(folder: Path, *transactions: Sequence[Change], file_bytes: int = 1 << 30) -> Path:
    """A stream of one table in `folder`."""
    folder.mkdir(exist_ok=True)
    with Writer(folder, STREAM, Commit(0, TIME), {TABLE: defined()}, file_bytes=file_bytes) as writer:
        for changes in transactions:
            writer.add(changes)
            writer.commit(TIME)
    return folder


def at(commit: int) -> StreamPosition:
    return StreamPosition(STREAM, commit, TIME)


def window(begins: int, ends: int, above: int = 0, up_to: int | None = None) -> Window:
    return Window(at(begins), at(ends), above, up_to)
