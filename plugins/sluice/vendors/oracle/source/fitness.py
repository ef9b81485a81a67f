"""Decides which tables of an Oracle master can be captured."""

import re
from collections.abc import Iterator, Sequence

from sluice.model.names import TableName
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.column_texts import UNREAD
from sluice.vendors.oracle.session import OracleSession

KEY_BYTES = 4_000
"""The highest number of bytes of a key's text, in GUID."""
_FIXED_KEY_BYTES = 50
_CAPTURED = re.compile(
    r"(VARCHAR2|CHAR|NVARCHAR2|NCHAR|RAW)\(.*\)|NUMBER(\(.*\))?|FLOAT(\(.*\))?|BINARY_FLOAT|BINARY_DOUBLE|DATE"
    r"|TIMESTAMP(\(\d\))?( WITH (LOCAL )?TIME ZONE)?|CLOB|NCLOB|BLOB|INTERVAL .*"
)
"""Types as `column_types.type_text` writes them."""
_SIZE = re.compile(r"\((\d+)")
_REMEDY = "leave it out of `tables`, or change it on the master"


def unfit(session: OracleSession, tables: Sequence[TableName]) -> dict[TableName, str]:
    """For each of `tables` that cannot be captured, the reason and the remedy."""
    shapes = catalog.shapes(session, tables)
    kinds = catalog.kinds(session, tables)
    faults: dict[TableName, str] = {}
    for table in tables:
        reasons = []
        if table not in shapes:
            reasons.append("does not exist, or the account has no privilege on it: GRANT SELECT, FLASHBACK on it")
        elif table.schema == names.HERE:
            reasons.append(f"must be named by its owner: write {session.schema}.{table.name}")
        else:
            columns = [(column.name, column.type) for column in shapes[table].columns if not column.generated]
            reasons += of_columns(columns, [column.name for column in shapes[table].key])
            if kinds.get(table):
                reasons.append(f"is {kinds[table]}")
        if reasons:
            faults[table] = f"{'; it '.join(reasons)}: {_REMEDY}"
    return faults


def of_columns(columns: Sequence[tuple[str, str]], key: Sequence[str]) -> Iterator[str]:
    """Why a table with these columns and types cannot be captured, each as the end of `the table …`."""
    for name, kind in columns:
        if kind in UNREAD:
            if not key:
                why = "which no trigger can read, and no key to look for it by"
                yield f"has column {name} of type {kind}, {why}"
        elif name in key and kind.startswith("INTERVAL "):
            yield f"has column {name} of type {kind} in its key"
        elif not _CAPTURED.fullmatch(kind):
            yield f"has column {name} of type {kind}, which is not replicated"
    size = sum(key_bytes(kind) for name, kind in columns if name in key)
    if size > KEY_BYTES:
        yield f"has a key that may take {size:,} bytes as a text; {KEY_BYTES:,} is the most"


def key_bytes(kind: str) -> int:
    """The highest number of bytes of a key column's text."""
    size = _SIZE.search(kind)
    if size is None or not kind.startswith(("VARCHAR2", "CHAR", "NVARCHAR2", "NCHAR", "RAW")):
        return _FIXED_KEY_BYTES
    bytes_each = 2 if kind.startswith("RAW") else 4 if "CHAR)" in kind or kind.startswith("N") else 1
    return max(int(size[1]) * bytes_each, _FIXED_KEY_BYTES)
