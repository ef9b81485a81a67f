"""Net changes of a window to the slave by array DML: a statement a kind of rows, in the caller's transaction.

Their order is that of `sluice.vendors.common.merge`. The server says of each row how many it touched; in normal mode
that must be one, with its former values. Foreign keys act: parents come first and go last; what does not work so is
replayed.

Raises, with everything it did undone and the transaction still usable: `Drift`, `Collision`, `ValueUnfit`,
`ColumnMissing`, `SlaveTableMissing`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sluice import sql_files
from sluice.database.apply import Acting
from sluice.database.column_types import ColumnTypes
from sluice.database.conflicts import Collision, Conflict, Drift, rows_found
from sluice.database.digests import Texts
from sluice.database.errors import DatabaseRefused, ForeignKeyViolation, StatementFailed, UniqueViolation
from sluice.database.net_changes import NetChanges
from sluice.database.session import Session
from sluice.model.change import RowChange
from sluice.model.mask import NO_PATTERNS, Mask
from sluice.model.names import TableName
from sluice.vendors.common.merge import ACTIONS, Merger, PlainApplyTarget, PlainStager, RowSet, StageTable
from sluice.vendors.common.replay import Replayer, Row, Statement
from sluice.vendors.common.slave_tables import SlaveTables as PlainSlaveTables
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.column_texts import ColumnTexts
from sluice.vendors.oracle.column_types import SHORT
from sluice.vendors.oracle.errors import of_row, of_trigger
from sluice.vendors.oracle.session import OracleSession, Value, binds_of, native, quoted
from sluice.vendors.oracle.target.tables import (
    OracleAlterer,
    SlaveColumn,
    SlaveTable,
    SlaveTables,
    Words,
    clause,
    differing,
    unfit,
)

# The statements of Oracle that apply changes one by one, for `sluice.vendors.common.replay`.
#
# | change | normal mode, each must change one row | safe mode |
# |---|---|---|
# | INSERT | INSERT | UPDATE by key; INSERT if there is no row |
# | UPDATE | UPDATE by key and by known old values | the old key's row gets the new key, or is deleted; as INSERT |
# | DELETE | DELETE by key and by known old values | DELETE by key |
#
# Rows of another key that have a unique value of the new row are deleted before, and returned as `displaced`: the
# caller restores those that the master has. A row without a key is identified by all its columns, and one copy is
# changed.


class OracleReplayer(Replayer[SlaveTable]):
    """Replays changes into one slave over one session."""

    def __init__(self, connection: Session, targets: PlainSlaveTables[SlaveTable]):
        super().__init__(connection, targets)
        self.session = native(connection)

    def run(self, statement: Statement) -> int:
        return self.session.run(statement.text, statement.values).rowcount

    def insert(self, target: SlaveTable, row: Row, *, counted: bool = False) -> Statement:
        words = Words(target)
        columns, values = words.row(row)
        return Statement(f"INSERT INTO {target.qualified} ({columns}) VALUES ({values})", words.values, counted)

    def update(self, target: SlaveTable, new: Row, row: Row, *, counted: bool = False, one: bool = False) -> Statement:
        words = Words(target)
        text = f"UPDATE {target.qualified} t SET {words.sets(new)} WHERE {words.equal(row)}"
        return Statement(f"{text} AND ROWNUM <= 1" if one else text, words.values, counted)

    def rename(self, target: SlaveTable, old: Row, new: Row) -> Statement:
        words = Words(target)
        text = f"UPDATE {target.qualified} t SET {words.sets(new)} WHERE {words.equal(old)} AND NOT EXISTS "
        text += f"(SELECT 1 FROM {target.qualified} t WHERE {words.equal(new)})"
        return Statement(text, words.values)

    def unfit(self, change: RowChange, target: SlaveTable, error: StatementFailed) -> Conflict | None:
        by_rule = isinstance(error, ForeignKeyViolation) or error.server_code == "ORA-2290" or of_trigger(error)
        return unfit(change.table, target.reason_shown(error)) if of_row(error) and not by_rule else None

    def indexes(self, values: Row) -> bool:
        return any(values.values())  # there is no entry for a row with NULL in all of its columns

    def delete(self, target: SlaveTable, row: Row, *, counted: bool = False, one: bool = False) -> Statement:
        words = Words(target)
        text = f"DELETE FROM {target.qualified} t WHERE {words.equal(row)}{' AND ROWNUM <= 1' if one else ''}"
        return Statement(text, words.values, counted)

    def rows(
        self, target: SlaveTable, names: Sequence[str], equal: Row, unlike: Iterable[Row] = (), most: int | None = None
    ) -> list[Texts]:
        words, texts = Words(target), ", ".join(target.column(name).text("t") for name in names)
        where = " AND ".join([words.equal(equal), *(f"NOT ({words.equal(row)})" for row in unlike)])
        text = f"SELECT {texts or '1'} FROM {target.qualified} t WHERE {where}"
        rows = self.session.run(text if most is None else f"{text} AND ROWNUM <= {most}", words.values).fetchall()
        return [tuple(map(ColumnTexts.shown, row)) if names else () for row in rows]

    def differing(
        self, target: SlaveTable, key: Mapping[str, str | None], former: Mapping[str, str | None]
    ) -> dict[str, tuple[str | None, str | None]]:
        return differing(self.session, target, key, former)


ROWS = 2_000
"""Rows of a part."""
StagedRow = dict[str, str | int | None]
_MARK = "\x01"
"""Stands before a text that is empty, which would be NULL in the stage, or begins so itself."""


@dataclass(frozen=True)
class Parts:
    """Rows of one kind, some at a time."""

    columns: tuple[str, ...]
    read: Callable[[], Iterator[list[StagedRow]]]


def parts_of(rows: "pa.Table") -> Iterator[list[StagedRow]]:
    """The rows of a table in memory, some at a time."""
    for start in range(0, rows.num_rows, ROWS):
        yield rows.slice(start, ROWS).to_pylist()


def staged_parts(session: OracleSession, staged: StageTable) -> Iterator[list[StagedRow]]:
    """The rows of a stage table, some at a time."""
    selected = ", ".join(map(quoted, staged.columns))
    text = f"SELECT {selected} FROM {staged.table} WHERE row_no > :above AND row_no <= :through ORDER BY row_no"
    for above in range(0, staged.rows, ROWS):
        rows = session.run(text, {"above": above, "through": above + ROWS})
        yield [dict(zip(staged.columns, map(_unmarked, row), strict=True)) for row in rows]


def _filled(session: OracleSession, name: str, rows: "pa.Table") -> StageTable:
    table = quoted(name)
    columns = tuple(rows.column_names)
    lines = ["row_no NUMBER(19) NOT NULL PRIMARY KEY"]
    for name in columns:
        if name == "copies":
            lines.append(f"{quoted(name)} NUMBER(19)")
        else:
            longest = pc.max(pc.utf8_length(rows.column(name))).as_py() or 0
            lines.append(f"{quoted(name)} {f'VARCHAR2({SHORT} CHAR)' if longest < SHORT else 'CLOB'}")
    session.run(f"CREATE TABLE {table} ({', '.join(lines)})")
    names = ", ".join(map(quoted, columns))
    text = f"INSERT INTO {table} (row_no, {names}) VALUES (:row_no, {', '.join(f':{name}' for name in columns)})"
    done = 0
    with session.transaction():
        for part in parts_of(rows):
            marked = ({name: _marked(value) for name, value in row.items()} for row in part)
            session.run_many(text, [{"row_no": done + at, **row} for at, row in enumerate(marked, start=1)])
            done += len(part)
    return StageTable(table, columns, rows.num_rows, 0)


def _marked(value: str | int | None) -> str | int | None:
    return _MARK + value if isinstance(value, str) and (not value or value.startswith(_MARK)) else value


def _unmarked(value: str | int | None) -> str | int | None:
    return value.removeprefix(_MARK) if isinstance(value, str) else value


@dataclass(frozen=True)
class _Set(RowSet[SlaveTable, Parts]):
    """Rows of one kind of one table."""

    def own(self, name: str) -> SlaveColumn:
        """The slave's column that `c1`, `k2` or `b3` is of. Raises `ColumnMissing`."""
        return self.target.column((self.key if name[0] == "k" else self.columns)[int(name[1:]) - 1])

    def under(self, columns: Sequence[str]) -> str:
        """The row of `t` is under this key."""
        return " AND ".join(
            f"t.{self.own(column).quoted} = {self.own(column).value(f':{column}')}" for column in columns
        )

    @property
    def match(self) -> str:
        """The row is under its key, and as it was."""
        images = [self.target.column(name).same("t", f":{column}") for name, column in self.images]
        return " AND ".join([self.under(self.key_places), *images])

    @property
    def written(self) -> list[tuple[str, str]]:
        """Quoted columns of the table, and the expressions of their new values."""
        columns = []
        for number, name in enumerate(self.columns, start=1):
            own = self.target.column(name)
            if not own.generated:
                columns.append((own.quoted, own.value(f":c{number}")))
        return columns

    def bound(self, row: StagedRow, names: Collection[str]) -> dict[str, Value]:
        """The parameters `names` of a statement."""
        values: dict[str, Value] = {}
        for name in names:
            text = row[name]
            values[name] = text if name == "copies" or isinstance(text, int) else self.own(name).bind(text)
        return values

    def key_of(self, row: StagedRow, columns: Sequence[str]) -> dict[str, str | None]:
        texts = [row[column] for column in columns]
        return {name: None if text is None else str(text) for name, text in zip(self.key, texts, strict=True)}


class OracleMerger(Merger[SlaveTable, Parts, _Set]):
    """Merges into one slave over one session. Foreign keys and triggers act there."""

    row_set = _Set

    def __init__(self, connection: Session, *, cascades: bool, mask: Mask = NO_PATTERNS):
        super().__init__(connection, SlaveTables(connection, mask), cascades=cascades)
        self.session = native(connection)

    def replayer(self) -> OracleReplayer:
        return OracleReplayer(self.connection, self.targets)

    def alterer(self, *, trusted: bool, of_master: ColumnTypes, lossy: Sequence[str]) -> OracleAlterer:
        """`trusted` has no effect: no expression of the master's is run."""
        return OracleAlterer(self.connection, self.targets, of_master, lossy)

    def begin(self, immediate: Collection[str] = ()) -> None:
        """Defers all constraints that can be."""
        assert not immediate, immediate
        self.session.run("SET CONSTRAINTS ALL DEFERRED")

    def rows_of(self, changes: NetChanges, kind: str, number: int, target: SlaveTable) -> Parts:
        rows = changes.by_kind[kind]
        return Parts(tuple(rows.column_names), partial(parts_of, rows))

    def rows_in(self, staged: StageTable) -> Parts:
        return Parts(staged.columns, partial(staged_parts, self.session, staged))

    def in_order(self, sets: list[_Set]) -> list[_Set]:
        order = self.targets.order({each.target.table for each in sets})
        return sorted(sets, key=lambda each: order.index(each.target.table))

    # Doing it

    def delete(self, each: _Set, *, safe: bool) -> None:
        where = each.under(each.key_places) if safe else each.match
        self._run(each, f"DELETE FROM {each.target.qualified} t WHERE {where}", expected=None if safe else 1)

    def remove(self, each: _Set) -> None:
        columns = [f"c{number}" for number in range(1, len(each.columns) + 1)]
        match = " AND ".join(each.own(column).same("t", f":{column}") for column in columns)
        text = f"DELETE FROM {each.target.qualified} t WHERE {match} AND ROWNUM <= :copies"
        self._run(each, text, expected="copies")

    def update(self, each: _Set) -> None:
        sets = ", ".join(f"{name} = {value}" for name, value in each.written)
        self._run(each, f"UPDATE {each.target.qualified} t SET {sets} WHERE {each.match}", expected=1)

    def insert(self, each: _Set) -> None:
        names, values = (", ".join(part) for part in zip(*each.written, strict=True))
        self._run(each, f"INSERT INTO {each.target.qualified} ({names}) VALUES ({values})", expected=1)

    def put(self, each: _Set) -> None:
        """A unique value that another row has is a `Collision`: which row must go, the replay says."""
        sets = ", ".join(f"{name} = {value}" for name, value in each.written)
        names, values = (", ".join(part) for part in zip(*each.written, strict=True))
        update = f"UPDATE {each.target.qualified} t SET {sets} WHERE {each.under(each.new_key_places)}"
        insert = f"INSERT INTO {each.target.qualified} ({names}) VALUES ({values})"
        for part in each.rows.read():
            counts = self._counts(each, update, part)
            self._counts(each, insert, [row for row, count in zip(part, counts, strict=True) if count == 0])

    def _run(self, each: _Set, text: str, *, expected: int | str | None) -> None:
        """`expected`: how many rows of the slave each row must touch, or where that stands; None: any number."""
        for part in each.rows.read():
            counts = self._counts(each, text, part)
            for row, count in zip(part, counts, strict=True):
                number = row[expected] if isinstance(expected, str) else expected
                if number is not None and count != number:
                    raise self._drift(each, row, count)

    def _counts(self, each: _Set, text: str, part: Sequence[StagedRow]) -> list[int]:
        names = binds_of(text)
        try:
            return self.session.run_many(text, [each.bound(row, names) for row in part])
        except (StatementFailed, DatabaseRefused) as error:
            raise self._meaning(each, error, part) from None

    # When it went wrong

    def _meaning(self, each: _Set, error: StatementFailed | DatabaseRefused, part: Sequence[StagedRow]) -> Exception:
        table = each.target.table
        if isinstance(error, UniqueViolation | ForeignKeyViolation):
            return Collision(table, each.target.reason_shown(error), unique=isinstance(error, UniqueViolation))
        return self.targets.refused(table, each.columns, error, unfit(table, each.target.reason_shown(error)))

    def _drift(self, each: _Set, row: StagedRow, count: int) -> Drift:
        table, action, mask = each.target.table, ACTIONS[each.kind], self.targets.mask
        if not each.key:
            return Drift(table, {}, action, rows_found(int(row["copies"] or 0)), rows_found(count))
        key = each.key_of(row, each.key_places)
        shown = mask.row(table, key)
        if self.replayer().rows_under(each.target, key) != 1 or not each.images:
            return Drift(table, shown, action, "one", rows_found(count))
        former = {name: _text(row[column]) for name, column in each.images}
        return Drift.of_values(table, shown, action, differing(self.session, each.target, key, former), mask)


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)


class OracleStager(PlainStager[SlaveTable]):
    """Stages net changes over one session."""

    def __init__(self, connection: Session, mask: Mask = NO_PATTERNS):
        super().__init__(connection, SlaveTables(connection, mask))

    def filled(self, name: str, changes: NetChanges, kind: str, target: SlaveTable) -> StageTable:
        for column in (*changes.columns, *changes.key):
            target.column(column)
        for present in APPLYING.stages(self.connection, name):
            APPLYING.drop_stage(self.connection, present)
        return _filled(native(self.connection), name, changes.by_kind[kind])


class OracleApplyTarget(PlainApplyTarget):
    """A slave as a target of changes."""

    Merger = OracleMerger
    Stager = OracleStager

    def stages(self, connection: Session, begin: str) -> list[str]:
        session = native(connection)
        text = (
            "SELECT t.TABLE_NAME FROM ALL_TABLES t WHERE t.OWNER = :owner "
            "AND SUBSTR(t.TABLE_NAME, 1, LENGTH(:beginning)) = :beginning"
        )
        return [name for (name,) in session.run(text, {"owner": session.schema, "beginning": begin})]

    def drop_stage(self, connection: Session, name: str) -> None:
        native(connection).run(f"DROP TABLE {quoted(name)} PURGE")

    def acting(self, connection: Session) -> list[Acting]:
        """The foreign keys that delete rows, or set them to NULL, when others are deleted."""
        acting_tables = native(connection).run(sql_files.render("oracle", "foreign_keys_acting")).fetchall()
        keys = catalog.foreign_keys(connection, [TableName(names.HERE, name) for (name,) in acting_tables])
        return [Acting(own.name, clause(own.key), own.key) for own in keys if own.key.on_delete in ("c", "n")]

    def filled(self, connection: Session, table: TableName) -> bool:
        if catalog.shape(connection, table) is None:
            return False
        row = native(connection).run(f"SELECT COUNT(*) FROM {names.qualified(table)} WHERE ROWNUM <= 1").fetchone()
        return bool(row and row[0])


APPLYING = OracleApplyTarget()
