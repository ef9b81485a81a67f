"""What the configuration says of a table, bound to its columns, or refused with everything that does not fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

import pyarrow as pa

from sluice.database.column_types import ColumnTypes, LogicalColumn
from sluice.database.session import Session
from sluice.model.logical_type import Kind, LogicalType
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.shape import Column, TableShape
from sluice.model.transformation import Computed, Constant, Excluded, Renamed, Transformation
from sluice.transform import expression, types
from sluice.transform.engine import TEXT, Engine, EngineRefused
from sluice.transform.expression import Expression, ExpressionInvalid
from sluice.transform.table_transform import TableTransform, TransformationInvalid, typed_query
from sluice.transform.user_exit import ExitRefused, UserExit
from sluice.user_function import FunctionMissing

FIRST_NEW = 1_000_000
"""Position of the first column that only slaves have: no database has so many columns."""


def bind(
    rule: Transformation,
    shape: TableShape,
    of_master: ColumnTypes,
    session: Session,
    engine: Engine,
    mask: Mask = NO_PATTERNS,
    *,
    strict: bool,
) -> TableTransform:
    """The transformation of the master's table `shape`. Raises `TransformationInvalid`.

    `strict`: a line for a column that the table does not have is a mistake, and so is an expression that cannot be
    computed for a row of NULLs; else the table may have lost the column, or may yet get it.
    """
    problems: list[str] = []
    table = shape.table
    kinds = {column.name: of_master.logical(column.type) for column in shape.columns}
    read = _read(rule, shape, engine, problems)
    results: dict[str, LogicalType] = {}
    for name, each in read.items():
        _resolve(name, each, shape, kinds, engine, results, problems, strict)
    if not problems:
        problems += _unfit(rule, shape, kinds, results, engine, mask, strict)
    user_exit = _imported(rule, problems) if rule.exit is not None else None
    if problems:
        raise TransformationInvalid(table, rule, [f"{table}{problem}" for problem in problems])
    made = _slave_shape(rule, shape, of_master, session, results)
    if user_exit is not None and strict:
        try:
            nothing = {column.name: pa.nulls(0, TEXT) for column in made.replicated}
            user_exit.called(nothing, pa.nulls(0, TEXT), [column.name for column in made.key])
        except ExitRefused as error:
            problem = f"{table}: exit {user_exit.name} fails without any row: {error}"
            raise TransformationInvalid(table, rule, [problem]) from error
    return TableTransform(rule, shape, made, read, kinds, results, engine, mask, user_exit)


def _imported(rule: Transformation, problems: list[str]) -> UserExit | None:
    try:
        return UserExit(str(rule.exit))
    except FunctionMissing as error:
        problems.append(f": exit {rule.exit}: {error}")
        return None


def _read(rule: Transformation, shape: TableShape, engine: Engine, problems: list[str]) -> dict[str, Expression]:
    """The expressions by column, `where` under the empty name."""
    texts = {name: change.expression for name, change in rule.columns if isinstance(change, Computed)}
    if rule.where is not None:
        texts[""] = rule.where
    read = {}
    for name, text in texts.items():
        try:
            read[name] = expression.read(text, engine)
        except ExpressionInvalid as error:
            problems.append(f"{_of(name, text)}: {error}")
    return read


def _of(name: str, text: str) -> str:
    return f".{name}: expression `{text}`" if name else f": where `{text}`"


def _resolve(
    name: str,
    read: Expression,
    shape: TableShape,
    kinds: Mapping[str, LogicalType],
    engine: Engine,
    results: dict[str, LogicalType],
    problems: list[str],
    strict: bool,
) -> None:
    """Adds the type of an expression to `results`, or what is wrong with it to `problems`."""
    travelling = [column.name for column in shape.replicated]
    here = _of(name, read.text)
    lacking = [used for used in read.columns if used not in travelling]
    for used in lacking:
        what = "a column that the master generates" if used in kinds else "no column of the master's table"
        problems.append(
            f"{here} uses {used}, which is {what}; {_meant(used, travelling)}, and a text is written '{used}'"
        )
    folded = {used.lower() for used in read.columns}
    if len(folded) < len(read.columns):
        problems.append(f"{here} uses columns whose names differ by capitals only; use one of them")
    elif not lacking:
        try:
            (found,) = engine.types(f"SELECT {read.text}\n FROM ({typed_query(read.columns, kinds, 'NULL')})")
            if strict:  # a text that is compared with a date, and is none, fails for each row
                nothing = {f"c{place}": pa.nulls(1, TEXT) for place in range(len(read.columns))}
                query = f"SELECT {read.text}\n FROM ({typed_query(read.columns, kinds)})"
                engine.computed(query, nothing or {"c": pa.nulls(1, TEXT)})
        except EngineRefused as error:
            listed = ", ".join(f"{used} is {types.typed(kinds[used])}" for used in read.columns)
            problems.append(f"{here} cannot be computed: {error}{' (' + listed + ')' if listed else ''}")
            return
        kind = types.result(found)
        if kind is None:
            problems.append(f"{here} gives {found}, which no column can hold; cast it, e.g. CAST(… AS VARCHAR)")
        elif not name and kind.kind is not Kind.BOOLEAN:
            problems.append(f"{here} gives {found}; write a condition, which is true or false")
        else:
            results[name] = kind


def _unfit(
    rule: Transformation,
    shape: TableShape,
    kinds: Mapping[str, LogicalType],
    results: Mapping[str, LogicalType],
    engine: Engine,
    mask: Mask,
    strict: bool,
) -> list[str]:
    """What `columns` says that the table cannot bear."""
    problems = []
    known = {column.name: column for column in shape.columns}
    for name, change in rule.columns:
        column = known.get(name)
        if column is None:
            if strict and isinstance(change, Excluded | Renamed):
                problems.append(f".{name}: the master's table has no such column; {_meant(name, list(known))}")
            continue
        if column.key and not isinstance(change, Renamed):
            problems.append(
                f".{name} {change}, and is part of the key: by it the slave's rows are found; rename it at most"
            )
        if column.generated and not isinstance(change, Excluded):
            problems.append(f".{name} {change}, and the master generates it; exclude it")
        if isinstance(change, Constant) and change.text is not None:
            problems += _unfit_constant(column, kinds[name], change.text, engine)
        if isinstance(change, Renamed) and mask.hides(shape.table, name) and not mask.hides(shape.table, change.name):
            problems.append(
                f".{name} {change}, and verify.mask hides it under its name on the master alone; name "
                f"{shape.table.schema}.{shape.table.name}.{change.name} there, too"
            )
        if isinstance(change, Computed) and not types.takes(kinds[name], results[name]):
            problems.append(
                f".{name}: the expression gives {types.typed(results[name])}, and the column is {column.type}; "
                + _to_give(kinds[name])
            )
    if rule.columns or rule.exit is not None:
        problems += [
            f".{column.name} is generated by an expression over columns of the master, some of which the slave may "
            "have otherwise; exclude it, or write an expression in its place under another name"
            for column in shape.columns
            if column.generated and column.name not in rule.by_name
        ]
    names = list(_slave_names(rule, shape))
    problems += [f".{name} would be there twice on the slave; rename one of the two" for name in _twice(names)]
    if not names:
        problems.append(": no column is left; take the table out by replicate: false")
    return problems


def _to_give(kind: LogicalType) -> str:
    if kind.kind not in types.TEXTUAL and types.typed(kind) == "VARCHAR":
        return "no expression gives that: exclude the column, and write the expression under another name"
    return f"write CAST(… AS {types.typed(kind)})"


def _meant(wrong: str, names: Sequence[str]) -> str:
    folded = {name.lower(): name for name in names}
    near = get_close_matches(wrong.lower(), folded, n=1, cutoff=0.6)
    return f"did you mean {folded[near[0]]}?" if near else f"there are {', '.join(names)}"


def _unfit_constant(column: Column, kind: LogicalType, text: str, engine: Engine) -> list[str]:
    """Why a column of the master's type cannot hold it, as far as the engine knows the type."""
    literal = "'" + text.replace("'", "''") + "'"
    try:
        engine.rows(f"SELECT {types.from_text(kind, f'CAST({literal} AS VARCHAR)')}")
    except EngineRefused:
        return [f".{column.name}: the constant {text!r} is no {column.type}; write a value of that type"]
    return []


def _slave_names(rule: Transformation, shape: TableShape) -> Iterable[str]:
    for column in shape.columns:
        change = rule.by_name.get(column.name)
        if not isinstance(change, Excluded):
            yield change.name if isinstance(change, Renamed) else column.name
    known = {column.name for column in shape.columns}
    for name, change in rule.columns:
        if name not in known and isinstance(change, Constant | Computed):
            yield name


def _twice(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _slave_shape(
    rule: Transformation,
    shape: TableShape,
    of_master: ColumnTypes,
    session: Session,
    results: Mapping[str, LogicalType],
) -> TableShape:
    """The table as the slave has it, in the words of the master's vendor."""
    columns: list[Column] = []
    known = {column.name for column in shape.columns}
    for column in shape.columns:
        change = rule.by_name.get(column.name)
        if isinstance(change, Excluded):
            continue
        if isinstance(change, Constant | Computed) or (rule.exit is not None and not column.key):
            # Values of the slave's own: no default of the master's, and perhaps NULL.
            column = replace(column, default=None, identity="", nullable=True)
        columns.append(replace(column, name=change.name) if isinstance(change, Renamed) else column)
    new = [
        LogicalColumn(name, results[name] if isinstance(change, Computed) else LogicalType(Kind.TEXT))
        for name, change in rule.columns
        if name not in known and isinstance(change, Constant | Computed)
    ]
    for place, (column_of, made) in enumerate(zip(new, of_master.made_of(session, new), strict=True)):
        columns.append(Column(column_of.name, made.type, FIRST_NEW + place))
    return replace(shape, columns=tuple(columns))
