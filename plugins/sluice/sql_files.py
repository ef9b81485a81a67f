"""Statements in files under `include/sql/<vendor>/` and `include/sql/common/`, which can be run by hand.

A statement has its own file, or is a section of one, from the line `-- name: ` with its name to the next such
line: `blocks_claim` is in `blocks_claim.sql` or in `blocks.sql`. It has `${name}` placeholders, which `render`
replaces. A placeholder without a value and a value without a placeholder are mistakes of the caller and raise at once.
"""

import os
import re
import zipimport
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path

from sluice import paths
from sluice.errors import Terminal

_DOLLAR_QUOTE = re.compile(r"\$[a-z]+\$")
_SECTION = re.compile(r"^-- name: (\w+)$\n", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$\{([a-z_]+)\}")


def sql_file_missing(path: Path) -> Terminal:
    """The installation lacks the statement file `path`."""
    return Terminal(
        f"{path}: this SQL file is missing. Restore it from the release that is installed.", code="sql-file-missing"
    )


SHIPPED = "sql"
"""The folder of the statements in the library's archive for Spark's executors."""


def folder() -> Path:
    """The folder of the statements: `SLUICE_SQL`, else `include/sql` of this installation, else in the library's
    archive."""
    configured = os.environ.get("SLUICE_SQL")
    return Path(configured) if configured else _own_folder()


@cache
def _own_folder() -> Path:
    archive = _archive()
    return Path(archive.archive, "sluice", SHIPPED) if archive else paths.SQL


def _archive() -> zipimport.zipimporter | None:
    """The archive that this library was imported from, or None."""
    loader: object = __spec__.loader
    return loader if isinstance(loader, zipimport.zipimporter) else None


@cache
def statements(path: Path) -> Mapping[str, str]:
    """The statements of a file by their names, without comment lines: its sections, or the whole file under its own
    name; empty if there is no such file."""
    archive = _archive()
    try:
        if archive and path.is_relative_to(archive.archive):
            whole = archive.get_data(path.relative_to(archive.archive).as_posix()).decode()
        else:
            whole = path.read_text(encoding="utf-8")
    except OSError:
        return {}
    head, *sections = _SECTION.split(whole)
    if not sections:
        return {path.stem: _without_comments(head)}
    texts = (_without_comments(text).strip("\n") + "\n" for text in sections[1::2])
    return dict(zip(sections[::2], texts, strict=True))


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith("--"))


COMMON = "common"
"""The folder of statements for every vendor."""
MAY_GO_UNUSED = frozenset({"prefix", "schema", "clock", "among"})


@cache
def _read_statement(place: Path, vendor: str, name: str) -> tuple[str, frozenset[str]]:
    """The vendor's own statement, else the common one, and its placeholders. Cached, since applies need it in each
    window. Raises `sql-file-missing`."""
    for folder_ in (vendor, COMMON):
        for file in _files(name):
            text = statements(place / folder_ / f"{file}.sql").get(name)
            if text is not None:
                return text, frozenset(_PLACEHOLDER.findall(text))
    raise sql_file_missing(place / vendor / f"{name}.sql")


def _files(name: str) -> Iterator[str]:
    """Where a statement may be: in the file of its name, or in one that its first words name."""
    words = name.split("_")
    return ("_".join(words[:count]) for count in range(len(words), 0, -1))


def render(vendor: str, name: str, **placeholders: str) -> str:
    """Text of the vendor's statement `name`, else of the common one, with every `${placeholder}` replaced.

    Values are inserted as they are: quote identifiers and literals before. Comment lines are dropped, so placeholders
    in them are not replaced. In a statement with parameters (`%(name)s`) a `%` in the schema's name is doubled for the
    driver. Raises `sql-file-missing`, `KeyError` for a placeholder without a value, `ValueError` for a value that the
    file does not use, except those of `MAY_GO_UNUSED`.
    """
    rendered = _rendered_once if sum(map(len, placeholders.values())) <= _CACHED_LENGTH else _rendered
    return rendered(folder(), vendor, name, tuple(placeholders.items()))


_CACHED_LENGTH = 16_384
"""Statements with longer values, such as a window's lists of keys, never return and are not kept."""


def _rendered(file: Path, vendor: str, name: str, placeholders: tuple[tuple[str, str], ...]) -> str:
    text, used = _read_statement(file, vendor, name)
    values = dict(placeholders)
    unused = set(values) - used - MAY_GO_UNUSED
    if unused:
        raise ValueError(f"{vendor}/{name} has no placeholder {', '.join(sorted(unused))}")
    # A name may contain the tag that ends a text in dollar quotes.
    for tag in set(_DOLLAR_QUOTE.findall(text)):
        fresh = tag
        while any(fresh in value for value in values.values()):
            fresh = f"{fresh[:-1]}_$"
        text = text.replace(tag, fresh)
    if "schema" in values and "%(" in text + "".join(values[name] for name in used - {"schema"} if name in values):
        values["schema"] = values["schema"].replace("%", "%%")
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], text)


_rendered_once = lru_cache(maxsize=512)(_rendered)
"""Cached, since an apply runs the same dozen statements in each window."""
