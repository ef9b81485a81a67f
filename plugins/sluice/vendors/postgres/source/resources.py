"""Installs, upgrades and removes the DbResources of a prefix on a PostgreSQL master, with SQL files.

Tables are changed by numbered steps (`resources_v1.sql`, …), each run once. Functions and the view hold no data, so
their files are run again whenever their text differs from the installed one.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from functools import cache, partial

from sluice import sql_files
from sluice.database.capture import Installation
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.lack import MASTER
from sluice.model.names import Prefix
from sluice.vendors.postgres import own_schema, session_locks
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.own_schema import OwnSchema

STEPS: tuple[str, ...] = tuple(f"resources_v{number}" for number in range(1, 8))
"""Files that make and change tables, in order; the version of an installation is the number of steps it has had."""

AHEAD: tuple[str, ...] = ("resources_v6", "resources_v7")
"""Steps that an older installation gets first, each in a transaction of its own."""

FUNCTIONS: tuple[str, ...] = (
    "cols_view",
    "values",
    "definition",
    "guards",
    "origins",
    "capture_expressions",
    "partitions",
    "capture_code",
    "capture",
    "structure",
    "ddl",
    "purge",
    "replica_identity",
    "renew_functions",
)
"""Files of the view and the functions, which can be made again, in the order of their dependencies."""

EVENT_TRIGGERS = "event_triggers"
"""The file that makes the event triggers, where the account may."""

RELATIONS: tuple[str, ...] = (
    "seq",
    "key_base",
    "info",
    "items",
    "tables",
    "current_tables",
    "debug_table",
    "longs_table",
    "cols_all",
    "cols_view",
    "cols_table",
    "captures",
    "partitions",
    "statements",
    "answers",
)
"""The names, after the prefix, of all tables, views and sequences."""

CAPTURES = "capture_"
"""The beginning of the names of trigger functions, after the prefix."""


class ResourcesMissing(Terminal):
    """The prefix is not installed in the schema."""

    def __init__(self, prefix: Prefix, schema: str):
        super().__init__(
            f"{prefix}: there are no DbResources in schema {schema}. Run the DAG install_resources for this prefix."
        )


class ResourcesOutdated(Terminal):
    """The resources are of an older release than this one."""

    def __init__(self, prefix: Prefix, schema: str):
        super().__init__(
            f"{prefix}: the DbResources in schema {schema} are of an older release. "
            "Run the DAG install_resources for this prefix; it upgrades them in place."
        )


class ResourcesNewer(Terminal):
    """A newer release installed the resources; this one must not touch them."""

    def __init__(self, prefix: Prefix, installed: int, known: int):
        super().__init__(
            f"{prefix}: the DbResources have version {installed}, this release knows up to {known}. "
            "Upgrade this installation of Sluice; a downgrade of the resources is not possible."
        )
        self.installed = installed
        self.known = known


class NamesTaken(Terminal):
    """Objects that are not Sluice's bear names the prefix needs."""

    def __init__(self, prefix: Prefix, schema: str, names: list[str]):
        super().__init__(
            f"{prefix}: schema {schema} already has {', '.join(names)}, and no DbResources of this prefix. "
            "Choose another prefix or schema, or remove these objects."
        )
        self.names = names


def digest() -> str:
    """Identifies the text of all files of functions and event triggers of this release."""
    files = (*FUNCTIONS, EVENT_TRIGGERS)
    text = "\0".join(sql_files.render("postgres", name, prefix="prefix_", schema="schema") for name in files)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def function_names() -> tuple[str, ...]:
    """The names, after the prefix, of all functions that the files make."""
    texts = [sql_files.render("postgres", name, prefix="", schema="s") for name in (*STEPS, *FUNCTIONS)]
    return tuple(
        sorted(
            {function for text in texts for function in re.findall(r"^CREATE OR REPLACE FUNCTION s\.(\w+)", text, re.M)}
        )
    )


def own(prefix: Prefix, schema: str) -> OwnSchema:
    return OwnSchema(MASTER, prefix, schema, RELATIONS, function_names(), CAPTURES)


def installed(connection: Session, prefix: Prefix, schema: str) -> Installation | None:
    """The installation of `prefix` in `schema`; None if there is none.

    Raises `ResourcesNewer`, `SchemaUnsafe`, `InstalledElsewhere`.
    """
    place = own(prefix, schema)
    own_schema.expect_owned(connection, place)
    info = place.table("info")
    if not own_schema.has(connection, info):
        own_schema.expect_not_elsewhere(connection, place)
        return None
    values = dict(connection.execute(f"SELECT name, value FROM {info}").fetchall())
    version = int(values.get("version", 0))
    if version > len(STEPS):
        raise ResourcesNewer(prefix, version, len(STEPS))
    return Installation(version, values.get("functions") == digest(), len(STEPS))


def require(connection: Session, prefix: Prefix, schema: str) -> None:
    """Checks that the resources are installed and current.

    Raises `ResourcesMissing`, `ResourcesOutdated`, `ResourcesNewer`.
    """
    have = installed(connection, prefix, schema)
    if have is None:
        raise ResourcesMissing(prefix, schema)
    if not have.current:
        raise ResourcesOutdated(prefix, schema)


def lock(connection: Session, prefix: Prefix, schema: str) -> None:
    """Locks the prefix against other installers until the transaction ends."""
    session_locks.lock_transaction(connection, f"install {schema}.{prefix.lower}")


def version() -> int:
    """The version that `upgrade` installs."""
    return len(STEPS)


def ahead(have: Installation | None) -> list[Callable[[Session, Prefix, str], None]]:
    """What `have` needs before `upgrade`, each in a transaction of its own: the second waits for writers."""
    if have is None or have.version > STEPS.index(AHEAD[0]):
        return []
    return [partial(_run_ahead, name=name) for name in AHEAD]


def _run_ahead(connection: Session, prefix: Prefix, schema: str, name: str) -> None:
    """Raises `SchemaUnsafe`: a function of a step must not replace one that somebody else made."""
    own_schema.secure(connection, own(prefix, schema))
    _run(connection, prefix, schema, name)


def _run(connection: Session, prefix: Prefix, schema: str, name: str) -> None:
    connection.execute(sql_files.render("postgres", name, prefix=prefix.lower, schema=quoted(schema)))


def upgrade(connection: Session, prefix: Prefix, schema: str, have: Installation | None) -> list[str]:
    """Runs the files that `have` lacks, in the caller's transaction. Returns their names.

    Creates the schema where it is absent. Raises `SchemaUnsafe`, `NamesTaken`.
    """
    own_schema.secure(connection, own(prefix, schema))
    if have is None and (names := taken(connection, prefix, schema)):
        raise NamesTaken(prefix, schema, names)
    files = list(STEPS[have.version if have else 0 :])
    if files or have is None or not have.functions_current:
        files += FUNCTIONS
    if files:
        files.append(EVENT_TRIGGERS)
    for name in files:
        _run(connection, prefix, schema, name)
    if files:
        info = quoted(schema, f"{prefix.lower}info")
        connection.execute(
            f"INSERT INTO {info} AS i (name, value) VALUES ('version', %s), ('functions', %s) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE i.value <> excluded.value",
            [str(len(STEPS)), digest()],
        )
    return files


def pass_on(connection: Session, prefix: Prefix, schema: str, cascade: Iterable[Prefix]) -> bool:
    """Notes the replications whose applied changes are captured, too. False when they are noted already."""
    info = quoted(schema, f"{prefix.lower}info")
    value = ",".join(sorted(map(str, cascade)))
    if not value:
        return connection.execute(f"DELETE FROM {info} WHERE name = 'cascade'").rowcount > 0
    cursor = connection.execute(
        f"INSERT INTO {info} AS i (name, value) VALUES ('cascade', %s) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE i.value <> excluded.value",
        [value],
    )
    return cursor.rowcount > 0


def remove(connection: Session, prefix: Prefix, schema: str) -> None:
    """Drops all objects of the prefix, in the caller's transaction."""
    for name in ("event_triggers_remove", "uninstall"):
        _run(connection, prefix, schema, name)


def taken(connection: Session, prefix: Prefix, schema: str) -> list[str]:
    """The names that the prefix needs and `schema` has already."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %(schema)s AND c.relname = ANY (%(relations)s) "
        "UNION SELECT p.proname FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
        "WHERE n.nspname = %(schema)s AND p.proname = ANY (%(functions)s) ORDER BY 1",
        {
            "schema": schema,
            "relations": [prefix.lower + name for name in RELATIONS],
            "functions": [prefix.lower + name for name in function_names()],
        },
    ).fetchall()
    return [name for (name,) in rows]
