"""Canonical texts of PostgreSQL's values, and digests over them: for comparisons with another vendor's tables.

docs/types.md says what the texts are.
"""

from collections.abc import Sequence

from sluice.model.logical_type import Kind, LogicalType
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.digest import Digest
from sluice.vendors.postgres.key_order import value_text

SHOWN = frozenset(
    {Kind.INTEGER, Kind.NUMBER, Kind.FLOAT, Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE}
    | {Kind.UUID}
)
"""Kinds whose texts are short, never empty and have no comma: they are in a row's text as they are."""
_SHORTEST = (
    # Of whole numbers that lie in the middle between two doubles, PostgreSQL takes none for the text of either, and
    # writes more digits than other servers. They are all among these numbers.
    "(SELECT CASE WHEN abs(w.x) BETWEEN 9007199254740992 AND 1e40 THEN"
    " CASE WHEN w.c15::float8 = w.x THEN w.c15 WHEN w.c16::float8 = w.x THEN w.c16 ELSE w.x::text END"
    " ELSE w.x::text END AS t"
    " FROM (SELECT u.x, btrim(to_char(u.x::text::numeric, '9.99999999999999EEEE')) AS c15,"
    " btrim(to_char(u.x::text::numeric, '9.999999999999999EEEE')) AS c16 FROM (SELECT ({0}) AS x) AS u) AS w)"
)
_FLOAT = (
    # m: the digits and the point, e: the power of ten of what PostgreSQL writes.
    "(SELECT CASE WHEN f.t ~ '[NI]' THEN f.t WHEN f.d = '' THEN '0' ELSE"
    " CASE WHEN left(f.t, 1) = '-' THEN '-' ELSE '' END"
    " || rtrim(f.d, '0') || 'E' || f.e - length(split_part(f.m, '.', 2)) + length(f.d) - length(rtrim(f.d, '0')) END"
    " FROM (SELECT x.t, x.m, ltrim(replace(x.m, '.', ''), '0') AS d,"
    " coalesce(nullif(split_part(x.t, 'e', 2), ''), '0')::int AS e"
    " FROM (SELECT v.t, ltrim(split_part(v.t, 'e', 1), '-') AS m FROM " + _SHORTEST + " AS v) AS x) AS f)"
)
_HASH_DIGITS = 15


def canonical(own: str, logical: LogicalType, expression: str) -> str:
    """The canonical text of a value of the type `own` as one of a logical type."""
    kind = logical.kind
    if kind is Kind.NUMBER:
        number = f"({expression})::numeric"
        rounded = f"round({number}, {logical.scale or 0})"
        return f"({rounded if logical.precision is not None else f'trim_scale({number})'})::text"
    if kind is Kind.INTEGER and own == "boolean":
        return f"({expression})::int::text"
    if kind is Kind.FLOAT:
        return _FLOAT.format(expression if own in ("real", "double precision") else f"({expression})::float8")
    if kind is Kind.CHAR:
        return f"rtrim({value_text(own, expression)}, ' ')"
    if kind is Kind.BINARY:
        return f"'\\x' || encode({expression}, 'hex')"
    if kind is Kind.TIME:
        return f"to_char(({expression})::interval, 'HH24:MI:SS.US')"
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_ZONE):
        zoned = own.startswith("timestamp") and own.endswith("with time zone")
        time = f"(({expression}) AT TIME ZONE 'UTC')" if zoned else f"({expression})::timestamp"
        return (
            f"CASE WHEN isfinite({time}) AND {time} >= '0001-01-01' "
            f"THEN to_char({time}, 'YYYY-MM-DD HH24:MI:SS.US') ELSE {time}::text END"
        )
    return value_text(own, expression)


class CanonicalDigest(Digest):
    """Digests over canonical texts, alike on every vendor; the compared types are logical ones."""

    def key_types(self) -> dict[str, str]:
        return {column.name: column.type for column in self.shape.key}

    def texts(self, names: Sequence[str]) -> list[str]:
        logical = {column.name: column.logical for column in self.columns}
        return [canonical(self.shape.column(name).type, logical[name], f"t.{quoted(name)}") for name in names]

    def as_compared(self, name: str, expression: str) -> str:
        logical = next(column.logical for column in self.columns if column.name == name)
        own = self.shape.column(name).type
        # Not as a value of a type of the database's own: its owner could have made checks of it.
        read_as = own if "." not in own else "bytea" if logical.kind is Kind.BINARY else "text"
        return canonical(own, logical, f"({expression})::{read_as}")

    def row(self) -> str:
        return _number(self._joined([column.name for column in self.columns]), 1)

    def block(self) -> str:
        if self.bounds or self.classes == 1 or not self.key:
            return super().block()
        return f"({_number(self._joined(self.key), 1 + _HASH_DIGITS)} & {self.classes - 1})"

    def _joined(self, names: Sequence[str]) -> str:
        """The text of these columns of a row."""
        kinds = {column.name: column.logical.kind for column in self.columns}
        parts = []
        for name, text in zip(names, self.texts(names), strict=True):
            parts += [text if kinds[name] in SHOWN else f"md5(convert_to({text}, 'UTF8'))", "','"]
        # A function takes 100 arguments.
        pieces = [f"concat({', '.join(parts[start : start + 90])})" for start in range(0, len(parts), 90)]
        return " || ".join(pieces) or "''"


def _number(text: str, first: int) -> str:
    """The number that digits of the MD5 of a text are, from the `first` on."""
    return f"('x0' || substr(md5(convert_to({text}, 'UTF8')), {first}, {_HASH_DIGITS}))::bit(64)::bigint"
