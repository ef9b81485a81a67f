"""Reads expressions of the configuration and checks them without a table.

An expression gives one value for one row. It uses only columns of the row, and always gives the same, so that loads,
applies and comparisons agree.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from sluice.transform.engine import Engine, EngineRefused, functions

_REFUSED = {
    "SUBQUERY": "it reads another table, and an expression sees one row: take the subquery out",
    "WINDOW": "it looks at other rows, and an expression sees one row: take the window function out",
    "STAR": "`*` stands for all columns: name those that are meant",
    "PARAMETER": "it holds a parameter: write its value",
    "LAMBDA": "it holds its own function: write it out",
    "POSITIONAL_REFERENCE": "it names a column by its number: write its name",
}
"""Class of a part of the syntax tree → why it is refused."""


class ExpressionInvalid(Exception):
    """An expression is refused; the text gives the reason and the remedy."""


@dataclass(frozen=True)
class Expression:
    """An expression that was read."""

    text: str
    columns: tuple[str, ...]
    """The columns that it uses, as written there."""


def read(text: str, engine: Engine) -> Expression:
    """Parses and checks an expression. Raises `ExpressionInvalid`."""
    try:
        tree = engine.syntax(text)
    except EngineRefused as error:
        hint = "a column whose name is a reserved word stands in double quotes, a text in single ones"
        raise ExpressionInvalid(f"it cannot be read: {error} ({hint})") from error
    if text.rstrip().endswith(";"):
        raise ExpressionInvalid("it ends with a semicolon: take that out")
    columns: dict[str, None] = {}
    for part in _parts(_only_value(tree)):
        kind = part.get("class")
        if kind in _REFUSED:
            raise ExpressionInvalid(_REFUSED[str(kind)])
        if kind == "COLUMN_REF":
            names = part["column_names"]
            assert isinstance(names, list)
            if len(names) != 1:
                raise ExpressionInvalid(f"{'.'.join(names)}: write a column's name alone, without its table")
            columns[names[0]] = None
        elif kind == "FUNCTION" and not part["is_operator"]:
            _check_function(str(part["function_name"]), engine)
    return Expression(text, tuple(columns))


def _only_value(tree: dict[str, object]) -> object:
    """The syntax tree of the single value. Raises `ExpressionInvalid` if the text is more than that."""
    statements = tree["statements"]
    assert isinstance(statements, list)
    node = statements[0]["node"]
    values = node.get("select_list", [])
    empty = node.get("from_table", {}).get("type") == "EMPTY"
    clauses = ("where_clause", "having", "qualify", "sample", "group_expressions", "modifiers")
    if len(statements) != 1 or len(values) != 1 or not empty or any(node.get(clause) for clause in clauses):
        raise ExpressionInvalid(
            "it is more than one value: write one expression, without FROM, WHERE, commas or semicolons"
        )
    return values[0]


def _parts(node: object) -> Iterator[dict[str, object]]:
    """All parts of a syntax tree that have a class."""
    if isinstance(node, dict):
        if "class" in node:
            yield node
        for child in node.values():
            yield from _parts(child)
    elif isinstance(node, list):
        for child in node:
            yield from _parts(child)


def _check_function(name: str, engine: Engine, within: tuple[str, ...] = ()) -> None:
    """Raises `ExpressionInvalid` if a function uses other rows, or gives other values at other times."""
    known = functions()
    overloads = known.get(name.lower())
    if overloads is None:
        near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
        raise ExpressionInvalid(f"there is no function {name}" + (f"; did you mean {near[0]}?" if near else ""))
    for function in overloads:
        if function.kind in ("macro", "table_macro") and function.definition is not None:
            if name not in within:
                _check_macro(name, function.definition, engine, within)
        elif function.kind != "scalar":
            raise ExpressionInvalid(f"{name}() is no function of one row: take it out")
        elif not function.stable:
            raise ExpressionInvalid(
                f"{name}() gives another value at another time, and the slave could never be compared with its master: "
                "take it out"
            )


def _check_macro(name: str, definition: str, engine: Engine, within: tuple[str, ...]) -> None:
    try:
        tree = engine.syntax(definition)
    except EngineRefused as error:
        raise ExpressionInvalid(f"{name}() is no function of one row: take it out") from error
    for part in _parts(tree):
        if part.get("class") == "SUBQUERY":
            raise ExpressionInvalid(f"{name}() is no function of one row: take it out")
        if part.get("class") == "FUNCTION" and not part["is_operator"]:
            _check_function(str(part["function_name"]), engine, (*within, name))
