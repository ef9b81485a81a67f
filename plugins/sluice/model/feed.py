"""A feed: a named reader of a master's changes that is no slave."""

from dataclasses import dataclass

from sluice.model.position import Position

ALL_TABLES = "*"
"""In the place of a table's name: one reader of the changes of all tables."""


@dataclass(frozen=True)
class FeedPosition:
    """Up to where a feed has read a table, or all of them; the master keeps it."""

    feed: str
    table: str
    """`schema.table`, or `ALL_TABLES`. Each is a reader of its own."""
    position: Position
