"""The statements in the files of include/sql/oracle, and the statements inside them, as texts for a parser."""

import re

from sluice import sql_files
from sluice.vendors.oracle.session import native_parameters

FOLDER = "oracle"
PLACEHOLDERS = {
    "prefix": "DEMO_",
    "account": "SLUICE",
    "schema": '"SLUICE"',
    "clock": "SYS_EXTRACT_UTC(SYSTIMESTAMP)",
    "tables": "(c.OWNER, c.TABLE_NAME) IN ((:o0, :n0), (:o1, :n1))",
    "names": "(o.OWNER, o.OBJECT_NAME) IN ((:o0, :n0))",
    "rest": "1 = 1",
    "ids": "id IN (:p_id_0)",
    "statuses": "status IN (:p_status_0)",
    "lock": "FOR UPDATE",
    "window": "i.REPL_KEY > :floor",
    "selection": "1 = 1",
}

_COMMAND = re.compile(r"^(?:SET DEFINE|WHENEVER) .*$", re.MULTILINE)
"""Commands of SQL*Plus, which no grammar of SQL has."""
NONEDITIONABLE = re.compile(r"(?<=^CREATE OR REPLACE )NONEDITIONABLE ", re.MULTILINE)
"""A word that Oracle has from 12.1 on, and the grammar of the parser not for all that may have it."""
_INNER = re.compile(r"q'~(.*?)~'", re.DOTALL)
"""A statement that a block runs."""


def names() -> list[str]:
    """The names of all statements."""
    return sorted(_statements())


def _statements() -> dict[str, str]:
    files = (sql_files.folder() / FOLDER).glob("*.sql")
    return {name: text for file in files for name, text in sql_files.statements(file).items()}


def text_of(name: str) -> str:
    """The text of a statement as the server gets it: without header comments, with placeholders replaced."""
    text = _statements()[name]
    for placeholder, value in PLACEHOLDERS.items():
        text = text.replace(f"${{{placeholder}}}", value)
    if "%(" not in text:
        return text
    names = dict.fromkeys(re.findall(r"%\((\w+)\)s", text))
    return native_parameters(text, names)[0]


def units(name: str) -> dict[str, str]:
    """The texts of a file for a parser, by a name: the parts between lines with a slash, and the statements inside
    them."""
    text = NONEDITIONABLE.sub("", _COMMAND.sub("", text_of(name)))
    parts = re.split(r"^/$", text, flags=re.MULTILINE)
    found = [part for part in parts if re.sub(r"--.*", "", part).strip()]
    if name == "blob_hex":
        # What begins a query, with the shortest one behind it.
        found = [f"{part.rstrip()} SELECT sluice_hex(NULL) FROM DUAL;" for part in found]
    if name == "queue_window":
        # A condition, in the shortest query.
        found = [f"SELECT 1 FROM DEMO_ITEMS i WHERE {part.rstrip()};" for part in found]
    inner = [statement + ";" for part in found for statement in _INNER.findall(part)]
    return {f"{name} {number}": text for number, text in enumerate([*found, *inner], 1)}
