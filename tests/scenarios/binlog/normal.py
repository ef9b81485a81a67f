"""Rows as clients of both vendors have them in common."""

from typing import Any


def normal(rows: Any) -> list[tuple[Any, ...]]:
    """In an order and a form that they share."""

    def value(one: Any) -> Any:
        if isinstance(one, bytes | memoryview):
            return bytes(one).hex()
        if hasattr(one, "tzinfo"):
            return one.replace(tzinfo=None).isoformat()
        return str(one) if one is not None else None

    return sorted((tuple(value(each) for each in row) for row in rows), key=repr)
