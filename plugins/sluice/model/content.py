"""CONTENT and OLDCONTENT of ITEMS: the reference reader and writer, one row at a time.

A row is a sequence of `<col name="C">value</col>` in the order of the columns, without generated ones.
`sluice.database.xml_images` does the same for millions of rows at once, and uses this module for rows that it does not
recognize.

| value | form |
|---|---|
| NULL | `<col name="C" type="null"></col>` |
| plain | `<col name="C">text</col>`, without `<`, `&` and control characters |
| protected 1 | `<col name="C"><![CDATA[text]]></col>`, with `<` or `&` |
| protected 2 | `<col name="C" encoding="base64">…</col>`, with `]]>` or a control character |
| unchanged | `<col name="C" type="unchanged"></col>` if a source does not know the value; `parse` omits it |
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping

from sluice.errors import Terminal

Row = list[tuple[str, str | None]]
"""Columns of a row in order: name and text, None for NULL."""

UNCHANGED = ' type="unchanged"></col>'
"""The end of an unchanged column. No other value can contain it, except in CDATA."""

_COLUMN = re.compile(
    r'<col name="([^"<>]*)"(?:'
    r"(?P<null> type=\"null\"></col>)"
    r"|(?P<unchanged> type=\"unchanged\"></col>)"
    r"|>(?P<plain>[^<]*)</col>"
    r"|><!\[CDATA\[(?P<cdata>.*?)\]\]></col>"
    r"|\ encoding=\"base64\">(?P<base64>[A-Za-z0-9+/=]*)</col>)",
    re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def malformed_content(content: str, at: int, reason: str = "is no column") -> Terminal:
    """A CONTENT or OLDCONTENT that Sluice's triggers did not write; `content` is its text."""
    return Terminal(
        f"The content of a change cannot be read: at character {at}, {content[at : at + 60]!r} {reason}. "
        "Something else wrote to ITEMS; remove or fix that row, or start an initial update.",
        code="malformed-content",
    )


def parse(content: str) -> Row:
    """The columns of a CONTENT in their order. Raises `malformed-content`."""
    row: Row = []
    for match in _columns(content):
        name, form = match[1], match.lastgroup
        if "&" in name:
            name = unescape(name)
        if form in ("plain", "cdata"):
            row.append((name, match[form]))
        elif form == "null":
            row.append((name, None))
        elif form == "base64":
            row.append((name, _decoded(match, content)))
    return row


def _columns(content: str) -> Iterator[re.Match[str]]:
    """Each column's match, whose `lastgroup` is the form of its value."""
    at = 0
    for match in iter(_COLUMN.scanner(content).match, None):  # type: ignore[attr-defined]
        yield match
        at = match.end()
    if at < len(content):
        raise malformed_content(content, at)


def _decoded(match: re.Match[str], content: str) -> str:
    try:
        return decode(match["base64"])
    except ValueError:
        raise malformed_content(content, match.start(), "is no base64 of UTF-8 text") from None


def decode(text: str) -> str:
    """A base64 value's text. Raises `ValueError`."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def format_row(row: Iterable[tuple[str, str | None]]) -> str:
    """The CONTENT of a row, as the triggers write it."""
    return "".join(format_column(name, value) for name, value in row)


def format_partial(row: Mapping[str, str | None], names: Iterable[str]) -> str:
    """The CONTENT of a row with the columns `names`, of which only those in `row` are known."""
    return "".join(
        format_column(name, row[name]) if name in row else f'<col name="{escape(name)}"{UNCHANGED}' for name in names
    )


def is_partial(content: str) -> bool:
    """Whether it has unchanged columns. Raises `malformed-content`."""
    # A value in CDATA may look like one.
    return UNCHANGED in content and any(match["unchanged"] is not None for match in _columns(content))


def complete(content: str, values: Mapping[str, str | None]) -> str:
    """The same, with the values of its unchanged columns. Raises `malformed-content`."""
    parts: list[str] = []
    for match in _columns(content):
        name = unescape(match[1])
        has_value = match["unchanged"] is None or name not in values
        parts.append(match[0] if has_value else format_column(name, values[name]))
    return "".join(parts)


def format_column(name: str, value: str | None) -> str:
    attribute = escape(name)
    if value is None:
        return f'<col name="{attribute}" type="null"></col>'
    if "]]>" in value or _CONTROL.search(value):
        encoded = base64.b64encode(value.encode("utf-8")).decode("ascii")
        return f'<col name="{attribute}" encoding="base64">{encoded}</col>'
    if "<" in value or "&" in value:
        return f'<col name="{attribute}"><![CDATA[{value}]]></col>'
    return f'<col name="{attribute}">{value}</col>'


def overlay(content: str, oldcontent: str) -> Row:
    """The old image of an UPDATE: its content, overwritten by the columns of OLDCONTENT."""
    old = dict(parse(oldcontent))
    return [(name, old.get(name, value)) for name, value in parse(content)]


def escape(name: str) -> str:
    """A column's name, escaped for the attribute."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def unescape(attribute: str) -> str:
    """A column's name from the attribute."""
    return attribute.replace("&quot;", '"').replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
