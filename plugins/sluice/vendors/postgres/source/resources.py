"""Installs, upgrades and removes the DbResources of a prefix on a PostgreSQL master, with SQL files.

Tables are changed by numbered steps (`resources_v1.sql`, …), each run once. Functions and the view hold no data, so
their files are run again whenever their text differs from the installed one.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from string import punctuation

from sluice import sql_files
from sluice.configuration.resolve import MASTER_TABLES, SLAVE_TABLES
from sluice.configuration.rule import TablePattern
from sluice.database.capture import Installation, Line, ResourcesMissing, ResourcesNewer
from sluice.errors import Terminal
from sluice.model.issue import MASTER
from sluice.model.names import Prefix
from sluice.vendors.postgres import own_schema, sessions
from sluice.vendors.postgres.own_schema import OwnSchema
from sluice.vendors.postgres.source.bound import Bound
from sluice.vendors.postgres.source.tables_registry import Registry

# Notes in INFO which tables the event triggers (`ddl.sql`) capture as soon as they are made.
#
# INFO.VALUE under `wildcards` is JSON: `lines`, of which the first that matches counts, each with `schema`, `name` (a
# regular expression of PostgreSQL), `actions` (null: not captured) and `debug`; `keyed`, whether it needs a primary
# key; and the endings of names of Sluice's own tables.


def noted(lines: Sequence[Line], *, keyed: bool) -> str | None:
    """The value of INFO for these lines; None if no table is to be captured at once."""
    if not any(line.actions for line in lines):
        return None
    return json.dumps(
        {
            "lines": [
                {
                    "schema": line.pattern.schema,
                    "name": _regular(line.pattern),
                    "actions": "".join(action for action in "IUD" if action in line.actions) or None,
                    "debug": int(line.debug),
                }
                for line in lines
            ],
            "keyed": keyed,
            "master": sorted(f"_{name}" for name in MASTER_TABLES),
            "slave": [*sorted(f"_{name}$" for name in SLAVE_TABLES), r"_stage_\d+_\d+_\w+$"],
        }
    )


def _regular(pattern: TablePattern) -> str:
    return regular_expression(pattern.name) if pattern.wildcard else f"^{escaped(pattern.name)}$"


def regular_expression(wildcard: str) -> str:
    """A file name pattern with `*`, `?` and `[…]` as a regular expression of PostgreSQL."""
    expression, at = "", 0
    while at < len(wildcard):
        letter = wildcard[at]
        at += 1
        end = _end_of_set(wildcard, at) if letter == "[" else -1
        if end >= 0:
            expression += _set(wildcard[at:end])
            at = end + 1
        else:
            expression += {"*": ".*", "?": "."}.get(letter) or escaped(letter)
    return f"^{expression}$"


def escaped(text: str) -> str:
    """A regular expression that matches only this text."""
    return "".join(f"\\{letter}" if letter in punctuation else letter for letter in text)


def _end_of_set(wildcard: str, start: int) -> int:
    """The place of the closing bracket of the one before `start`; -1 without one: the bracket is a letter then."""
    first = start + wildcard.startswith("!", start)
    return wildcard.find("]", first + wildcard.startswith("]", first))


def _set(inside: str) -> str:
    """The regular expression for the letters and ranges between brackets; `!` negates them."""
    negated, rest = inside.startswith("!"), inside.removeprefix("!")
    members, at = "", 0
    while at < len(rest):
        if rest[at + 1 : at + 2] == "-" and at + 2 < len(rest):
            first, last = rest[at], rest[at + 2]
            members += f"{escaped(first)}-{escaped(last)}" if first <= last else ""
            at += 3
        else:
            members += escaped(rest[at])
            at += 1
    if not members:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{members}]"


STEPS: tuple[str, ...] = tuple(f"resources_v{number}" for number in range(1, 8))
"""Files that make and change tables, in order; the version of an installation is the number of steps it has had."""

AHEAD: tuple[str, ...] = ("resources_v6", "resources_v7")
"""Steps that an older installation gets first, each in its own transaction."""

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
"""The file that makes the event triggers, if the account may."""

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


class ResourcesOutdated(Terminal):
    """The resources are of an older release than this one."""

    def __init__(self, prefix: Prefix, schema: str):
        super().__init__(
            f"{prefix}: the DbResources in schema {schema} are of an older release. "
            "Run the DAG install_resources for this prefix; it upgrades them in place."
        )


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


class PostgresCapture(Bound):
    """See `sluice.database.capture.Capture`."""

    @property
    def registry(self) -> Registry:
        return Registry(self.session, self.prefix, self.schema)

    @property
    def own(self) -> OwnSchema:
        return OwnSchema(MASTER, self.prefix, self.schema, RELATIONS, function_names(), CAPTURES)

    def installed(self) -> Installation | None:
        """The installation of the prefix; None if there is none.

        Raises `ResourcesNewer`, `SchemaUnsafe`, `InstalledElsewhere`.
        """
        own_schema.expect_owned(self.session, self.own)
        if not own_schema.has(self.session, self.own.table("info")):
            own_schema.expect_not_elsewhere(self.session, self.own)
            return None
        values = dict(self.info.all())
        version = int(values.get("version", 0))
        if version > len(STEPS):
            raise ResourcesNewer(self.prefix, version, len(STEPS))
        return Installation(version, values.get("functions") == digest(), len(STEPS))

    def require(self) -> None:
        """Checks that the resources are installed and current.

        Raises `ResourcesMissing`, `ResourcesOutdated`, `ResourcesNewer`.
        """
        have = self.installed()
        if have is None:
            raise ResourcesMissing(self.prefix, self.schema)
        if not have.current:
            raise ResourcesOutdated(self.prefix, self.schema)

    def lock(self) -> None:
        """Locks the prefix against other installers until the transaction ends."""
        sessions.lock_transaction(self.session, f"install {self.schema}.{self.prefix.lower}")

    @property
    def latest(self) -> int:
        return len(STEPS)

    def ahead(self, have: Installation | None) -> list[Callable[[], None]]:
        """What `have` needs before `upgrade`, each in its own transaction: the second waits for writers."""
        if have is None or have.version > STEPS.index(AHEAD[0]):
            return []
        return [partial(self._run_ahead, name) for name in AHEAD]

    def _run_ahead(self, name: str) -> None:
        """Raises `SchemaUnsafe`: a function of a step must not replace one that somebody else made."""
        own_schema.secure(self.session, self.own)
        self._run(name)

    def _run(self, name: str) -> None:
        self.session.execute(self.sql(name))

    def upgrade(self, have: Installation | None) -> list[str]:
        """Runs the files that `have` lacks, in the caller's transaction. Returns their names.

        Creates the schema if it is absent. Raises `SchemaUnsafe`, `NamesTaken`.
        """
        own_schema.secure(self.session, self.own)
        if have is None and (names := self.taken()):
            raise NamesTaken(self.prefix, self.schema, names)
        files = list(STEPS[have.version if have else 0 :])
        if files or have is None or not have.functions_current:
            files += FUNCTIONS
        if files:
            files.append(EVENT_TRIGGERS)
        for name in files:
            self._run(name)
        if files:
            self.info.write("version", str(len(STEPS)))
            self.info.write("functions", digest())
        return files

    def pass_on(self, cascade: Iterable[Prefix]) -> bool:
        """Notes the replications whose applied changes are captured, too. False when they are noted already."""
        value = ",".join(sorted(map(str, cascade)))
        return self.info.write("cascade", value) if value else self.info.remove("cascade")

    def note_wildcards(self, lines: Sequence[Line], *, keyed: bool) -> bool:
        """Notes the `lines` for the event triggers. False when they are noted already."""
        value = noted(lines, keyed=keyed)
        return self.info.write("wildcards", value) if value is not None else self.info.remove("wildcards")

    def remove(self) -> None:
        """Drops all objects of the prefix, in the caller's transaction."""
        self.remove_event_triggers()
        self._run("uninstall")

    def make_event_triggers(self) -> None:
        """Creates the event triggers of an installed prefix; the session's account must be a superuser."""
        self._run(EVENT_TRIGGERS)

    def remove_event_triggers(self) -> None:
        """Drops the event triggers of an installed prefix; the session's account must be a superuser."""
        self._run("event_triggers_remove")

    def has_event_triggers(self) -> bool:
        """Whether event triggers call functions of the prefix in that schema."""
        names = [f"{self.prefix.lower}{name}" for name in ("ddl_end", "ddl_drop", "ddl_rewrite")]
        row = self.session.execute(
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_event_trigger e JOIN pg_catalog.pg_proc p ON p.oid = e.evtfoid "
            "JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
            "WHERE n.nspname = %s AND p.proname = ANY (%s))",
            [self.schema, names],
        ).fetchone()
        return row == (True,)

    def taken(self) -> list[str]:
        """The names that the prefix needs and the schema has already."""
        rows = self.session.execute(
            "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %(schema)s AND c.relname = ANY (%(relations)s) "
            "UNION SELECT p.proname FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
            "WHERE n.nspname = %(schema)s AND p.proname = ANY (%(functions)s) ORDER BY 1",
            {
                "schema": self.schema,
                "relations": [self.prefix.lower + name for name in RELATIONS],
                "functions": [self.prefix.lower + name for name in function_names()],
            },
        ).fetchall()
        return [name for (name,) in rows]
