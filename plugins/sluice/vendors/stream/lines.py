"""The lines of a recorded stream (docs/stream.md): one JSON object on each line."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NoReturn

import msgspec

from sluice.model import content, guid
from sluice.model.change import ROW_ACTIONS, Action
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import Bound, DomainType, EnumType, TableDefinition, format_bound, format_definition
from sluice.vendors.stream.errors import Malformed

VERSION = 1

Values = Mapping[str, str | None]
"""Texts of a row's columns, None for NULL."""

_ENCODER = msgspec.json.Encoder()
_COLUMN = Column("", "", 0)
_KINDS = ("stream", "table", "change", "commit")
_FIELDS: dict[Action, frozenset[str]] = {
    Action.INSERT: frozenset({"new"}),
    Action.UPDATE: frozenset({"new", "old", "partial"}),
    Action.DELETE: frozenset({"old", "partial"}),
    Action.TRUNCATE: frozenset(),
    Action.DELETE_WHERE: frozenset({"condition", "hashes"}),
    Action.DIFFER: frozenset({"reason"}),
    Action.CREATE: frozenset({"definition", "complete"}),
    Action.ALTER: frozenset({"definition", "former"}),
    Action.DROP: frozenset({"former"}),
}
"""The fields that a change of each kind may have besides its table."""
_OPTIONAL = frozenset({"hashes", "complete", "former", "partial"})


@dataclass(frozen=True)
class Header:
    """The first line of a file."""

    stream: str
    """The name of the stream, the same in all its files."""
    after: int
    """The position at which the file before this one ended."""
    time: str = ""
    """The time of that position, ISO 8601, UTC."""
    source: str | None = None
    """As in `Commit`: the file before this one may be deleted."""


@dataclass(frozen=True)
class Change:
    """A change of a recorded stream."""

    action: Action
    table: TableName
    new: Values | None = None
    old: Values | None = None
    """For a DELETE the whole row, for an UPDATE at least the changed columns; None if unknown."""
    partial: bool = False
    """Columns are left out: unchanged ones of an UPDATE's `new`, unknown ones of `old`."""
    definition: TableDefinition | None = None
    """The definition after the change."""
    former: TableDefinition | None = None
    """The definition before the change."""
    bound: Bound | None = None
    reason: str | None = None

    @property
    def defines(self) -> bool:
        """Whether it changes or drops the table."""
        return self.action in (Action.CREATE, Action.ALTER, Action.DROP)

    @property
    def content(self) -> str | None:
        """CONTENT for an item that is no change of a row."""
        if self.definition is not None:
            return format_definition(self.definition)
        return format_bound(self.bound) if self.bound is not None else self.reason

    @property
    def oldcontent(self) -> str | None:
        """OLDCONTENT for an item that is no change of a row."""
        return format_definition(self.former) if self.former is not None else None


class RowChange(msgspec.Struct, omit_defaults=True, gc=False):
    """A row change as the fields of its line, which is faster to make and to write than a `Change`."""

    change: str
    """`insert`, `update` or `delete`."""
    table: tuple[str, str]
    new: Values | None = None
    old: Values | None = None
    partial: bool = False


@dataclass(frozen=True)
class Commit:
    """The end of a transaction."""

    position: int
    """The number of its last change."""
    time: str
    source: str | None = None
    """The master's position up to which the recorder has read, for its next start."""
    lost: str | None = None
    """Why later changes of the master are lost."""


def write_rows(changes: Sequence[RowChange]) -> bytes:
    """Their lines with line ends, as `write` makes them from a `Change`."""
    return _ENCODER.encode_lines(changes)


Line = Header | TableDefinition | Change | Commit


def parse(line: bytes) -> Line:
    """Raises `Malformed`."""
    try:
        # Stricter than Python's defaults: a duplicate name is an error, and NaN is no number.
        values = json.loads(line.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
        # Half a surrogate pair is no valid text, although JSON can express it.
        if b"\\u" in line:
            json.dumps(values, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Malformed(f"is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise Malformed("is no JSON object")
    kinds = [kind for kind in _KINDS if kind in values]
    if "change" in kinds:
        return _change(values)
    if "table" in kinds and "columns" in values:
        return _definition(values)
    if kinds == ["stream"]:
        return _header(values)
    if kinds == ["commit"]:
        return _commit(values)
    raise Malformed("begins neither a file, nor a table, a change or a commit")


def write(line: Line) -> bytes:
    """The line with its line end; `parse` reads it."""
    match line:
        case Header():
            time = {"time": line.time} if line.time else {}
            values: dict[str, object] = {"stream": line.stream, "version": VERSION, "after": line.after, **time}
            values |= _of_source(line)
        case TableDefinition():
            values = _of_definition(line)
        case Commit():
            lost = {"lost": line.lost} if line.lost is not None else {}
            values = {"commit": line.position, "time": line.time, **_of_source(line), **lost}
        case Change():
            values = {"change": line.action.lower(), "table": _of_table(line.table), **_of_change(line)}
    return _ENCODER.encode(values) + b"\n"


def _of_source(line: Header | Commit) -> dict[str, str]:
    return {"source": line.source} if line.source is not None else {}


def _of_change(change: Change) -> dict[str, object]:
    values: dict[str, object] = {}
    if change.new is not None:
        values["new"] = dict(change.new)
    if change.old is not None:
        values["old"] = dict(change.old)
    if change.partial:
        values["partial"] = True
    if change.definition is not None:
        values["definition"] = _of_definition(change.definition)
        if change.action is Action.CREATE:
            values["complete"] = change.definition.complete
    if change.former is not None:
        values["former"] = _of_definition(change.former)
    if change.bound is not None:
        values |= {"condition": change.bound.condition, "hashes": [list(each) for each in change.bound.hashes]}
    if change.reason is not None:
        values["reason"] = change.reason
    return values


def _of_table(table: TableName) -> list[str]:
    return [table.schema, table.name]


def _of_definition(definition: TableDefinition) -> dict[str, object]:
    default = asdict(_COLUMN)
    columns = []
    for column in definition.shape.columns:
        values = {name: value for name, value in asdict(column).items() if value != default[name]}
        if column.name in definition.missing:
            values["missing"] = definition.missing[column.name]
        columns.append({"name": column.name, "type": column.type, **values})
    enums = [
        {"schema": enum.schema, "name": enum.name, "labels": [list(label) for label in enum.labels]}
        for enum in definition.enums
    ]
    # Composite types, ranges and collations are not in the format: slaves need them before.
    domains = [{"schema": one.schema, "name": one.name, "type": one.type} for one in definition.domains]
    types = {name: values for name, values in (("enums", enums), ("domains", domains)) if values}
    return {"table": _of_table(definition.table), "columns": columns, **types}


def _header(values: dict[str, object]) -> Header:
    _known(values, {"stream", "version", "after"}, {"time", "source"})
    if values["version"] != VERSION:
        raise Malformed(f"is of version {values['version']!r} of the format; this release reads {VERSION}")
    time = _text(values, "time") if "time" in values else ""
    return Header(_text(values, "stream"), _number(values, "after"), time, _source(values))


def _commit(values: dict[str, object]) -> Commit:
    _known(values, {"commit", "time"}, {"source", "lost"})
    lost = _text(values, "lost") if "lost" in values else None
    return Commit(_number(values, "commit"), _text(values, "time"), _source(values), lost)


def _source(values: dict[str, object]) -> str | None:
    return _text(values, "source") if "source" in values else None


def _change(values: dict[str, object]) -> Change:
    word = values["change"]
    try:
        action = Action(str(word).upper())
    except ValueError:
        actions = ", ".join(one.lower() for one in Action)
        raise Malformed(f"{word!r} is no kind of change; known are {actions}") from None
    fields = _FIELDS[action]
    optional = fields & _OPTIONAL if action is not Action.UPDATE else {"old", "partial"}
    _known(values, {"change", "table", *(fields - optional)}, set(optional))
    table = _table(values["table"])
    if action in ROW_ACTIONS:
        new, old = (_row(values[name], name) if name in values else None for name in ("new", "old"))
        return Change(action, table, new, old, partial=_flag(values, "partial"))
    bound = None
    if action is Action.DELETE_WHERE:
        bound = Bound(_text(values, "condition"), tuple(_pairs(values.get("hashes", []), "hashes")))
    return Change(
        action,
        table,
        definition=_inner(values, "definition", complete=_flag(values, "complete")),
        former=_inner(values, "former"),
        bound=bound,
        reason=_text(values, "reason") if "reason" in values else None,
    )


def _inner(values: dict[str, object], name: str, *, complete: bool = False) -> TableDefinition | None:
    if name not in values:
        return None
    inner = values[name]
    if not isinstance(inner, dict):
        raise Malformed(f"has {name} that is no object")
    return _definition(inner, complete=complete)


def _definition(values: dict[str, object], *, complete: bool = False) -> TableDefinition:
    _known(values, {"table", "columns"}, {"enums", "domains"})
    columns: list[Column] = []
    missing: dict[str, str] = {}
    for entry in _list(values["columns"], "columns"):
        column = dict(entry) if isinstance(entry, dict) else {}
        if "missing" in column:
            missing[str(column.get("name"))] = str(column.pop("missing"))
        try:
            made = Column(**{"position": len(columns) + 1, **column})
        except TypeError:
            raise Malformed(f"has a column that is none: {json.dumps(entry)[:200]}") from None
        for name, value in asdict(made).items():
            kind = type(getattr(_COLUMN, name)) if name not in ("default", "collation") else (str, type(None))
            if not isinstance(value, kind) or (isinstance(value, bool) and name != "nullable"):
                raise Malformed(f"column {made.name!r} has {name} = {value!r}")
        columns.append(made)
    names = [column.name for column in columns]
    if not names or len(set(names)) < len(names):
        raise Malformed("has a table without columns, or with one twice")
    enums = []
    for enum in _list(values.get("enums", []), "enums"):
        if not isinstance(enum, dict):
            raise Malformed("has an enum that is no object")
        _known(enum, {"schema", "name", "labels"}, set())
        enums.append(EnumType(_text(enum, "schema"), _text(enum, "name"), tuple(_pairs(enum["labels"], "labels"))))
    domains = []
    for domain in _list(values.get("domains", []), "domains"):
        if not isinstance(domain, dict):
            raise Malformed("has a domain that is no object")
        _known(domain, {"schema", "name", "type"}, set())
        domains.append(DomainType(_text(domain, "schema"), _text(domain, "name"), _text(domain, "type")))
    shape = TableShape(_table(values["table"]), tuple(columns))
    return TableDefinition(shape, missing, complete, tuple(enums), tuple(domains))


def _known(values: Mapping[str, object], needed: set[str], optional: set[str]) -> None:
    if missing := sorted(needed - values.keys()):
        raise Malformed(f"lacks {', '.join(missing)}")
    if strange := sorted(values.keys() - needed - optional):
        raise Malformed(f"has {', '.join(map(repr, strange))}, which this release does not know")


def _table(value: object) -> TableName:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) and part for part in value):
        return TableName(*value)
    raise Malformed(f'has {value!r} where a table is meant: write ["schema", "table"]')


def _row(value: object, name: str) -> Values:
    if not isinstance(value, dict):
        raise Malformed(f"has {name} that is no object of columns")
    for column, text in value.items():
        if text is not None and not isinstance(text, str):
            raise Malformed(f"{name}: column {column!r} is {json.dumps(text)[:80]}: values are texts or null")
    return value


def _flag(values: Mapping[str, object], name: str) -> bool:
    value = values.get(name, False)
    if isinstance(value, bool):
        return value
    raise Malformed(f"has {name} that is neither true nor false")


def _text(values: Mapping[str, object], name: str) -> str:
    if isinstance(values[name], str):
        return str(values[name])
    raise Malformed(f"has {name} = {values[name]!r}, which is no text")


def _number(values: Mapping[str, object], name: str) -> int:
    value = values[name]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62:
        return value
    raise Malformed(f"has {name} = {value!r}, which is no number of a change")


def _list(value: object, name: str) -> Sequence[object]:
    if isinstance(value, list):
        return value
    raise Malformed(f"has {name} that is no list")


def _pairs(value: object, name: str) -> list[tuple[int, str]]:
    pairs = []
    for pair in _list(value, name):
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) is not int or not isinstance(pair[1], str):
            raise Malformed(f"has {name} with {pair!r}: write [number, text]")
        pairs.append((pair[0], pair[1]))
    return pairs


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name comes twice")
    return values


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no value")


def items_of(change: Change, definition: TableDefinition | None) -> tuple[str | None, str | None, str | None]:
    """GUID, CONTENT and OLDCONTENT of a change under its table's `definition`. Raises `Malformed`."""
    if change.action not in ROW_ACTIONS:
        return "", change.content, change.oldcontent
    if definition is None:
        raise Malformed(
            f"changes {change.table}, of which no line at the head of the file and no create line says the columns"
        )
    names = [column.name for column in definition.shape.replicated]
    key = [column.name for column in definition.shape.key]
    new, old = change.new, change.old
    if new is not None:
        new = _part(new, names, "new") if change.partial else _whole(new, names, "new")
    if old is not None:
        whole = change.action is Action.DELETE and not change.partial
        old = _whole(old, names, "old") if whole else _part(old, names, "old")
    if change.partial and not key:
        raise Malformed(f"leaves columns out, but {change.table} has no key: all of its columns name a row")
    guid: str | None = ""
    if key:
        guid = _guid(change, new, old, key)
    elif change.action is Action.UPDATE and old is None:
        raise Malformed(f"is an update of {change.table}, which has no key, without the former row")
    return guid, _formed(new, names, change.partial), _formed(old, names, change.partial)


def _formed(row: Values | None, names: Sequence[str], partial: bool) -> str | None:
    if row is None:
        return None
    return content.format_partial(row, names) if partial else content.format_row(row.items())


def _guid(change: Change, new: Values | None, old: Values | None, key: Sequence[str]) -> str | None:
    """The text of the row's key; None if an update changes it."""
    row = new if new is not None else old or {}
    if missing := [name for name in key if name not in row]:
        raise Malformed(f"leaves {', '.join(map(repr, missing))} out, of the key of {change.table}")
    if any(row[name] is None for name in key):
        raise Malformed(f"has NULL in the key of {change.table} ({', '.join(key)})")
    if new is not None and old is not None and any(old.get(name, new[name]) != new[name] for name in key):
        return None
    return guid.key_text(row, key)


def _whole(row: Values, names: Sequence[str], what: str) -> dict[str, str | None]:
    if row.keys() != set(names):
        missing = [name for name in names if name not in row]
        strange = [name for name in row if name not in names]
        problems = "; ".join(
            f"{word} {', '.join(map(repr, each))}" for word, each in (("lacks", missing), ("has", strange)) if each
        )
        raise Malformed(f"{what}: {problems}, against the table's definition")
    return {name: row[name] for name in names}


def _part(row: Values, names: Sequence[str], what: str) -> dict[str, str | None]:
    if strange := [name for name in row if name not in names]:
        raise Malformed(f"{what}: has {', '.join(map(repr, strange))}, against the table's definition")
    return {name: row[name] for name in names if name in row}
