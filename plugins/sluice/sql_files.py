"""Statements in files under `include/sql/<vendor>/` and `include/sql/common/`, which can be run by hand.

A file has `${name}` placeholders, which `render` replaces. A placeholder without a value and a value without a
placeholder are mistakes of the caller and raise at once.
"""

import os
import re
import zipimport
from functools import cache, lru_cache
from pathlib import Path

from sluice import paths
from sluice.errors import Terminal

_DOLLAR_QUOTE = re.compile(r"\$[a-z]+\$")
_PLACEHOLDER = re.compile(r"\$\{([a-z_]+)\}")


class SqlFileMissing(Terminal):
    """The installation lacks the statement file `path`."""

    def __init__(self, path: Path):
        super().__init__(f"{path}: this SQL file is missing. Restore it from the release that is installed.")


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


def _read(path: Path) -> tuple[str, frozenset[str]]:
    """The statement without its header, and its placeholders."""
    archive = _archive()
    try:
        if archive and path.is_relative_to(archive.archive):
            whole = archive.get_data(path.relative_to(archive.archive).as_posix()).decode()
        else:
            whole = path.read_text(encoding="utf-8")
    except OSError as missing:
        raise SqlFileMissing(path) from missing
    text = "\n".join(line for line in whole.split("\n") if not line.startswith("--"))
    return text, frozenset(_PLACEHOLDER.findall(text))


COMMON = "common"
"""The folder of statements for every vendor."""
MAY_GO_UNUSED = frozenset({"prefix", "schema", "clock", "among"})


@cache
def _read_statement(place: Path, vendor: str, name: str) -> tuple[str, frozenset[str]]:
    """The vendor's own statement, else the common one. Cached, since applies need it in each window."""
    try:
        return _read(place / vendor / f"{name}.sql")
    except SqlFileMissing as missing:
        try:
            return _read(place / COMMON / f"{name}.sql")
        except SqlFileMissing:
            raise missing from None


def render(vendor: str, name: str, **placeholders: str) -> str:
    """Text of `<vendor>/<name>.sql`, else of `common/<name>.sql`, with every `${placeholder}` replaced.

    Values are inserted as they are: quote identifiers and literals before. Comment lines of the header are dropped, so
    placeholders in them are not replaced. In a statement with parameters (`%(name)s`) a `%` in the schema's name is
    doubled for the driver. Raises `SqlFileMissing`, `KeyError` for a placeholder without a value, `ValueError` for a
    value that the file does not use, except those of `MAY_GO_UNUSED`.
    """
    rendered = _rendered_once if sum(map(len, placeholders.values())) <= _CACHED_LENGTH else _rendered
    return rendered(folder(), vendor, name, tuple(placeholders.items()))


_CACHED_LENGTH = 16_384
"""Statements with longer values, such as a window's lists of keys, never return and are not kept."""


def _rendered(place: Path, vendor: str, name: str, placeholders: tuple[tuple[str, str], ...]) -> str:
    text, used = _read_statement(place, vendor, name)
    values = dict(placeholders)
    unused = set(values) - used - MAY_GO_UNUSED
    if unused:
        raise ValueError(f"{vendor}/{name}.sql has no placeholder {', '.join(sorted(unused))}")
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
