"""Indexes that any vendor can have: of columns alone."""

import re

from sluice.database.schema import Index

_COLUMNS = re.compile(
    r"USING btree \((?P<columns>(?:\"(?:[^\"]|\"\")*\"|[^\"()])*)\)(?: INCLUDE \((?:\"(?:[^\"]|\"\")*\"|[^\"()])*\))?"
)
_COLUMN = re.compile(r"\s*(?:\"(?P<quoted>(?:[^\"]|\"\")*)\"|(?P<plain>[^\s\",]+))(?P<rest>[^,]*)(?:,|$)")
_ORDERS = frozenset({"", "DESC", "ASC", "DESC NULLS LAST", "NULLS FIRST"})


def columns_of(index: Index) -> tuple[str, ...] | None:
    """The columns of a plain index of the master's; None for any other."""
    match = _COLUMNS.fullmatch(index.rest.strip())
    if match is None or index.constraint_kind == "x":
        return None
    columns = []
    for column in _COLUMN.finditer(match["columns"]):
        if not column[0].strip():
            continue
        if column["rest"].strip() not in _ORDERS:
            return None
        columns.append(column["quoted"].replace('""', '"') if column["quoted"] is not None else column["plain"])
    return tuple(columns)
