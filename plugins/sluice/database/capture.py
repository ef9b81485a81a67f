"""The capture of a master's changes: Sluice's own objects there, and the registered tables."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sluice.configuration.rule import TablePattern
from sluice.errors import Terminal
from sluice.model.names import Prefix, TableName


@dataclass(frozen=True)
class RegisteredTable:
    """A row of TABLES, with the fault of its capture."""

    table: TableName
    actions: frozenset[str]
    """Letters of I, U and D; empty: its changes are not captured."""
    status: str
    """CREATING until the triggers exist, then OK."""
    repl_key: int
    """The order in which tables are loaded."""
    trigger: str
    debug: bool
    faults: tuple[str, ...] = ()
    """The fault in words: `trigger "DEMO_TR01_u" is disabled`."""


class ResourcesMissing(Terminal):
    """The prefix is not installed in the schema."""

    def __init__(self, prefix: Prefix, schema: str):
        super().__init__(
            f"{prefix}: there are no DbResources in schema {schema}. Run the DAG install_resources for this prefix."
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


class TablesUnfit(Terminal):
    """Tables that cannot be captured; `reasons` holds one sentence for each."""

    def __init__(self, prefix: Prefix, reasons: dict[TableName, str]):
        super().__init__(f"{prefix}: " + " ".join(f"Table {table} {reason}." for table, reason in reasons.items()))
        self.reasons = reasons


@dataclass(frozen=True)
class Installation:
    """An installation: its version, and whether functions are as this release writes them."""

    version: int
    functions_current: bool
    latest: int
    """The version of this release."""

    @property
    def current(self) -> bool:
        return self.version == self.latest and self.functions_current


@dataclass(frozen=True)
class Line:
    """How new tables that match `pattern` are captured; the first matching line counts."""

    pattern: TablePattern
    actions: frozenset[str] = frozenset()
    """The captured actions; empty: none, and the table is left to `reconcile_tables`."""
    debug: bool = False


class CaptureRegistry(Protocol):
    """TABLES of one prefix. Each method is one transaction of the session's, or part of one."""

    def read(self) -> list[RegisteredTable]:
        """All registered tables in the order of their REPL_KEY, with the faults of their capture."""
        ...

    def tables(self) -> list[TableName]:
        """All registered tables, without checking their capture."""
        ...

    def examine(self, tables: Iterable[TableName]) -> dict[TableName, str]:
        """Why each of `tables` that cannot be captured cannot be, with the remedy."""
        ...

    def has(self, table: TableName) -> bool:
        """Whether `table` is registered."""
        ...

    def register(
        self,
        table: TableName,
        *,
        actions: Iterable[str] = "IUD",
        trigger: str | None = None,
        debug: bool = False,
    ) -> str:
        """Adds `table` with status CREATING and the next REPL_KEY; its trigger's name, by default prefix and key."""
        ...

    def change(self, table: TableName, *, actions: Iterable[str], trigger: str, debug: bool) -> None:
        """Writes which actions of `table` are captured; `capture` then changes the triggers."""
        ...

    def capture(self, table: TableName) -> str | None:
        """Updates the triggers of `table`, and sets its STATUS to OK. Returns what was done, in words, None for
        nothing.

        Waits for the table's writers to end, and blocks new ones only if a trigger must be created.
        """
        ...

    def refused(self, table: TableName, reason: str) -> None:
        """Tells slaves, once, that `table` cannot be captured."""
        ...

    def remove(self, table: TableName) -> None:
        """Ends the capture of `table`: triggers and row go, ITEMS stays."""
        ...

    def put_last(self, table: TableName) -> None:
        """Gives `table` the next REPL_KEY: it is loaded after all others."""
        ...


class Capture(Protocol):
    """The DbResources of a prefix in `schema` of a master, over a session there."""

    @property
    def registry(self) -> CaptureRegistry: ...

    def installed(self) -> Installation | None:
        """The installation of `prefix` in `schema`; None without one.

        Raises `Terminal` if a newer release installed it, somebody else owns it, or it is in another schema.
        """
        ...

    def require(self) -> None:
        """Passes when the resources are there and current. Raises `Terminal`."""
        ...

    def lock(self) -> None:
        """Keeps other installers of the prefix out until the transaction ends."""
        ...

    @property
    def latest(self) -> int:
        """The version to which `upgrade` updates an installation."""
        ...

    def ahead(self, have: Installation | None) -> Sequence[Callable[[], None]]:
        """What must be done before `upgrade`, each in its own transaction; doing it again changes nothing."""
        ...

    def upgrade(self, have: Installation | None) -> list[str]:
        """Makes or changes what `have` lacks, in the caller's transaction; the names of the files that were run.

        Makes the schema if it is absent. Raises `Terminal` if it is unsafe, or names are taken.
        """
        ...

    def pass_on(self, cascade: Iterable[Prefix]) -> bool:
        """Notes whose changes are captured besides the database's own; False when it is noted already."""
        ...

    def note_wildcards(self, lines: Sequence[Line], *, keyed: bool) -> bool:
        """If the database reports new tables, those that match `lines` are captured from their first row on, from now
        on.

        `keyed`: only those with a primary key. Returns whether anything changed.
        """
        ...

    def remove(self) -> None:
        """Drops all objects of the prefix, in the caller's transaction."""
        ...

    def make_event_triggers(self) -> None:
        """Makes those of an installed prefix; the session's account must be a superuser."""
        ...

    def remove_event_triggers(self) -> None:
        """Removes those of an installed prefix; the session's account must be a superuser."""
        ...

    def has_event_triggers(self) -> bool:
        """Whether event triggers call functions of the prefix in that schema."""
        ...
