"""Readers of values: each function here returns a reader, or is one. A reader converts the node of a key to its value.

It raises `Wrong`; for a value with several parts it adds their mistakes. `right` and `what` are for messages: what to
write, and what the value is.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sluice.configuration.mistakes import Mistake, Wrong
from sluice.configuration.nodes import Node, parts, suggestion
from sluice.model.location import Location, NoLocation
from sluice.model.names import InvalidName, Prefix
from sluice.user_function import HOW_TO_NAME, NAME

T = TypeVar("T")
Member = TypeVar("Member", bound=StrEnum)
Reader: TypeAlias = Callable[[Node, list[Mistake]], T]

_A_LOCATION = "write an absolute folder without .., or s3://bucket/key with a bucket's name as S3 wants it"
_LOCATIONS = f"write a list such as [/mnt/disk, s3://bucket/prefix]; of each, {_A_LOCATION}"
A_FOLDER = "write the absolute folder of the recorded files, without .."
A_PREFIX = "write a letter, then letters, digits or underscores, 30 characters at most, e.g. DEMO_"


def read(reader: Reader[T], node: Node, mistakes: list[Mistake]) -> T | None:
    """The value of a key; None if it is wrong."""
    try:
        return reader(node, mistakes)
    except Wrong as wrong:
        mistakes.append(node.mistake(wrong.problem, wrong.remedy))
        return None


def scalar(node: Node, right: str) -> str:
    """The text of a scalar."""
    if not isinstance(node.value, str):
        raise Wrong(f"is {node.kind}" if node.value is not None else "has no value", right)
    return node.value


def text(right: str) -> Reader[str]:
    """A text that is not empty."""

    def read(node: Node, _: list[Mistake]) -> str:
        value = scalar(node, right).strip()
        if not value or any(ord(character) < 32 for character in value):
            raise Wrong("holds control characters" if value else "is empty", right)
        return value

    return read


def matching(pattern: str, problem: str, right: str) -> Reader[str]:
    """A text that matches `pattern`; `problem`: the message if it does not."""

    def read(node: Node, mistakes: list[Mistake]) -> str:
        value = text(right)(node, mistakes)
        if not re.fullmatch(pattern, value, re.ASCII):
            raise Wrong(f"{value!r} {problem}", right)
        return value

    return read


def listed(right: str, each: Reader[T], *, none: bool = False) -> Reader[tuple[T, ...]]:
    """A list, or a text with commas, as in property files. `none`: it may be empty."""

    def read_all(node: Node, mistakes: list[Mistake]) -> tuple[T, ...]:
        if isinstance(node.value, list):
            items = node.value
        else:
            items = [replace(node, value=part) for part in parts(text(right)(node, mistakes))]
        if not items and not none:
            raise Wrong("is empty", right)
        values = [read(each, item, mistakes) for item in items]
        return tuple(value for value in values if value is not None)

    return read_all


def texts(right: str) -> Reader[tuple[str, ...]]:
    return listed(right, text(right))


def one_of(choices: Iterable[str], what: str) -> Reader[str]:
    allowed = sorted(choices)

    def read(node: Node, _: list[Mistake]) -> str:
        value = scalar(node, f"write one of {', '.join(allowed)}")
        if value not in allowed:
            raise Wrong(f"{value!r} is not known", suggestion(value, allowed, what))
        return value

    return read


def member_of(kind: type[Member], what: str) -> Reader[Member]:
    """A member of an enumeration."""
    word = one_of(kind, what)
    return lambda node, mistakes: kind(word(node, mistakes))


def flag(node: Node, _: list[Mistake]) -> bool:
    right = "write true or false"
    value = scalar(node, right)
    match value.strip().lower():
        case "true" | "yes" | "on" | "1":
            return True
        case "false" | "no" | "off" | "0":
            return False
    raise Wrong(f"{value!r} is neither true nor false", right)


def time_zone(node: Node, _: list[Mistake]) -> str:
    right = "write a name of the IANA database, e.g. Europe/Berlin or UTC"
    value = scalar(node, right)
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Wrong(f"{value!r} is no time zone", right) from None
    return value


def whole(low: int | None = None, high: int | None = None) -> Reader[int]:
    right = "write a whole number " + (f"from {low} to {high}" if low is not None else "of 18 digits at most")

    def read(node: Node, _: list[Mistake]) -> int:
        value = scalar(node, right).strip()
        # Unlike in YAML, where 010 is eight and 1:30 is ninety. Eighteen digits fit every database.
        if not re.fullmatch(r"[+-]?[0-9][0-9_]{0,17}", value):
            raise Wrong(f"{value!r} is not a whole number", right)
        number = int(value.replace("_", ""))
        if (low is not None and number < low) or (high is not None and number > high):
            raise Wrong(f"{value} is out of range", right)
        return number

    return read


def number(low: float, high: float, what: str = "a number") -> Reader[float]:
    """A number with or without fraction."""
    right = f"write {what} from {low:g} to {high:g}"

    def read(node: Node, _: list[Mistake]) -> float:
        value = scalar(node, right)
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise Wrong(f"{value!r} is not a number", right)
        if not low <= number <= high:
            raise Wrong(f"{value} is out of range", right)
        return number

    return read


def seconds(low: float, high: float) -> Reader[float]:
    return number(low, high, "seconds")


def absolute(right: str) -> Reader[str]:
    """An absolute path."""
    return matching("/.*", "is not absolute", right)


def prefix(node: Node, _: list[Mistake]) -> Prefix:
    value = scalar(node, A_PREFIX).strip()
    try:
        return Prefix(value)
    except InvalidName:
        raise Wrong(f"{value!r} is no prefix", A_PREFIX) from None


def place(node: Node, _: list[Mistake]) -> str:
    """A folder, or a place in S3."""
    value = scalar(node, _A_LOCATION).strip()
    try:
        Location.parse(value)
    except NoLocation:
        raise Wrong(f"{value!r} is neither an absolute folder nor a place in S3", _A_LOCATION) from None
    return value


def folder(node: Node, mistakes: list[Mistake]) -> str:
    """An absolute folder of this machine."""
    value = text(A_FOLDER)(node, mistakes)
    try:
        if Location.parse(value).bucket is not None:
            raise Wrong(f"{value!r} is a place in S3", A_FOLDER)
    except NoLocation:
        raise Wrong(f"{value!r} is no absolute folder", A_FOLDER) from None
    return value


places = listed(_LOCATIONS, place, none=True)
function = matching(NAME.pattern, "names no function", HOW_TO_NAME)
"""A user's function, `package.module:function`."""


def as_it_is(node: Node) -> Any:
    """The value as text, list or mapping, without checks."""
    if isinstance(node.value, dict):
        return {name: as_it_is(child) for name, child in node.value.items()}
    if isinstance(node.value, list):
        return [as_it_is(child) for child in node.value]
    return node.value
