"""A feed: a named reader of a master's changes that is no slave."""

from dataclasses import dataclass

from sluice.model.position import Position

ALL_TABLES = "*"
"""In place of a table's name: a reader of the changes of all tables."""


@dataclass(frozen=True)
class FeedPosition:
    """The position up to which a feed has read a table, or all tables; the master stores it."""

    feed: str
    table: str
    """`schema.table`, or `ALL_TABLES`. Each is a separate reader."""
    position: Position
