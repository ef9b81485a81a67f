"""One word a concept: the glossary, and the code and pages that follow it."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
CODE = ("plugins", "dags", "spark_jobs", "devstack", "benchmarks")


def rows(*, used: bool) -> list[tuple[str, str]]:
    """The rows of the glossary: words with their meanings, or forbidden words with their replacements."""
    meanings, _, instead = GLOSSARY.read_text(encoding="utf-8").partition("## Not used")
    found = re.findall(r"^\| (.+?) \| (.+) \|$", meanings if used else instead, re.MULTILINE)
    return [row for row in found if row not in (("word", "means"), ("not", "but")) and not row[0].startswith("-")]


def words() -> list[str]:
    return [word for entry, _ in rows(used=True) for word in entry.split(", ")]


@cache
def names_of_the_code() -> frozenset[tuple[str, str]]:
    """Each file with each name in it."""
    found = set()
    for folder in CODE:
        for file in (ROOT / folder).rglob("*.py"):
            place = str(file.relative_to(ROOT))
            found.add((place, file.stem))
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                for field in ("id", "attr", "name", "arg", "asname"):
                    if isinstance(name := getattr(node, field, None), str):
                        found.add((place, name))
    return frozenset(found)


def parts(name: str) -> set[str]:
    """The words of a name: `SliceTooSmall` is slice, too, small."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_each_word_has_one_meaning() -> None:
    assert len(words()) > 60
    assert sorted(words()) == sorted(set(words()))
    for word, meaning in rows(used=True):
        assert not meaning.endswith("."), f"{word}: one sentence, without a full stop"


def test_each_word_is_used() -> None:
    pages = [page for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")] if page != GLOSSARY]
    text = " ".join(page.read_text(encoding="utf-8") for page in pages).lower()
    code = {part for _, name in names_of_the_code() for part in parts(name)}
    unused = [word for word in words() if word.lower() not in text and not parts(word.replace(" ", "_")) <= code]
    assert not unused


def test_words_that_are_not_used_come_back_in_no_name() -> None:
    refused = dict(rows(used=False))
    assert refused and not set(refused) & set(words())
    found = {
        f"{place}: {name}: say {refused[part]}"
        for place, name in names_of_the_code()
        for part in parts(name) & set(refused)
    }
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        if page != GLOSSARY:
            for name in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")):
                found |= {f"{page.name}: {name}: say {refused[part]}" for part in parts(name) & set(refused)}
    assert not found, "\n".join(sorted(found))
