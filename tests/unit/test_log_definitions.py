"""Definitions of a stream that is recorded from a log: what statements and descriptions of tables make of them."""

from collections.abc import Sequence
from typing import Any

import pytest

from sluice.database.change_log import Event, LoggedColumn, LoggedTable, Part, Rows, TableEvent
from sluice.database.column_types import LogicalColumn
from sluice.model.logical_type import ColumnType, Kind, LogicalType
from sluice.model.names import TableName
from sluice.vendors.postgres.column_types import column_type
from sluice.vendors.stream.lines import Change
from sluice.vendors.stream.log_definitions import LogDefinitions, Remembered

T, U = TableName("public", "t"), TableName("public", "u")
INT, BIG, TEXT = LogicalType(Kind.INTEGER, 32), LogicalType(Kind.INTEGER, 64), LogicalType(Kind.TEXT, length=20)


def types(columns: Sequence[LogicalColumn]) -> Sequence[ColumnType]:
    return [column_type(column.logical) for column in columns]


def logged(table: TableName = T, *, certain: bool = True, key: bool = True, **columns: LogicalType) -> LoggedTable:
    made = [
        LoggedColumn("id", INT, False, 1 if key else 0),
        *(LoggedColumn(name, of, True) for name, of in columns.items()),
    ]
    return LoggedTable(table, tuple(made), certain)


def known(table: LoggedTable) -> LogDefinitions:
    made = LogDefinitions({}, types)
    made.tables[table.table] = made.define(table)
    return made


def shown(definitions: LogDefinitions, *parts: Part) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for part in parts:
        for change in definitions.changes(part):
            if isinstance(change, Change):
                found.append((change.action.lower(), change.table.name, *([change.reason] if change.reason else [])))
            else:
                found.append((change.change, change.table[1]))
    return found


def insert(table: LoggedTable) -> Rows:
    return Rows(table, "insert", [{column.name: "1" for column in table.columns}])


def test_a_table_comes_with_its_first_row_and_says_whether_all_of_its_rows_follow() -> None:
    definitions = LogDefinitions({}, types)
    assert shown(definitions, TableEvent(Event.CREATED, T), insert(logged())) == [("create", "t"), ("insert", "t")]
    (created, told, _) = shown(definitions, insert(logged(U)))
    assert created == ("create", "u")
    assert told[0] == "differ"


def test_statements_are_remembered_over_a_restart() -> None:
    definitions = known(logged(a=INT))
    event = TableEvent(Event.ALTERED, T, renamed={"a": "b"}, filled={"c": "7"})
    assert shown(definitions, event, TableEvent(Event.CREATED, U)) == []
    again = LogDefinitions(definitions.tables, types, Remembered.of(definitions.remembered.values()))
    (altered, *_) = [change for change in again.changes(insert(logged(b=INT, c=INT))) if isinstance(change, Change)]
    assert altered.definition is not None
    assert [(column.name, column.position) for column in altered.definition.shape.columns] == [
        ("id", 1),
        ("b", 2),
        ("c", 3),
    ]
    assert altered.definition.missing == {"c": "7"}
    assert shown(again, insert(logged(U))) == [("create", "u"), ("insert", "u")]


def test_columns_that_are_renamed_twice_are_still_the_same() -> None:
    definitions = known(logged(a=INT))
    shown(
        definitions, TableEvent(Event.ALTERED, T, renamed={"a": "b"}), TableEvent(Event.ALTERED, T, renamed={"b": "c"})
    )
    assert shown(definitions, insert(logged(c=INT))) == [("alter", "t"), ("insert", "t")]
    assert definitions.tables[T].shape.column("c").position == 2


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        (INT, BIG, False),
        (BIG, INT, False),
        (TEXT, LogicalType(Kind.TEXT), False),
        (TEXT, INT, True),
        (TEXT, LogicalType(Kind.CHAR, length=20), True),
        (LogicalType(Kind.CHAR, length=20), TEXT, False),
        (LogicalType(Kind.NUMBER, 10, 2), LogicalType(Kind.NUMBER, 10, 1), True),
        (LogicalType(Kind.TIMESTAMP, 0), LogicalType(Kind.TIMESTAMP_ZONE, 0), True),
    ],
)
def test_converted_values_make_a_table_differ(before: LogicalType, after: LogicalType, differs: bool) -> None:
    definitions = known(logged(a=before))
    found = shown(definitions, TableEvent(Event.ALTERED, T), insert(logged(a=after)))
    assert [each[0] for each in found] == ["alter", *(["differ"] if differs else []), "insert"]


def altered(definitions: LogDefinitions, after: LoggedTable, *statements: TableEvent) -> tuple[list[Any], list[Any]]:
    """What comes for statements and a row behind them, and the columns of the stream behind the key."""
    found = shown(definitions, *statements, insert(after))
    return [each[0] for each in found], [(one.name, one.position) for one in definitions.tables[T].shape.columns[1:]]


def test_columns_that_swap_their_names_keep_their_values() -> None:
    swap = TableEvent(Event.ALTERED, T, renamed={"a": "b", "b": "a"})
    assert altered(known(logged(a=INT, b=INT)), logged(b=INT, a=INT), swap) == (
        ["alter", "insert"], [("b", 2), ("a", 3)],
    )  # fmt: skip
    gone = TableEvent(Event.ALTERED, T, dropped=["a"], renamed={"b": "a"})
    # What is `a` behind both was `a` before.
    assert altered(known(logged(a=INT, b=INT)), logged(a=INT), swap, gone) == (["alter", "insert"], [("a", 2)])
    assert altered(known(logged(A=INT, B=INT)), logged(b=INT, a=INT), swap)[1] == [("b", 2), ("a", 3)]


def test_a_column_that_was_dropped_and_added_again_is_another_one() -> None:
    definitions = known(logged(a=INT))
    statements = TableEvent(Event.ALTERED, T, dropped=["a"]), TableEvent(Event.ALTERED, T, filled={"a": "9"})
    assert altered(definitions, logged(a=INT), *statements) == (["alter", "insert"], [("a", 3)])
    at_once = TableEvent(Event.ALTERED, T, dropped=["a"], filled={"a": "9"})
    assert altered(known(logged(a=INT)), logged(a=INT), at_once) == (["alter", "insert"], [("a", 3)])


@pytest.mark.parametrize(
    ("families", "differs"), [(("text", "text"), False), (("number", "text"), True), (("", ""), True)]
)
def test_values_that_were_converted_there_and_back_make_a_table_differ(
    families: tuple[str, str], differs: bool
) -> None:
    converted = [TableEvent(Event.ALTERED, T, converted={"a": family}) for family in families]
    assert altered(known(logged(a=TEXT)), logged(a=TEXT), *converted)[0] == [*(["differ"] if differs else []), "insert"]


def test_computed_columns_stay_out_where_the_log_alone_describes_a_table() -> None:
    definitions, uncertain = known(logged(a=INT)), logged(certain=False, a=INT, computed=INT)
    pairs = [({"id": "1", "a": "1", "computed": "2"}, {"id": "1", "a": "2", "computed": "3"})]
    (one,) = definitions.changes(Rows(uncertain, "update", pairs))
    assert not isinstance(one, Change)
    assert (one.new, one.old) == ({"id": "1", "a": "2"}, {"a": "1"})


def test_a_key_that_may_be_gone_is_not_kept() -> None:
    dropped = TableEvent(Event.ALTERED, T, rekeyed=True)
    definitions = known(logged(a=INT))
    altered(definitions, logged(key=False, certain=False, a=INT), dropped)
    assert definitions.tables[T].shape.keyless


def test_a_table_without_rows_has_none_that_are_unknown_after_a_statement() -> None:
    """As tools that migrate online make theirs. A table that exists already is not empty."""
    definitions = LogDefinitions({}, types)
    computed = TableEvent(Event.ALTERED, T, reason="a default is computed")
    assert shown(definitions, TableEvent(Event.CREATED, T), computed, insert(logged())) == [
        ("create", "t"),
        ("insert", "t"),
    ]
    came = TableEvent(Event.UNKNOWN, U, reason="it came with rows")
    found = shown(definitions, came, TableEvent(Event.CREATED, U), insert(logged(U)))
    assert [each[0] for each in found] == ["differ", "create", "differ", "insert"]


def test_a_column_that_came_without_a_statement_makes_the_table_differ() -> None:
    assert [each[0] for each in shown(known(logged()), insert(logged(a=INT)))] == ["alter", "differ", "insert"]


def test_swapped_names_and_dropped_databases_follow() -> None:
    definitions = known(logged())
    definitions.tables[U] = definitions.define(logged(U))
    old = TableName("public", "old")
    swap = [TableEvent(Event.RENAMED, T, old), TableEvent(Event.RENAMED, U, T)]
    assert shown(definitions, *swap) == [("alter", "t"), ("alter", "u")]
    assert definitions.tables.keys() == {old, T}
    gone = TableEvent(Event.DROPPED, TableName("public", ""))
    assert shown(definitions, gone) == [("drop", "old"), ("drop", "t")]


def test_a_key_that_the_log_does_not_tell_is_kept() -> None:
    """A unique key: where the catalog is newer, the log alone describes the table."""
    definitions = known(logged(a=INT))
    assert shown(definitions, insert(logged(key=False, certain=False, a=INT))) == [("insert", "t")]
    assert [each[0] for each in shown(definitions, insert(logged(key=False, a=INT)))] == ["alter", "insert"]


def test_updates_have_the_columns_that_changed_and_whole_old_rows_without_a_key() -> None:
    definitions = known(logged(a=INT))
    pairs = [({"id": "1", "a": "2"}, {"id": "1", "a": "3"}), ({"id": "1", "a": "3"}, {"id": "1", "a": "3"})]
    (one,) = definitions.changes(Rows(logged(a=INT), "update", pairs))
    assert not isinstance(one, Change)
    assert one.old == {"a": "2"}
    keyless = logged(U, key=False, a=INT)
    definitions.tables[U] = definitions.define(keyless)
    (one,) = definitions.changes(Rows(keyless, "update", pairs))
    assert not isinstance(one, Change)
    assert one.old == {"id": "1", "a": "2"}
