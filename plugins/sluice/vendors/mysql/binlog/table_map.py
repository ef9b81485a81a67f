"""TABLE_MAP events: what the log says of a table before its rows."""

from dataclasses import dataclass, field
from functools import cached_property

from sluice.vendors.mysql.binlog.events import HEAD_BYTES, length

TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24 = 1, 2, 3, 4, 5, 8, 9
DATE, YEAR, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 13, 15, 16, 17, 18, 19
TIMESTAMP, TIME, DATETIME = 7, 11, 12
"""Of tables that were made before MySQL 5.6 and MariaDB 10.1."""
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
DECIMAL, ENUM, SET, BLOB, STRING, GEOMETRY = 246, 247, 248, 252, 254, 255
NUMERIC = frozenset({TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24, YEAR, DECIMAL})
WITH_COLLATION = frozenset({VARCHAR, BLOB, STRING, BLOB_COMPRESSED, VARCHAR_COMPRESSED, GEOMETRY})
"""Types whose columns have a collation in the log; a spatial one has that of bytes."""
_META = {
    **dict.fromkeys((FLOAT, DOUBLE, BLOB, GEOMETRY, TIMESTAMP2, DATETIME2, TIME2, BLOB_COMPRESSED), 1),
    **dict.fromkeys((VARCHAR, BIT, DECIMAL, STRING, ENUM, SET, VARCHAR_COMPRESSED), 2),
}
"""How many bytes of metadata columns of a type have."""
BINARY = 63
"""The number of the collation of bytes."""
_SIGNS, _DEFAULT_COLLATION, _COLLATIONS, _NAMES, _SETS, _ENUMS = 1, 2, 3, 4, 5, 6
_KEY, _KEY_PARTS, _ENUM_DEFAULT, _ENUM_COLLATIONS = 8, 9, 10, 11


class MetadataMissing(Exception):
    """The event has no names of columns: `binlog_row_metadata` was not FULL."""


@dataclass(frozen=True)
class LogColumn:
    """A column as the log has it."""

    name: str
    type: int
    meta: int
    nullable: bool
    unsigned: bool = False
    collation: int = BINARY
    labels: tuple[bytes, ...] = ()
    """Of an ENUM or SET, in the column's character set."""

    @property
    def binary(self) -> bool:
        return self.collation == BINARY


@dataclass(frozen=True)
class TableMap:
    """A table as the log has it."""

    database: str
    name: str
    columns: tuple[LogColumn, ...]
    key: tuple[int, ...] = ()
    """The numbers of the columns of the primary key, in its order; empty without one."""
    prefixes: bool = False
    """The primary key has only the beginnings of some columns."""
    cache: dict[object, object] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def table_id(data: bytes) -> int:
    """The number by which events of rows name the table that the event describes."""
    return int.from_bytes(data[HEAD_BYTES : HEAD_BYTES + 6], "little")


def table_name(data: bytes) -> tuple[str, str]:
    """Database and name."""
    at = HEAD_BYTES + 8
    database = data[at + 1 : at + 1 + data[at]]
    at += data[at] + 2
    return database.decode(), data[at + 1 : at + 1 + data[at]].decode()


def parse(data: bytes) -> TableMap:
    """Raises `MetadataMissing`."""
    database, name = table_name(data)
    at = HEAD_BYTES + 8
    at += data[at] + 2
    at += data[at] + 2
    count, at = length(data, at)
    types, at = data[at : at + count], at + count
    _, at = length(data, at)
    metas = []
    for kind in types:
        size = _META.get(kind, 0)
        metas.append(int.from_bytes(data[at : at + size], "little"))
        at += size
    nulls, at = int.from_bytes(data[at : at + (count + 7) // 8], "little"), at + (count + 7) // 8
    real = [_real(kind, meta) for kind, meta in zip(types, metas, strict=True)]
    more = _optional(data, at)
    if _NAMES not in more and count:
        raise MetadataMissing
    numeric = [number for number, (kind, _) in enumerate(real) if kind in NUMERIC]
    texts = [number for number, (kind, _) in enumerate(real) if kind in WITH_COLLATION]
    labelled = [number for number, (kind, _) in enumerate(real) if kind in (ENUM, SET)]
    signs = more.get(_SIGNS, b"")
    unsigned = {number for index, number in enumerate(numeric) if signs and signs[index >> 3] & 0x80 >> (index & 7)}
    collations = _collations(more, _DEFAULT_COLLATION, _COLLATIONS, texts)
    collations |= _collations(more, _ENUM_DEFAULT, _ENUM_COLLATIONS, labelled)
    names = [part.decode() for part in _parts(more.get(_NAMES, b""))]
    labels: dict[int, tuple[bytes, ...]] = {}
    for code, type_code in ((_SETS, SET), (_ENUMS, ENUM)):
        groups = iter(_groups(more.get(code, b"")))
        labels |= {number: next(groups, ()) for number in labelled if real[number][0] == type_code}
    columns = tuple(
        LogColumn(
            names[number],
            kind,
            meta,
            bool(nulls >> number & 1),
            number in unsigned,
            collations.get(number, BINARY),
            labels.get(number, ()),
        )
        for number, (kind, meta) in enumerate(real)
    )
    key = _numbers(more.get(_KEY, b""))
    parts = _numbers(more.get(_KEY_PARTS, b""))
    return TableMap(database, name, columns, key or parts[::2], any(parts[1::2]))


def _real(kind: int, meta: int) -> tuple[int, int]:
    """The type of a STRING, which may be an ENUM or a SET, and its length in bytes; others as they are."""
    if kind != STRING:
        return kind, meta
    first, second = meta & 255, meta >> 8
    if first & 0x30 != 0x30:
        return first | 0x30, second | (first & 0x30 ^ 0x30) << 4
    return first, second


def _optional(data: bytes, at: int) -> dict[int, bytes]:
    """The metadata by its codes."""
    found: dict[int, bytes] = {}
    while at < len(data):
        code = data[at]
        size, at = length(data, at + 1)
        found[code], at = data[at : at + size], at + size
    return found


def _collations(more: dict[int, bytes], default: int, each: int, columns: list[int]) -> dict[int, int]:
    if each in more:
        return dict(zip(columns, _numbers(more[each]), strict=False))
    if default not in more:
        return {}
    numbers = _numbers(more[default])
    found = dict.fromkeys(columns, numbers[0])
    for column, collation in zip(numbers[1::2], numbers[2::2], strict=True):
        found[columns[column]] = collation
    return found


def _numbers(data: bytes) -> tuple[int, ...]:
    found, at = [], 0
    while at < len(data):
        number, at = length(data, at)
        found.append(number)
    return tuple(found)


def _parts(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size, at = length(data, at)
        found.append(data[at : at + size])
        at += size
    return found


def _groups(data: bytes) -> list[tuple[bytes, ...]]:
    """Lists of texts, each after its number of texts."""
    found, at = [], 0
    while at < len(data):
        count, at = length(data, at)
        texts = []
        for _ in range(count):
            size, at = length(data, at)
            texts.append(data[at : at + size])
            at += size
        found.append(tuple(texts))
    return found
