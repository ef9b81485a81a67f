"""Columns of the log: how their values are read, and which types they have in a recorded stream."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.database.change_log import LoggedColumn, LoggedTable
from sluice.model.logical_type import Kind, LogicalType
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.vendors.mysql.binlog import table_map as types
from sluice.vendors.mysql.binlog import values
from sluice.vendors.mysql.binlog.charsets import Charsets, Decode
from sluice.vendors.mysql.binlog.row_code import Cell
from sluice.vendors.mysql.binlog.table_map import LogColumn, TableMap
from sluice.vendors.mysql.column_types import ColumnTexts

_NUMBERS = {
    types.TINY: ("b", "B", 8),
    types.SHORT: ("h", "H", 16),
    types.LONG: ("i", "I", 32),
    types.LONGLONG: ("q", "Q", 64),
}
"""The formats of `struct`, signed and unsigned, and the bits."""
_OF_INET = {"inet6": (16, values.inet6), "inet4": (4, values.inet4)}
_FAMILIES = {
    types.TINY: {"tinyint"},
    types.SHORT: {"smallint"},
    types.LONG: {"int"},
    types.INT24: {"mediumint"},
    types.LONGLONG: {"bigint"},
    types.FLOAT: {"float"},
    types.DOUBLE: {"double"},
    types.DECIMAL: {"decimal"},
    types.DATE: {"date"},
    types.YEAR: {"year"},
    types.BIT: {"bit"},
    types.TIMESTAMP2: {"timestamp"},
    types.DATETIME2: {"datetime"},
    types.TIME2: {"time"},
    types.ENUM: {"enum"},
    types.SET: {"set"},
    types.VARCHAR: {"varchar", "varbinary"},
    types.STRING: {"char", "binary", "uuid", "inet4", "inet6"},
    types.GEOMETRY: {"geometry"},
    **dict.fromkeys(
        (types.BLOB, types.BLOB_COMPRESSED),
        {f"{size}{name}" for size in ("tiny", "", "medium", "long") for name in ("text", "blob")} | {"json"},
    ),
    types.VARCHAR_COMPRESSED: {"varchar", "varbinary"},
}
"""The names that information_schema has for a type of the log."""


class TableUnfit(Exception):
    """A table whose rows cannot be read from the log exactly. The text says why."""


@dataclass(frozen=True)
class ReadColumn:
    """A column of a table, as it is read."""

    cell: Cell
    logical: LogicalType


def agrees(table: TableMap, described: TableShape, charsets: Charsets) -> bool:
    """Whether the catalog describes the table as the log has it: else it was altered, or made again, since."""
    shape = described.columns
    if [column.name for column in shape] != list(table.names):
        return False
    alike = all(
        ColumnTexts(column.name, column.type).base in _FAMILIES.get(own.type, frozenset())
        for own, column in zip(table.columns, shape, strict=True)
    )
    return alike and _same(table, described, charsets)


def _same(table: TableMap, described: TableShape, charsets: Charsets) -> bool:
    key = [] if table.prefixes else [table.names[number] for number in table.key]
    if key and key != [column.name for column in described.key]:
        return False
    for own, column in zip(table.columns, described.columns, strict=True):
        # Of these the log knows less: what values are in them does not tell their character set.
        compressed = own.type in (types.VARCHAR_COMPRESSED, types.BLOB_COMPRESSED)
        base = ColumnTexts(column.name, column.type).base
        if own.nullable != column.nullable:
            return False
        if not compressed and _read_column(own, base, charsets).logical != logical(column.type):
            return False
    return True


def read_columns(
    table: TableMap, described: Mapping[str, Column], charsets: Charsets, collations: Mapping[str, int]
) -> list[ReadColumn]:
    """The columns. `described`: as the catalog has them, where it agrees. `collations`: by their names. Raises
    `TableUnfit`."""
    made = []
    for column in table.columns:
        description = described.get(column.name)
        base = ColumnTexts(description.name, description.type).base if description is not None else ""
        if (
            description is not None
            and description.collation
            and column.type in (types.VARCHAR_COMPRESSED, types.BLOB_COMPRESSED)
        ):
            column = replace(column, collation=collations.get(description.collation, column.collation))
        read = _read_column(column, base, charsets)
        generated = description is not None and description.generated
        made.append(replace(read, cell=replace(read.cell, name="" if generated else column.name)))
    return made


def _read_column(column: LogColumn, base: str, charsets: Charsets) -> ReadColumn:
    """`base`: the type's name in the catalog, where it is known. Raises `TableUnfit`, which names the column."""
    try:
        return _read_type(column, base, charsets)
    except TableUnfit as why:
        raise TableUnfit(f"the column {column.name} {why}") from None


def _read_type(column: LogColumn, base: str, charsets: Charsets) -> ReadColumn:
    kind, meta = column.type, column.meta
    if kind in _NUMBERS:
        signed, unsigned, bits = _NUMBERS[kind]
        cell = Cell(column.name, column.nullable, unsigned if column.unsigned else signed)
        return ReadColumn(cell, LogicalType(Kind.INTEGER, bits + column.unsigned))
    if kind == types.INT24:
        lines = [f"{{0}} = str(int.from_bytes(b[p:p + 3], 'little', signed={not column.unsigned}))", "p += 3"]
        return _lines(column, LogicalType(Kind.INTEGER, 24 + column.unsigned), lines)
    if kind in (types.FLOAT, types.DOUBLE):
        single = kind == types.FLOAT
        show, size = (values.single, 4) if single else (values.double, 8)
        lines = ["{0} = f{1}(u{1}(b, p)[0])", f"p += {size}"]
        uses = {"f": show, "u": (_FLOAT if single else _DOUBLE)}
        return _lines(column, LogicalType(Kind.FLOAT, 32 if single else 64), lines, uses)
    if kind == types.YEAR:
        return _called(column, LogicalType(Kind.INTEGER, 16), values.year, 1)
    if kind == types.DATE:
        return _called(column, LogicalType(Kind.DATE), values.date, 3)
    if kind == types.DATETIME2:
        return _called(column, LogicalType(Kind.TIMESTAMP, meta), *values.date_time(meta))
    if kind == types.TIMESTAMP2:
        return _called(column, LogicalType(Kind.TIMESTAMP_ZONE, meta), *values.timestamp(meta))
    if kind == types.TIME2:
        return _called(column, LogicalType(Kind.INTERVAL), *values.time(meta))
    if kind == types.DECIMAL:
        precision, scale = meta & 255, meta >> 8
        return _called(column, LogicalType(Kind.NUMBER, precision, scale), *values.decimal(precision, scale))
    if kind == types.BIT:
        count = (meta & 255) + (meta >> 8) * 8
        return _called(column, LogicalType(Kind.BITS, length=count), *values.bits(count))
    if kind in (types.ENUM, types.SET):
        return _labelled(column, charsets)
    if kind in (types.STRING, types.VARCHAR, types.BLOB, types.VARCHAR_COMPRESSED, types.BLOB_COMPRESSED):
        return _text(column, base, charsets)
    if kind in (types.TIMESTAMP, types.DATETIME, types.TIME):
        raise TableUnfit("is a time in the form of MariaDB 5.5: run ALTER TABLE … FORCE with mysql56_temporal_format")
    raise TableUnfit("is of a spatial type, which is not replicated" if kind == types.GEOMETRY else f"has type {kind}")


def _text(column: LogColumn, base: str, charsets: Charsets) -> ReadColumn:
    kind, meta = column.type, column.meta
    compressed = kind in (types.VARCHAR_COMPRESSED, types.BLOB_COMPRESSED)
    width = meta if kind in (types.BLOB, types.BLOB_COMPRESSED) else 1 if meta < 256 else 2
    size = f"n = {'b[p]' if width == 1 else f'int.from_bytes(b[p:p + {width}], {chr(39)}little{chr(39)})'}"
    value = f"b[p + {width}:p + {width} + n]"
    moved = f"p += {width} + n"
    if compressed:
        value = f"x{{1}}({value})"
    uses: dict[str, object] = {"x": values.uncompressed} if compressed else {}
    long = kind in (types.BLOB, types.BLOB_COMPRESSED)
    if base in _OF_INET or base == "uuid":
        show = values.uuid if base == "uuid" else _OF_INET[base][1]
        logical = LogicalType(Kind.UUID) if base == "uuid" else LogicalType(Kind.ADDRESS, name="inet")
        return _lines(column, logical, [size, f"{{0}} = f{{1}}({value})", moved], {"f": show})
    if column.binary:
        if compressed and not base:
            raise TableUnfit("is COMPRESSED, and was altered since: nobody knows its character set")
        if kind == types.STRING:
            value = f"{value}.ljust({meta}, b'\\0')"
        logical = LogicalType(Kind.BINARY, length=None if long else meta)
        return _lines(column, logical, [size, f"{{0}} = '\\\\x' + {value}.hex()", moved], uses)
    codec = charsets.codec(column.collation)
    if codec is None:
        name = charsets.of_collations.get(column.collation, f"collation {column.collation}")
        raise TableUnfit(f"has the character set {name}, whose texts Sluice does not read: convert it to utf8mb4")
    characters = None if long else charsets.characters(column.collation, meta)
    logical = LogicalType(Kind.CHAR if kind == types.STRING else Kind.TEXT, length=characters)
    if isinstance(codec, str):
        return _lines(column, logical, [size, f"{{0}} = str({value}, {codec!r})", moved], uses)
    return _lines(column, logical, [size, f"{{0}} = d{{1}}({value})", moved], {**uses, "d": codec})


def _labelled(column: LogColumn, charsets: Charsets) -> ReadColumn:
    codec = charsets.codec(column.collation)
    if codec is None:
        raise TableUnfit("has labels in a character set that Sluice does not read: convert it to utf8mb4")
    labels = [_decoded(label, codec) for label in column.labels]
    if column.type == types.SET:
        return _called(column, LogicalType(Kind.TEXT), values.set_of(labels, column.meta), column.meta)
    longest = max(map(len, labels), default=1)
    logical = LogicalType(Kind.ENUM, length=max(longest, 1))
    return _called(column, logical, values.enum(labels, column.meta), column.meta)


def _decoded(label: bytes, codec: str | Decode) -> str:
    return label.decode(codec) if isinstance(codec, str) else codec(label)


def _called(column: LogColumn, logical: LogicalType, read: values.Read, size: int) -> ReadColumn:
    return _lines(column, logical, ["{0} = f{1}(b, p)", f"p += {size}"], {"f": read})


def _lines(
    column: LogColumn, logical: LogicalType, lines: Sequence[str], uses: Mapping[str, object] | None = None
) -> ReadColumn:
    return ReadColumn(Cell(column.name, column.nullable, lines=lines, uses=uses or {}), logical)


def of_log(table: TableName, own: TableMap, read: Sequence[ReadColumn]) -> LoggedTable:
    """The table as the log alone describes it: which columns are generated, it does not say."""
    key = {} if own.prefixes else {number: index for index, number in enumerate(own.key, start=1)}
    made = [
        LoggedColumn(column.name, each.logical, column.nullable, key.get(number, 0))
        for number, (column, each) in enumerate(zip(own.columns, read, strict=True))
    ]
    return LoggedTable(table, tuple(made), certain=False)


def logged(shape: TableShape) -> LoggedTable:
    """The same from the catalogue."""
    made = [
        LoggedColumn(column.name, logical(column.type), column.nullable, column.key, column.generated)
        for column in shape.columns
    ]
    return LoggedTable(shape.table, tuple(made))


_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TYPE = re.compile(r"(?P<name>\w+)(?:\((?P<inside>.*?)\))?(?P<rest>.*)", re.DOTALL)
_LABEL = re.compile(r"'((?:[^']|'')*)'")


def logical(type_name: str) -> LogicalType:
    """The logical type in a recorded stream of a type as COLUMN_TYPE has it."""
    matched = _TYPE.fullmatch(type_name)
    assert matched is not None
    name, inside, unsigned = matched["name"].lower(), matched["inside"], "unsigned" in matched["rest"].lower()
    if name in _BITS:
        return LogicalType(Kind.INTEGER, _BITS[name] + unsigned)
    if name in ("enum", "set"):
        labels = [label.replace("''", "'") for label in _LABEL.findall(type_name)]
        return LogicalType(Kind.ENUM, length=max([1, *map(len, labels)])) if name == "enum" else LogicalType(Kind.TEXT)
    if name == "decimal":
        precision, _, scale = (inside or "10").partition(",")
        return LogicalType(Kind.NUMBER, int(precision), int(scale or 0))
    if name in ("datetime", "timestamp"):
        return LogicalType(Kind.TIMESTAMP if name == "datetime" else Kind.TIMESTAMP_ZONE, int(inside or 0))
    if name in ("char", "varchar", "binary", "varbinary", "bit"):
        kinds = {"char": Kind.CHAR, "varchar": Kind.TEXT, "bit": Kind.BITS}
        return LogicalType(kinds.get(name, Kind.BINARY), length=int(inside or 1))
    if name.endswith("blob"):
        return LogicalType(Kind.BINARY)
    plain = {
        "float": LogicalType(Kind.FLOAT, 32),
        "double": LogicalType(Kind.FLOAT, 64),
        "date": LogicalType(Kind.DATE),
        "time": LogicalType(Kind.INTERVAL),
        "year": LogicalType(Kind.INTEGER, 16),
        "uuid": LogicalType(Kind.UUID),
        "inet4": LogicalType(Kind.ADDRESS, name="inet"),
        "inet6": LogicalType(Kind.ADDRESS, name="inet"),
    }
    return plain.get(name, LogicalType(Kind.TEXT))


_FLOAT, _DOUBLE = values.unpackers()
