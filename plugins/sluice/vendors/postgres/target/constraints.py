"""Makes indexes and constraints beside the key on a PostgreSQL slave after the load, while changes are applied.

The apply never waits for long: indexes are built concurrently, constraints are added NOT VALID and then validated, and
a statement that needs a strong lock waits only briefly, gives up, and is tried again.

Foreign keys take no action on the slave, because the master's cascades arrive as
changes. They are deferrable, so that the apply may write in any order.
"""

import logging
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import psycopg

from sluice import sql_files
from sluice.database.load import Completed
from sluice.database.schema import Constraint, Index
from sluice.database.session import Session
from sluice.model.issue import Issue, Severity
from sluice.model.names import TableName
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.errors import in_one_line
from sluice.vendors.postgres.expressions import Examiner, ExpressionRefused
from sluice.vendors.postgres.target.alter_plan import PENDING

log = logging.getLogger("sluice.load")

LOCK_TIMEOUT = "2s"
TRIES = 60
"""How often a statement that needs a strong lock is tried."""

# Classes of failures that a person may fix or accept: a missing function or operator, a taken name, a missing
# privilege, rows of the slave's own that violate a constraint. All others (disk full, lost connection) are errors.
_LEFT_OUT = ("42", "23", "0A", "22")

_SURPLUS = "the master has none, and the apply stops at the first row of the master's that does not meet it"
_SURPLUS_INDEX = "the master has none of that name, and every change on the slave pays for it"
_DEFERRABLE = re.compile(r" DEFERRABLE( INITIALLY DEFERRED)?\Z")


def definition(wanted: Constraint) -> str:
    """The definition for ADD CONSTRAINT on a slave."""
    if wanted.parent is None:
        return str(wanted.check)
    columns = ", ".join(quoted(column) for column in wanted.columns or [])
    parents = ", ".join(quoted(column) for column in wanted.parent_columns or [])
    match = " MATCH FULL" if wanted.match == "f" else ""
    initially = "DEFERRED" if wanted.deferred else "IMMEDIATE"
    return (
        f"FOREIGN KEY ({columns}) REFERENCES {quoted(wanted.parent.schema, wanted.parent.name)} ({parents}){match} "
        f"DEFERRABLE INITIALLY {initially}"
    )


def indexes(connection: Session, tables: Sequence[TableName]) -> list[Index]:
    """All indexes of `tables`, also those of primary keys."""
    rows = connection.execute(sql_files.render("postgres", "table_indexes"), catalog.pairs(tables)).fetchall()
    return [Index(TableName(schema, name), *values) for schema, name, *values in rows]


def constraints(connection: Session, tables: Sequence[TableName]) -> list[Constraint]:
    """Check constraints and foreign keys of `tables`."""
    rows = connection.execute(sql_files.render("postgres", "table_constraints"), catalog.pairs(tables)).fetchall()
    return [
        Constraint(
            TableName(schema, table), name, kind, validated, check, columns,
            TableName(other, parent) if parent else None, parent_columns, match, deferrable, deferred,
        )
        for schema, table, name, kind, validated, check, columns, other, parent, parent_columns, match, deferrable,
            deferred in rows
    ]  # fmt: skip


def keys(connection: Session, tables: Sequence[TableName]) -> dict[TableName, tuple[str, str]]:
    """Table with a key → the key's index, and its kind: `p` primary key, `u` unique constraint, `i` unique index."""
    rows = connection.execute(sql_files.render("postgres", "table_keys"), catalog.pairs(tables)).fetchall()
    return {TableName(schema, name): (index, kind) for schema, name, index, kind in rows}


def complete_indexes(connection: Session, master: Sequence[Index], *, trusted: bool = False) -> Completed:
    """Makes the indexes, unique and exclusion constraints that the slave lacks, over a session in autocommit.

    Makes an index again that an interrupted try left invalid. `trusted`: any expression may be run.
    """
    examiner = Examiner(connection, trusted=trusted)
    done = Completed()
    for wanted, own in _missing_indexes(connection, master):
        _attempt(done, _name_of(wanted), partial(_index, connection, examiner, wanted, own))
    return done


def complete_constraints(
    connection: Session,
    master: Sequence[Constraint],
    replicated: Sequence[TableName],
    *,
    trusted: bool = False,
) -> Completed:
    """Makes the checks and foreign keys that the slave lacks, and validates those it has not validated.

    Only foreign keys to `replicated` tables, as the slave lacks rows of others. `trusted`: any expression may be run.
    """
    examiner = Examiner(connection, trusted=trusted)
    done = Completed()
    tables = set(replicated)
    for wanted, own in _missing_constraints(connection, master):
        if wanted.kind == "f" and wanted.parent not in tables:
            done.left_out.append((_name_of(wanted), f"{wanted.parent} is not replicated"))
            continue
        _attempt(done, _name_of(wanted), partial(_constraint, connection, examiner, wanted, own))
    return done


def lacking(
    connection: Session,
    indexes_of_master: Sequence[Index],
    constraints_of_master: Sequence[Constraint],
    replicated: Collection[TableName],
) -> list[Issue]:
    """What `complete_indexes` and `complete_constraints` would make, with the statements; makes nothing."""
    tables = set(replicated)
    issues: list[tuple[Index | Constraint, list[str]]] = [
        (wanted, index_statements(wanted, own)) for wanted, own in _missing_indexes(connection, indexes_of_master)
    ]
    issues += [
        (wanted, constraint_statements(wanted, own))
        for wanted, own in _missing_constraints(connection, constraints_of_master)
        if wanted.kind != "f" or wanted.parent in tables
    ]
    return [
        Issue("", _name_of(wanted), "the master has it", ";\n".join(statements), Severity.WARNING)
        for wanted, statements in issues
    ]


def surplus(
    connection: Session,
    indexes_of_master: Sequence[Index],
    constraints_of_master: Sequence[Constraint],
    tables: Sequence[TableName],
) -> list[Issue]:
    """What constrains `tables` on the slave and not on the master, under any name; drops nothing.

    Other indexes that only the slave has come last, as notes: its readers may need them.
    """
    names = {(one.table, one.name) for one in indexes_of_master} | {
        (one.table, one.name) for one in constraints_of_master
    }
    unique = {(one.table, one.rest) for one in indexes_of_master if one.unique}
    defined = {(one.table, definition(one)) for one in constraints_of_master}
    present = indexes(connection, tables)
    constraining: list[Index | Constraint] = [
        own for own in present if own.constrains and not own.primary and (own.table, own.rest) not in unique
    ]
    constraining += [own for own in constraints(connection, tables) if (own.table, definition(own)) not in defined]
    return [
        Issue("", _name_of(own), _SURPLUS, _drop(own), Severity.WARNING)
        for own in constraining
        # Except Sluice's own check of a column that waits for its values.
        if (own.table, own.name) not in names and not own.name.startswith(PENDING)
    ] + [
        Issue(
            "",
            _name_of(own),
            _SURPLUS_INDEX,
            None,
            Severity.NOTE,
            remedy=f"Unless it is wanted there: {_drop(own)};",
        )
        for own in present
        if not own.constrains and (own.table, own.name) not in names
    ]


def _drop(own: Index | Constraint) -> str:
    if isinstance(own, Index) and not own.constraint_kind:
        return _drop_index(own)
    return _drop_constraint(own.table, own.name)


def _missing_indexes(connection: Session, master: Sequence[Index]) -> Iterator[tuple[Index, Index | None]]:
    """The indexes that the slave lacks, with what it has instead: an invalid index, or one without the constraint."""
    tables = list(dict.fromkeys(index.table for index in master))
    present = {(index.table, index.name): index for index in indexes(connection, tables)}
    for wanted in master:
        if wanted.primary or not wanted.valid:
            continue
        own = present.get((wanted.table, wanted.name))
        if not (own and own.valid and (own.constraint_kind or not wanted.constraint_kind)):
            yield wanted, own


def _missing_constraints(
    connection: Session, master: Sequence[Constraint]
) -> Iterator[tuple[Constraint, Constraint | None]]:
    """The constraints that the slave lacks or has not validated, checks first, with what the slave has."""
    tables = list(dict.fromkeys(constraint.table for constraint in master))
    present = {(constraint.table, constraint.name): constraint for constraint in constraints(connection, tables)}
    for wanted in sorted(master, key=lambda constraint: constraint.kind):
        own = present.get((wanted.table, wanted.name))
        if wanted.validated and not (own and own.validated):
            yield wanted, own


def _name_of(wanted: Index | Constraint) -> str:
    kind = "index" if isinstance(wanted, Index) else "check" if wanted.kind == "c" else "foreign key"
    return f"{kind} {wanted.name} on {wanted.table}"


def strip(connection: Session, master: Sequence[Index], constraints_of_master: Sequence[Constraint]) -> list[str]:
    """Drops what `complete_indexes` and `complete_constraints` make again later, over a session in autocommit.

    Only what has the same name and definition on the master, and never the key. Skips what this account may not drop.
    Returns what it dropped.
    """
    tables = list(dict.fromkeys(index.table for index in master))
    own_references = {
        (own.table, own.name): definition(own)
        for own in constraints(connection, list(dict.fromkeys(wanted.table for wanted in constraints_of_master)))
        if own.kind == "f"
    }
    own_indexes = {(own.table, own.name): own for own in indexes(connection, tables)}
    own_keys = keys(connection, tables)
    statements = []
    for wanted in constraints_of_master:
        if wanted.validated and own_references.get((wanted.table, wanted.name)) == definition(wanted):
            statements.append((wanted.table, wanted.name, _drop_constraint(wanted.table, wanted.name)))
    for index in master:
        own = own_indexes.get((index.table, index.name))
        if own is None or not index.valid or replace(own, valid=True) != index:
            continue
        if own.primary or own_keys.get(index.table, ("", ""))[0] == index.name:
            continue
        drop = f"DROP INDEX {quoted(index.table.schema, index.name)}"
        if own.constraint_kind:
            drop = _drop_constraint(index.table, index.name)
        statements.append((index.table, index.name, drop))
    dropped = []
    for table, name, statement in statements:
        try:
            run_with_retries(connection, statement)
            dropped.append(f"{name} on {table}")
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.DependentObjectsStillExist) as error:
            log.info("%s on %s stays during the load: %s", name, table, in_one_line(error))
    return dropped


def _drop_constraint(table: TableName, name: str) -> str:
    return f"ALTER TABLE {quoted(table.schema, table.name)} DROP CONSTRAINT {quoted(name)}"


def untrusted(examiner: Examiner, table: TableName, expressions: Sequence[str]) -> str:
    """Why the slave's table must not evaluate the expressions; empty if it may. Raises psycopg's errors."""
    row = [f"LIKE {quoted(table.schema, table.name)}"]
    return next((why for one in expressions if (why := examiner.evaluated(one, row, table.name))), "")


def _index(connection: Session, examiner: Examiner, wanted: Index, own: Index | None) -> None:
    statements = index_statements(wanted, own)
    _examine(examiner, wanted, statements)
    for statement in statements:
        if statement.startswith("ALTER "):
            run_with_retries(connection, statement)
            continue
        try:
            connection.execute(statement.encode())
        except (psycopg.errors.DuplicateTable, psycopg.errors.QueryCanceled):
            raise  # another object has the name; or somebody needs the table now, and the next try drops what is there
        except psycopg.Error:
            if not connection.closed:
                # Every write would still maintain the invalid index of a failed build.
                connection.execute(_drop_index(wanted).encode())
            raise


def index_statements(wanted: Index, own: Index | None) -> list[str]:
    """The statements that make it, each for its own transaction. `own`: what the slave has in its place."""
    table, name = quoted(wanted.table.schema, wanted.table.name), quoted(wanted.name)
    if wanted.constraint_kind == "x":
        # It cannot be built concurrently. Deferred, so that the apply may write rows in any order.
        deferred = _DEFERRABLE.sub("", str(wanted.constraint)) + " DEFERRABLE INITIALLY DEFERRED"
        return [f"ALTER TABLE {table} ADD CONSTRAINT {name} {deferred}"]
    statements = []
    if own and not own.valid:
        statements.append(_drop_index(wanted))
        own = None
    if own is None:
        unique = "UNIQUE " if wanted.unique else ""
        statements.append(f"CREATE {unique}INDEX CONCURRENTLY {name} ON {table} {wanted.rest}")
    if wanted.constraint_kind == "u":
        deferrable = _DEFERRABLE.search(str(wanted.constraint))
        suffix = deferrable.group(0) if deferrable else ""
        statements.append(f"ALTER TABLE {table} ADD CONSTRAINT {name} UNIQUE USING INDEX {name}{suffix}")
    return statements


def _drop_index(wanted: Index) -> str:
    return f"DROP INDEX CONCURRENTLY IF EXISTS {quoted(wanted.table.schema, wanted.name)}"


def _constraint(connection: Session, examiner: Examiner, wanted: Constraint, own: Constraint | None) -> None:
    statements = constraint_statements(wanted, own)
    _examine(examiner, wanted, statements)
    for statement in statements:
        run_with_retries(connection, statement)


def _examine(examiner: Examiner, wanted: Index | Constraint, statements: Sequence[str]) -> None:
    reason = untrusted(examiner, wanted.table, wanted.expressions)
    if reason:
        raise ExpressionRefused(wanted.table, "; ".join(statements), reason, again="clear the task finish")


def constraint_statements(wanted: Constraint, own: Constraint | None) -> list[str]:
    """The statements that make it and check the rows, each for its own transaction."""
    table, name = quoted(wanted.table.schema, wanted.table.name), quoted(wanted.name)
    validate = f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}"
    if own:
        return [validate]
    return [f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition(wanted)} NOT VALID", validate]


def run_with_retries(connection: Session, statement: str, prepare: Callable[[], None] = lambda: None) -> None:
    """Runs DDL that needs a strong lock: waits for it only briefly, so that the apply continues, and tries again.

    `prepare`: what runs before it, in its transaction.
    """
    for left in range(TRIES, -1, -1):
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
                prepare()
                connection.execute(statement.encode())
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if not left:
                raise
            time.sleep(0.2)


def _attempt(done: Completed, what: str, make: Callable[[], None]) -> None:
    try:
        make()
    except ExpressionRefused as refused:
        done.left_out.append((what, refused.reason))
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith(_LEFT_OUT):
            raise
        done.left_out.append((what, in_one_line(error)))
    else:
        done.made.append(what)
