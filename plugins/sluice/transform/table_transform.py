"""The transformation of one table, bound to its columns: rows of the master in, rows of the slave out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.database.column_types import ColumnTypes, LogicalColumn
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.logical_type import Kind, LogicalType
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName
from sluice.model.shape import Column, TableShape
from sluice.model.transformation import Computed, Constant, Excluded, Renamed, Transformation
from sluice.transform import expression, types
from sluice.transform.engine import TEXT, Engine, EngineRefused
from sluice.transform.expression import Expression, ExpressionInvalid

Flags = npt.NDArray[np.bool_]
_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'")
FIRST_NEW = 1_000_000
"""Position of the first column that only slaves have: no database has so many columns."""


class TransformationInvalid(Terminal):
    """What the configuration says of a table does not fit the table; `problems` holds one sentence each."""

    def __init__(self, rule: Transformation, problems: Sequence[str]):
        listed = "\n".join(f"- {problem}" for problem in problems)
        super().__init__(f"{rule.place}: where and columns do not fit the table:\n{listed}\nMend them there.")
        self.rule = rule
        self.problems = tuple(problems)


class RowNotTransformed(Terminal):
    """An expression cannot be computed for a row. Its values are not shown: they may be what the slave must not get."""

    def __init__(self, table: TableName, rule: Transformation, row: str, reason: str):
        super().__init__(
            f"{table}: an expression of {rule.place} cannot be computed for the row {row}: {reason}. Write it so that "
            "it gives a value for this row as well (TRY_CAST gives NULL where CAST fails), or mend the row on the "
            "master."
        )
        self.table = table


@dataclass(frozen=True)
class Rows:
    """Rows of the slave."""

    names: tuple[str, ...]
    columns: list[pa.Array]
    """Texts, one array a column; of all rows that were given."""
    kept: Flags | None
    """Which of them the slave has; None: all."""

    def of_slave(self) -> list[pa.Array]:
        """The columns without the rows that the slave has not."""
        if self.kept is None:
            return self.columns
        mask = pa.array(self.kept)
        return [column.filter(mask) for column in self.columns]


class TableTransform:
    """Made by `bind`."""

    def __init__(
        self,
        rule: Transformation,
        master: TableShape,
        shape: TableShape,
        read: Mapping[str, Expression],
        kinds: Mapping[str, LogicalType],
        results: Mapping[str, LogicalType],
        engine: Engine,
        mask: Mask,
    ):
        """`read`: the expressions, by column, `where` under the empty name. `kinds`: of the master's columns."""
        self.rule = rule
        self.master = master
        self.shape = shape
        """The table as the slave has it."""
        self._engine = engine
        self._mask = mask
        self.used = list(dict.fromkeys(name for each in read.values() for name in each.columns))
        """The master's columns that expressions use."""
        self.filters = "" in read
        """Whether there is a `where`."""
        self._computed = [name for name in read if name]
        selected = [types.to_text(results[name], f"({read[name].text}\n)") for name in self._computed]
        if self.filters:
            selected.append(f"coalesce(({read[''].text}\n), false)")
        self._query = f"SELECT {', '.join(selected)} FROM ({_typed(self.used, kinds)})" if selected else ""

    def with_engine(self, engine: Engine) -> "TableTransform":
        """The same for another thread."""
        other = copy(self)
        other._engine = engine
        return other

    def untouched(self, names: Iterable[str]) -> frozenset[str]:
        """The slave's names of those of the master's columns that reach it as they are."""
        changes = ((name, self.rule.by_name.get(name)) for name in names)
        return frozenset(
            change.name if isinstance(change, Renamed) else name
            for name, change in changes
            if change is None or isinstance(change, Renamed)
        )

    def key(self) -> tuple[str, ...]:
        """The key's columns on the slave."""
        return tuple(column.name for column in self.shape.key)

    def rows(self, names: Sequence[str], values: Sequence[pa.Array]) -> Rows:
        """The slave's rows for rows of the master with the columns `names`, texts.

        Raises `RowNotTransformed`, `TransformationInvalid` where they lack a column that an expression uses.
        """
        by_name = dict(zip(names, values, strict=True))
        made, kept = self.made(by_name, len(values[0]) if values else 0)
        sources = self.sources(names)
        columns = [made[name] if source is None else by_name[source] for name, source in sources]
        return Rows(tuple(name for name, _ in sources), columns, kept)

    def sources(self, names: Sequence[str]) -> list[tuple[str, str | None]]:
        """The slave's columns for rows with the columns `names`, each with the master's one that it is as it is."""
        found: list[tuple[str, str | None]] = []
        for name in names:
            change = self.rule.by_name.get(name)
            if change is None:
                found.append((name, name))
            elif isinstance(change, Renamed):
                found.append((change.name, name))
            elif not isinstance(change, Excluded):
                found.append((name, None))
        own = (name for name, change in self.rule.columns if isinstance(change, Constant | Computed))
        return [*found, *((name, None) for name in own if name not in names)]

    def made(self, by_name: Mapping[str, pa.Array], count: int) -> tuple[dict[str, pa.Array], Flags | None]:
        """The values of constants and expressions by column, and which rows are kept; None: all.

        `by_name`: `count` rows of the master, of the columns `used` and the key at least. Raises as `rows`.
        """
        constants = [(name, change) for name, change in self.rule.columns if isinstance(change, Constant)]
        found = {name: pa.repeat(pa.scalar(change.text, TEXT), count) for name, change in constants}
        if not self._query:
            return found, None
        if lacking := [name for name in self.used if name not in by_name]:
            raise TransformationInvalid(
                self.rule,
                [
                    f"{self.master.table}.{name}: changes wait that were captured when the table had no such column; "
                    "load the table again"
                    for name in lacking
                ],
            )
        # A row without any column is a row: rows are counted by this one.
        used = {f"c{place}": by_name[name] for place, name in enumerate(self.used)} or {"c": pa.nulls(count, TEXT)}
        try:
            columns = self._engine.computed(self._query, used)
        except EngineRefused as error:
            raise self._culprit(used, by_name, count, error) from error
        kept = np.asarray(columns.pop()) if self.filters else None
        return found | dict(zip(self._computed, columns, strict=True)), kept

    def _culprit(
        self, used: Mapping[str, pa.Array], by_name: Mapping[str, pa.Array], count: int, error: EngineRefused
    ) -> RowNotTransformed:
        """Names the first row that cannot be computed."""
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            try:
                self._engine.computed(self._query, {name: column[low:middle] for name, column in used.items()})
                low = middle
            except EngineRefused as earlier:
                high, error = middle, earlier
        table = self.master.table
        key = {column.name: by_name[column.name][low].as_py() for column in self.master.key}
        row = ", ".join(f"{name} = {value!r}" for name, value in self._mask.row(table, key).items())
        return RowNotTransformed(table, self.rule, row or "(without a key)", _VALUE.sub("…", str(error)))


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
    if problems:
        raise TransformationInvalid(rule, [f"{table}{problem}" for problem in problems])
    made = _slave_shape(rule, shape, of_master, session, results)
    return TableTransform(rule, shape, made, read, kinds, results, engine, mask)


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
            (found,) = engine.types(f"SELECT {read.text}\n FROM ({_typed(read.columns, kinds, 'NULL')})")
            if strict:  # a text that is compared with a date, and is none, fails for each row
                nothing = {f"c{place}": pa.nulls(1, TEXT) for place in range(len(read.columns))}
                query = f"SELECT {read.text}\n FROM ({_typed(read.columns, kinds)})"
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
    if rule.columns:
        problems += [
            f".{column.name} is generated by an expression over columns of the master, some of which the slave has "
            "otherwise; exclude it, or write an expression in its place under another name"
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
        if change is None:
            columns.append(column)
        elif isinstance(change, Renamed):
            columns.append(replace(column, name=change.name))
        elif not isinstance(change, Excluded):
            # Values of the slave's own: no default of the master's, and perhaps NULL.
            columns.append(replace(column, default=None, identity="", nullable=True))
    new = [
        LogicalColumn(name, results[name] if isinstance(change, Computed) else LogicalType(Kind.TEXT))
        for name, change in rule.columns
        if name not in known and isinstance(change, Constant | Computed)
    ]
    for place, (column_of, made) in enumerate(zip(new, of_master.made_of(session, new), strict=True)):
        columns.append(Column(column_of.name, made.type, FIRST_NEW + place))
    return replace(shape, columns=tuple(columns))


def _typed(used: Sequence[str], kinds: Mapping[str, LogicalType], value: str = "") -> str:
    """The query of the columns that expressions use, under their names; `value` in place of what is in `rows`."""
    columns = [
        f"{types.from_text(kinds[name], value or f'c{place}')} AS {_quoted(name)}" for place, name in enumerate(used)
    ]
    return f"SELECT {', '.join(columns) or '1'}{'' if value else ' FROM rows'}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
