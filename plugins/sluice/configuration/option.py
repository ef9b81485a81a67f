"""Options of the configuration, each said once, where its field is: the default, and what may stand in the file."""

from collections.abc import Callable
from dataclasses import field, fields
from typing import Any, TypeVar, cast

from sluice.configuration.locations import locations
from sluice.configuration.nodes import Section, parts

T = TypeVar("T")
Whole = TypeVar("Whole", int, int | None)
Number = TypeVar("Number", float, float | None)

_READ = "read"


def integer(default: Whole, low: int, high: int) -> Whole:
    return _option(default, lambda section, name: section.integer(name, default, low, high))


def number(default: Number, low: float, high: float, what: str = "a number") -> Number:
    """`what` says in messages what it counts."""
    return _option(default, lambda section, name: section.number(name, default, low, high, what))


def seconds(default: float, low: float, high: float) -> float:
    return number(default, low, high, "seconds")


def flag(default: bool) -> bool:
    return _option(default, lambda section, name: section.flag(name, default))


def choice(default: str, choices: tuple[str, ...], what: str) -> str:
    return _option(default, lambda section, name: section.choice(name, choices, default, what))


def text(right: str) -> str | None:
    """None where nothing is said. `right` says what it should be."""
    return _option(None, lambda section, name: section.text(name, "", right) or None)


def word(default: str, right: str) -> str:
    """A text that is always there."""
    return _option(default, lambda section, name: section.text(name, default, right))


def patterns(default: str, right: str) -> tuple[str, ...]:
    """Texts with commas between them."""
    return _option(parts(default), lambda section, name: parts(section.text(name, default, right)))


def places() -> tuple[str, ...]:
    """Folders, and places in S3."""
    return _option((), locations)


def section_of(kind: type[T]) -> T:
    """A section of its own, whose options are the fields of `kind`."""
    found: T = field(default_factory=kind, metadata={_READ: lambda section, name: read(section, name, kind)})
    return found


def read(section: Section, name: str, kind: type[T]) -> T:
    """The section `name` as `kind`; as it is by default where the file has none."""
    inner = section.section(name)
    if inner is None:
        return kind()
    values = {one.name: one.metadata[_READ](inner, one.name) for one in fields(cast(Any, kind))}
    inner.finish()
    return kind(**values)


def _option(default: T, reads: Callable[[Section, str], object]) -> T:
    found: T = field(default=default, metadata={_READ: reads})
    return found
