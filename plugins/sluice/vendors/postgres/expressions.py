"""Whether a PostgreSQL slave runs an expression of the master's definitions automatically.

An account that may change a table on the master writes its defaults, checks and generated columns, and the slave would
run them with the rights of Sluice's account there. So only expressions are run that call nothing but immutable
functions and operators: PostgreSQL's own, and those in C of extensions, which only a superuser can make.
PostgreSQL itself says what an expression calls: it parses it into the action of a rule on a temporary table, in a
savepoint that is rolled back. That plans and evaluates nothing; names, overloads, operators and implicit casts are
resolved as in the statement that would follow.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from sluice import sql_files
from sluice.database.session import Session
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.names import TableName
from sluice.model.shape import Column
from sluice.vendors.postgres.connection import native, quoted

DEFAULTS_ONLY = (
    "now",
    "transaction_timestamp",
    "statement_timestamp",
    "clock_timestamp",
    "timeofday",
    "timezone",
    "age",
    "date_add",
    "date_part",
    "date_subtract",
    "date_trunc",
    "extract",
    "make_timestamptz",
    "to_char",
    "to_date",
    "to_timestamp",
    "concat",
    "concat_ws",
    "format",
    "nextval",
    "gen_random_uuid",
    "uuidv4",
    "uuidv7",
    "random",
    "random_normal",
)
"""PostgreSQL's own functions that defaults may call besides the immutable ones: clocks, random values, sequences, and
what writes them as text. They read no rows and no files."""

RESTART_UPDATE = "start initial_update again"
"""What a person does in Airflow: an initial update that has failed is over, and its tasks cannot be cleared."""

# Names of nodes up to PostgreSQL 15, and from 16 on. What is not listed is refused: subqueries, aggregates, XML, JSON.
_NODES = frozenset(
    re.findall(
        r"\w+",
        "QUERY RTE RANGETBLENTRY RTEPERMISSIONINFO ALIAS FROMEXPR RANGETBLREF TARGETENTRY "
        "VAR CONST FUNCEXPR NAMEDARGEXPR OPEXPR DISTINCTEXPR NULLIFEXPR SCALARARRAYOPEXPR BOOLEXPR FIELDSELECT "
        "RELABELTYPE COERCEVIAIO ARRAYCOERCEEXPR COLLATE COLLATEEXPR CASE CASEEXPR WHEN CASEWHEN CASETESTEXPR "
        "ARRAY ARRAYEXPR ROW ROWEXPR ROWCOMPARE ROWCOMPAREEXPR COALESCE COALESCEEXPR MINMAX MINMAXEXPR NULLTEST "
        "BOOLEANTEST COERCETODOMAIN COERCETODOMAINVALUE SUBSCRIPTINGREF",
    )
)
_NODES_OF_DEFAULTS = _NODES | {"SQLVALUEFUNCTION"}
"""Besides CURRENT_TIMESTAMP, CURRENT_USER and the like."""

# A brace, parenthesis or space in a name of the application is escaped with a backslash, so these find every node and
# every field; a name that looks like a field can only add something to look at.
_NODE = re.compile(r"(?:^|(?<=[ (]))\{([A-Z_0-9]+)")
_FUNCTION = re.compile(r":(?:\w*funcid|\w+fnoid) (\d+)")
_OPERATOR = re.compile(r":opno (\d+)")
_OPERATORS = re.compile(r":opnos \(o((?: \d+)*)\)")
_TYPE = re.compile(r":\w*type(?:id)? (\d+)", re.IGNORECASE)


class ExpressionRefused(Terminal):
    """The slave does not run a statement automatically, because of what its expressions call.

    `by_hand`: it is recognized as done after a person ran it. `again`: what continues afterwards.
    """

    def __init__(
        self,
        subject: TableName | str,
        statement: str,
        reason: str,
        *,
        by_hand: bool = True,
        again: str = RESTART_APPLY,
    ):
        run = (
            "Read it. If it is harmless, run it on the slave as Sluice's account there (SET ROLE), or"
            if by_hand
            else "Read it. If it is harmless,"
        )
        super().__init__(
            f"{subject}: Sluice does not run this definition of the master automatically: {reason}. The statement "
            f"was: {statement}. {run} say trusted_ddl: true for this slave: then those who may change tables on the "
            f"master run what they like with the rights of the slave's account. Afterwards {again}."
        )
        self.statement = statement
        self.reason = reason


_NAME = r'(?:[a-z_][a-z0-9_$]*|"(?:[^"\x00]|"")+")'
_QUALIFIED = rf"{_NAME}(?:\.{_NAME})?"
_WORDS = r"(?: (?:with|without|time|zone|varying|precision|year|month|day|hour|minute|second|to))*"
_TYPE_TEXT = re.compile(rf"{_QUALIFIED}{_WORDS}(?: ?\([\w ,.+-]*\))?{_WORDS}(?:\[\])*", re.ASCII)
"""A type as format_type() writes it."""
_HASH_KEY = re.compile(rf"HASH \({_NAME}(?:, {_NAME})*\)", re.ASCII)


def definition_unreadable(what: str, text: str) -> Terminal:
    """A text of the master that must be a name or a type is anything else. It does not become part of a statement."""
    return Terminal(
        f"The master's definition has {text!r} for {what}, which is none. Nobody but Sluice should write to "
        "ITEMS or to the files of a stream: find out who did. Then start an initial update of the table.",
        code="definition-unreadable",
    )


def type_of(column: Column) -> str:
    """The column's type with its collation, as CREATE TABLE takes it. Raises `definition-unreadable`."""
    if not _TYPE_TEXT.fullmatch(column.type):
        raise definition_unreadable(f"the type of column {column.name}", column.type)
    if not column.collation:
        return column.type
    if not re.fullmatch(_QUALIFIED, column.collation, re.ASCII):
        raise definition_unreadable(f"the collation of column {column.name}", column.collation)
    return f"{column.type} COLLATE {column.collation}"


def hash_key(text: str) -> str:
    """`HASH (column, …)`, as PARTITION BY takes it. Raises `definition-unreadable`."""
    if not _HASH_KEY.fullmatch(text):
        raise definition_unreadable("a hash key", text)
    return text


def row_of(columns: Iterable[Column]) -> list[str]:
    """The columns as `Examiner.evaluated` takes them."""
    return [f"{quoted(column.name)} {type_of(column)}" for column in columns]


class Examiner:
    """Examines expressions on one slave. Its methods say why not, empty if the slave runs them.

    `trusted`: everything is run. They raise psycopg's errors where PostgreSQL cannot parse an expression.
    """

    def __init__(self, connection: Session, *, trusted: bool = False):
        self.connection = connection
        self.trusted = trusted

    def default(self, text: str, column: Column) -> str:
        return self._examine(text, type_of(column), (), "", default=True)

    def evaluated(self, text: str, row: Sequence[str], name: str, *, type_: str | None = None) -> str:
        """Checks an expression that is evaluated for rows.

        `row`: its columns, as for CREATE TABLE. `name`: of the table. `type_`: the type to which the value is assigned,
        with its collation; None: the expression keeps its own type.
        """
        expression = f"({text}) IS NOT NULL" if type_ is None else text
        return self._examine(expression, type_ or "boolean", row, name)

    def types(self, names: Collection[str]) -> str:
        """Checks the checks and defaults of types, mostly of domains, and their casts from and to text."""
        if self.trusted or not names:
            return ""
        rows = self.connection.execute(
            "SELECT n::pg_catalog.regtype::oid::text FROM unnest(%s::text[]) AS u (n)", [list(dict.fromkeys(names))]
        ).fetchall()
        return self._of_calls((), (), [oid for (oid,) in rows], set(), default=True)

    def query(self, tree: str) -> str:
        """Checks the parsed query of a view: it may call only what is safe."""
        if self.trusted:
            return ""
        operators = _OPERATOR.findall(tree) + " ".join(_OPERATORS.findall(tree)).split()
        return self._of_calls(_FUNCTION.findall(tree), operators, _TYPE.findall(tree), set(), default=True)

    def _examine(self, text: str, type_: str, row: Sequence[str], name: str, *, default: bool = False) -> str:
        if self.trusted:
            return ""
        value = quoted("sluice: value")
        columns = ", ".join([*row, f"{value} {type_}"])
        with native(self.connection).transaction(force_rollback=True):
            self.connection.execute(f"CREATE TEMPORARY TABLE sluice_expression ({columns})".encode())
            self.connection.execute(
                "CREATE RULE sluice AS ON DELETE TO pg_temp.sluice_expression DO ALSO "
                f"UPDATE pg_temp.sluice_expression AS {quoted(name or 'sluice_row')} SET {value} = ({text})".encode()
            )
            first = self.connection.execute(sql_files.render("postgres", "expression_tree")).fetchone()
            assert first is not None
            tree = str(first[0])
            if len(re.findall(r"\{(?:QUERY|TARGETENTRY) ", tree)) != 2:
                return "it is more than one expression"
            return self._of_tree(tree, set(), default=default)

    def _of_tree(self, tree: str, seen: set[str], *, default: bool) -> str:
        strange = sorted(set(_NODE.findall(tree)) - (_NODES_OF_DEFAULTS if default else _NODES))
        if strange:
            return f"an expression has what only a person can judge ({', '.join(strange).lower()})"
        operators = _OPERATOR.findall(tree) + " ".join(_OPERATORS.findall(tree)).split()
        return self._of_calls(_FUNCTION.findall(tree), operators, _TYPE.findall(tree), seen, default=default)

    def _of_calls(
        self, functions: Sequence[str], operators: Sequence[str], types: Sequence[str], seen: set[str], *, default: bool
    ) -> str:
        """`seen`: trees of domains, each of which names its own type."""
        rows = self.connection.execute(
            sql_files.render("postgres", "expression_calls"),
            {
                "functions": list(functions),
                "operators": list(operators),
                "types": list(types),
                "harmless": list(DEFAULTS_ONLY) if default else [],
            },
        ).fetchall()
        called = sorted({text for kind, text in rows if kind == "function"})
        if called:
            allowed = "no immutable function of PostgreSQL's own, or in C of an extension"
            return f"an expression calls {', '.join(called)}, which is {allowed}"
        casts = sorted({text for kind, text in rows if kind == "cast"})
        if casts:
            return f"texts become values of a type, or values texts, by the function {', '.join(casts)}"
        for kind, tree in rows:
            if tree not in seen:
                seen.add(tree)
                reason = self._of_tree(tree, seen, default=kind == "default")
                if reason:
                    return f"in a domain, {reason}"
        return ""
