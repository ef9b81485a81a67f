"""Makes a PostgreSQL slave follow the master's indexes, constraints and comments (`sluice.database.following`).

Readers of the slave never wait for long: indexes are built and dropped concurrently, constraints are added NOT VALID
and then validated, and a statement that needs a strong lock gives up soon and is tried again.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import psycopg

from sluice.database.errors import StatementFailed
from sluice.database.following import Described, NotMade
from sluice.database.load import Completed
from sluice.database.schema import Comment, Constraint, DomainCheck, FreeSequence, Index
from sluice.database.session import Session
from sluice.model.defined import Defined, DefinedKind
from sluice.model.names import Prefix, TableName
from sluice.model.views import View, replicated
from sluice.vendors.postgres import domains, sequences, sessions, views
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.errors import in_one_line
from sluice.vendors.postgres.expressions import Examiner
from sluice.vendors.postgres.target import constraints

kinds = frozenset(DefinedKind)


def present(connection: Session, tables: Sequence[TableName]) -> list[Described | Defined]:
    """See `Following`."""
    return [
        *(index for index in constraints.indexes(connection, tables) if not index.primary),
        *constraints.constraints(connection, tables),
        *domains.checks(connection, tables),
        *domains.comments(connection, tables),
    ]


def present_beside(connection: Session, prefix: Prefix, schemas: Collection[str]) -> list[View | FreeSequence]:
    """See `Following`."""
    return [*sequences.free(connection, prefix, schemas), *_in_order(views.read(connection, prefix))]


def make(connection: Session, wanted: Described, replicated: Sequence[TableName], *, trusted: bool) -> None:
    """See `Following`."""
    if isinstance(wanted, Index):
        _require(constraints.complete_indexes(connection, [wanted], trusted=trusted))
    elif isinstance(wanted, Constraint):
        _require(constraints.complete_constraints(connection, [wanted], replicated, trusted=trusted))
    elif isinstance(wanted, DomainCheck):
        _add_domain_check(connection, wanted, trusted=trusted)
    elif isinstance(wanted, View | FreeSequence):
        with _reasons(), connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{constraints.LOCK_TIMEOUT}'")
            if isinstance(wanted, View):
                views.make(connection, wanted, trusted=trusted)
            else:
                sequences.make_free(connection, wanted)
    else:
        with _reasons():
            constraints.run_with_retries(connection, statement(wanted))


def drop(connection: Session, defined: Defined) -> None:
    """See `Following`."""
    text = drop_statement(connection, defined)
    with _reasons():
        if text.startswith("DROP INDEX CONCURRENTLY"):
            connection.execute(text.encode())  # never in a transaction
        else:
            _run(connection, defined.kind, text)


def drop_at_once(connection: Session, defined: Defined) -> None:
    """See `Following`."""
    connection.execute(f"SET LOCAL lock_timeout = '{constraints.LOCK_TIMEOUT}'".encode())
    text = drop_statement(connection, defined).replace("DROP INDEX CONCURRENTLY", "DROP INDEX", 1)
    _await_turn(connection, defined.kind)
    connection.execute(text.encode())


def rename(connection: Session, defined: Defined, name: str) -> None:
    """See `Following`."""
    table, old, new = quoted(defined.table.schema, defined.table.name), quoted(defined.name), quoted(name)
    if defined.kind is DefinedKind.DOMAINS:
        text = f"ALTER DOMAIN {table} RENAME CONSTRAINT {old} TO {new}"
    elif _is_index(connection, defined):
        text = f"ALTER INDEX {quoted(defined.table.schema, defined.name)} RENAME TO {new}"
    else:
        text = f"ALTER TABLE {table} RENAME CONSTRAINT {old} TO {new}"
    with _reasons():
        _run(connection, defined.kind, text)


def statement(wanted: Described) -> str:
    """See `Following`."""
    if isinstance(wanted, Index):
        return "; ".join(constraints.index_statements(wanted, None))
    if isinstance(wanted, Constraint):
        return "; ".join(constraints.constraint_statements(wanted, None))
    if isinstance(wanted, DomainCheck):
        return domains.adding(wanted)
    if isinstance(wanted, View):
        return views.statement(wanted)
    if isinstance(wanted, FreeSequence):
        return "; ".join(sequences.free_statements(wanted))
    assert isinstance(wanted, Comment)
    return domains.comment_statement(wanted.table, wanted.column, wanted.text)


def drop_statement(connection: Session, defined: Defined) -> str:
    """See `Following`."""
    table, name = quoted(defined.table.schema, defined.table.name), quoted(defined.name)
    if defined.kind is DefinedKind.COMMENTS:
        return domains.comment_statement(defined.table, defined.name, None)
    if defined.kind is DefinedKind.DOMAINS:
        return domains.dropping(defined.table.schema, defined.table.name, defined.name, "IF EXISTS ")
    if defined.kind is DefinedKind.VIEWS:
        return views.drop_statement(defined.table)
    if defined.kind is DefinedKind.SEQUENCES:
        return f"DROP SEQUENCE IF EXISTS {table}"
    if _is_index(connection, defined):
        return f"DROP INDEX CONCURRENTLY IF EXISTS {quoted(defined.table.schema, defined.name)}"
    return f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}"


def _in_order(views: list[View]) -> list[View]:
    """The views, each after those that it reads."""
    names = {view.name for view in views}
    return replicated(views, {read for view in views for read in view.reads} - names)


def _is_index(connection: Session, defined: Defined) -> bool:
    """Whether the slave has it as an index without a constraint."""
    own = (index for index in constraints.indexes(connection, [defined.table]) if index.name == defined.name)
    return any(not index.constraint_kind for index in own)


def _add_domain_check(connection: Session, wanted: DomainCheck, *, trusted: bool) -> None:
    if wanted.not_null:
        with _reasons():
            _run(connection, DefinedKind.DOMAINS, domains.adding(wanted))
        return
    domain, name = quoted(wanted.schema, wanted.domain), quoted(wanted.name)
    exists = (
        f"SELECT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.contypid = {literal(domain)}::regtype "
        f"AND k.conname = {literal(wanted.name)})"
    )
    with _reasons():
        if connection.execute(exists.encode()).fetchone() != (True,):
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{constraints.LOCK_TIMEOUT}'".encode())
                _await_turn(connection, DefinedKind.DOMAINS)
                connection.execute(f"{statement(wanted)} NOT VALID".encode())
                # NOT VALID: the check has not run yet, and is examined before any value is checked.
                reason = Examiner(connection, trusted=trusted).types([domain])
                if reason:
                    raise NotMade(reason)
        _run(connection, DefinedKind.DOMAINS, f"ALTER DOMAIN {domain} VALIDATE CONSTRAINT {name}")


def _run(connection: Session, kind: DefinedKind, text: str) -> None:
    constraints.run_with_retries(connection, text, partial(_await_turn, connection, kind))


def _await_turn(connection: Session, kind: DefinedKind) -> None:
    """In the transaction that changes a domain: the server locks none, and of two at once the second one fails."""
    if kind is DefinedKind.DOMAINS:
        sessions.lock_transaction(connection, "domains")


def _require(done: Completed) -> None:
    if done.left_out:
        raise NotMade(done.left_out[0][1])


@contextmanager
def _reasons() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        if not isinstance(error, StatementFailed):
            raise
        raise NotMade(in_one_line(error)) from error
