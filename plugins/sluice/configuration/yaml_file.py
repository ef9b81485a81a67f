"""Reads a `.yaml` replication file into nodes.

It uses PyYAML's composed nodes instead of its values: they have lines, keep both of two equal keys, and leave `no`,
`010` and `1:30` as texts.
"""

from pathlib import Path

import yaml

from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Node, Value

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_MERGE = "tag:yaml.org,2002:merge"


def read(file: Path, text: str, mistakes: list[Mistake]) -> Node | None:
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
        return _Reader(file, mistakes).node(root, "", _line(root))
    except _TooLarge:
        mistakes.append(Mistake(file, 0, "", "stands for far too many values", "use fewer aliases of aliases"))
        return None


_MOST_VALUES = 200_000


class _TooLarge(Exception):
    """Aliases of aliases multiply: a small file could expand to more than fits in memory."""


class _Reader:
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
