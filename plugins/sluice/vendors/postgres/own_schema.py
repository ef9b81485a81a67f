"""The schema of Sluice's objects on one side. Only its account may create objects there, or own one of Sluice's.

Functions there run with the account's rights, and the account reads and writes tables there. An object that somebody
else made under one of their names would be used as Sluice's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from sluice import sql_files
from sluice.configuration.model import DEFAULT_SCHEMA
from sluice.configuration.resolve import MASTER_MARKS, SLAVE_MARKS, SLAVE_TABLES
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.issue import MASTER, Issue, slave_side
from sluice.model.names import Prefix
from sluice.paths import PROGRAM
from sluice.vendors.postgres import privileges, sessions
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.issues import issue, listed, of_foreign, schema_issue

_USED = "an object that they make under one of Sluice's names would be used as its own, with the rights of {role}"


@dataclass(frozen=True)
class OwnSchema:
    """The names of Sluice's objects on one side, and their schema."""

    side: str
    """`master`, or `slave` and its name."""
    prefix: Prefix
    name: str
    """The schema, as the database stores it."""
    relations: tuple[str, ...]
    """Names, after the prefix, of tables, views and sequences."""
    functions: tuple[str, ...] = ()
    captures: str | None = None
    """The beginning of the names of trigger functions, after the prefix; None: there are none."""

    @classmethod
    def of_slave(cls, prefix: Prefix, schema: str, slave: str) -> "OwnSchema":
        """CHECKPOINT and what is beside it."""
        return cls(slave_side(slave), prefix, schema, tuple(sorted(SLAVE_TABLES)))

    @property
    def quoted(self) -> str:
        return quoted(self.name)

    def table(self, name: str) -> str:
        """The quoted name of one of `relations`."""
        return quoted(self.name, self.prefix.lower + name)

    @property
    def marks(self) -> tuple[str, ...]:
        """Tables that every installation of the side has."""
        return MASTER_MARKS if self.side == MASTER else SLAVE_MARKS


class SchemaUnsafe(Terminal):
    """The schema is not safe for Sluice's objects; `issues` gives the reasons."""

    def __init__(self, own: OwnSchema, issues: Sequence[Issue]):
        reasons = "\n".join(f"- {issue}" for issue in issues)
        super().__init__(
            f"{own.prefix}: Sluice's objects cannot be in the schema {own.quoted} as it is, and nothing was changed "
            f"there:\n{reasons}\nThen start again."
        )
        self.issues = tuple(issues)


class NotOwned(Terminal):
    """One of Sluice's tables is not a table, or belongs to another account."""

    def __init__(self, relation: str, owner: str, account: str):
        super().__init__(
            f"{relation} is used by Sluice and is no table of the account {account}: {owner} owns it, and could make "
            "it run code with that account's rights when it is read. The task check of the DAGs says what to do."
        )


class InstalledElsewhere(Terminal):
    """The objects are in another schema than the configuration names; the default was public before."""

    def __init__(self, own: OwnSchema, schemas: Sequence[str]):
        reason, remedy = elsewhere_reason(own, schemas), elsewhere_remedy(own, schemas)
        super().__init__(f"{own.prefix}, {own.side}: {reason}. {remedy}")


def has(connection: Session, relation: str) -> bool:
    """Whether one of Sluice's tables exists. `relation`: its quoted name. Raises `NotOwned`, psycopg's errors."""
    row = connection.execute(sql_files.render("postgres", "own_table"), {"relation": relation}).fetchone()
    if row is None:
        return False
    owner, own = row
    if not own:
        raise NotOwned(relation, owner, privileges.role(connection))
    return True


def expect_owned(connection: Session, own: OwnSchema) -> None:
    """Checks that the account owns all objects with Sluice's names. Raises `SchemaUnsafe`, psycopg's errors."""
    if wrong := list(of_foreign(privileges.role(connection), foreign(connection, own))):
        raise SchemaUnsafe(own, [issue.at(own.side, "") for issue in wrong])


def expect_not_elsewhere(connection: Session, own: OwnSchema) -> None:
    """Checks that the side is not installed in another schema. Call it where this schema has nothing.

    Raises `InstalledElsewhere`.
    """
    if schemas := elsewhere(connection, own):
        raise InstalledElsewhere(own, schemas)


def elsewhere(connection: Session, own: OwnSchema) -> list[str]:
    """Other schemas that have the objects, where the configuration names no schema."""
    if own.name != DEFAULT_SCHEMA:
        return []
    names = [own.prefix.lower + mark for mark in own.marks]
    statement = sql_files.render("postgres", "schema_elsewhere")
    rows = connection.execute(statement, {"schema": own.name, "relations": names}).fetchall()
    if own.side == MASTER:
        return [name for name, _ in rows]
    return [name for name, schema in rows if _holds(connection, own, schema)]


def issues(connection: Session, own: OwnSchema) -> list[Issue]:
    """Why the schema is not safe for Sluice's objects. A schema that does not exist lacks nothing."""
    role = privileges.role(connection)
    return [*of_foreign(role, foreign(connection, own)), *_of_creators(connection, own, role)]


def foreign(connection: Session, own: OwnSchema) -> list[privileges.Foreign]:
    """Objects with Sluice's names that another account owns."""
    start = own.prefix.lower
    return privileges.foreign(
        connection,
        own.name,
        [start + name for name in own.relations],
        [start + name for name in own.functions],
        None if own.captures is None else start + own.captures,
    )


def secure(connection: Session, own: OwnSchema) -> None:
    """Creates the schema if it is absent, and checks that it is safe and that the account owns all objects with
    Sluice's names. To be called before objects are made or upgraded. Raises `SchemaUnsafe`, psycopg's errors."""
    (existing,) = privileges.schemas(connection, [own.name])
    if existing.owner is None:
        _make(connection, own, existing)
    if wrong := issues(connection, own):
        raise SchemaUnsafe(own, [issue.at(own.side, "") for issue in wrong])


def elsewhere_reason(own: OwnSchema, schemas: Sequence[str]) -> str:
    """The place of the objects, as a sentence without full stop."""
    what = "DbResources are" if own.side == MASTER else "CHECKPOINT is"
    return f"its {what} in the schema {listed(schemas)}; the configuration names no schema, which means {own.quoted}"


def elsewhere_remedy(own: OwnSchema, schemas: Sequence[str]) -> str:
    """The remedy: what to write into the configuration."""
    return (
        f"Nothing is lost and nothing was changed: write schema: {schemas[0]} for the {own.side} in the replication's "
        "file. "
        f"To move it, remove the replication from there first ({PROGRAM} remove), then load the slaves again."
    )


def _make(connection: Session, own: OwnSchema, absent: privileges.Schema) -> None:
    try:
        with connection.transaction():
            # Two sessions may create it at the same time.
            sessions.lock_transaction(connection, "schema")
            connection.execute(sql_files.render("postgres", "schema_make", schema=own.quoted))
    except psycopg.errors.InsufficientPrivilege:
        issue = schema_issue(privileges.role(connection), absent, "Sluice's own objects are made there")
        raise SchemaUnsafe(own, [issue.at(own.side, "")]) from None


def _holds(connection: Session, own: OwnSchema, schema: str) -> bool:
    slave = own.side.removeprefix("slave ")
    checkpoint = f"{schema}.{quoted(own.prefix.lower + 'checkpoint')}"
    query = f"SELECT EXISTS (SELECT FROM {checkpoint} WHERE slave = %(slave)s)"
    row = connection.execute(query.encode(), {"slave": slave}).fetchone()
    return bool(row and row[0])


def _of_creators(connection: Session, own: OwnSchema, role: str) -> list[Issue]:
    rows = connection.execute(sql_files.render("postgres", "schema_creators"), {"schema": own.name}).fetchall()
    if not rows:
        return []
    statements = []
    if granted := [name for name, owner, _ in rows if not owner]:
        # With what they have granted on.
        statements.append(f"REVOKE CREATE ON SCHEMA {own.quoted} FROM {', '.join(granted)} CASCADE")
    if any(owner for _, owner, _ in rows):
        statements.append(f"ALTER SCHEMA {own.quoted} OWNER TO {role}")
    names = listed([f"{name}, its owner," if owner else name for name, owner, _ in rows])
    fix = ";\n".join(statements)
    shared = rows[0][2] or own.name == "public"
    remedy = ""
    if shared:
        # An application may need it, so only a person may revoke it.
        inline = "; ".join(statements)
        remedy = (
            "It is not Sluice's alone: let schema: name one that is. Only where no application makes objects there, an "
            f"administrator may run instead: {inline}."
        )
    return [
        issue(
            f"a schema {own.quoted} in which nobody else may CREATE",
            f"{names} may: {_USED.format(role=role)}",
            None if shared else fix,
            remedy=remedy,
        )
    ]
