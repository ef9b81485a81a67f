"""A section of the file, and the declarations of its keys.

A key is declared once, as a field of a class of `Options`, with its name, its default, and its allowed values.

    lease: float = option(10.0, seconds(1, 3_600))

A missing or wrong key reads as the default. Mistakes are collected, so that all of a file are reported at once.
"""

from dataclasses import dataclass, field, fields
from typing import Self, TypeVar

from sluice.configuration import values
from sluice.configuration.mistakes import Mistake, Wrong
from sluice.configuration.nodes import Node, suggestion
from sluice.configuration.values import Reader

T = TypeVar("T")
Default = TypeVar("Default")

_READER = "reader"
_A_MAPPING = "write a mapping of keys to values"


class Section:
    """A mapping that is being read. `finish` reports the keys that were not read."""

    def __init__(self, node: Node, mistakes: list[Mistake], right: str = _A_MAPPING):
        """Raises `Wrong` if the node is no mapping; `right`: what to write."""
        if node.value is not None and not isinstance(node.value, dict):
            raise Wrong(f"is {node.kind}", right)
        self.node = node
        self.mistakes = mistakes
        self._known: set[str] = set()

    @property
    def names(self) -> list[str]:
        """The keys in the file, in their order."""
        return list(self.node.fields)

    def get(self, name: str) -> Node | None:
        self._known.add(name)
        return self.node.fields.get(name)

    def has(self, name: str) -> bool:
        return name in self.node.fields

    def read(self, name: str, reader: Reader[T], default: Default) -> T | Default:
        node = self.get(name)
        value = values.read(reader, node, self.mistakes) if node is not None else None
        return default if value is None else value

    def wrong(self, problem: str, remedy: str, *names: str) -> None:
        """Adds a mistake at the first of these keys in the file, else at the section itself."""
        node = next((self.node.fields[name] for name in names if self.has(name)), self.node)
        self.mistakes.append(node.mistake(problem, remedy))

    def need(self, name: str, remedy: str) -> None:
        """Adds a mistake if the key is missing."""
        if self.get(name) is None:
            key = self.node.child_key(name)
            self.mistakes.append(Mistake(self.node.file, self.node.line, key, "is missing", remedy))

    def finish(self) -> None:
        for name, node in self.node.fields.items():
            if name not in self._known:
                self.mistakes.append(node.mistake("is not known", suggestion(name, self._known)))


def option(default: T, reader: Reader[T]) -> T:
    """Declares the field of a key."""
    option_field: T = field(default=default, metadata={_READER: reader})
    return option_field


@dataclass(frozen=True)
class Options:
    """The content of a section. Its fields with `option` are the known keys."""

    @classmethod
    def from_node(cls, node: Node, mistakes: list[Mistake]) -> Self:
        return cls.from_section(Section(node, mistakes))

    @classmethod
    def from_section(cls, section: Section, **given: object) -> Self:
        """`given`: fields that are no keys, and defaults that replace the declared ones."""
        for one in fields(cls):
            if _READER in one.metadata:
                default = given.get(one.name, one.default)
                given[one.name] = section.read(one.name, one.metadata[_READER], default)
        section.finish()
        return cls(**given).checked(section)

    def checked(self, section: Section) -> Self:
        """Checks the keys against each other and adds mistakes; returns the options, adjusted if needed."""
        return self


SomeOptions = TypeVar("SomeOptions", bound=Options)


def section_of(kind: type[SomeOptions]) -> SomeOptions:
    """Declares the field of a key whose value is a section."""
    return option(kind(), kind.from_node)


def sections(kind: type[Options]) -> list[str]:
    """The keys whose values are sections."""
    return [one.name for one in fields(kind) if isinstance(one.default, Options)]
