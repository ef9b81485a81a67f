"""How a MariaDB or MySQL slave follows the master's indexes and foreign keys (`sluice.database.following`).

Plain indexes and foreign keys follow. Checks are expressions of the master's dialect, and a comment on a column is part
of the whole column here: the comparison of definitions tells people of what they may want.
"""

from collections.abc import Sequence

from sluice.database.errors import StatementFailed
from sluice.database.following import Described, NotMade
from sluice.database.load import Completed
from sluice.database.schema import Constraint, Index
from sluice.database.session import Session
from sluice.model.defined import Defined, DefinedKind, Place
from sluice.model.names import TableName
from sluice.vendors.mysql import catalog, names
from sluice.vendors.mysql.catalog import PRIMARY
from sluice.vendors.mysql.connection import native, quoted
from sluice.vendors.mysql.errors import text_of
from sluice.vendors.mysql.target.definitions import complete_constraints, complete_indexes

__all__ = ["drop", "drop_at_once", "drop_statement", "kinds", "make", "present", "rename", "statement"]

kinds = frozenset({DefinedKind.INDEXES, DefinedKind.UNIQUE, DefinedKind.FOREIGN_KEYS})

_HERE = "of this server"
"""The definition of what is there: never the text of the master's."""


def present(connection: Session, tables: Sequence[TableName]) -> dict[Place, str | None]:
    """See `Following`."""
    found: dict[Place, str | None] = {
        (DefinedKind.UNIQUE if index.unique else DefinedKind.INDEXES, index.table, index.name): _HERE
        for index in catalog.own_indexes(connection, tables)
        if index.name != PRIMARY
    }
    known = set(tables)
    for own in catalog.foreign_keys(connection, tables):
        if own.key.child in known:
            found[DefinedKind.FOREIGN_KEYS, own.key.child, own.name] = _HERE
    return found


def make(connection: Session, wanted: Described, replicated: Sequence[TableName], *, trusted: bool) -> None:
    """See `Following`."""
    if isinstance(wanted, Index):
        _require(complete_indexes(connection, [wanted], trusted=trusted))
    else:
        assert isinstance(wanted, Constraint)
        _require(complete_constraints(connection, [wanted], replicated, trusted=trusted))


def drop(connection: Session, defined: Defined) -> None:
    """See `Following`."""
    _run(connection, drop_statement(connection, defined))


def drop_at_once(connection: Session, defined: Defined) -> None:
    """See `Following`. DDL here commits by itself."""
    native(connection).run(drop_statement(connection, defined))


def rename(connection: Session, defined: Defined, name: str) -> None:
    """See `Following`. A foreign key keeps its name: nothing but messages shows it."""
    if defined.kind is not DefinedKind.FOREIGN_KEYS:
        table = names.place(defined.table)
        _run(connection, f"ALTER TABLE {table} RENAME INDEX {quoted(defined.name)} TO {quoted(name)}")


def statement(wanted: Described) -> str:
    """See `Following`."""
    assert isinstance(wanted, Index | Constraint)
    place = names.place(wanted.table)
    if isinstance(wanted, Index):
        return f"make {'a unique' if wanted.unique else 'an'} index {quoted(wanted.name)} on {place} {wanted.rest}"
    return f"make the foreign key {quoted(wanted.name)} of {place}"


def drop_statement(connection: Session, defined: Defined) -> str:
    """See `Following`."""
    kind = "FOREIGN KEY" if defined.kind is DefinedKind.FOREIGN_KEYS else "INDEX"
    return f"ALTER TABLE {names.place(defined.table)} DROP {kind} {quoted(defined.name)}"


def _run(connection: Session, text: str) -> None:
    try:
        native(connection).run(text)
    except StatementFailed as error:
        raise NotMade(error.reason or text_of(error)) from error


def _require(done: Completed) -> None:
    if done.left_out:
        raise NotMade(done.left_out[0][1])
