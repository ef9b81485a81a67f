"""The files of include/sql/oracle, taken apart into what a parser gets: statements, and those inside of them."""

import re

from sluice import sql_files

FOLDER = "oracle"
PLACEHOLDERS = {"prefix": "DEMO_", "account": "SLUICE"}

_COMMAND = re.compile(r"^(?:SET|WHENEVER) .*$", re.MULTILINE)
"""Commands of SQL*Plus, which no grammar of SQL has."""
_INNER = re.compile(r"q'~(.*?)~'", re.DOTALL)
"""A statement that a block runs."""


def names() -> list[str]:
    """The files, without their ending."""
    return sorted(file.stem for file in (sql_files.folder() / FOLDER).glob("*.sql"))


def text_of(name: str) -> str:
    """A file as a person runs it."""
    text = (sql_files.folder() / FOLDER / f"{name}.sql").read_text(encoding="ascii")
    for placeholder, value in PLACEHOLDERS.items():
        text = text.replace(f"${{{placeholder}}}", value)
    return text


def units(name: str) -> dict[str, str]:
    """What a parser gets of a file, by a name: the parts between lines with a slash, and the statements inside them."""
    parts = re.split(r"^/$", _COMMAND.sub("", text_of(name)), flags=re.MULTILINE)
    found = [part for part in parts if re.sub(r"--.*", "", part).strip()]
    inner = [statement + ";" for part in found for statement in _INNER.findall(part)]
    return {f"{name} {number}": text for number, text in enumerate([*found, *inner], 1)}
