"""The engine that computes expressions: DuckDB over Arrow, in this process.

It reads only the columns that expressions use: no files, no network, no extensions beyond the built-in ones. It has one
thread, so that rows keep their order, and the time zone UTC, so that expressions give the same on all machines.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TEXT = pa.large_string()

_OPTIONS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "arrow_large_buffer_size": "true",
    "threads": 1,
}


class EngineRefused(Exception):
    """The engine cannot compute an expression; the text gives the reason in one line."""


class Engine:
    """One connection, opened at its first use; only one thread may use it."""

    @cached_property
    def _connection(self) -> "DuckDBPyConnection":
        import duckdb  # most processes transform nothing

        connection = duckdb.connect(":memory:", config=_OPTIONS)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET lock_configuration = true")
        return connection

    def __reduce__(self) -> tuple[type["Engine"], tuple[()]]:
        """A copy in another process has its own connection."""
        return Engine, ()

    def syntax(self, text: str) -> dict[str, object]:
        """The syntax tree of `SELECT text`. Raises `EngineRefused`."""
        ((serialized,),) = self._connection.execute("SELECT json_serialize_sql(?)", [f"SELECT {text}"]).fetchall()
        tree: dict[str, object] = json.loads(serialized)
        if tree["error"]:
            raise EngineRefused(_line(str(tree["error_message"])))
        return tree

    def types(self, query: str) -> list[str]:
        """The types of a query's columns. Raises `EngineRefused`."""
        return [str(row[1]) for row in self.rows(f"DESCRIBE {query}")]

    def computed(self, query: str, rows: Mapping[str, pa.Array]) -> list[pa.Array]:
        """The columns of a query over `rows`, row by row in their order. Raises `EngineRefused`."""
        self._connection.register("rows", pa.table(dict(rows)))
        try:
            with _refusals():
                result = self._connection.sql(query).to_arrow_table()
        finally:
            self._connection.unregister("rows")
        return [_whole(column) for column in result.columns]

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """The rows of a query that reads no table. Raises `EngineRefused`."""
        with _refusals():
            return self._connection.execute(query).fetchall()


class Function:
    """One function of the engine."""

    def __init__(self, kind: str, stability: str | None, definition: str | None):
        self.kind = kind
        """`scalar`, `aggregate`, `macro`, …"""
        self.stable = stability == "CONSISTENT"
        """Whether it always gives the same for the same row."""
        self.definition = definition
        """The text of a macro; None for others."""


@cache
def functions() -> dict[str, tuple[Function, ...]]:
    """Lower-case name → the engine's functions of that name."""
    by_name: dict[str, list[Function]] = {}
    query = "SELECT function_name, function_type, stability, macro_definition FROM duckdb_functions()"
    for name, kind, stability, definition in Engine().rows(query):
        stable = None if stability is None else str(stability)
        text = None if definition is None else str(definition)
        by_name.setdefault(str(name).lower(), []).append(Function(str(kind), stable, text))
    return {name: tuple(functions) for name, functions in by_name.items()}


@contextmanager
def _refusals() -> Iterator[None]:
    """Raises errors of DuckDB as `EngineRefused`."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise EngineRefused(_line(str(error))) from error


def _line(message: str) -> str:
    """The first line of an error of the engine, without its kind."""
    first = message.strip().splitlines()[0]
    return first.split("Error: ", 1)[-1]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.cast(TEXT) if pa.types.is_string(whole.type) or pa.types.is_string_view(whole.type) else whole
