"""Statements of the log: which tables they define, and whether the rows that were there are known afterwards.

There is no grammar here, only words and names: what a statement did to the columns is in the description of the table
before its next rows.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sluice.database.change_log import Event

QualifiedName = tuple[str, str]
"""Database and name of a table; an empty name: all tables of the database."""

_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES, _STRICT = 0x4, 0x100000, 0x200000 | 0x400000
"""Bits of sql_mode."""
_ROWS = frozenset(
    {"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO", "SELECT", "WITH", "EXECUTE", "HANDLER"}
)
_HARMLESS = frozenset(
    [
        "GRANT",
        "REVOKE",
        "SET",
        "ANALYZE",
        "OPTIMIZE",
        "REPAIR",
        "CHECK",
        "CHECKSUM",
        "FLUSH",
        "INSTALL",
        "UNINSTALL",
        "LOCK",
        "UNLOCK",
        "RESET",
        "SAVEPOINT",
        "RELEASE",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "XA",
        "KILL",
        "SHUTDOWN",
        "BACKUP",
        "CHANGE",
        "START",
        "STOP",
        "PURGE",
        "CACHE",
        "SIGNAL",
        "USE",
        "COMMENT",
    ]
)
"""First words of statements that change neither rows nor definitions of tables."""
_NO_COLUMN = frozenset(["INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK", "PRIMARY"])
_OPTIONS = frozenset(
    [
        "COMMENT",
        "AUTO_INCREMENT",
        "DEFAULT",
        "CHARACTER",
        "CHARSET",
        "COLLATE",
        "ROW_FORMAT",
        "KEY_BLOCK_SIZE",
        "FORCE",
        "ALGORITHM",
        "LOCK",
        "ENABLE",
        "DISABLE",
        "WITH",
        "WITHOUT",
        "NOWAIT",
        "WAIT",
        "REMOVE",
        "REORGANIZE",
        "COALESCE",
        "REBUILD",
        "ANALYZE",
        "CHECK",
        "OPTIMIZE",
        "REPAIR",
        "PARTITION",
        "AVG_ROW_LENGTH",
        "CHECKSUM",
        "CONNECTION",
        "DATA",
        "DELAY_KEY_WRITE",
        "INDEX",
        "INSERT_METHOD",
        "MAX_ROWS",
        "MIN_ROWS",
        "PACK_KEYS",
        "PAGE_CHECKSUM",
        "PASSWORD",
        "STATS_AUTO_RECALC",
        "STATS_PERSISTENT",
        "STATS_SAMPLE_PAGES",
        "TABLE_CHECKSUM",
        "TABLESPACE",
        "TRANSACTIONAL",
        "UNION",
    ]
)
"""First words of clauses of ALTER TABLE that change no value."""
_WITH_NAMES = frozenset(
    [
        ("ORDER", "BY"),
        ("DROP", "PARTITION"),
        ("TRUNCATE", "PARTITION"),
        ("REORGANIZE", "PARTITION"),
        ("REBUILD", "PARTITION"),
        ("ANALYZE", "PARTITION"),
        ("CHECK", "PARTITION"),
        ("OPTIMIZE", "PARTITION"),
        ("REPAIR", "PARTITION"),
    ]
)
"""How clauses begin in which names follow with commas between them. Each is the last one."""
_WHOLE = re.compile(r"(?:tiny|small|medium|big)?int(?:eger)?|int[1-8]|bool(?:ean)?", re.I)
_DECIMAL = re.compile(r"decimal|dec|numeric|fixed", re.I)
_FLOAT = re.compile(r"float|double|real", re.I)
_TEXT = re.compile(r"(?:national|n?(?:var)?char|(?:tiny|medium|long)?text|character|json)\Z", re.I)
_BYTES = re.compile(r"varbinary|(?:tiny|medium|long)?blob", re.I)
_LONG_TEXT = frozenset({"VARCHAR", "NVARCHAR", "VARYING", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "JSON"})
_SHORT_TEXT = frozenset({"CHAR", "NCHAR", "CHARACTER"})
_CONVERTING = frozenset({"BINARY", "TIME", "YEAR", "INET4", "INET6"})
"""Types to which values are converted from others that are one type in a stream: filled up with 0x00, rounded, counted
from 2000, made longer."""
_OTHER_BYTES = frozenset({"_UCS2", "_UTF16", "_UTF16LE", "_UTF32"})
"""Character sets in which letters of ASCII are other bytes."""
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|--(?=[\s\x00-\x1f]|\Z)[^\n]*   # nothing
    |(?P<open>/\*M?!(?P<version>\d{5,6})?)|(?P<close>\*/)|/\*.*?\*/
    |`(?P<name>(?:[^`]|``)*)`|(?P<quote>['"])|(?P<word>[\w$\u0080-\uffff]+)|(?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}


class RowsAsStatement(Exception):
    """A statement that changes rows, and was logged as a statement. The text is its first word: the rest may have
    passwords."""


@dataclass(frozen=True)
class Token:
    """A word or sign of a statement."""

    text: str
    kind: str
    """`word`, `name` (quoted), `text` (a literal) or `sign`."""

    @property
    def upper(self) -> str:
        """A word in capital letters; empty for other tokens."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def names(self) -> bool:
        return self.kind in ("word", "name")


_END = Token("", "sign")


@dataclass
class Defined:
    """What a statement does to one table."""

    event: Event
    table: QualifiedName
    other: QualifiedName | None = None
    reason: str = ""
    renamed: dict[str, str] = field(default_factory=dict)
    filled: dict[str, str | None] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    converted: dict[str, str] = field(default_factory=dict)
    rekeyed: bool = False


def tokens(sql: str, sql_mode: int) -> Iterator[Token]:
    """The words, names and literals of a statement, with those of comments that the server executes."""
    at, executed = 0, False
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        assert found is not None
        at = found.end()
        if found["open"]:
            version = int(found["version"] or 0)
            # MariaDB leaves out what is for MySQL 5.7 and later only.
            if found["open"].startswith("/*!") and 50700 <= version < 100000:
                end = sql.find("*/", at)
                at = len(sql) if end < 0 else end + 2
            else:
                executed = True
        elif found["close"] and executed:
            executed = False
        elif found["name"] is not None:
            yield Token(found["name"].replace("``", "`"), "name")
        elif quote := found["quote"]:
            names = quote == '"' and bool(sql_mode & _ANSI_QUOTES)
            text, at = _quoted(sql, at, quote, escapes=not names and not sql_mode & _NO_BACKSLASH_ESCAPES)
            yield Token(text, "name" if names else "text")
        elif found["word"]:
            yield Token(found["word"], "word")
        elif found["sign"] or found["close"]:
            yield Token(found.group(), "sign")


def _quoted(sql: str, at: int, quote: str, *, escapes: bool) -> tuple[str, int]:
    """The text up to the closing quote, and the place behind it."""
    made = []
    while at < len(sql):
        letter = sql[at]
        if letter == "\\" and escapes and at + 1 < len(sql):
            made.append(_ESCAPED.get(sql[at + 1], sql[at + 1]))
            at += 2
        elif letter == quote:
            if sql[at + 1 : at + 2] != quote:
                return "".join(made), at + 1
            made.append(quote)
            at += 2
        else:
            made.append(letter)
            at += 1
    return "".join(made), at


def defined(sql: str, database: str, sql_mode: int) -> list[Defined]:
    """What a statement does to tables. `database`: the one of names without. Raises `RowsAsStatement`."""
    words = _Words(list(tokens(sql, sql_mode)), database)
    first = words.take().upper
    if first == "SET" and words.skip("STATEMENT"):
        words.skip_to("FOR")
        first = words.take().upper
    if first == "ANALYZE" and words.next.upper not in ("TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG"):
        raise RowsAsStatement(first)  # it executes the statement that it analyzes
    if first in _HARMLESS or not first:
        return []
    match first:
        case "CREATE":
            return _create(words)
        case "DROP":
            return _drop(words)
        case "RENAME":
            return list(_renames(words)) if words.skip("TABLE", "TABLES") else []
        case "TRUNCATE":
            words.skip("TABLE")
            return [Defined(Event.EMPTIED, words.qualified())]
        case "ALTER":
            return _alter(words, strict=bool(sql_mode & _STRICT))
    raise RowsAsStatement(first)


class _Words:
    """Tokens, taken one after another."""

    def __init__(self, tokens: Sequence[Token], database: str):
        self.tokens = tokens
        self.database = database
        self.at = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

    def take(self) -> Token:
        token = self.next
        self.at += 1
        return token

    def skip(self, *words: str) -> bool:
        """Leaves the next token out if it is one of `words`, or a sign of them."""
        token = self.next
        if token.upper in words or (token.kind == "sign" and token.text in words):
            self.at += 1
            return True
        return False

    def skip_all(self, *words: str) -> None:
        while self.next is not _END and self.skip(*words):
            pass

    def skip_to(self, word: str) -> None:
        """Leaves out everything up to a word outside of parentheses, and the word."""
        depth = 0
        while self.next is not _END:
            token = self.take()
            depth += (token == Token("(", "sign")) - (token == Token(")", "sign"))
            if token.upper == word and not depth:
                return

    def column(self) -> str:
        """A name of a column: its case is of no importance."""
        return self.take().text.lower()

    def qualified(self) -> QualifiedName:
        """A name of a table."""
        first = self.take().text
        if self.next == Token(".", "sign"):
            self.take()
            return first, self.take().text
        return self.database, first

    def clauses(self) -> Iterator["_Words"]:
        """The rest, cut at commas outside of parentheses."""
        depth, begins = 0, self.at
        for at in range(self.at, len(self.tokens)):
            token = self.tokens[at]
            if token.kind == "sign":
                depth += (token.text == "(") - (token.text == ")")
                if token.text == "," and not depth:
                    yield _Words(self.tokens[begins:at], self.database)
                    begins = at + 1
        yield _Words(self.tokens[begins:], self.database)

    @property
    def rest(self) -> Sequence[Token]:
        return self.tokens[self.at :]


def _create(words: _Words) -> list[Defined]:
    replaces = False
    if words.skip("OR"):
        replaces = words.skip("REPLACE")
    words.skip("ONLINE", "OFFLINE")
    if words.next.upper in ("UNIQUE", "FULLTEXT", "SPATIAL", "INDEX"):
        words.skip_to("ON")
        return [Defined(Event.ALTERED, words.qualified(), rekeyed=replaces)]
    if not words.skip("TABLE"):
        return []
    may_exist = words.next.upper == "IF"
    words.skip_all("IF", "NOT", "EXISTS")
    table = words.qualified()
    # A former table of that name may have gone without a statement in the log.
    made = [] if may_exist else [Defined(Event.DROPPED, table)]
    made.append(Defined(Event.CREATED, table))
    made += _cascades(words.rest, table)
    upper = [token.upper for token in words.rest]
    if "SELECT" in upper or ("AS", "VALUES") in pairwise(upper):
        # With binlog_format = ROW the log has the columns here, and the rows behind.
        made.append(Defined(Event.UNKNOWN, table, reason="it was filled by a statement that was logged without rows"))
    return made


def _drop(words: _Words) -> list[Defined]:
    if words.skip("DATABASE", "SCHEMA"):
        words.skip_all("IF", "EXISTS")
        return [Defined(Event.DROPPED, (words.take().text, ""))]
    if words.skip("INDEX"):
        words.skip_to("ON")
        return [Defined(Event.ALTERED, words.qualified(), rekeyed=True)]
    if not words.skip("TABLE", "TABLES"):
        return []
    words.skip_all("IF", "EXISTS")
    return [Defined(Event.DROPPED, clause.qualified()) for clause in words.clauses()]


def _renames(words: _Words) -> Iterator[Defined]:
    words.skip_all("IF", "EXISTS")
    for clause in words.clauses():
        table = clause.qualified()
        while clause.next is not _END and not clause.skip("TO"):
            clause.take()
        yield Defined(Event.RENAMED, table, clause.qualified())


def _alter(words: _Words, *, strict: bool) -> list[Defined]:
    words.skip("ONLINE", "OFFLINE")
    ignores = words.skip("IGNORE")
    if not words.skip("TABLE"):
        return []
    words.skip_all("IF", "EXISTS")
    own = Defined(Event.ALTERED, words.qualified(), reason="rows that break a key were dropped" if ignores else "")
    if words.skip("WAIT"):
        words.take()
    words.skip("NOWAIT")
    made = [own, *_cascades(words.rest, own.table)]
    for clause in words.clauses():
        begins = tuple(token.upper for token in clause.rest[:2])
        _clause(clause, own, made, strict=strict)
        if begins in _WITH_NAMES:
            break
    return made


def _clause(words: _Words, own: Defined, made: list[Defined], *, strict: bool) -> None:
    """One clause of ALTER TABLE: adds to what is known of the table, and of other tables."""

    def unknown(reason: str) -> None:
        own.reason = own.reason or reason

    def exchanged(reason: str) -> None:
        """Rows came that are in no log, also into a table that was empty."""
        made.append(Defined(Event.UNKNOWN, own.table, reason=reason))

    first = words.take().upper
    match first:
        case "ADD":
            _add(words, own)
        case "DROP":
            if words.next.upper in ("PARTITION", "SUBPARTITION"):
                unknown("a partition was dropped with its rows")
            elif words.next.upper in ("SYSTEM", "PERIOD"):
                unknown("its history of rows was dropped")
            elif words.next.upper in _NO_COLUMN:
                own.rekeyed = True
            else:
                words.skip("COLUMN")
                words.skip_all("IF", "EXISTS")
                own.dropped.append(words.column())
        case "MODIFY" | "CHANGE":
            words.skip("COLUMN")
            words.skip_all("IF", "EXISTS")
            name = words.column()
            if first == "CHANGE":
                new = words.column()
                if new != name:
                    own.renamed[name] = new
            own.converted[name] = _family(words.rest)
            if not strict:
                unknown(f"values of the column {name} may have been changed: sql_mode was not strict")
            elif words.next.upper in ("ENUM", "SET"):
                unknown(f"the labels of the column {name} may have been changed")
            elif words.next.upper in _CONVERTING or _rounds(words.rest):
                unknown(f"values of the column {name} may have been changed by its type")
        case "RENAME":
            if words.skip("COLUMN"):
                words.skip_all("IF", "EXISTS")
                name = words.column()
                words.skip("TO")
                own.renamed[name] = words.column()
            elif words.next.upper not in ("INDEX", "KEY"):
                words.skip("TO", "AS", "=")
                made.append(Defined(Event.RENAMED, own.table, words.qualified()))
        case "CONVERT":
            if words.skip("TO"):
                if not strict:
                    unknown("texts may have been changed: sql_mode was not strict")
            elif words.skip("TABLE"):
                exchanged("a table became a partition of it")
                made.append(Defined(Event.DROPPED, words.qualified()))
            else:
                unknown("a partition became a table")
                words.skip_to("TABLE")
                made.append(Defined(Event.UNKNOWN, words.qualified(), reason="it was a partition of another table"))
        case "TRUNCATE" | "DISCARD":
            unknown("rows of a partition or tablespace went")
        case "EXCHANGE" | "IMPORT":
            exchanged("rows of a partition or tablespace went or came")
            if first == "EXCHANGE":
                words.skip_to("TABLE")
                made.append(
                    Defined(Event.UNKNOWN, words.qualified(), reason="its rows were exchanged for a partition's")
                )
        case "ALTER":
            pass  # a default, or whether an index is used
        case "":
            pass
        case "ORDER":
            pass
        case _:
            if (engine := _engine(words.tokens)) not in ("", "INNODB"):
                unknown(f"its engine is {engine}, whose changes are not logged as they happen")
            elif not engine and first not in _OPTIONS and words.next.text != "=":
                unknown(f"ALTER TABLE … {first} is not known")


def _engine(options: Sequence[Token]) -> str:
    """The engine among options, which need no comma between them, in capital letters; empty without one."""
    for at, option in enumerate(options):
        if option.upper == "ENGINE":
            return next((token.text.upper() for token in options[at + 1 :] if token.text != "="), "")
    return ""


def _add(words: _Words, own: Defined) -> None:
    """ADD: of columns what older rows have."""
    if words.next.upper in _NO_COLUMN:
        return
    if words.next.upper == "PARTITION":
        return
    if words.next.upper in ("SYSTEM", "PERIOD"):
        own.reason = own.reason or "it has a history of rows now"
        return
    words.skip("COLUMN")
    words.skip_all("IF", "NOT", "EXISTS")
    if words.skip("("):
        # Up to the parenthesis that closes the list.
        inside = _Words(words.rest[:-1], words.database)
        for each in inside.clauses():
            if each.next.upper not in _NO_COLUMN:
                _column(each, own)
        return
    _column(words, own)


def _cascades(rest: Sequence[Token], table: QualifiedName) -> Iterator[Defined]:
    """Tells of foreign keys that write to the table's rows: the catalog may have lost them since."""
    upper = [token.upper for token in rest]
    for on, event, action, what in zip(upper, upper[1:], upper[2:], [*upper[3:], ""], strict=False):
        if on == "ON" and event in ("DELETE", "UPDATE") and action in ("CASCADE", "SET"):
            action = action if action == "CASCADE" else f"SET {what}"
            reason = f"a foreign key writes to its rows by {action}, which is in no log"
            yield Defined(Event.UNKNOWN, table, reason=reason)
            return


def _family(rest: Sequence[Token]) -> str:
    """What a column's type has in common with others between which a value stays as it is; empty: it has no other."""
    words = []
    for token in rest[:3]:
        if token.kind != "word":
            break
        words.append(token.upper)
    if not words:
        return ""
    if _BYTES.fullmatch(words[0]):
        return "bytes"
    if _LONG_TEXT.intersection(words):
        return "text"
    if words[0] in _SHORT_TEXT or words[:1] == ["NATIONAL"]:
        return "char"  # without blanks at the end
    return "number" if _WHOLE.fullmatch(words[0]) else ""


def _rounds(rest: Sequence[Token]) -> bool:
    """Whether a type is a FLOAT or DOUBLE with digits behind the point: in a stream it is one without."""
    if not rest or not _FLOAT.fullmatch(rest[0].text):
        return False
    texts = [token.text for token in rest]
    return "(" in texts[1:3] and "," in texts[: texts.index(")")]


def _column(words: _Words, own: Defined) -> None:
    name, rest = words.column(), words.rest
    type_, upper = rest[0].text if rest else "", [token.upper for token in rest]
    if "AS" in upper or "GENERATED" in upper:
        return  # computed
    own.filled[name] = None
    if "AUTO_INCREMENT" in upper or "SERIAL" in upper:
        own.reason = own.reason or f"the column {name} came with its own numbers"
    elif "DEFAULT" in upper:
        value = _literal(rest[upper.index("DEFAULT") + 1 :], type_, _labels(rest))
        if value is not None and _family(rest) == "char":
            value = value.rstrip(" ")
        if value is None and upper[upper.index("DEFAULT") + 1 :][:1] != ["NULL"]:
            own.reason = own.reason or f"the column {name} came with a default that is computed"
        own.filled[name] = value
    elif ("NOT", "NULL") in pairwise(upper) or "PRIMARY" in upper or ("KEY" in upper and "UNIQUE" not in upper):
        own.filled[name] = value = _implicit(type_, _labels(rest))
        if value is None:
            own.reason = own.reason or f"the column {name} came with the value that its type has for NOT NULL"


def _implicit(type_: str, labels: Sequence[str]) -> str | None:
    """What older rows have in a new column that cannot be NULL; None if it is not known."""
    if _WHOLE.fullmatch(type_) or _DECIMAL.fullmatch(type_) or _FLOAT.fullmatch(type_):
        return "0"
    if _TEXT.match(type_):
        return ""
    if _BYTES.fullmatch(type_):
        return "\\x"
    return labels[0] if type_.upper() == "ENUM" and labels else None


def _labels(rest: Sequence[Token]) -> list[str]:
    """The labels of an ENUM; the server keeps no blanks at their ends."""
    if not rest or rest[0].upper != "ENUM":
        return []
    end = next((at for at, token in enumerate(rest) if token == Token(")", "sign")), 0)
    return [token.text.rstrip(" ") for token in rest[:end] if token.kind == "text"]


def _literal(rest: Sequence[Token], type_: str, labels: Sequence[str]) -> str | None:
    """A default that is a literal, and whose text is the value; None for another one."""
    parts = list(rest)
    sign = ""
    if parts and parts[0].kind == "sign" and parts[0].text in "+-":
        sign = parts.pop(0).text.replace("+", "")
    introduced = ""
    if parts and parts[0].kind == "word" and parts[0].text.startswith("_") and len(parts) > 1:
        introduced = parts.pop(0).upper  # the character set of the literal
    if not parts:
        return None
    value = parts[0]
    if _WHOLE.fullmatch(type_) or _DECIMAL.fullmatch(type_):
        fraction = len(parts) > 1 and parts[1] == Token(".", "sign")
        text = "".join(part.text for part in parts[:3]) if fraction else value.text
        if re.fullmatch(r"\d+(?:\.\d+)?" if _DECIMAL.fullmatch(type_) else r"\d+", text):
            return sign + text
        return {"TRUE": "1", "FALSE": "0"}.get(value.upper)
    if value.kind != "text" or (parts[1:2] and parts[1].kind == "text"):
        return None
    if introduced and (introduced in _OTHER_BYTES or not value.text.isascii()):
        return None
    if type_.upper() == "ENUM":
        text = value.text.rstrip(" ")
        return text if text in labels else None
    return value.text if _TEXT.match(type_) else None
