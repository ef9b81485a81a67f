"""The transformation of one table: computes the slave's rows from the master's."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.counted import counted
from sluice.database.errors import TableFailure
from sluice.database.items import one_array
from sluice.errors import RESTART_APPLY
from sluice.model.logical_type import Kind, LogicalType
from sluice.model.mask import Mask
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.model.transformation import Computed, Constant, Excluded, Renamed, Transformation
from sluice.transform import types
from sluice.transform.engine import TEXT, Engine, EngineRefused
from sluice.transform.expression import Expression
from sluice.transform.user_exit import READ, ExitRefused, UserExit

Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
Texts: TypeAlias = pa.Array | pa.ChunkedArray
MOST_NAMED = 100
"""The most rows that an error names: where more fail, the rows are not the cause."""
_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'")


class TransformationInvalid(TableFailure):
    """A rule of the configuration does not fit its table; `problems` holds a sentence for each fault."""

    def __init__(self, table: TableName, rule: Transformation, problems: Sequence[str]):
        listed = "\n".join(f"- {problem}" for problem in problems)
        super().__init__(table, f"{rule.place}: what is said there does not fit the table:\n{listed}\nMend it there.")
        self.rule = rule
        self.problems = tuple(problems)


class RowNotTransformed(TableFailure):
    """An expression cannot be computed for some rows, or a user exit fails for them.

    The text does not show their values, as these may be secret from the slave.
    """

    def __init__(
        self,
        table: TableName,
        keys: Sequence[Mapping[str, str | None]],
        mask: Mask,
        what: str,
        reason: str,
        remedy: str,
    ):
        """`keys`: of the rows on the master, by column; empty if no single row fails. `what` fails for them."""
        shown = [", ".join(f"{name} = {value!r}" for name, value in mask.row(table, key).items()) for key in keys]
        rows = f"the row {shown[0] or '(without a key)'}" if shown else "rows that come together"
        more = f" and {counted(len(shown) - 1, 'more row')}" if len(shown) > 1 else ""
        self.finding = f"{table}: {what} for {rows}{more}: {reason}"
        super().__init__(table, f"{self.finding}. {remedy}")
        self.keys = tuple(keys)


@dataclass(frozen=True)
class Rows:
    """The slave's rows."""

    names: tuple[str, ...]
    columns: list[pa.Array]
    """Texts, one array a column."""
    made_of: Places
    """For each of them the place of the master's row of which it is made, in ascending order."""


@dataclass(frozen=True)
class CheckedRule:
    """A rule of the configuration that fits its table."""

    rule: Transformation
    master: TableShape
    column_types: Mapping[str, LogicalType]
    """The types of the master's columns."""
    expressions: Mapping[str, Expression]
    """The expressions by column; `where` has the empty name."""
    results: Mapping[str, LogicalType]
    """The types of the expressions, by column."""


class TableTransform:
    """Transforms rows of one table of the master to the slave's; made by `bind`."""

    def __init__(self, checked: CheckedRule, shape: TableShape, engine: Engine, mask: Mask, user_exit: UserExit | None):
        self.rule = checked.rule
        self.master = checked.master
        self.shape = shape
        """The slave's table."""
        self._engine = engine
        self._mask = mask
        self._exit = user_exit
        expressions = checked.expressions
        self.used = list(dict.fromkeys(name for each in expressions.values() for name in each.columns))
        """The master's columns that expressions use."""
        self._needed = {*self.used, *(column.name for column in self.master.key)}
        self._where = "" in expressions
        self.filters = self._where or user_exit is not None
        """Whether the slave may lack rows of the master."""
        self.extra_key = self.rule.extra_key
        """The last columns of the slave's key, which tell apart the rows that are made of one."""
        kinds = (checked.column_types[column.name].kind for column in self.master.key)
        self.padded = frozenset(name for name, kind in zip(self.key(), kinds, strict=False) if kind is Kind.CHAR)
        """Columns of the key whose values have blanks at their end, which a GUID lacks."""
        self._computed = [name for name in expressions if name]
        selected = [types.to_text(checked.results[name], f"({expressions[name].text}\n)") for name in self._computed]
        if self._where:
            selected.append(f"coalesce(({expressions[''].text}\n), false)")
        source = typed_query(self.used, checked.column_types)
        self._query = f"SELECT {', '.join(selected)} FROM ({source})" if selected else ""

    def with_engine(self, engine: Engine) -> "TableTransform":
        """A copy for another thread, with the engine of that thread."""
        other = copy(self)
        other._engine = engine  # noqa: SLF001
        return other

    def untouched(self, names: Iterable[str]) -> frozenset[str]:
        """The slave's names of those of the master's columns whose values are not changed."""
        return frozenset(name for name, source in self.sources(list(names)) if source is not None)

    def needs(self, name: str) -> bool:
        """Whether `made` uses the values of this column of the master."""
        return self._exit is not None or name in self._needed

    def key(self) -> tuple[str, ...]:
        """The names of the key's columns on the slave."""
        return tuple(column.name for column in self.shape.key)

    def master_key(self) -> tuple[str, ...]:
        """The names of the master's key on the slave."""
        return self.key()[: len(self.master.key)]

    def rows(self, names: Sequence[str], values: Sequence[pa.Array], actions: pa.Array | None = None) -> Rows:
        """Transforms rows of the master, which have the columns `names`, as texts. `actions`: as of `made`.

        Raises `RowNotTransformed`; `TransformationInvalid` where a column that an expression uses is missing.
        """
        by_name, count = dict(zip(names, values, strict=True)), len(values[0]) if values else 0
        made, kept = self._computed_columns(by_name, count)
        sources = self._sources(names)
        columns = {name: made[name] if source is None else by_name[source] for name, source in sources}
        made_of = np.arange(count) if kept is None else np.flatnonzero(kept)
        if self._exit is not None:
            made_of, columns = self._through_exit(self._exit, columns, by_name, made_of, actions)
        elif kept is not None:
            columns = {name: column.take(pa.array(made_of)) for name, column in columns.items()}
        return Rows(tuple(name for name, _ in sources), [columns[name] for name, _ in sources], made_of)

    def sources(self, names: Sequence[str]) -> list[tuple[str, str | None]]:
        """The slave's columns for rows that have the columns `names`.

        Each with the column of the master whose values it has unchanged; None if they are computed.
        """
        sources = self._sources(names)
        return sources if self._exit is None else [(name, None) for name, _ in sources]

    def _sources(self, names: Sequence[str]) -> list[tuple[str, str | None]]:
        """As `sources`, before the user exit."""
        sources: list[tuple[str, str | None]] = []
        for name in names:
            change = self.rule.by_name.get(name)
            if change is None:
                sources.append((name, name))
            elif isinstance(change, Renamed):
                sources.append((change.name, name))
            elif not isinstance(change, Excluded):
                sources.append((name, None))
        own = (name for name, change in self.rule.columns if isinstance(change, Constant | Computed))
        return [*sources, *((name, None) for name in own if name not in names)]

    def made(
        self, by_name: Mapping[str, Texts], count: int, actions: pa.Array | None = None
    ) -> tuple[dict[str, pa.Array], Flags | None]:
        """The values of the columns that the transformation computes, and which rows the slave gets; None: all.

        Without `extra_key`. `by_name`: `count` rows of the master, at least with the columns that it `needs`.
        `actions`: the action of the change of each row, for a user exit; None: the rows are read, without changes.
        Raises as `rows`.
        """
        assert not self.extra_key
        made, kept = self._computed_columns(by_name, count)
        if self._exit is None:
            return made, kept
        before = {name: made[name] if source is None else by_name[source] for name, source in self._sources([*by_name])}
        places = np.arange(count) if kept is None else np.flatnonzero(kept)
        stay, made = self._through_exit(self._exit, before, by_name, places, actions)
        after = np.full(count, -1, np.int64)
        after[stay] = np.arange(len(stay))
        chosen = pa.array(after, mask=after < 0)
        # A row that the exit drops keeps its key, by which the slave's row is deleted.
        keys = {name: one_array(before[name]) for name in self.key()}
        return {name: column.take(chosen) for name, column in made.items()} | keys, after >= 0

    def _computed_columns(self, by_name: Mapping[str, Texts], count: int) -> tuple[dict[str, pa.Array], Flags | None]:
        """As `made`, before the user exit."""
        constants = [(name, change) for name, change in self.rule.columns if isinstance(change, Constant)]
        made = {name: pa.repeat(pa.scalar(change.text, TEXT), count) for name, change in constants}
        if not self._query:
            return made, None
        self._expect_used(by_name)
        # Without any column the rows could not be counted.
        used = {f"c{index}": by_name[name] for index, name in enumerate(self.used)} or {"c": pa.nulls(count, TEXT)}
        try:
            columns = self._engine.computed(self._query, used)
        except EngineRefused:
            raise self._not_computed(used, by_name, count) from None
        kept = np.asarray(columns.pop()) if self._where else None
        return made | dict(zip(self._computed, columns, strict=True)), kept

    def _through_exit(
        self,
        user_exit: UserExit,
        before: Mapping[str, Texts],
        by_name: Mapping[str, Texts],
        places: Places,
        actions: pa.Array | None,
    ) -> tuple[Places, dict[str, pa.Array]]:
        """For each of the slave's rows the place of the master's row of which it is made, ascending, and its columns.

        `before`: the slave's columns before the exit; `places`: of the rows that `where` has kept.
        """
        columns = {name: one_array(column).take(pa.array(places)) for name, column in before.items()}
        doing = pa.repeat(pa.scalar(READ, TEXT), len(places)) if actions is None else actions.take(pa.array(places))

        def called(low: int, high: int) -> tuple[Places, dict[str, pa.Array]]:
            some = {name: column.slice(low, high - low) for name, column in columns.items()}
            return user_exit.called(some, doing.slice(low, high - low), self.master_key())

        if not len(places):
            return places, columns
        try:
            stay, made = called(0, len(places))
        except ExitRefused as error:
            raise self._not_passed(user_exit, by_name, places, called, error) from error
        order = np.argsort(stay, kind="stable")
        return places[stay[order]], {name: column.take(pa.array(order)) for name, column in made.items()}

    def _expect_used(self, by_name: Mapping[str, Texts]) -> None:
        if lacking := [name for name in self.used if name not in by_name]:
            raise TransformationInvalid(
                self.master.table,
                self.rule,
                [
                    f"{self.master.table}.{name}: changes wait that were captured when the table had no such column; "
                    "load the table again"
                    for name in lacking
                ],
            )

    def _not_computed(self, used: Mapping[str, Texts], by_name: Mapping[str, Texts], count: int) -> RowNotTransformed:
        def computed(low: int, high: int) -> object:
            return self._engine.computed(self._query, {name: column[low:high] for name, column in used.items()})

        failing = list(islice(_failing(computed, 0, count), MOST_NAMED))
        return RowNotTransformed(
            self.master.table,
            self._keys(by_name, [place for place, _ in failing]),
            self._mask,
            f"an expression of {self.rule.place} cannot be computed",
            _VALUE.sub("…", str(failing[0][1])) if failing else "it fails",
            "Write it so that it gives a value for this row as well (TRY_CAST gives NULL where CAST fails), or fix "
            "the row on the master.",
        )

    def _not_passed(
        self,
        user_exit: UserExit,
        by_name: Mapping[str, Texts],
        places: Places,
        called: Callable[[int, int], object],
        error: ExitRefused,
    ) -> RowNotTransformed:
        failing = list(islice(_failing(called, 0, len(places)), MOST_NAMED))
        first = failing[0][1] if failing else error
        masked = self._mask.hides_any(self.master.table, (column.name for column in self.master.columns))
        return RowNotTransformed(
            self.master.table,
            self._keys(by_name, [int(places[place]) for place, _ in failing]),
            self._mask,
            f"the exit {user_exit.name} of {self.rule.place} fails",
            first.kind if masked and isinstance(first, ExitRefused) else str(first),
            f"Fix the function, then {RESTART_APPLY}: a process imports it once. Or fix the row on the master.",
        )

    def _keys(self, by_name: Mapping[str, Texts], places: Sequence[int]) -> list[dict[str, str | None]]:
        """The master's keys of the rows at these places."""
        return [{column.name: by_name[column.name][place].as_py() for column in self.master.key} for place in places]


def _failing(work: Callable[[int, int], object], low: int, high: int) -> Iterator[tuple[int, Exception]]:
    """Yields the rows between `low` and `high` for which `work` fails, each with the error; halves the range."""
    try:
        work(low, high)
    except (EngineRefused, ExitRefused) as error:
        if high - low == 1:
            yield low, error
        elif high > low:
            middle = (low + high) // 2
            yield from _failing(work, low, middle)
            yield from _failing(work, middle, high)


def typed_query(used: Sequence[str], kinds: Mapping[str, LogicalType], value: str = "") -> str:
    """A query of the columns that expressions use, from `rows`; where `value` is given, each column has this value."""
    columns = [
        f"{types.from_text(kinds[name], value or f'c{index}')} AS {_quoted(name)}" for index, name in enumerate(used)
    ]
    return f"SELECT {', '.join(columns) or '1'}{'' if value else ' FROM rows'}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
