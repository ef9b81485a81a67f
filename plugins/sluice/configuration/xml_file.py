"""Reads `xmlBlasterPlugins.xml`: each plugin with a `replication.prefix` or a `table.` is a replication.

<plugin id='ReplNDBPlugin' className='org.xmlBlaster.contrib.dbwatcher.plugin.DbWatcherPlugin'>
  <attribute id='replication.prefix'>TEST</attribute>
  <attribute id='table.MYSCHEMA.TABLE1'>actions=IDU,trigger=TEST_TR01,sequence=3</attribute>
</plugin>
"""

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from sluice.configuration.flat import UNSAID, Entry, Master, tree
from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Node


def read(
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
