"""Checks a rule of the configuration against the columns of its table, and creates the table's transformation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from sluice.transform.table_transform import CheckedRule, TableTransform, TransformationInvalid, typed_query
from sluice.transform.user_exit import ExitRefused, UserExit
from sluice.user_function import FunctionMissing

FIRST_NEW = 1_000_000
"""Position of the first column that only slaves have; no database has so many columns."""


@dataclass(frozen=True)
class Binder:
    """Makes the transformations of a master's tables. `types`: of its columns. `session`: on the master."""

    types: ColumnTypes
    session: Session
    engine: Engine
    mask: Mask = NO_PATTERNS

    def bind(self, rule: Transformation, shape: TableShape, *, strict: bool) -> TableTransform:
        """The transformation of the table `shape`. Raises `TransformationInvalid` with everything that is wrong.

        `strict`: refuses lines for columns that the table does not have, and expressions that cannot be computed for a
        row of NULLs. Otherwise the table may have lost the column, or may get it later.
        """
        column_types = {column.name: self.types.logical(column.type) for column in shape.columns}
        check = _Check(rule, shape, column_types, self.engine, strict)
        check.read_expressions()
        for name in check.expressions:
            check.find_type(name)
        extra_key: Mapping[str, LogicalType] = {}
        if not check.problems:
            check.check_columns(self.mask)
            extra_key = check.extra_key()
        user_exit = check.imported_exit(extra_key) if rule.exit is not None else None
        if check.problems:
            raise TransformationInvalid(shape.table, rule, [f"{shape.table}{problem}" for problem in check.problems])
        slave_shape = _slave_shape(rule, shape, self.types, self.session, check.results)
        if user_exit is not None and strict:
            try:
                no_rows = {column.name: pa.nulls(0, TEXT) for column in slave_shape.replicated}
                key = [column.name for column in slave_shape.key if column.name not in extra_key]
                user_exit.called(no_rows, pa.nulls(0, TEXT), key)
            except ExitRefused as error:
                problem = f"{shape.table}: exit {user_exit.name} fails without any row: {error}"
                raise TransformationInvalid(shape.table, rule, [problem]) from error
        checked = CheckedRule(rule, shape, check.column_types, check.expressions, check.results)
        return TableTransform(checked, slave_shape, self.engine, self.mask, user_exit)


@dataclass
class _Check:
    """One rule, its table, and what the check has found so far."""

    rule: Transformation
    shape: TableShape
    column_types: Mapping[str, LogicalType]
    engine: Engine
    strict: bool
    expressions: dict[str, Expression] = field(default_factory=dict)
    """The expressions by column; `where` has the empty name."""
    results: dict[str, LogicalType] = field(default_factory=dict)
    """The types of the expressions, by column."""
    problems: list[str] = field(default_factory=list)

    def read_expressions(self) -> None:
        """Fills `expressions`."""
        texts = {name: change.expression for name, change in self.rule.columns if isinstance(change, Computed)}
        if self.rule.where is not None:
            texts[""] = self.rule.where
        for name, text in texts.items():
            try:
                self.expressions[name] = expression.read(text, self.engine)
            except ExpressionInvalid as error:
                self.problems.append(f"{_of(name, text)}: {error}")

    def imported_exit(self, extra_key: Mapping[str, LogicalType]) -> UserExit | None:
        try:
            return UserExit(str(self.rule.exit), extra_key)
        except FunctionMissing as error:
            self.problems.append(f": exit {self.rule.exit}: {error}")
            return None

    def find_type(self, name: str) -> None:
        """Adds the type of one expression to `results`, or its faults to `problems`."""
        read = self.expressions[name]
        replicated = [column.name for column in self.shape.replicated]
        subject = _of(name, read.text)
        lacking = [used for used in read.columns if used not in replicated]
        for used in lacking:
            what = (
                "a column that the master generates" if used in self.column_types else "no column of the master's table"
            )
            self.problems.append(
                f"{subject} uses {used}, which is {what}; {_suggestion(used, replicated)}, "
                f"and a text is written '{used}'"
            )
        folded = {used.lower() for used in read.columns}
        if len(folded) < len(read.columns):
            self.problems.append(f"{subject} uses columns whose names differ by capitals only; use one of them")
        elif not lacking:
            try:
                (type_name,) = self.engine.types(
                    f"SELECT {read.text}\n FROM ({typed_query(read.columns, self.column_types, 'NULL')})"
                )
                if self.strict:  # a text that is compared with a date, and is none, fails for each row
                    nulls = {f"c{number}": pa.nulls(1, TEXT) for number in range(len(read.columns))}
                    query = f"SELECT {read.text}\n FROM ({typed_query(read.columns, self.column_types)})"
                    self.engine.computed(query, nulls or {"c": pa.nulls(1, TEXT)})
            except EngineRefused as error:
                listed = ", ".join(f"{used} is {types.typed(self.column_types[used])}" for used in read.columns)
                self.problems.append(f"{subject} cannot be computed: {error}{' (' + listed + ')' if listed else ''}")
                return
            kind = types.result(type_name)
            if kind is None:
                self.problems.append(
                    f"{subject} gives {type_name}, which no column can hold; cast it, e.g. CAST(… AS VARCHAR)"
                )
            elif not name and kind.kind is not Kind.BOOLEAN:
                self.problems.append(f"{subject} gives {type_name}; write a condition, which is true or false")
            else:
                self.results[name] = kind

    def check_columns(self, mask: Mask) -> None:
        """Adds to `problems` what the lines of `columns` demand and the table does not allow."""
        known = {column.name: column for column in self.shape.columns}
        for name, change in self.rule.columns:
            column = known.get(name)
            if column is None:
                if self.strict and isinstance(change, Excluded | Renamed):
                    self.problems.append(
                        f".{name}: the master's table has no such column; {_suggestion(name, list(known))}"
                    )
                continue
            if column.key and not isinstance(change, Renamed):
                self.problems.append(
                    f".{name} {change}, and is part of the key: by it the slave's rows are found; rename it at most"
                )
            if column.generated and not isinstance(change, Excluded):
                self.problems.append(f".{name} {change}, and the master generates it; exclude it")
            if isinstance(change, Constant) and change.text is not None:
                self.problems += _unfit_constant(column, self.column_types[name], change.text, self.engine)
            if (
                isinstance(change, Renamed)
                and mask.hides(self.shape.table, name)
                and not mask.hides(self.shape.table, change.name)
            ):
                self.problems.append(
                    f".{name} {change}, and verify.mask hides it under its name on the master alone; name "
                    f"{self.shape.table.schema}.{self.shape.table.name}.{change.name} there, too"
                )
            if isinstance(change, Computed) and not types.takes(self.column_types[name], self.results[name]):
                given = types.typed(self.results[name])
                self.problems.append(
                    f".{name}: the expression gives {given}, and the column is {column.type}; "
                    + _remedy(self.column_types[name])
                )
        if self.rule.columns or self.rule.exit is not None:
            self.problems += [
                f".{column.name} is generated by an expression over columns of the master, some of which the slave may "
                "have otherwise; exclude it, or write an expression in its place under another name"
                for column in self.shape.columns
                if column.generated and column.name not in self.rule.by_name
            ]
        names = list(_slave_names(self.rule, self.shape))
        self.problems += [
            f".{name} would be there twice on the slave; rename one of the two" for name in _duplicates(names)
        ]
        if not names:
            self.problems.append(": no column is left; take the table out by replicate: false")

    def extra_key(self) -> dict[str, LogicalType]:
        """The types of the columns of `extra_key`; adds to `problems` what cannot be part of a key."""
        kinds = {
            self.rule.name_on_slave(name): kind
            for name, kind in self.column_types.items()
            if not isinstance(self.rule.by_name.get(name), Excluded)
        }
        new = (name for name, change in self.rule.columns if isinstance(change, Constant | Computed))
        kinds |= {name: self.results.get(name, LogicalType(Kind.TEXT)) for name in new if name not in kinds}
        of_master = {self.rule.name_on_slave(column.name) for column in self.shape.key}
        if self.rule.extra_key and self.shape.keyless:
            self.problems.append(
                ": extra_key follows the key of the master's table, and it has none: by it the slave's rows are found"
            )
        for name in self.rule.extra_key:
            if name not in kinds:
                self.problems.append(
                    f": extra_key names {name}, which is no column of the slave's table; "
                    + _suggestion(name, [each for each in kinds if each not in of_master])
                )
            elif name in of_master or self.rule.extra_key.count(name) > 1:
                self.problems.append(f": extra_key names {name}, which is in the key already; take it out")
            elif kinds[name].kind not in (Kind.INTEGER, Kind.TEXT):
                self.problems.append(
                    f": extra_key names {name}, which is neither a text nor a whole number: one value may have several "
                    "texts; name a new column under columns, e.g. with expression: '0'"
                )
        return {name: kinds[name] for name in self.rule.extra_key if name in kinds}


def _of(name: str, text: str) -> str:
    return f".{name}: expression `{text}`" if name else f": where `{text}`"


def _remedy(kind: LogicalType) -> str:
    if kind.kind not in types.TEXTUAL and types.typed(kind) == "VARCHAR":
        return "no expression gives that: exclude the column, and write the expression under another name"
    return f"write CAST(… AS {types.typed(kind)})"


def _suggestion(wrong: str, names: Sequence[str]) -> str:
    folded = {name.lower(): name for name in names}
    near = get_close_matches(wrong.lower(), folded, n=1, cutoff=0.6)
    return f"did you mean {folded[near[0]]}?" if near else f"there are {', '.join(names)}"


def _unfit_constant(column: Column, kind: LogicalType, text: str, engine: Engine) -> list[str]:
    """Why a column of the master's type cannot hold the constant; empty if it can, or if the engine does not know
    the type."""
    literal = "'" + text.replace("'", "''") + "'"
    try:
        engine.rows(f"SELECT {types.from_text(kind, f'CAST({literal} AS VARCHAR)')}")
    except EngineRefused:
        return [f".{column.name}: the constant {text!r} is no {column.type}; write a value of that type"]
    return []


def _slave_names(rule: Transformation, shape: TableShape) -> Iterable[str]:
    for column in shape.columns:
        if not isinstance(rule.by_name.get(column.name), Excluded):
            yield rule.name_on_slave(column.name)
    known = {column.name for column in shape.columns}
    for name, change in rule.columns:
        if name not in known and isinstance(change, Constant | Computed):
            yield name


def _duplicates(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _slave_shape(
    rule: Transformation,
    shape: TableShape,
    of_master: ColumnTypes,
    session: Session,
    results: Mapping[str, LogicalType],
) -> TableShape:
    """The slave's table, with types of the master's vendor."""
    columns: list[Column] = []
    known = {column.name for column in shape.columns}
    for column in shape.columns:
        change = rule.by_name.get(column.name)
        if isinstance(change, Excluded):
            continue
        if isinstance(change, Constant | Computed) or (rule.exit is not None and not column.key):
            # The slave has other values: without the master's default, and perhaps NULL.
            column = replace(column, default=None, identity="", nullable=True)
        columns.append(replace(column, name=rule.name_on_slave(column.name)))
    new = [
        LogicalColumn(name, results[name] if isinstance(change, Computed) else LogicalType(Kind.TEXT))
        for name, change in rule.columns
        if name not in known and isinstance(change, Constant | Computed)
    ]
    for index, (column_of, made) in enumerate(zip(new, of_master.made_of(session, new), strict=True)):
        columns.append(Column(column_of.name, made.type, FIRST_NEW + index))
    number_of = {name: index for index, name in enumerate(rule.extra_key, start=len(shape.key) + 1)}
    return replace(
        shape,
        columns=tuple(
            replace(column, key=number_of[column.name], nullable=False) if column.name in number_of else column
            for column in columns
        ),
    )
