"""The commands and files of README and other pages."""

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).resolve().parents[3] / "README.md"


@dataclass(frozen=True)
class Block:
    """A fenced block of README: its language, and its text without the indentation of its list."""

    language: str
    text: str


def section(heading: str, page: Path = README) -> str:
    """The text below a heading, up to the next one of the same or a higher level."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert found, f"{page.name} has no heading {heading!r}"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found.group(1))}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def blocks(heading: str, page: Path = README) -> list[Block]:
    """The fenced blocks of a section, in order."""
    found = []
    for match in re.finditer(r"^([ ]*)```(\w*)\n(.*?)^\1```$", section(heading, page), re.MULTILINE | re.DOTALL):
        indent, language, text = match.groups()
        found.append(Block(language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)))
    return found


def table(heading: str) -> list[dict[str, str]]:
    """The rows of the first table of a section, by column, without `code` marks."""
    lines = [line.strip() for line in section(heading).splitlines() if line.strip().startswith("|")]
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]
