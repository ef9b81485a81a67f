"""A history of a table, and the slave that should be equal to it."""

from typing import Any

from sluice.apply import net_changes
from sluice.database import xml_images
from sluice.database.net_changes import NetChanges
from sluice.model.names import TableName
from sluice.vendors.postgres.target.merge import Merger
from tests.unit.changes import History

T = TableName("public", "t")


def reduced(history: History, start: int = 0, *, images: bool = False) -> NetChanges:
    return net_changes.reduce(net_changes.events(history.window(start), history.key, xml_images), before=images)


def rows(link: Any, table: TableName = T, columns: str = "*") -> list[tuple[str | None, ...]]:
    found = link.execute(f"SELECT {columns} FROM {table}").fetchall()
    return sorted((tuple(None if value is None else str(value) for value in row) for row in found), key=repr)


def same(link: Any, history: History, columns: str = "*") -> None:
    assert rows(link, history.table, columns) == sorted(history.rows, key=repr)


def merger(link: Any, *, cascades: bool = False) -> Merger:
    return Merger(link, cascades=cascades)


def filled(history: History, count: int = 5) -> int:
    """Inserts the rows 0 … count - 1; returns the place in the history."""
    for number in range(count):
        history.insert(str(number), *[f"v{number}"] * (len(history.columns) - 1))
    return len(history.items)
