"""Character sets of a server: which Python reads exactly, and the others by the server's own tables."""

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sluice import sql_files
from sluice.vendors.mysql.connection import MySQLSession

Decode = Callable[[bytes], str]
"""Raises `UnicodeDecodeError`."""

UNICODE = {
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
"""Python's codecs; all other character sets of one byte are asked of the server."""
_OF_STATEMENTS = {
    "big5": "big5",
    "cp932": "cp932",
    "eucjpms": "euc_jp",
    "euckr": "euc_kr",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
}
"""Codecs that are good enough for names in statements, and not for all values."""
BINARY = "binary"
_WITH_COLLATIONS_OF_MANY = (10, 10)
"""From this release on a collation's name may fit several character sets."""


@dataclass(frozen=True)
class Charsets:
    """What a server knows of collations, asked once."""

    session: MySQLSession
    _tables: dict[str, str] = field(default_factory=dict)

    @cached_property
    def of_collations(self) -> Mapping[int, str]:
        """The character set of each collation, by its number."""
        many = self.session.version >= _WITH_COLLATIONS_OF_MANY and self.session.mariadb
        source = "collation_character_set_applicability" if many else "collations"
        rows = self.session.run(sql_files.render("mysql", "binlog_collations", source=source))
        return {int(number): str(charset) for number, charset in rows}

    @cached_property
    def _bytes_a_character(self) -> Mapping[str, int]:
        rows = self.session.run("SELECT character_set_name, maxlen FROM information_schema.character_sets")
        return {str(charset): int(size) for charset, size in rows}

    def characters(self, collation: int, size: int) -> int | None:
        """How many characters a text of `size` bytes at most has; None if unknown."""
        each = self._bytes_a_character.get(self.of_collations.get(collation, ""))
        return size // each if each else None

    def codec(self, collation: int) -> str | Decode | None:
        """The name of Python's codec, or what decodes a text; None where neither is exact."""
        charset = self.of_collations.get(collation)
        if charset is None:
            return None
        if charset in UNICODE:
            return UNICODE[charset]
        if self._bytes_a_character.get(charset) != 1:
            return None
        table = self._tables.get(charset)
        if table is None:
            table = self._tables[charset] = self._asked(charset)
        return lambda value: codecs.charmap_decode(value, "strict", table)[0]

    def statement(self, raw: bytes, collation: int) -> str:
        """The text of a statement. Raises `UnicodeDecodeError`."""
        charset = self.of_collations.get(collation, BINARY)
        codec = "utf-8" if charset == BINARY else self.codec(collation) or _OF_STATEMENTS.get(charset, "utf-8")
        return raw.decode(codec) if isinstance(codec, str) else codec(raw)

    def _asked(self, charset: str) -> str:
        """The characters of all bytes of a character set."""
        query = sql_files.render("mysql", "binlog_characters", charset=charset)
        return "".join(str(text) for _, text in self.session.run(query))
