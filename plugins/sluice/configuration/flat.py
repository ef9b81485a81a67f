"""Turns the flat keys of property files and plugin attributes into the same tree as YAML.

    replication.prefix                          prefix
    sluice.master.conn_id                       master.conn_id       (likewise vendor, schema)
    sluice.slave.<name>.conn_id                 slaves.<name>.conn_id
    sluice.apply.<key>, sluice.initial.<key>    apply.<key>, initial.<key>      (likewise each other section)
    sluice.initial.throttle.<key>               initial.throttle.<key>
    sluice.notify.<module.Class>.<argument>     notify.<module.Class>.<argument>
    table.[CATALOG.]SCHEMA.TABLE                tables
    replication.initialFilesLocation            initial_files_location, of the slave whose file it is

    replication.mapper.schema.SCHEMA            target of SCHEMA.*, of the slave whose file it is
    replication.mapper.table.SCHEMA.TABLE       target of that table
    replication.mapper.tables                   the same, as TABLE=NAME,TABLE=NAME
    replication.mapper.column.SCHEMA.TABLE.COLUMN   columns: {COLUMN: {rename: NAME}} of that table

A table's value is xmlBlaster's list: `actions=IDU,trigger=TR01,sequence=3`. `${key}` is replaced by the value of
another key. Names without double quotes are folded as the SQL of their database folds them. Other keys of xmlBlaster
are ignored, except those that give a slave other data by code of its own, which are refused.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sluice.configuration.mistakes import Mistake
from sluice.configuration.model import Replication
from sluice.configuration.nodes import Node, suggestion
from sluice.configuration.section import sections
from sluice.model.names import InvalidName, split_qualified
from sluice.model.vendors import FIRST, REDO, VENDORS

_REFERENCE = re.compile(r"\$\{([^${}]+)\}")
_SECTIONS = {name: name for name in ("master", "notify", "redo", *sections(Replication))} | {"slave": "slaves"}
_ALWAYS = ("master", "slaves", "tables")
_PREFIX = "replication.prefix"
_EXACT_NAMES = "sluice.redo.exact_names"
_LOCATION = "replication.initialFilesLocation"
_MAPPER = "replication.mapper."
_DEFAULT_MAPPER = "org.xmlBlaster.contrib.replication.impl.DefaultMapper"
_FORMS = {"schema": "", "table": ".TABLE", "column": ".TABLE.COLUMN"}
_OWN_CODE = (_MAPPER, "dbWriter.prePostStatement.")


@dataclass(frozen=True)
class Entry:
    """One key with its value as written."""

    line: int
    key: str
    value: str


@dataclass(frozen=True)
class Master:
    """What decides how names of the master's tables are folded; each "" where the YAML does not say it."""

    vendor: str = ""
    capture: str = ""
    exact_names: str = ""

    @property
    def fold(self) -> Callable[[str], str]:
        """As SQL reads a name on the master; in redo, as it is on slaves."""
        if self.capture == REDO:
            return str.upper if self.exact_names.lower() == "true" else str.lower
        return folding(self.vendor)


UNSAID = Master()


def folding(vendor: str) -> Callable[[str], str]:
    """How the SQL of a vendor reads a name without double quotes."""
    return VENDORS.get(vendor, VENDORS[FIRST]).fold


def tree(
    file: Path,
    line: int,
    entries: Iterable[Entry],
    mistakes: list[Mistake],
    *,
    prefix_elsewhere: bool = False,
    master: Master = UNSAID,
) -> Node | None:
    """The root of one replication; `line`: where its keys begin. `master`: as a YAML says it.

    None if it has no prefix. With `prefix_elsewhere` the prefix and other required keys may be missing.
    """
    return _Flat(file, line, list(entries), mistakes, master).root(prefix_elsewhere)


def slave(
    file: Path,
    entries: Iterable[Entry],
    given: Collection[str],
    mistakes: list[Mistake],
    *,
    master: Master = UNSAID,
    vendor: str = "",
    tables: Iterable[str] = (),
) -> dict[str, Node]:
    """The keys of a `slave.properties`, without those that are `given` elsewhere. `vendor`: the slave's. `tables`: the
    lines of the replication, for mappers that name no schema."""
    new_mistakes: list[Mistake] = []
    keys = _Flat(file, 0, list(entries), new_mistakes, master)
    options = keys.of_slave({"initial_files_location"}.difference(given))
    if mapped := keys.mapped(folding(vendor or master.vendor), tables):
        options["tables"] = mapped
    remedy = "write initial_files_location for this slave in the YAML"
    mistakes += [replace(mistake, remedy=remedy) if mistake.key == _LOCATION else mistake for mistake in new_mistakes]
    return options


class _Flat:
    def __init__(self, file: Path, line: int, entries: list[Entry], mistakes: list[Mistake], master: Master):
        self._file = file
        self._line = line
        self._entries = entries
        self._values = {entry.key: entry.value for entry in entries}
        self._mistakes = mistakes
        own = (self._values.get(key, "") for key in ("sluice.master.vendor", "sluice.master.capture", _EXACT_NAMES))
        given = (master.vendor, master.capture, master.exact_names)
        self._fold = Master(*(above or below for above, below in zip(given, own, strict=True))).fold

    def root(self, prefix_elsewhere: bool) -> Node | None:
        known = [entry for entry in self._entries if re.match(r"(replication\.prefix$|table\.|sluice\.)", entry.key)]
        first: dict[str, Entry] = {}
        for entry in known:
            if entry.key in first:
                self._wrong(entry, f"is already given on line {first[entry.key].line}", "keep one of the two")
            else:
                first[entry.key] = entry
        if _PREFIX not in first and not prefix_elsewhere:
            self._no_prefix()
            return None
        prefix = first.pop(_PREFIX, None)
        sections: dict[str, dict[str, Node]] = {name: {} for name in (*_SECTIONS.values(), "tables")}
        for entry in first.values():
            if entry.key.startswith("table."):
                self._table(entry, sections["tables"])
            else:
                self._option(entry, sections)
        keys = {own: f"sluice.{flat}" for flat, own in _SECTIONS.items()} | {"tables": "table"}
        fields = {} if prefix is None else {"prefix": self._node(prefix, self._text(prefix))}
        line = self._line if prefix is None else prefix.line
        for name, values in sections.items():
            if values or (name in _ALWAYS and not prefix_elsewhere):
                fields[name] = Node(self._file, line, keys[name], dict(values))
        return Node(self._file, self._line, "", dict(fields))

    def of_slave(self, keys_of_slave: Collection[str]) -> dict[str, Node]:
        options = {}
        for entry in self._entries:
            if entry.key.startswith(_OWN_CODE) and not self._is_mapping(entry):
                self._wrong(
                    entry,
                    "gives the slave other data by code of its own, which is not read",
                    "take it out, and write what it does under tables of this slave in the YAML: target, columns, "
                    "where or exit",
                )
            elif entry.key == _LOCATION and "initial_files_location" in keys_of_slave:
                options["initial_files_location"] = self._node(entry, self._text(entry))
        return options

    def _is_mapping(self, entry: Entry) -> bool:
        kind = entry.key.removeprefix(_MAPPER)
        valid = kind == "tables" or kind.startswith(("schema.", "table.", "column."))
        return entry.key.startswith(_MAPPER) and (valid or (kind, entry.value.strip()) == ("class", _DEFAULT_MAPPER))

    def mapped(self, fold: Callable[[str], str], tables: Iterable[str]) -> Node | None:
        """The section `tables` of a slave from what maps names. `fold`: of the slave's names."""
        known, schemas = list(tables), dict[str, str]()
        lines: dict[tuple[str, str], tuple[Entry, dict[str, str], dict[str, str]]] = {}
        """By schema and table: the first entry, the target, and the new names of columns."""
        for kind, entry, parts, name in self._mappings():
            new = _unquoted(name) if name.startswith('"') else fold(name)
            if kind == "schema" and len(parts) == 1:
                schemas[parts[0]] = new
                lines.setdefault((parts[0], "*"), (entry, {}, {}))
                continue
            path, column = (parts[:-1], parts[-1]) if kind == "column" else (parts, "")
            if kind == "schema" or len(path) not in (1, 2):
                self._wrong(entry, "does not name what it maps", f"write {_MAPPER}{kind}.SCHEMA{_FORMS[kind]}")
                continue
            places = path[:1] if len(path) == 2 else _schemas_of(known, path[0])
            if not places:
                remedy = "name its schema, or write target under tables of this slave in the YAML"
                self._wrong(entry, f"names no schema, and no line under tables is for a table {path[0]}", remedy)
            for schema in places:
                _, target, columns = lines.setdefault((schema, path[-1]), (entry, {}, {}))
                if column:
                    columns[_unquoted(column)] = new
                else:
                    target["name"] = new
        fields: dict[str, Node] = {}
        for (schema, table), (entry, target, columns) in lines.items():
            if schema in schemas:
                target["schema"] = schemas[schema]
            renames = {old: self._under(entry, {"rename": self._node(entry, new)}) for old, new in columns.items()}
            options = {"target": self._under(entry, {part: self._node(entry, name) for part, name in target.items()})}
            options |= {"columns": self._under(entry, renames)} if renames else {}
            fields[f"{schema}.{table}"] = self._under(entry, {key: node for key, node in options.items() if node.value})
        return self._under(next(iter(lines.values()))[0], fields) if lines else None

    def _mappings(self) -> Iterator[tuple[str, Entry, list[str], str]]:
        """What is mapped: its kind, where, its name in parts, and the new name."""
        for entry in self._entries:
            kind, _, old = entry.key.removeprefix(_MAPPER).partition(".")
            if not entry.key.startswith(_MAPPER) or kind == "class" or not self._is_mapping(entry):
                continue
            pairs = [(old, self._text(entry))]
            if kind == "tables":
                # As xmlBlaster's first releases had it.
                kind, listed = "table", [each.partition("=") for each in self._text(entry).split(",") if each.strip()]
                pairs = [(table, new) for table, _, new in listed]
            for name, new in pairs:
                try:
                    yield kind, entry, _parts(self._replace(entry, name), self._fold), new.strip()
                except InvalidName as invalid:
                    self._wrong(entry, str(invalid), f"write {_MAPPER}{kind}.SCHEMA{_FORMS[kind]}")

    def _under(self, entry: Entry, fields: Mapping[str, Node]) -> Node:
        return Node(self._file, entry.line, entry.key, dict(fields))

    def _no_prefix(self) -> None:
        lines = {entry.key: entry.line for entry in self._entries}
        near = difflib.get_close_matches(_PREFIX, lines, n=1, cutoff=0.85)
        remedy = f"did you mean {_PREFIX} instead of {near[0]}?" if near else "add it; xmlBlaster's default was REPL_"
        line = lines[near[0]] if near else self._line
        self._mistakes.append(Mistake(self._file, line, _PREFIX, "is missing", remedy))

    def _option(self, entry: Entry, sections: dict[str, dict[str, Node]]) -> None:
        word, *path = entry.key.split(".")[1:]
        if word == "notify" and len(path) > 2:
            path = [".".join(path[:-1]), path[-1]]
        inner = word in ("slave", "notify") or (word == "initial" and path[:1] == ["throttle"])
        depth = 2 if inner else 1
        if word not in _SECTIONS:
            self._wrong(entry, "is not known", suggestion(word, _SECTIONS, "words after sluice."))
        elif word == "slave" and path[1:] == ["from"]:
            self._wrong(entry, "stands only in a YAML", "write initial_files_location here")
        elif len(path) != depth or not all(path):
            middles = {"slave": "<name>.", "notify": "<module.Class>.", "initial": "throttle."}
            form = f"sluice.{word}.{middles[word] if inner else ''}<key>"
            self._wrong(entry, "is not complete" if len(path) < depth else "has too many parts", f"write {form}")
        else:
            section = sections[_SECTIONS[word]]
            if inner:
                name = path[0]
                node = section.setdefault(name, Node(self._file, entry.line, f"sluice.{word}.{name}", {}))
                assert isinstance(node.value, dict)
                section = node.value
            section[path[-1]] = self._node(entry, self._text(entry))

    def _table(self, entry: Entry, tables: dict[str, Node]) -> None:
        name = self._replace(entry, entry.key.removeprefix("table."))
        try:
            parts = _parts(name, self._fold)
        except InvalidName as invalid:
            self._wrong(entry, str(invalid), "write table.SCHEMA.TABLE")
            return
        if len(parts) == 1:
            self._wrong(entry, "names no schema", f"write table.public.{parts[0]}, with the table's schema")
            return
        if len(parts) == 3:
            # Drop the catalog: a connection has only one.
            parts = parts[1:]
        if len(parts) != 2:
            self._wrong(entry, "does not name one table", "write table.SCHEMA.TABLE")
            return
        pattern = ".".join(parts)
        if pattern in tables:
            self._wrong(entry, f"is the same table as on line {tables[pattern].line}", "keep one of the two")
            return
        tables[pattern] = Node(self._file, entry.line, entry.key, self._options(entry))

    def _options(self, entry: Entry) -> dict[str, Node]:
        """`actions=IDU,trigger=TR01,sequence=3`; a key without `=` has an empty value, as in xmlBlaster."""
        options: dict[str, Node] = {}
        for part in self._text(entry).split(","):
            if not part.strip():
                continue
            name, _, value = (text.strip() for text in part.partition("="))
            key = f"{entry.key}: {name}"
            if name in options:
                self._wrong(Entry(entry.line, key, value), "is given twice", "keep one of the two")
            options[name] = Node(self._file, entry.line, key, value)
        return options

    def _text(self, entry: Entry) -> str:
        return self._replace(entry, entry.value).strip()

    def _replace(self, entry: Entry, text: str) -> str:
        for _ in range(10):
            names = _REFERENCE.findall(text)
            if not names:
                return text
            if unknown := [name for name in names if name not in self._values]:
                self._wrong(entry, f"${{{unknown[0]}}} stands for nothing", f"give {unknown[0]} a value in this file")
                return _REFERENCE.sub("", text)
            text = _REFERENCE.sub(lambda match: self._values[match.group(1)], text)
        self._wrong(entry, "refers to itself", "write the value out")
        return ""

    def _node(self, entry: Entry, value: str) -> Node:
        return Node(self._file, entry.line, entry.key, value)

    def _wrong(self, entry: Entry, problem: str, remedy: str) -> None:
        self._mistakes.append(Mistake(self._file, entry.line, entry.key, problem, remedy))


def _schemas_of(lines: Iterable[str], table: str) -> list[str]:
    """The schemas in which lines name the table."""
    return [schema for schema, dot, name in (line.partition(".") for line in lines) if dot and name == table]


def _unquoted(part: str) -> str:
    part = part.strip()
    return part[1:-1].replace('""', '"') if len(part) > 1 and part[0] == part[-1] == '"' else part


def _parts(name: str, fold: Callable[[str], str]) -> list[str]:
    """The parts of a name as in SQL: unquoted parts are folded.

    Quoted parts keep their double quotes, so that a literal `*` stays one. Empty parts are skipped, as xmlBlaster does
    (`table..S.T`).
    """
    parts = []
    rest = name.strip()
    for part in split_qualified(rest):
        if rest.startswith('"'):
            quoted = '"' + part.replace('"', '""') + '"'
            rest = rest[len(quoted) + 1 :]
            parts.append(quoted)
        else:
            rest = rest[len(part) + 1 :]
            if part.strip():
                parts.append(fold(part.strip()))
    return parts
