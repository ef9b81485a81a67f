"""Applies changes to the slave in the caller's transaction: net changes of a window by a few statements a table
(`Merger`), or changes one by one (`MySQLReplayer`).

Their order is that of `sluice.vendors.common.merge`. In normal mode every statement must touch exactly the rows it
names; former values are compared by `<=>`, to which NULL is a value. In safe mode rows that should be there replace
those that have their keys.

Raises, with everything it did undone and the transaction still usable: `Drift`, `Collision`, `ValueUnfit`,
`ColumnMissing`, `SlaveTableMissing`, `TableForbidden`.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from sluice.counted import counted
from sluice.database.apply import Acting
from sluice.database.column_types import ColumnTypes
from sluice.database.conflicts import Collision, Conflict, Drift, ValueUnfit, rows_found
from sluice.database.digests import Texts
from sluice.database.errors import DatabaseRefused, StatementFailed, UniqueViolation
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.change import Action, RowChange
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName
from sluice.vendors.common.merge import ACTIONS, Merger, PlainApplyTarget, PlainStager, RowSet, StageTable
from sluice.vendors.common.replay import Replayer, Row, Statement
from sluice.vendors.common.slave_tables import SlaveTables
from sluice.vendors.mysql import catalog
from sluice.vendors.mysql.catalog import MySQLColumn, MySQLSlaveTables, MySQLTable
from sluice.vendors.mysql.column_types import ColumnTexts, fitting_row
from sluice.vendors.mysql.connection import MySQLSession, native, quoted
from sluice.vendors.mysql.errors import number_of, of_value
from sluice.vendors.mysql.tables import MySQLAlterer, load_rows, pieces_of


class _Words:
    """Conditions and values of one statement; collects its parameters."""

    def __init__(self, target: MySQLTable):
        self.target = target
        self.values: dict[str, str | None] = {}

    def value(self, name: str, text: str | None) -> str:
        """A value of a column. Raises `ColumnMissing`."""
        key = f"v{len(self.values)}"
        self.values[key] = text
        return self.target.column(name).value(f"%({key})s")

    def equal(self, row: Mapping[str, str | None]) -> str:
        """The columns have these values, NULL being one."""
        return " AND ".join(f"{self._name(name)} <=> {self.value(name, text)}" for name, text in row.items()) or "1 = 1"

    def sets(self, row: Mapping[str, str | None]) -> str:
        written = self.target.written(row)
        return ", ".join(f"{self._name(name)} = {self.value(name, text)}" for name, text in written.items())

    def row(self, row: Mapping[str, str | None]) -> str:
        """Columns and values, as INSERT and REPLACE take them."""
        written = self.target.written(row)
        names = ", ".join(self._name(name) for name in written)
        return f"({names}) VALUES ({', '.join(self.value(name, text) for name, text in written.items())})"

    def _name(self, name: str) -> str:
        return self.target.column(name).quoted.replace("%", "%%")


class MySQLReplayer(Replayer[MySQLTable]):
    """Replays changes into one slave over one session.

    | change | normal mode, each must change one row | safe mode |
    |---|---|---|
    | INSERT | INSERT | REPLACE |
    | UPDATE | UPDATE by key and by known old values | DELETE by the old key, REPLACE |
    | DELETE | DELETE by key and by known old values | DELETE by key |

    REPLACE deletes every row that has a unique value of the new one. Those of another key are deleted before, and
    returned as `displaced`: the caller restores those that the master has. A table with columns of its own gets UPDATE,
    or INSERT if there is no row, instead of REPLACE, which would lose the values of these columns. A row without a key
    is identified by all its columns, and one copy is changed.
    """

    def __init__(self, connection: Session, targets: SlaveTables[MySQLTable]):
        super().__init__(connection, targets)
        self.session = native(connection)

    def run(self, statement: Statement) -> int:
        return self.session.run(statement.text, statement.values).rowcount

    def insert(self, target: MySQLTable, row: Row, *, counted: bool = False) -> Statement:
        words = _Words(target)
        return Statement(f"INSERT INTO {_qualified(target)} {words.row(row)}", words.values, counted)

    def update(self, target: MySQLTable, new: Row, row: Row, *, counted: bool = False, one: bool = False) -> Statement:
        words = _Words(target)
        limit = " LIMIT 1" if one else ""
        text = f"UPDATE {_qualified(target)} SET {words.sets(new)} WHERE {words.equal(row)}{limit}"
        return Statement(text, words.values, counted)

    def rename(self, target: MySQLTable, old: Row, new: Row) -> Statement:
        words = _Words(target)
        taken = f"NOT EXISTS (SELECT 1 FROM (SELECT * FROM {_qualified(target)}) AS other WHERE {words.equal(new)})"
        text = f"UPDATE {_qualified(target)} SET {words.sets(new)} WHERE {words.equal(old)} AND {taken}"
        return Statement(text, words.values)

    def put(self, change: RowChange, target: MySQLTable) -> list[Statement]:
        if change.partial or target.has_own(tuple(change.new)):
            return self.updating(change, target)
        words = _Words(target)
        put = Statement(f"REPLACE INTO {_qualified(target)} {words.row(change.new)}", words.values)
        if change.action is Action.UPDATE:
            return [self.delete(target, change.key_of(change.old)), put]
        return [put]

    def overwriting(self, change: RowChange, target: MySQLTable) -> list[Statement]:
        if target.has_own(tuple(change.new)) or not change.new:
            return self.idempotent(change, target)
        statements = [self.delete(target, change.key_of(row)) for row in (change.old, change.new) if row]
        return [*statements, self.insert(target, change.new, counted=True)]

    def unfit(self, change: RowChange, target: MySQLTable, error: StatementFailed) -> Conflict | None:
        return ValueUnfit(change.table, target.reason_shown(error)) if of_value(error) else None

    def indexes(self, values: Mapping[str, str | None]) -> bool:
        return None not in values.values()

    def delete(self, target: MySQLTable, row: Row, *, counted: bool = False, one: bool = False) -> Statement:
        words = _Words(target)
        limit = " LIMIT 1" if one else ""
        return Statement(f"DELETE FROM {_qualified(target)} WHERE {words.equal(row)}{limit}", words.values, counted)

    def rows(
        self, target: MySQLTable, names: Sequence[str], equal: Row, unlike: Iterable[Row] = (), most: int | None = None
    ) -> list[Texts]:
        words = _Words(target)
        where = " AND ".join([words.equal(equal), *(f"NOT ({words.equal(row)})" for row in unlike)])
        text = f"SELECT {_texts(target, names) or '1'} FROM {_qualified(target)} t WHERE {where}"
        result = self.session.run(text if most is None else f"{text} LIMIT {most}", words.values).fetchall()
        shown = [target.column(name).shown for name in names]
        return [tuple(show(text) for show, text in zip(shown, row, strict=False)) for row in result]

    def differing(
        self, target: MySQLTable, key: Mapping[str, str | None], former: Mapping[str, str | None]
    ) -> dict[str, tuple[str | None, str | None]]:
        words = _Words(target)
        same = {name: words.equal({name: text}) for name, text in former.items()}
        selected = ", ".join(f"{_texts(target, [name])}, NOT ({condition})" for name, condition in same.items())
        text = f"SELECT {selected} FROM {_qualified(target)} t WHERE {words.equal(key)}"
        row = self.session.run(text, words.values).fetchone()
        values: dict[str, tuple[str | None, str | None]] = {}
        for number, name in enumerate(former):
            now, differs = row[2 * number : 2 * number + 2] if row else (None, False)
            if differs:
                values[name] = (target.column(name).shown(now), former[name])
        return values


def _qualified(target: MySQLTable) -> str:
    """The table's quoted name in a statement with parameters."""
    return target.qualified.replace("%", "%%")


def _texts(target: MySQLTable, names: Sequence[str]) -> str:
    """The columns' texts in a statement with parameters."""
    return ", ".join(target.column(name).text("t").replace("%", "%%") for name in names)


_PLACE = re.compile(r"column [`'](?:[^`']*`\\.`)*(?P<column>[kcb]\d+)[`'] at row (?P<row>\d+)")

_TOO_WIDE = frozenset({1005, 1117, 1118})
"""Errors of InnoDB about more columns than one of its pages holds. MyISAM, which has no pages, takes them."""


def typed(target: MySQLTable, columns: Sequence[str], key: Sequence[str], names: Sequence[str]) -> list[MySQLColumn]:
    """Stage columns as columns of a table. Raises `ColumnMissing`."""
    typed_columns = []
    for name in names:
        if name == "copies":
            typed_columns.append(MySQLColumn(name, "bigint"))
        else:
            own = target.column((key if name[0] == "k" else columns)[int(name[1:]) - 1])
            typed_columns.append(MySQLColumn(name, own.type, collation=own.collation))
    # Old and new values stand side by side: a row of those may be longer than the server lets one be.
    keys = [number for number, column in enumerate(typed_columns) if column.name[0] == "k"]
    fitting = fitting_row([column.type for column in typed_columns], keys)
    return [replace(column, type=type_) for column, type_ in zip(typed_columns, fitting, strict=True)]


def _filled(
    session: MySQLSession, name: str, changes: NetChanges, kind: str, target: MySQLTable, what: str = "TABLE"
) -> StageTable:
    """One kind of rows in a new table, which replaces one of that name. Raises `ValueUnfit`."""
    rows, table = changes.by_kind[kind], quoted(name)
    columns = typed(target, changes.columns, changes.key, rows.column_names)
    # Texts compare as the table's own do: two collations cannot be compared at all.
    body = "".join(
        f", {column.quoted} {column.type}{f' COLLATE {column.collation}' if column.collation else ''} NULL"
        for column in columns
    )
    create = f"CREATE {what} {table} (row_no bigint AUTO_INCREMENT PRIMARY KEY{body})"
    session.run(f"DROP {what} IF EXISTS {table}")
    try:
        session.run(f"{create} ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4")
    except StatementFailed as error:
        if number_of(error) not in _TOO_WIDE:
            raise
        session.run(f"{create} ENGINE = MyISAM CHARACTER SET utf8mb4")
    try:
        load_rows(session, target.table, table, columns, pieces_of(rows))
    except ValueUnfit as unfit:
        raise _named(unfit, changes, rows, target) from unfit
    copies = pc.sum(rows.column("copies")).as_py() if "copies" in rows.column_names else rows.num_rows
    return StageTable(table, tuple(rows.column_names), rows.num_rows, int(copies or 0))


def _named(unfit: ValueUnfit, changes: NetChanges, rows: pa.Table, target: MySQLTable) -> ValueUnfit:
    """The error with the table's own column, and with the value, if the server names them."""
    match = _PLACE.search(unfit.reason)
    if match is None or match["column"] == "copies":
        return unfit
    letter, number = match["column"][0], int(match["column"][1:])
    name = (changes.key if letter == "k" else changes.columns)[number - 1]
    value = rows.column(match["column"])[int(match["row"]) - 1].as_py() if int(match["row"]) <= rows.num_rows else None
    shown = None if name in target.hidden else value
    reason = "its text may hold values of masked columns" if target.hidden else unfit.reason
    return ValueUnfit(target.table, reason, column=name, value=shown)


@dataclass(frozen=True)
class _Set(RowSet[MySQLTable, StageTable]):
    """Rows of one kind of one table, staged."""

    @property
    def same_key(self) -> str:
        pairs = zip(self.key, self.key_places, strict=True)
        return " AND ".join(f"t.{quoted(name)} = s.{column}" for name, column in pairs)

    @property
    def former(self) -> list[tuple[ColumnTexts, str]]:
        """The compared columns, and the places of their former values."""
        return [(self.target.column(name), column) for name, column in self.images]

    @property
    def match(self) -> str:
        """The condition that the row has its key, and its old values."""
        images = "".join(f" AND t.{own.quoted} <=> s.{column}" for own, column in self.former)
        return self.same_key + images

    def values(self) -> list[tuple[str, str]]:
        """Quoted columns of the table, and the places of their new values."""
        return [
            (self.target.column(name).quoted, f"c{number}")
            for number, name in enumerate(self.columns, start=1)
            if not self.target.column(name).generated
        ]


class MySQLMerger(Merger[MySQLTable, StageTable, _Set]):
    """Merges into one slave over one session. Foreign keys do not act there, triggers do."""

    row_set = _Set
    replacing = True

    def __init__(self, connection: Session, *, cascades: bool, mask: Mask = NO_PATTERNS):
        super().__init__(connection, MySQLSlaveTables(connection, mask), cascades=cascades)
        self.session = native(connection)

    def replayer(self) -> MySQLReplayer:
        return MySQLReplayer(self.connection, self.targets)

    def alterer(self, *, trusted: bool, of_master: ColumnTypes, lossy: Sequence[str]) -> MySQLAlterer:
        """`trusted` has no effect: no expression of the master's is run."""
        return MySQLAlterer(self.connection, self.targets, of_master, lossy)

    def begin(self, immediate: Collection[str] = ()) -> None:
        """Does nothing: constraints are never deferred here."""
        assert not immediate, immediate

    def rows_of(self, changes: NetChanges, kind: str, number: int, target: MySQLTable) -> StageTable:
        """In a temporary table: neither its creation nor its end commits anything."""
        return _filled(self.session, f"sluice_{number}_{kind}", changes, kind, target, "TEMPORARY TABLE")

    def rows_in(self, staged: StageTable) -> StageTable:
        return staged

    def apply(self, sets: Sequence[_Set], safe: bool, again: Collection[TableName]) -> None:
        try:
            super().apply(sets, safe, again)
        except _Trouble as trouble:
            raise self._meaning(sets, trouble, safe) from None

    # Doing it

    def delete(self, each: _Set, *, safe: bool) -> None:
        match = each.same_key if safe else each.match
        text = f"DELETE t FROM {each.rows.table} s STRAIGHT_JOIN {each.target.qualified} t ON {match}"
        self._run(each, text, counted=not safe)

    def remove(self, each: _Set) -> None:
        columns = [each.target.column(name) for name in each.columns]
        places = ", ".join(f"s.c{number}" for number in range(1, len(columns) + 1))
        variables = ", ".join(f"@c{number}" for number in range(1, len(columns) + 1))
        match = " AND ".join(f"{own.quoted} <=> @c{number}" for number, own in enumerate(columns, start=1))
        staged = self.session.run(f"SELECT row_no, copies FROM {each.rows.table} s").fetchall()
        for number, copies in staged:
            # A statement with a limit joins no tables; the values stay in the server.
            where = f"WHERE s.row_no = {number}"
            self.session.run(f"SELECT {places} INTO {variables} FROM {each.rows.table} s {where}")
            self._run(each, f"DELETE FROM {each.target.qualified} WHERE {match} LIMIT {copies}", expected=copies)

    def update(self, each: _Set) -> None:
        sets = ", ".join(f"t.{name} = s.{column}" for name, column in each.values())
        text = f"UPDATE {each.rows.table} s STRAIGHT_JOIN {each.target.qualified} t ON {each.match} SET {sets}"
        self._run(each, text, counted=True)

    def insert(self, each: _Set) -> None:
        columns = ", ".join(name for name, _ in each.values())
        staged = ", ".join(f"s.{column}" for _, column in each.values())
        text = f"INSERT INTO {each.target.qualified} ({columns}) SELECT {staged} FROM {each.rows.table} s"
        self._run(each, text, counted=True)

    def put(self, each: _Set) -> None:
        """Raises `Collision` if another row has a unique value of it."""
        key = {name: f"c{each.columns.index(name) + 1}" for name in each.key}
        same = " AND ".join(f"t.{quoted(name)} = s.{column}" for name, column in key.items())
        for index in each.target.uniques_beside(each.key):
            equal = " AND ".join(f"t.{quoted(name)} = s.c{each.columns.index(name) + 1}" for name in index.columns)
            join = f"{each.target.qualified} t JOIN {each.rows.table} s ON {equal} WHERE NOT ({same})"
            if set(index.columns) <= set(each.columns) and self.session.run(f"SELECT 1 FROM {join} LIMIT 1").fetchone():
                raise Collision(each.target.table, f"another row has a unique value ({index.name})", unique=True)
        columns = ", ".join(name for name, _ in each.values())
        staged = ", ".join(f"s.{column}" for _, column in each.values())
        if each.target.has_own(each.columns):
            # REPLACE would take the values that live only here.
            sets = ", ".join(f"t.{name} = s.{column}" for name, column in each.values())
            self._run(each, f"UPDATE {each.rows.table} s STRAIGHT_JOIN {each.target.qualified} t ON {same} SET {sets}")
            first = next(iter(key.values()))
            text = (
                f"INSERT INTO {each.target.qualified} ({columns}) SELECT {staged} FROM {each.rows.table} s "
                f"LEFT JOIN {each.target.qualified} t ON {same} "
                f"WHERE t.{quoted(each.key[0])} IS NULL AND s.{first} IS NOT NULL"
            )
            self._run(each, text)
        else:
            self._run(
                each, f"REPLACE INTO {each.target.qualified} ({columns}) SELECT {staged} FROM {each.rows.table} s"
            )

    def _run(self, each: _Set, text: str, *, counted: bool = False, expected: int | None = None) -> None:
        """`expected`: how many rows it must touch; `counted`: all of the set."""
        expected = each.rows.expected if counted else expected
        try:
            result = self.session.run(text)
        except (StatementFailed, DatabaseRefused) as error:
            raise _Trouble(each, error) from None
        if expected is not None and result.rowcount != expected:
            raise _Trouble(each, None, result.rowcount)

    # When it went wrong

    def _meaning(self, sets: Sequence[_Set], trouble: "_Trouble", safe: bool) -> Exception:
        each, error = trouble.each, trouble.error
        table = each.target.table
        if error is None:
            return self._drift(each, trouble.count)
        if isinstance(error, UniqueViolation):
            drift = self._already_there(sets, each) if each.kind == "inserts" and each.key and not safe else None
            return drift or Collision(table, each.target.reason_shown(error), unique=True)
        return self.targets.refused(table, each.columns, error, ValueUnfit(table, each.target.reason_shown(error)))

    def _already_there(self, sets: Sequence[_Set], each: _Set) -> Drift | None:
        """The drift of an insert whose row exists already, unless an earlier step deletes that row."""
        goes = [other for other in sets if other.target is each.target and other.kind in ("deletes", "moves")]
        alone = ""
        for number, other in enumerate(goes):
            pairs = zip(other.key, other.key_places, strict=True)
            same = " AND ".join(f"t.{quoted(name)} = o{number}.{column}" for name, column in pairs)
            alone += f" AND NOT EXISTS (SELECT 1 FROM {other.rows.table} o{number} WHERE {same})"
        row = self._key_of(each, f"JOIN {each.target.qualified} t ON {each.same_key} WHERE 1 = 1{alone}")
        return Drift(each.target.table, row, "INSERT", "none", "one") if row is not None else None

    def _drift(self, each: _Set, count: int) -> Drift:
        """The row that is not as it should be."""
        table, action = each.target.table, ACTIONS[each.kind]
        if each.key:
            row = self._key_of(
                each, f"LEFT JOIN {each.target.qualified} t ON {each.same_key} WHERE {self._absent(each)}"
            )
            if row is not None:
                return Drift(table, row, action, "one", rows_found(0))
            if each.former:
                other = " OR ".join(f"NOT (t.{own.quoted} <=> s.{column})" for own, column in each.former)
                where = f"JOIN {each.target.qualified} t ON {each.same_key} WHERE {other}"
                row = self._key_of(each, where)
                if row is not None:
                    return Drift.of_values(table, row, action, self._differing(each, where), self.targets.mask)
        return Drift(
            table, {}, action, counted(each.rows.expected, "row"), f"{count} (a trigger of the slave interferes)"
        )

    def _absent(self, each: _Set) -> str:
        return f"t.{quoted(each.key[0])} IS NULL"

    def _key_of(self, each: _Set, rest: str) -> dict[str, str | None] | None:
        """The key of the first staged row that satisfies a condition."""
        own = [
            ColumnTexts(column, each.target.column(name).type)
            for name, column in zip(each.key, each.key_places, strict=True)
        ]
        texts = ", ".join(column.text("s") for column in own)
        row = self.session.run(f"SELECT {texts} FROM {each.rows.table} s {rest} LIMIT 1").fetchone()
        if row is None:
            return None
        shown = {name: column.shown(text) for name, column, text in zip(each.key, own, row, strict=True)}
        return self.targets.mask.row(each.target.table, shown)

    def _differing(self, each: _Set, rest: str) -> Mapping[str, tuple[str | None, str | None]]:
        selected = []
        for own, column in each.former:
            staged = ColumnTexts(column, own.type)
            selected += [own.text("t"), staged.text("s"), f"NOT (t.{own.quoted} <=> s.{column})"]
        row = self.session.run(f"SELECT {', '.join(selected)} FROM {each.rows.table} s {rest} LIMIT 1").fetchone()
        values: dict[str, tuple[str | None, str | None]] = {}
        for number, (own, _) in enumerate(each.former):
            now, before, differs = (row or ())[3 * number : 3 * number + 3] if row else (None, None, 0)
            if differs:
                values[own.name] = own.shown(now), own.shown(before)
        return values


class _Trouble(Exception):
    """A statement failed, or touched another number of rows than it should."""

    def __init__(self, each: _Set, error: StatementFailed | DatabaseRefused | None, count: int = 0):
        self.each = each
        self.error = error
        self.count = count


class MySQLStager(PlainStager[MySQLTable]):
    """Stages net changes over one session."""

    def __init__(self, connection: Session, mask: Mask = NO_PATTERNS):
        super().__init__(connection, MySQLSlaveTables(connection, mask))

    def filled(self, name: str, changes: NetChanges, kind: str, target: MySQLTable) -> StageTable:
        return _filled(native(self.connection), name, changes, kind, target)


class MySQLApplyTarget(PlainApplyTarget):
    """A slave as a target of changes."""

    Merger = MySQLMerger
    Stager = MySQLStager

    def stages(self, connection: Session, begin: str) -> list[str]:
        session = native(connection)
        rows = session.read_schema(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %(here)s "
            "AND LEFT(table_name, CHAR_LENGTH(%(begin)s)) = %(begin)s",
            {"here": session.info.database, "begin": begin},
        )
        return [name for (name,) in rows.fetchall()]

    def drop_stage(self, connection: Session, name: str) -> None:
        native(connection).run(f"DROP TABLE IF EXISTS {quoted(name)}")

    def acting(self, connection: Session) -> list[Acting]:
        """Empty: foreign keys do not act in these sessions."""
        return []

    def filled(self, connection: Session, table: TableName) -> bool:
        if catalog.shapes(connection, [table]) == {}:
            return False
        row = native(connection).run(f"SELECT EXISTS (SELECT 1 FROM {catalog.qualified(table)})").fetchone()
        return bool(row and row[0])


APPLYING = MySQLApplyTarget()
