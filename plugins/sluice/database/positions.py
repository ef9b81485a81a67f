"""Positions as text: each text is read by the source to which the position belongs."""

import json

from sluice.database.registry import source_of
from sluice.model.position import Position
from sluice.model.vendors import FIRST


def parse(text: str) -> Position:
    """Reads a position from its text, stored on a slave of any vendor, in Redis, or in an answer.

    The text has its vendor under `vendor`; PostgreSQL's texts, which are older, do not. Raises `ValueError` for other
    text, `UnknownVendor`.
    """
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"{text!r} is no position")
    return source_of(str(values.get("vendor", FIRST))).position(text)
