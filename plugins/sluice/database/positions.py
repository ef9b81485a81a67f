"""Positions as they are kept: as text, which its source reads whose position it is."""

import json

from sluice.database.registry import source_of
from sluice.model.position import Position
from sluice.model.vendors import FIRST


def parse(text: str) -> Position:
    """A position back from its text, wherever that was kept: on a slave of whatever vendor, in Redis, in an answer.

    The text names its vendor under `vendor`; PostgreSQL's, which are older than that, do not. Raises `ValueError` for
    text that is no position's, `UnknownVendor`.
    """
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"{text!r} is no position")
    return source_of(str(values.get("vendor", FIRST))).position(text)
