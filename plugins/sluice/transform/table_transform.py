"""The transformation of one table, bound to its columns: rows of the master in, rows of the slave out."""

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
from sluice.errors import RESTART_APPLY, Terminal
from sluice.model.logical_type import LogicalType
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
"""Rows that are looked for where some cannot be transformed: where more fail, it is no matter of rows."""
_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'")


class TransformationInvalid(Terminal):
    """What the configuration says of a table does not fit the table; `problems` holds one sentence each."""

    def __init__(self, table: TableName, rule: Transformation, problems: Sequence[str]):
        listed = "\n".join(f"- {problem}" for problem in problems)
        super().__init__(f"{rule.place}: what is said there does not fit the table:\n{listed}\nMend it there.")
        self.table = table
        self.rule = rule
        self.problems = tuple(problems)


class RowNotTransformed(Terminal):
    """Rows for which an expression cannot be computed, or a user exit fails.

    Their values are not shown: they may be what the slave must not get.
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
        """`keys`: the master's, by column; none where no row is at fault by itself. `what` fails for them."""
        shown = [", ".join(f"{name} = {value!r}" for name, value in mask.row(table, key).items()) for key in keys]
        rows = f"the row {shown[0] or '(without a key)'}" if shown else "rows that come together"
        more = f" and {counted(len(shown) - 1, 'more row')}" if len(shown) > 1 else ""
        self.finding = f"{table}: {what} for {rows}{more}: {reason}"
        super().__init__(f"{self.finding}. {remedy}")
        self.table = table
        self.keys = tuple(keys)


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
        user_exit: UserExit | None,
    ):
        """`read`: the expressions, by column, `where` under the empty name. `kinds`: of the master's columns."""
        self.rule = rule
        self.master = master
        self.shape = shape
        """The table as the slave has it."""
        self._engine = engine
        self._mask = mask
        self._exit = user_exit
        self.used = list(dict.fromkeys(name for each in read.values() for name in each.columns))
        """The master's columns that expressions use."""
        self._needed = {*self.used, *(column.name for column in master.key)}
        self.filters = "" in read or user_exit is not None
        """Whether there may be rows that the slave has not."""
        self._where = "" in read
        self._computed = [name for name in read if name]
        selected = [types.to_text(results[name], f"({read[name].text}\n)") for name in self._computed]
        if self._where:
            selected.append(f"coalesce(({read[''].text}\n), false)")
        self._query = f"SELECT {', '.join(selected)} FROM ({typed_query(self.used, kinds)})" if selected else ""

    def with_engine(self, engine: Engine) -> "TableTransform":
        """The same for another thread."""
        other = copy(self)
        other._engine = engine
        return other

    def untouched(self, names: Iterable[str]) -> frozenset[str]:
        """The slave's names of those of the master's columns that reach it as they are."""
        found = list(names)
        return frozenset(name for name, source in self.sources(found) if source is not None)

    def needs(self, name: str) -> bool:
        """Whether the values of a column of the master's are wanted by `made`."""
        return self._exit is not None or name in self._needed

    def key(self) -> tuple[str, ...]:
        """The key's columns on the slave."""
        return tuple(column.name for column in self.shape.key)

    def rows(self, names: Sequence[str], values: Sequence[pa.Array], actions: pa.Array | None = None) -> Rows:
        """The slave's rows for rows of the master with the columns `names`, texts. `actions`: as of `made`.

        Raises `RowNotTransformed`, `TransformationInvalid` where they lack a column that an expression uses.
        """
        by_name = dict(zip(names, values, strict=True))
        made, kept = self.made(by_name, len(values[0]) if values else 0, actions)
        sources = self.sources(names)
        columns = [made[name] if source is None else by_name[source] for name, source in sources]
        return Rows(tuple(name for name, _ in sources), columns, kept)

    def sources(self, names: Sequence[str]) -> list[tuple[str, str | None]]:
        """The slave's columns for rows with the columns `names`, each with the master's one that it is as it is."""
        found = self._sources(names)
        return found if self._exit is None else [(name, None) for name, _ in found]

    def _sources(self, names: Sequence[str]) -> list[tuple[str, str | None]]:
        """The same before the user exit."""
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

    def made(
        self, by_name: Mapping[str, Texts], count: int, actions: pa.Array | None = None
    ) -> tuple[dict[str, pa.Array], Flags | None]:
        """The values of the columns that are not as they are on the master, and which rows are kept; None: all.

        `by_name`: `count` rows of the master, of the columns that are needed (`needs`) at least. `actions`: what brings
        each of them, for a user exit; None: they are read. Raises as `rows`.
        """
        constants = [(name, change) for name, change in self.rule.columns if isinstance(change, Constant)]
        found = {name: pa.repeat(pa.scalar(change.text, TEXT), count) for name, change in constants}
        kept: Flags | None = None
        if self._query:
            self._expect_used(by_name)
            # A row without any column is a row: rows are counted by this one.
            used = {f"c{place}": by_name[name] for place, name in enumerate(self.used)} or {"c": pa.nulls(count, TEXT)}
            try:
                columns = self._engine.computed(self._query, used)
            except EngineRefused:
                raise self._not_computed(used, by_name, count) from None
            kept = np.asarray(columns.pop()) if self._where else None
            found |= dict(zip(self._computed, columns, strict=True))
        if self._exit is None:
            return found, kept
        before = {
            name: found[name] if source is None else by_name[source] for name, source in self._sources([*by_name])
        }
        return self._through_exit(
            self._exit, before, by_name, np.ones(count, dtype=bool) if kept is None else kept, actions
        )

    def _through_exit(
        self,
        user_exit: UserExit,
        before: Mapping[str, Texts],
        by_name: Mapping[str, Texts],
        kept: Flags,
        actions: pa.Array | None,
    ) -> tuple[dict[str, pa.Array], Flags]:
        """What the exit makes of the slave's columns `before`, and of the rows that `where` has `kept`."""
        places = np.flatnonzero(kept)
        columns = {name: _whole(column).take(pa.array(places)) for name, column in before.items()}
        doing = pa.repeat(pa.scalar(READ, TEXT), len(places)) if actions is None else actions.take(pa.array(places))

        def called(low: int, high: int) -> tuple[Places, dict[str, pa.Array]]:
            some = {name: column.slice(low, high - low) for name, column in columns.items()}
            return user_exit.called(some, doing.slice(low, high - low), self.key())

        try:
            stay, made = called(0, len(places)) if len(places) else (places, columns)
        except ExitRefused as error:
            raise self._not_passed(user_exit, by_name, places, called, error) from error
        after = np.full(len(kept), -1, np.int64)
        after[places[stay]] = np.arange(len(stay))
        chosen = pa.array(after, mask=after < 0)
        # A row that is left out has its key all the same: by it the slave's row goes.
        keys = {name: _whole(before[name]) for name in self.key()}
        return {name: column.take(chosen) for name, column in made.items()} | keys, after >= 0

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

        found = list(islice(_failing(computed, 0, count), MOST_NAMED))
        return RowNotTransformed(
            self.master.table,
            self._keys(by_name, [place for place, _ in found]),
            self._mask,
            f"an expression of {self.rule.place} cannot be computed",
            _VALUE.sub("…", str(found[0][1])) if found else "it fails",
            "Write it so that it gives a value for this row as well (TRY_CAST gives NULL where CAST fails), or mend "
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
        found = list(islice(_failing(called, 0, len(places)), MOST_NAMED))
        first = found[0][1] if found else error
        masked = self._mask.hides_any(self.master.table, (column.name for column in self.master.columns))
        return RowNotTransformed(
            self.master.table,
            self._keys(by_name, [int(places[place]) for place, _ in found]),
            self._mask,
            f"the exit {user_exit.name} of {self.rule.place} fails",
            first.kind if masked and isinstance(first, ExitRefused) else str(first),
            f"Mend the function, then {RESTART_APPLY}: a process imports it once. Or mend the row on the master.",
        )

    def _keys(self, by_name: Mapping[str, Texts], places: Sequence[int]) -> list[dict[str, str | None]]:
        """The master's keys of the rows at these places."""
        return [{column.name: by_name[column.name][place].as_py() for column in self.master.key} for place in places]


def _failing(work: Callable[[int, int], object], low: int, high: int) -> Iterator[tuple[int, Exception]]:
    """The rows between `low` and `high` for which `work` fails, each with the reason."""
    try:
        work(low, high)
    except (EngineRefused, ExitRefused) as error:
        if high - low == 1:
            yield low, error
        elif high > low:
            middle = (low + high) // 2
            yield from _failing(work, low, middle)
            yield from _failing(work, middle, high)


def _whole(column: Texts) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def typed_query(used: Sequence[str], kinds: Mapping[str, LogicalType], value: str = "") -> str:
    """The query of the columns that expressions use, under their names; `value` in place of what is in `rows`."""
    columns = [
        f"{types.from_text(kinds[name], value or f'c{place}')} AS {_quoted(name)}" for place, name in enumerate(used)
    ]
    return f"SELECT {', '.join(columns) or '1'}{'' if value else ' FROM rows'}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
