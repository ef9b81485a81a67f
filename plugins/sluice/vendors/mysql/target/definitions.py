"""Indexes and constraints of the master on the slave, as far as this server can have them: made after a load, compared.

An index of plain columns is made, under the master's name. One of expressions, of some rows, or of another kind than a
B-tree is left out, with the reason; so are checks, which are expressions of the master's dialect. Foreign keys are made
without actions and without looking at the rows, which are the master's: they keep others from harm, the apply's
sessions do not obey them.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sluice.database.errors import StatementFailed
from sluice.database.load import Completed
from sluice.database.plain_index import columns_of
from sluice.database.schema import Constraint, Index
from sluice.database.session import Session
from sluice.model.lack import Lack, Severity
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.vendors.mysql import catalog, names
from sluice.vendors.mysql.catalog import PRIMARY, OwnIndex
from sluice.vendors.mysql.column_texts import ColumnTexts
from sluice.vendors.mysql.connection import native, quoted
from sluice.vendors.mysql.errors import text_of

PREFIX = 191
"""Characters of a long text that an index holds, where it need not keep texts apart."""
KEY_CHARACTERS = 768


@dataclass(frozen=True)
class Wanted:
    """An index as this server can have it."""

    index: Index
    columns: tuple[str, ...]
    clauses: tuple[str, ...]

    @property
    def statement(self) -> str:
        kind = "UNIQUE INDEX" if self.index.unique else "INDEX"
        table = names.place(self.index.table)
        return f"ALTER TABLE {table} ADD {kind} {quoted(self.index.name)} ({', '.join(self.clauses)})"


def same_index(own: OwnIndex, wanted: Index) -> bool:
    """Whether the slave's index is what `complete_indexes` would make of the master's."""
    return own.unique == wanted.unique and own.columns == columns_of(wanted)


def complete_indexes(
    connection: Session,
    master: Sequence[Index],
    stopped: Callable[[], bool] = lambda: False,
    *,
    trusted: bool = False,
) -> Completed:
    """Makes the indexes that the slave lacks. Each is made while rows are read and written."""
    done = Completed()
    wanted, left_out = _lacking_indexes(connection, master)
    done.left_out += left_out
    for each in wanted:
        if stopped():
            break
        _attempt(connection, done, f"index {each.index.name} of {each.index.table}", each.statement)
    return done


def complete_constraints(
    connection: Session,
    master: Sequence[Constraint],
    replicated: Sequence[TableName],
    stopped: Callable[[], bool] = lambda: False,
    *,
    trusted: bool = False,
) -> Completed:
    """Makes the foreign keys between `replicated` tables that the slave lacks."""
    done = Completed()
    native(connection).run("SET foreign_key_checks = 0")
    for constraint in master:
        if stopped():
            break
        if constraint.kind == "c":
            what = f"check {constraint.name} of {constraint.table}"
            done.left_out.append((what, "it is an expression of the master's dialect"))
        elif constraint.kind == "f" and constraint.parent not in replicated:
            what = f"foreign key {constraint.name} of {constraint.table}"
            done.left_out.append((what, f"{constraint.parent} is not replicated"))
    for constraint, statement in _lacking_foreign_keys(connection, master, replicated):
        if stopped():
            break
        _attempt(connection, done, f"foreign key {constraint.name} of {constraint.table}", statement)
    return done


def lacking(
    connection: Session, indexes: Sequence[Index], constraints: Sequence[Constraint], replicated: Collection[TableName]
) -> list[Lack]:
    """What `complete_indexes` and `complete_constraints` would make, with the statements."""
    wanted, _ = _lacking_indexes(connection, indexes)
    found = [
        Lack("", f"index {each.index.name} of {each.index.table}", "the master has it", each.statement,
             Severity.WARNING)
        for each in wanted
    ]  # fmt: skip
    return found + [
        Lack("", f"foreign key {each.name} of {each.table}", "the master has it", statement, Severity.NOTE)
        for each, statement in _lacking_foreign_keys(connection, constraints, replicated)
    ]


def surplus(
    connection: Session, indexes: Sequence[Index], constraints: Sequence[Constraint], tables: Sequence[TableName]
) -> list[Lack]:
    """Unique values that only the slave keeps."""
    del constraints
    found = []
    for own in catalog.own_indexes(connection, tables):
        known = any(same_index(own, other) for other in indexes if other.table == own.table)
        if not own.unique or own.name == PRIMARY or known:
            continue
        drop = f"ALTER TABLE {names.place(own.table)} DROP INDEX {quoted(own.name)}"
        why = "the master has none, and the apply stops at the first row of the master's that does not meet it"
        found.append(Lack("", f"unique index {own.name} of {own.table}", why, drop, Severity.WARNING))
    return found


def _lacking_indexes(connection: Session, master: Sequence[Index]) -> tuple[list[Wanted], list[tuple[str, str]]]:
    """What can be made; and what cannot, with why."""
    tables = sorted({index.table for index in master})
    shapes = catalog.shapes(connection, tables)
    there: dict[TableName, list[OwnIndex]] = {}
    for own in catalog.own_indexes(connection, tables):
        there.setdefault(own.table, []).append(own)
    wanted: list[Wanted] = []
    left_out: list[tuple[str, str]] = []
    for index in master:
        shape = shapes.get(index.table)
        if index.primary or shape is None:
            continue
        columns, what = columns_of(index), f"index {index.name} of {index.table}"
        if columns is None:
            left_out.append((what, "it is of expressions, of some rows, or of a kind that this server lacks"))
            continue
        # An index that begins with these columns serves as well, a unique one only where it is the same.
        same = [own for own in there.get(index.table, ()) if own.columns[: len(columns)] == columns]
        if any(not index.unique or (own.unique and own.columns == columns) for own in same):
            continue
        if not {column.name for column in shape.columns}.issuperset(columns):
            left_out.append((what, "the slave's table lacks a column of it"))
            continue
        clauses = _clauses(shape, columns, unique=index.unique)
        if clauses is None:
            left_out.append((what, "a text of its columns is too long for a unique index"))
        else:
            wanted.append(Wanted(index, columns, clauses))
    return wanted, left_out


def _clauses(shape: TableShape, columns: Sequence[str], *, unique: bool) -> tuple[str, ...] | None:
    """Columns as an index names them, long texts by their beginning; None where that cannot keep them apart."""
    clauses = []
    for name in columns:
        own = ColumnTexts(name, shape.column(name).type)
        long = own.base.endswith(("text", "blob")) or own.length > KEY_CHARACTERS
        if long and unique:
            return None
        clauses.append(f"{own.quoted}({PREFIX})" if long else own.quoted)
    return tuple(clauses)


def _lacking_foreign_keys(
    connection: Session, master: Sequence[Constraint], replicated: Collection[TableName]
) -> list[tuple[Constraint, str]]:
    wanted = [each for each in master if each.kind == "f" and each.parent in set(replicated)]
    tables = sorted({each.table for each in wanted})
    shapes = catalog.shapes(connection, tables)
    there = {(own.key.child, own.key.parent, own.key.columns) for own in catalog.foreign_keys(connection, tables)}
    return [
        (
            each,
            f"ALTER TABLE {names.place(each.table)} ADD CONSTRAINT {quoted(each.name)} FOREIGN KEY "
            f"({', '.join(map(quoted, each.columns or ()))}) REFERENCES {names.place(each.parent)} "
            f"({', '.join(map(quoted, each.parent_columns or ()))})",
        )
        for each in wanted
        if each.table in shapes and (each.table, each.parent, tuple(each.columns or ())) not in there
    ]


def _attempt(connection: Session, done: Completed, what: str, statement: str) -> None:
    try:
        native(connection).run(statement)
    except StatementFailed as error:
        done.left_out.append((what, error.reason or text_of(error)))
    else:
        done.made.append(what)
