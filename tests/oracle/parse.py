"""Parses include/sql/oracle, and triggers that it makes, with a parser that nobody here wrote, and records what that
said of which text.

    PYTHONPATH=plugins .venv/bin/python -m tests.oracle.parse

The parser is made from the PL/SQL grammar of ANTLR's collection; npm fetches it. It takes minutes. The record is what
every test run compares the files with.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from devstack import npm_archive
from tests.oracle import sql_units

PROGRAM = Path(__file__).resolve().parent / "parser" / "parse.mjs"
RECORD = PROGRAM.with_name("parsed.json")
TRIGGERS = PROGRAM.with_name("triggers.sql")

PACKAGES = {
    "@griffithswaite/ts-plsql-parser": (
        "1.1.1",
        "DVizvC/EEUq3VwVDVauWu8JCgF4odiWAFNxCIrpdqKSbVPKSHhzqw9wB+gGT3lv64a0kTchQ+9stnj4fT7SbaQ==",
    ),
    "antlr4": (
        "4.13.0",
        "zooUbt+UscjnWyOrsuY/tVFL4rwrAGwOivpQmvmUDE22hy/lUA467Rc1rcixyRwcRUIXFYBwv7+dClDSHdmmew==",
    ),
}
"""Version and SHA-512 of each, the latter as npm states it."""


class Parsed(TypedDict):
    """The result for one text."""

    sha256: str
    refused: list[str]
    """Why; empty: it parsed."""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def triggers() -> list[str]:
    """The statements of `TRIGGERS`."""
    lines = [line for line in TRIGGERS.read_text().split("\n") if not line.startswith("--")]
    return [text.strip() for text in "\n".join(lines).split("\n/\n") if text.strip()]


def made_triggers() -> dict[str, str]:
    """The same triggers, as texts for the parser."""
    found = (sql_units.NONEDITIONABLE.sub("", text) for text in triggers())
    return {f"made trigger {number}": text for number, text in enumerate(found, 1)}


def units() -> dict[str, str]:
    """Every text of every file, short ones first: the parser's cache from them makes the long ones faster."""
    found = {key: text for name in sql_units.names() for key, text in sql_units.units(name).items()}
    found |= made_triggers()
    return dict(sorted(found.items(), key=lambda unit: len(unit[1])))


def record() -> dict[str, Parsed]:
    found: dict[str, Parsed] = json.loads(RECORD.read_text())
    return found


def parse(texts: Mapping[str, str]) -> Iterator[tuple[str, Parsed]]:
    """Parses each text; yields the results as they come. Raises `ArchiveMissing`."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for package, (version, sha512) in PACKAGES.items():
            own = folder / "node_modules" / package
            own.mkdir(parents=True)
            with tarfile.open(npm_archive.fetch(package, version, sha512, own)) as archive:
                archive.extractall(own, filter="data")
            for file in (own / "package").iterdir():
                file.rename(own / file.name)
        shutil.copy(PROGRAM, folder)
        (folder / "texts.json").write_text(json.dumps(texts))
        command = ["node", PROGRAM.name, "texts.json"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            for line in running.stdout:
                name, messages = json.loads(line)
                yield name, Parsed(sha256=digest(texts[name]), refused=messages)
        if running.returncode:
            raise RuntimeError(f"The parser ended with {running.returncode}; what it said is above")


def main() -> int:
    """Parses the texts that have changed since the record."""
    texts = units()
    known = record() if RECORD.exists() else {}
    found = {name: known[name] for name in texts if name in known and known[name]["sha256"] == digest(texts[name])}
    for name, parsed in parse({name: text for name, text in texts.items() if name not in found}):
        found[name] = parsed
        print(name, *(parsed["refused"] or ["parsed"]), sep=": ", flush=True)
        RECORD.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")
    return any(parsed["refused"] for parsed in found.values())


if __name__ == "__main__":
    sys.exit(main())
