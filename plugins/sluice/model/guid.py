"""GUID of ITEMS: a row's key as one text."""

import re
from collections.abc import Mapping, Sequence

from sluice.counted import counted

_PART = re.compile(r"([0-9]+):")


def key_text(row: Mapping[str, str | None], key: Sequence[str]) -> str:
    """The key of a row as one text (GUID): the value itself, or each value as `length:text`."""
    if len(key) == 1:
        return row[key[0]] or ""
    return "".join(f"{len(value)}:{value}" for value in (row[name] or "" for name in key))


def key_values(guid: str, parts: int) -> list[str]:
    """The key's values from a GUID of `parts` columns. Raises `ValueError`."""
    if parts == 1:
        return [guid]
    values: list[str] = []
    at = 0
    while at < len(guid):
        match = _PART.match(guid, at)
        if match is None:
            break
        at = match.end() + int(match[1])
        values.append(guid[match.end() : at])
    if len(values) != parts or at != len(guid):
        raise ValueError(f"{guid!r} is no key of {counted(parts, 'column')}")
    return values
