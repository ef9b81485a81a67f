"""The definition of a table as in CONTENT and OLDCONTENT of CREATE, ALTER and DROP items.

    <desc schema="public" table="orders"><colname pos="1" type="integer" nullable="false" key="1">id</colname>…</desc>

A CREATE item with `complete="true"` in `desc` says that all rows of the table follow in the stream. Attributes of a
column are `pos` (which does not change when the column is renamed), `type`, `nullable` and, if necessary, `key`,
`default`, `identity`, `generated` with `expression`, `collation`, `missing`. After the columns come the enums and the
domains that they use:

    <enum schema="public" name="mood"><label id="16390">sad</label>…</enum>

    <domain schema="public" name="price" type="numeric(12,2)"/>

and composite types, ranges and collations, for slaves of the same vendor.

See include/sql/postgres/definition.sql, which writes it.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from sluice.model.content import escape, malformed_content, unescape
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape

_DESC = re.compile(r"<desc((?: \w+=\"[^\"<>]*\")*)>")
_COLUMN = re.compile(r"<colname((?: \w+=\"[^\"<>]*\")*)>([^<]*)</colname>")
_ENUM = re.compile(r"<enum((?: \w+=\"[^\"<>]*\")*)>((?:<label id=\"\d+\">[^<]*</label>)*)</enum>")
_LABEL = re.compile(r"<label id=\"(\d+)\">([^<]*)</label>")
_COMPOSITE = re.compile(
    r"<composite((?: \w+=\"[^\"<>]*\")*)>((?:<attribute(?: \w+=\"[^\"<>]*\")*>[^<]*</attribute>)*)</composite>"
)
_OF_COMPOSITE = re.compile(r"<attribute((?: \w+=\"[^\"<>]*\")*)>([^<]*)</attribute>")
_PLAIN = re.compile(r"<(domain|range|collation)((?: \w+=\"[^\"<>]*\")*)/>")
_BOUND = re.compile(r"<partition>((?:<hash oid=\"\d+\">[^<]*</hash>)*)<rows>([^<]*)</rows></partition>")
_HASH = re.compile(r"<hash oid=\"(\d+)\">([^<]*)</hash>")
_ATTRIBUTE = re.compile(r" (\w+)=\"([^\"<>]*)\"")


@dataclass(frozen=True)
class EnumType:
    """An enum that a table uses."""

    schema: str
    name: str
    labels: tuple[tuple[int, str], ...]
    """The labels in their order. A label's number does not change when it is renamed."""


@dataclass(frozen=True)
class DomainType:
    """A domain that a table uses."""

    schema: str
    name: str
    type: str
    """The name of the type of its values."""
    collation: str | None = None
    """Qualified and quoted, if it is not the type's."""


@dataclass(frozen=True)
class Attribute:
    """An attribute of a composite type; `number` does not change when it is renamed."""

    number: int
    name: str
    type: str
    collation: str | None = None


@dataclass(frozen=True)
class CompositeType:
    """A composite type that a table uses."""

    schema: str
    name: str
    number: int
    """Does not change when the type is renamed."""
    attributes: tuple[Attribute, ...]


@dataclass(frozen=True)
class RangeType:
    """A range over PostgreSQL's own operators; `opclass`, `collation` and `diff` are qualified and quoted."""

    schema: str
    name: str
    subtype: str
    opclass: str
    multirange_schema: str
    multirange: str
    collation: str | None = None
    diff: str | None = None
    number: str | None = None
    """Does not change when the range or its multirange is renamed; None in items of earlier installations."""


@dataclass(frozen=True)
class CollationType:
    """A collation of the application, as `sluice.database.schema.CollationDefinition`."""

    schema: str
    name: str
    deterministic: str
    """`true` or `false`."""
    provider: str
    locale: str | None = None
    collate: str | None = None
    ctype: str | None = None
    rules: str | None = None


@dataclass(frozen=True)
class TableDefinition:
    """A table as the master defined it."""

    shape: TableShape
    """A generated column has its expression in `default`."""
    missing: dict[str, str] = field(default_factory=dict)
    """The value of each column in rows that are older than the column."""
    complete: bool = False
    """For a CREATE item: the table had no rows when its capture began, or they follow as INSERTs."""
    enums: tuple[EnumType, ...] = ()
    """The enums that the columns use, also as parts of other types."""
    domains: tuple[DomainType, ...] = ()
    """The domains that the columns use, also as parts of other types."""
    composites: tuple[CompositeType, ...] = ()
    ranges: tuple[RangeType, ...] = ()
    collations: tuple[CollationType, ...] = ()

    @property
    def table(self) -> TableName:
        return self.shape.table


def key_unknown(former: TableDefinition, now: TableDefinition) -> bool:
    """Whether a new column of the key has its own value in each older row: rows cannot be found by their new key
    until they follow as changes."""
    positions = {column.position for column in former.shape.columns}
    return any(
        column.position not in positions and column.name not in now.missing and not column.generated
        for column in now.shape.key
    )


@dataclass(frozen=True)
class Bound:
    """The condition for the rows of a partition."""

    condition: str
    """An expression over the columns of the table, as the master writes it."""
    hashes: tuple[tuple[int, str], ...] = ()
    """The tables partitioned by hash that the condition refers to by number, each with its key: `HASH (id)`."""


def parse_bound(text: str) -> Bound:
    """The content of a DELETE WHERE (include/sql/postgres/partitions.sql). Raises `malformed-content`."""
    match = _BOUND.fullmatch(text)
    if match is None:
        raise malformed_content(text, 0, "is no bound of a partition")
    hashes = tuple((int(number), unescape(key)) for number, key in _HASH.findall(match[1]))
    return Bound(unescape(match[2]), hashes)


def parse(text: str) -> TableDefinition:
    """Raises `malformed-content`."""
    head = _DESC.match(text)
    if head is None or not text.endswith("</desc>"):
        raise malformed_content(text, 0, "is no definition of a table")
    names = _attributes(head[1])
    columns: list[Column] = []
    missing: dict[str, str] = {}
    enums: list[EnumType] = []
    composites: list[CompositeType] = []
    plain: dict[str, list[dict[str, str]]] = {"domain": [], "range": [], "collation": []}
    at, end = head.end(), len(text) - len("</desc>")
    while at < end:
        enum = _ENUM.match(text, at)
        if enum is not None:
            enums.append(_enum(enum))
            at = enum.end()
            continue
        composite = _COMPOSITE.match(text, at)
        if composite is not None:
            composites.append(_composite(composite))
            at = composite.end()
            continue
        of_name = _PLAIN.match(text, at)
        if of_name is not None:
            plain[of_name[1]].append(_attributes(of_name[2]))
            at = of_name.end()
            continue
        match = _COLUMN.match(text, at)
        if match is None:
            raise malformed_content(text, at, "is no definition of a column")
        name, attributes = unescape(match[2]), _attributes(match[1])
        if "missing" in attributes:
            missing[name] = attributes["missing"]
        columns.append(
            Column(
                name=name,
                type=attributes["type"],
                position=int(attributes["pos"]),
                nullable=attributes["nullable"] == "true",
                key=int(attributes.get("key", "0")),
                default=attributes.get("expression", attributes.get("default")),
                identity=attributes.get("identity", ""),
                generated=attributes.get("generated", ""),
                collation=attributes.get("collation"),
            )
        )
        at = match.end()
    table = TableName(names["schema"], names["table"])
    return TableDefinition(
        TableShape(table, tuple(columns)),
        missing,
        names.get("complete") == "true",
        tuple(enums),
        tuple(DomainType(**values) for values in plain["domain"]),
        tuple(composites),
        tuple(RangeType(**values) for values in plain["range"]),
        tuple(CollationType(**values) for values in plain["collation"]),
    )


def format_definition(definition: TableDefinition) -> str:
    """The text that `parse` reads as this definition."""
    table = definition.table
    complete = {"complete": "true"} if definition.complete else {}
    columns = [
        f"<colname{_written(_of(column, definition.missing.get(column.name)))}>{escape(column.name)}</colname>"
        for column in definition.shape.columns
    ]
    enums = [
        f"<enum{_written({'schema': enum.schema, 'name': enum.name})}>"
        + "".join(f'<label id="{number}">{escape(label)}</label>' for number, label in enum.labels)
        + "</enum>"
        for enum in definition.enums
    ]
    composites = [
        f"<composite{_written({'schema': one.schema, 'name': one.name, 'number': str(one.number)})}>"
        + "".join(
            f"<attribute{_written({'pos': str(each.number), 'type': each.type, 'collation': each.collation})}>"
            f"{escape(each.name)}</attribute>"
            for each in one.attributes
        )
        + "</composite>"
        for one in definition.composites
    ]
    plain = [
        f"<{word}{_written(asdict(one))}/>"
        for word, types in (
            ("domain", definition.domains),
            ("range", definition.ranges),
            ("collation", definition.collations),
        )
        for one in types
    ]
    head = _written({"schema": table.schema, "table": table.name, **complete})
    return f"<desc{head}>{''.join([*columns, *enums, *composites, *plain])}</desc>"


def format_bound(bound: Bound) -> str:
    """The text that `parse_bound` reads as this bound."""
    hashes = "".join(f'<hash oid="{number}">{escape(key)}</hash>' for number, key in bound.hashes)
    return f"<partition>{hashes}<rows>{escape(bound.condition)}</rows></partition>"


def _of(column: Column, missing: str | None) -> dict[str, str]:
    """The attributes of a column."""
    expression = "expression" if column.generated else "default"
    values = {
        "pos": str(column.position),
        "type": column.type,
        "nullable": "true" if column.nullable else "false",
        "key": str(column.key) if column.key else None,
        "identity": column.identity or None,
        "generated": column.generated or None,
        expression: column.default,
        "collation": column.collation,
        "missing": missing,
    }
    return {name: value for name, value in values.items() if value is not None}


def _written(attributes: Mapping[str, str | None]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in attributes.items() if value is not None)


def _enum(match: re.Match[str]) -> EnumType:
    names = _attributes(match[1])
    labels = tuple((int(number), unescape(label)) for number, label in _LABEL.findall(match[2]))
    return EnumType(names["schema"], names["name"], labels)


def _composite(match: re.Match[str]) -> CompositeType:
    names = _attributes(match[1])
    attributes = []
    for of_attribute, name in _OF_COMPOSITE.findall(match[2]):
        values = _attributes(of_attribute)
        attributes.append(Attribute(int(values["pos"]), unescape(name), values["type"], values.get("collation")))
    return CompositeType(names["schema"], names["name"], int(names["number"]), tuple(attributes))


def _attributes(text: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in _ATTRIBUTE.findall(text)}
