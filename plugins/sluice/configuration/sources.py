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
from dataclasses import replace
from pathlib import Path

from sluice.configuration import flat, xml_file, yaml_file
from sluice.configuration.flat import UNSAID, Entry, Master, tree
from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Node, suggestion
from sluice.configuration.rule import TablePattern
from sluice.model.names import InvalidName

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
    root = yaml_file.read(file, text, mistakes)
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
        return xml_file.read(file, text, mistakes, prefix_elsewhere=prefix_elsewhere, master=master)
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
