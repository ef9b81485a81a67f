"""Reads the trees of a replication file, with the files of xmlBlaster that a YAML points at.

    prefix: TEST                                            missing: the file's prefix
    from: master.properties                                 or xmlBlasterPlugins.xml
    master: {conn_id: test_master}
    slaves:
      dr1: {conn_id: test_dr1, from: slave.properties}

Paths are relative to the folder of the YAML. Keys of the YAML override those of the file; a line under `tables`
replaces the file's line for the same table.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.parsers import expat

import yaml

from sluice.configuration import flat
from sluice.configuration.flat import UNSAID, Entry, Master, tree
from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Node, Value, suggestion
from sluice.configuration.rule import TablePattern
from sluice.model.names import InvalidName

# Reads a `.yaml` replication file into nodes.
#
# It uses PyYAML's composed nodes instead of its values: they have lines, keep both of two equal keys, and leave `no`,
# `010` and `1:30` as texts.

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_MERGE = "tag:yaml.org,2002:merge"


def read_yaml(file: Path, text: str, mistakes: list[Mistake]) -> Node | None:
    """The root mapping; None if there is none, with the reason in `mistakes`."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as wrong:
        mistakes.append(_syntax(file, text, wrong))
        return None
    except RecursionError:
        mistakes.append(Mistake(file, 0, "", "is nested far too deep", "write prefix, master, slaves and tables"))
        return None
    if root is None:
        mistakes.append(Mistake(file, 0, "", "is empty", "write prefix, master, slaves and tables"))
        return None
    if not isinstance(root, yaml.MappingNode):
        mistakes.append(
            Mistake(file, _line(root), "", "does not hold keys and values", "write prefix, master, slaves and tables")
        )
        return None
    try:
        return _YamlReader(file, mistakes).node(root, "", _line(root))
    except _TooLarge:
        mistakes.append(Mistake(file, 0, "", "stands for far too many values", "use fewer aliases of aliases"))
        return None


_MOST_VALUES = 200_000


class _TooLarge(Exception):
    """Aliases of aliases multiply: a small file could expand to more than fits in memory."""


class _YamlReader:
    def __init__(self, file: Path, mistakes: list[Mistake]):
        self._file = file
        self._mistakes = mistakes
        self._open: set[int] = set()
        self._values = 0

    def node(self, raw: yaml.Node, key: str, line: int) -> Node:
        self._values += 1
        if self._values > _MOST_VALUES:
            raise _TooLarge
        if id(raw) in self._open:
            self._mistakes.append(
                Mistake(self._file, line, key, "an alias stands inside of what it stands for", "write the value out")
            )
            return Node(self._file, line, key, None)
        self._open.add(id(raw))
        try:
            return Node(self._file, line, key, self._value(raw, key, line))
        finally:
            self._open.discard(id(raw))

    def _value(self, raw: yaml.Node, key: str, line: int) -> Value:
        if isinstance(raw, yaml.MappingNode):
            return self._mapping(raw, key)
        if isinstance(raw, yaml.SequenceNode):
            return [self.node(item, f"{key}[{number}]", _line(item)) for number, item in enumerate(raw.value)]
        if isinstance(raw, yaml.ScalarNode) and raw.style is None and raw.value in _NULL:
            return None
        return str(raw.value)

    def _mapping(self, raw: yaml.MappingNode, key: str) -> dict[str, Node]:
        fields: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for raw_key, raw_value in raw.value:
            line = _line(raw_key)
            if not isinstance(raw_key, yaml.ScalarNode):
                self._mistakes.append(Mistake(self._file, line, key, "has a key that is no text", "write key: value"))
                continue
            name = str(raw_key.value)
            child = self.node(raw_value, f"{key}.{name}" if key else name, line)
            if raw_key.tag == _MERGE:
                for part in child.value if isinstance(child.value, list) else [child]:
                    if isinstance(part.value, dict):
                        merged = {**part.value, **merged}
                    else:
                        self._mistakes.append(part.mistake("merges no mapping", "write <<: *name of a mapping"))
            elif name in fields:
                self._mistakes.append(
                    child.mistake(f"is already given on line {fields[name].line}", "keep one of the two")
                )
            else:
                fields[name] = child
        return {**merged, **fields}


def _line(raw: yaml.Node) -> int:
    return int(raw.start_mark.line) + 1


def _syntax(file: Path, text: str, wrong: yaml.YAMLError) -> Mistake:
    mark = getattr(wrong, "problem_mark", None) or getattr(wrong, "context_mark", None)
    if mark is None:
        # yaml.reader.ReaderError: a character that YAML forbids, at a position in the text.
        position = int(getattr(wrong, "position", 0))
        return Mistake(
            file,
            text.count("\n", 0, position) + 1,
            "",
            f"holds the character {text[position : position + 1]!a}, which YAML forbids",
            'write it as an escape such as "\\x07" or take it out',
        )
    line = int(mark.line) + 1
    lines = text.splitlines()
    written = lines[line - 1] if line <= len(lines) else ""
    problem = str(getattr(wrong, "problem", None) or wrong)
    indent = written[: len(written) - len(written.lstrip())]
    if "\t" in indent:
        return Mistake(file, line, "", "is indented with a tab", "indent with spaces")
    if "\\t" in problem:
        return Mistake(file, line, "", "holds a tab where YAML allows none", "write spaces instead")
    if "single document" in str(getattr(wrong, "context", "")):
        return Mistake(file, line, "", "starts a second document", "write one file for each prefix, without ---")
    if "alias" in f"{problem} {getattr(wrong, 'context', '')}":
        remedy = "write the value out, or quote a text that begins with *"
        return Mistake(file, line, "", f"is not YAML: {problem}", remedy)
    if written.lstrip().startswith('"'):
        return Mistake(
            file, line, "", f"is not YAML: {problem}", "put a key with double quotes in single ones: '\"My Schema\".*':"
        )
    return Mistake(file, line, "", f"is not YAML: {problem}", "look for a missing colon, bracket, quote or indentation")


# Reads `xmlBlasterPlugins.xml`: each plugin with a `replication.prefix` or a `table.` is a replication.
#
#     <plugin id='ReplNDBPlugin' className='org.xmlBlaster.contrib.dbwatcher.plugin.DbWatcherPlugin'>
#       <attribute id='replication.prefix'>TEST</attribute>
#       <attribute id='table.MYSCHEMA.TABLE1'>actions=IDU,trigger=TEST_TR01,sequence=3</attribute>
#     </plugin>


def read_xml(
    file: Path, text: str, mistakes: list[Mistake], *, prefix_elsewhere: bool = False, master: Master = UNSAID
) -> list[Node]:
    """The roots of all replications in the file."""
    reader = _Reader()
    try:
        reader.parse(text)
    except expat.ExpatError as wrong:
        mistakes.append(
            Mistake(file, wrong.lineno, "", f"is not XML: {expat.ErrorString(wrong.code)}", "correct the XML there")
        )
        return []
    except _EntityDeclared as declared:
        mistakes.append(Mistake(file, declared.line, "", "declares an entity", "write the text out"))
        return []
    entries = []
    replicating = False
    for plugin in reader.plugins:
        if any(entry.key == "replication.prefix" or entry.key.startswith("table.") for entry in plugin.entries):
            replicating = True
            root = tree(file, plugin.line, plugin.entries, mistakes, prefix_elsewhere=prefix_elsewhere, master=master)
            if root is not None:
                entries.append(root)
    if not replicating:
        mistakes.append(
            Mistake(
                file,
                0,
                "",
                "has no plugin with an attribute replication.prefix",
                "add the plugin that replicates, or move the file elsewhere",
            )
        )
    return entries


class _EntityDeclared(Exception):
    def __init__(self, line: int):
        self.line = line


@dataclass
class _Plugin:
    line: int
    entries: list[Entry] = field(default_factory=list)


class _Reader:
    """Collects plugins and their attributes; ignores everything else."""

    def __init__(self) -> None:
        self.plugins: list[_Plugin] = []
        self._inside = False
        self._key: str | None = None
        self._line = 0
        self._text: list[str] = []
        self._parser = expat.ParserCreate("utf-8")  # the text is already decoded; its declaration does not matter
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        self._parser.EntityDeclHandler = self._entity

    def parse(self, text: str) -> None:
        self._parser.Parse(text, True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "plugin":
            self.plugins.append(_Plugin(self._parser.CurrentLineNumber))
            self._inside = True
        elif name == "attribute" and self._inside:
            self._key = attributes.get("id", "").strip()
            self._line = self._parser.CurrentLineNumber
            self._text.clear()

    def _end(self, name: str) -> None:
        if name == "plugin":
            self._inside = False
        elif name == "attribute" and self._key is not None:
            self.plugins[-1].entries.append(Entry(self._line, self._key, "".join(self._text).strip()))
            self._key = None

    def _entity(self, *_: object) -> None:
        # No replication needs entities, which could read files or expand without limit.
        raise _EntityDeclared(self._parser.CurrentLineNumber)


# Reads a Java `.properties` file, such as the ReplicationAgent's `master.properties`.

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read(
    file: Path, text: str, mistakes: list[Mistake], *, prefix_elsewhere: bool = False, master: Master = UNSAID
) -> Node | None:
    """The replication of the file; None if it needs a prefix and has none, which is added to `mistakes`."""
    return tree(file, 0, entries(text), mistakes, prefix_elsewhere=prefix_elsewhere, master=master)


def entries(text: str) -> Iterator[Entry]:
    """Keys and values by the rules of `java.util.Properties`."""
    for number, line in _logical_lines(text):
        key, value = _split(line)
        yield Entry(number, _unescape(key), _unescape(value))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations, each with the number of its first natural line."""
    pending = ""
    start = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            start = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            # A blank marks a continuation that is still empty.
            pending = pending or " "
            continue
        yield start, (pending + line).lstrip()
        pending = ""
    if pending.strip():
        yield start, pending.lstrip()


def _split(line: str) -> tuple[str, str]:
    """Splits at the first `=`, `:` or blank without a backslash before it."""
    match = re.match(r"((?:\\.|[^\\=:\s])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)\Z", line, re.DOTALL)
    assert match
    return match.group(1), match.group(2)


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code, letter = match.groups()
        return chr(int(code, 16)) if code else _LETTERS.get(letter, letter)

    return _ESCAPE.sub(one, text)


YAML = (".yaml", ".yml")
SUFFIXES = (*YAML, ".properties", ".xml")

_MASTER = "name a master.properties or an xmlBlasterPlugins.xml"
_SLAVE = "name a slave.properties"
_LOOKS_LIKE_FROM = re.compile(r"\bfrom['\"]?\s*:\s*['\"]?([^\s'\",{}]+)")
_LOOKS_LIKE_PREFIX = re.compile(r"\bprefix\b['\"]?\s*[:=>]\s*['\"]?([A-Za-z]\w*)")


def roots(file: Path, mistakes: list[Mistake]) -> list[Node]:
    """One tree for each replication of the file; none if it or a file that it points at cannot be used."""
    try:
        raw = file.read_bytes()
    except OSError as wrong:
        mistakes.append(Mistake(file, 0, "", f"cannot be read: {wrong.strerror}", "make it a file that can be read"))
        return []
    return parsed(file, raw, mistakes)


def parsed(file: Path, raw: bytes, mistakes: list[Mistake]) -> list[Node]:
    """As `roots`, for the content `raw`."""
    if file.suffix not in YAML:
        return _of_xmlblaster(file, raw, mistakes)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = raw.count(b"\n", 0, wrong.start) + 1
        mistakes.append(Mistake(file, line, "", "is not UTF-8", "save it in UTF-8"))
        return []
    root = read_yaml(file, text, mistakes)
    whole = None if root is None else _with_master_file(root, mistakes)
    return [] if whole is None else [_with_slave_files(whole, mistakes)]


def pointed_at(root: Node) -> tuple[Path, ...]:
    """The files of xmlBlaster that were read for this tree."""
    pointers = [pointer for node in (root, *_fields(_fields(root).get("slaves")).values())
                if (pointer := _fields(node).get("from"))]  # fmt: skip
    return tuple(_target(pointer, pointer.value) for pointer in pointers if isinstance(pointer.value, str))


def guess(file: Path) -> tuple[str | None, tuple[Path, ...]]:
    """Guesses the prefix, in upper case, and the files after `from`, in a file that cannot be parsed."""
    text = _text(file)
    targets = tuple(file.parent / name for name in _LOOKS_LIKE_FROM.findall(text)) if file.suffix in YAML else ()
    prefixes = (_LOOKS_LIKE_PREFIX.search(each) for each in (text, *map(_text, targets)))
    return next((match.group(1).upper() for match in prefixes if match), None), targets


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):  # ValueError: an invalid path, such as one with a NUL
        return ""


def _of_xmlblaster(
    file: Path,
    raw: bytes,
    mistakes: list[Mistake],
    *,
    prefix_elsewhere: bool = False,
    master: flat.Master = flat.UNSAID,
) -> list[Node]:
    text = _decoded(raw)
    if file.suffix == ".xml":
        return read_xml(file, text, mistakes, prefix_elsewhere=prefix_elsewhere, master=master)
    root = read(file, text, mistakes, prefix_elsewhere=prefix_elsewhere, master=master)
    return [] if root is None else [root]


def _decoded(raw: bytes) -> str:
    """UTF-8, else ISO-8859-1, the encoding of old Java properties."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _with_master_file(root: Node, mistakes: list[Mistake]) -> Node | None:
    """The root merged with the file of `from`; None if that file cannot be used."""
    pointer = _fields(root).get("from")
    if pointer is None:
        return root
    content = _read(pointer, (".properties", ".xml"), _MASTER, mistakes)
    if content is None:
        return None
    file, raw = content
    replications = _of_xmlblaster(file, raw, mistakes, prefix_elsewhere=True, master=_master(root))
    if len(replications) > 1:
        replications = _chosen(root, pointer, replications, mistakes)
    return _merged(replications[0], root) if replications else None


def _master(root: Node) -> flat.Master:
    """What a tree says of its master."""
    master, redo = (_fields(_fields(root).get(name)) for name in ("master", "redo"))
    return flat.Master(_scalar(master.get("vendor")), _scalar(master.get("capture")), _scalar(redo.get("exact_names")))


def _scalar(node: Node | None) -> str:
    return str(node.value) if node is not None and isinstance(node.value, str | bool) else ""


def _chosen(root: Node, pointer: Node, replications: Iterable[Node], mistakes: list[Mistake]) -> list[Node]:
    """The file's replication with the YAML's prefix."""
    by_prefix = {str(_fields(each)["prefix"].value).upper(): each for each in replications if "prefix" in _fields(each)}
    wish = _fields(root).get("prefix")
    if wish is None or not isinstance(wish.value, str):
        names = ", ".join(sorted(by_prefix))
        mistakes.append(pointer.mistake("holds several replications", f"choose one with prefix: {names}"))
    elif wish.value.strip().upper() not in by_prefix:
        problem = f"{wish.value!r} is no replication of {pointer.value}"
        mistakes.append(wish.mistake(problem, suggestion(wish.value, by_prefix, "prefixes")))
    else:
        return [by_prefix[wish.value.strip().upper()]]
    return []


def _with_slave_files(root: Node, mistakes: list[Mistake]) -> Node:
    slaves = _fields(root).get("slaves")
    if slaves is None or not isinstance(slaves.value, dict):
        return root
    whole = {name: _with_slave_file(root, slave, mistakes) for name, slave in slaves.value.items()}
    return replace(root, value={**_fields(root), "slaves": replace(slaves, value=dict(whole))})


def _with_slave_file(root: Node, slave: Node, mistakes: list[Mistake]) -> Node:
    pointer = _fields(slave).get("from")
    content = _read(pointer, (".properties",), _SLAVE, mistakes) if pointer is not None else None
    if content is None:
        return slave
    file, raw = content
    found = entries(_decoded(raw))
    own = _fields(slave)
    tables, vendor = _fields(_fields(root).get("tables")), _scalar(own.get("vendor"))
    below = flat.slave(file, found, set(own), mistakes, master=_master(root), vendor=vendor, tables=tables)
    if "tables" in below and "tables" in own:
        own = {**own, "tables": _merged_tables(below["tables"], own["tables"])}
    return replace(slave, value={**below, **own})


def _read(pointer: Node, suffixes: tuple[str, ...], right: str, mistakes: list[Mistake]) -> tuple[Path, bytes] | None:
    name = pointer.value
    if not isinstance(name, str) or not name.endswith(suffixes):
        what = f"is {pointer.kind}" if not isinstance(name, str) else f"{name!r} is not {' or '.join(suffixes)}"
        mistakes.append(pointer.mistake(what, f"{right} of xmlBlaster"))
        return None
    file = _target(pointer, name)
    try:
        return file, file.read_bytes()
    except (OSError, ValueError) as wrong:
        reason = getattr(wrong, "strerror", None) or wrong
        mistakes.append(pointer.mistake(f"{file} cannot be read: {reason}", right))
        return None


def _target(pointer: Node, name: str) -> Path:
    return pointer.file.parent / name


def _fields(node: Node | None) -> dict[str, Node]:
    return node.fields if node is not None else {}


def _merged(below: Node, above: Node) -> Node:
    """The tree of the file `below`, overridden by that of the YAML `above`."""
    if not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return below if isinstance(below.value, dict) and above.value is None else above
    fields = dict(below.value)
    for name, node in above.value.items():
        merge = _merged_tables if (above.key, name) == ("", "tables") else _merged
        fields[name] = merge(fields[name], node) if name in fields else node
    return replace(above, value=fields)


def _merged_tables(below: Node, above: Node) -> Node:
    if not isinstance(above.value, dict):
        return _merged(below, above)
    given = {_pattern(text) for text in above.value}
    kept = {text: node for text, node in _fields(below).items() if _pattern(text) not in given}
    return replace(above, value={**above.value, **kept})


def _pattern(text: str) -> TablePattern | str:
    try:
        return TablePattern.parse(text)
    except InvalidName:
        return text
