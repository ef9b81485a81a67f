"""The configuration of a replication, checked and frozen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from sluice.configuration.options import (
    COLUMNS,
    ApplyOptions,
    DdlOptions,
    HousekeepingOptions,
    InitialOptions,
    ItemsLimit,
    MonitorOptions,
    NotifierConfig,
    ReplicateOptions,
    VerifyOptions,
    notifiers,
)
from sluice.configuration.placement import Placement
from sluice.configuration.redo import RedoOptions
from sluice.configuration.resolve import ResolvedTable, resolve, rule_for
from sluice.configuration.rule import ON_ERROR, TablePattern, TableRule
from sluice.configuration.section import Options, Section, option, section_of
from sluice.configuration.table_lines import conflict_rules, tables_of_slave
from sluice.configuration.values import flag, listed, matching, one_of, place, prefix, text, whole
from sluice.errors import Terminal
from sluice.model.conflict_rule import ConflictRule
from sluice.model.connection import ConnectionInfo
from sluice.model.joining import LOAD, WAIT
from sluice.model.names import Prefix, TableName
from sluice.model.transformation import Transformation
from sluice.model.vendors import BINLOG, FIRST, MASTERS, REDO, REDO_VENDOR, STREAM, VENDORS

DEFAULT_SCHEMA = "sluice"
"""The default schema of Sluice's own tables on both sides."""
SHORT_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
SHORT_NAME_SAYS = "use letters, digits, - and _, 63 at most, a letter or digit first"
"""The form of names of slaves and feeds."""
_CONN_ID = "name the Airflow connection of this database, e.g. demo_master"
_FEEDS = "write the feeds' names with commas between them, e.g. feeds: lake, search"
_conn_id = text(_CONN_ID)
_schema = text("name a schema, exactly as the database stores it")
_feeds = listed(_FEEDS, matching(SHORT_NAME, "is no feed's name", "use letters, digits, - and _, 63 at most"))


@dataclass(frozen=True)
class Endpoint(Options):
    """The master of a replication."""

    conn_id: str = option("", _conn_id)
    """The Airflow connection with host, user and password. With `capture: redo` it is optional: the master's database,
    from which loads and comparisons read rows."""
    vendor: str = option(FIRST, one_of(MASTERS, "vendors of a master"))
    schema: str = option(DEFAULT_SCHEMA, _schema)
    """The schema of Sluice's own tables, exactly as the database stores the name."""
    cascade: tuple[Prefix, ...] = option(
        (), listed("write the prefixes whose changes this master shall pass on, separated by commas", prefix)
    )
    """Replications that apply to this master, and whose changes it forwards to its own slaves."""
    creators: tuple[str, ...] = option(
        (), listed("write the roles that will make tables, separated by commas", text("name a role"))
    )
    """Roles of a PostgreSQL master that will make replicated tables, beside the owners of the present ones: `check`
    asks for privileges on what they will make."""
    allow_superuser: bool = option(False, flag)
    """Whether the account may be a superuser."""
    allow_owner_code: bool = option(False, flag)
    """Whether functions of the tables' owners may run with the rights of the account, as they are trusted."""
    capture: str = "trigger"
    """The source of changes: `trigger`, a queue filled by triggers of the database; `stream`, recorded files; `redo`,
    the redo logs of an Oracle database, merged into such files; `binlog`, the binary log of a MariaDB server, recorded
    into them. `stream` has no connection, `redo` may have one."""
    location: str = ""
    """With `stream` and `binlog`: the folder of the files. With `redo`: the parent of that folder and those of the
    threads."""
    after: int | None = None
    """With any of these: a slave without a checkpoint begins after this change; None: at the first file."""

    @property
    def database(self) -> str:
        """The vendor of the database of `conn_id`. With `capture: redo`, `vendor` is the one of the stream's types."""
        return REDO_VENDOR if self.capture == REDO else self.vendor

    @property
    def rows_beside_log(self) -> bool:
        """Whether changes come from a stream of the master's log, and rows from its database."""
        return self.capture in (REDO, BINLOG) and bool(self.conn_id)

    @property
    def stream(self) -> ConnectionInfo | None:
        """The folder of recorded files as a source; None if changes come from a database."""
        if self.capture not in (STREAM, REDO, BINLOG):
            return None
        folder = f"{self.location}/{STREAM}" if self.capture == REDO else self.location
        return ConnectionInfo(STREAM, "", 0, folder, "", "")

    def checked(self, section: Section) -> Self:
        _need_connection(section)
        return replace(self, cascade=tuple(sorted(set(self.cascade))))


def _need_connection(section: Section) -> None:
    file = section.node.file
    xmlblaster = file.suffix in (".properties", ".xml")
    beside = f", or leave this file as it is and write a YAML with from: {file.name}" if xmlblaster else ""
    section.need("conn_id", _CONN_ID + beside)


@dataclass(frozen=True)
class SlaveConfig(Options):
    """A slave of a replication."""

    name: str
    conn_id: str = option("", _conn_id)
    vendor: str = option(FIRST, one_of(VENDORS, "vendors"))
    schema: str = option(DEFAULT_SCHEMA, _schema)
    """The schema of CHECKPOINT, BLOCKS and REJECTS."""
    safe_mode: bool = option(False, flag)
    """Apply every change idempotently, always."""
    on_conflict: str = option("stop", one_of(("stop", "reject", "overwrite"), "policies"))
    """The treatment of a change that conflicts with the slave's row: `stop` closes the gate, `reject` sets the change
    aside in REJECTS, `overwrite` makes the row equal to the master's."""
    compare_values: bool = option(True, flag)
    """In normal mode a row to update or delete must have the master's former values. False: it need only exist; for
    slaves on which triggers or people change columns that the master's applications do not change."""
    existing_tables: str = option("empty", one_of(("empty", "keep", "refuse", "current"), "policies"))
    """How an initial update treats existing tables of the slave: `empty` deletes their rows, `keep` replaces them range
    by range as blocks are stored, `refuse` stops the update, `current` assumes that they equal the master's and loads
    none."""
    checkpoint: str = option("slave", one_of(("slave", "redis"), "places"))
    """Where the position is stored: `slave`, in the transaction of the data, or `redis`, at an interval."""
    initial_files_location: str | None = option(None, place)
    """Where this slave finds carried files: an absolute folder or `s3://bucket/key`."""
    new_tables: str = option(LOAD, one_of((LOAD, WAIT), "policies"))
    """The treatment of a table that joins with rows while the slave is NORMAL: `load` starts an initial update of it,
    `wait` leaves that to a person. Its changes are left out until then."""
    on_error: str | None = option(None, one_of(ON_ERROR, "policies"))
    """The treatment of changes that cannot be applied and are not set aside: `stop` closes the gate, `isolate` leaves
    out only their table, which is inconsistent until it is loaded again. None: `isolate` for a definition that the
    slave refuses, `stop` for a change of rows."""
    on_drop: str = option("keep", one_of(("keep", "drop"), "policies"))
    """The treatment of the slave's table after a DROP on the master, or if the configuration no longer has it: `keep`
    leaves it with its rows, `drop` drops it."""
    indexes: str = option("follow", one_of(("follow", "keys", "none"), "policies"))
    """Which indexes the slave gets from the master: all (`follow`), those that refuse rows (`keys`), or only the key by
    which rows are found (`none`; no foreign keys either)."""
    allow_superuser: bool = option(False, flag)
    """Whether the account may be a superuser."""
    trusted_ddl: bool = option(False, flag)
    """Whether expressions of the master's definitions may call anything here, with the rights of the account."""
    lossy_columns: tuple[str, ...] = option((), COLUMNS)
    """Columns that may lose something on this slave of another vendor, as `schema.table.column` with `*` for
    anything."""
    tables: tuple[TableRule, ...] = option((), tables_of_slave)
    """Transformations of this slave, instead of those under the replication's `tables`."""
    conflict_rules: tuple[tuple[TablePattern, ConflictRule], ...] = option((), conflict_rules)
    """Tables whose conflicts a rule decides, instead of `on_conflict`."""
    max_batch_changes: int | None = option(None, whole(1, 1_000_000_000))
    """How many changes one transaction applies at most on this slave; None: as `apply` says for all."""

    def most_changes(self, apply: ApplyOptions) -> int:
        """How many changes one transaction applies at most."""
        return self.max_batch_changes or apply.max_batch_changes

    def conflict_rule(self, table: TableName) -> ConflictRule | None:
        """The rule that decides conflicts of `table`."""
        matching = [(pattern.precision, rule) for pattern, rule in self.conflict_rules if pattern.matches(table)]
        return max(matching, key=lambda match: match[0])[1] if matching else None

    def checked(self, section: Section) -> Self:
        _need_connection(section)
        if self.safe_mode and section.has("on_conflict"):
            problem = "contradicts safe_mode: true, under which no change ever conflicts"
            section.wrong(problem, "take out on_conflict or safe_mode", "on_conflict")
        always = "safe_mode" if self.safe_mode else "on_conflict" if self.on_conflict == "overwrite" else ""
        if always and section.has("compare_values") and self.compare_values:
            value = "true" if self.safe_mode else "overwrite"
            problem = f"contradicts {always}: {value}, under which no row is compared before it is written"
            section.wrong(problem, f"take out compare_values or {always}", "compare_values")
        if self.checkpoint == "redis" and not VENDORS[self.vendor].redis_checkpoint:
            section.wrong("'redis' is not known", "known places: slave", "checkpoint")
        # Conflicts are found by the row's former values, and each change must come once.
        for contradicts, problem in (
            (not self.compare_values, "compare_values: false, under which conflicts are not seen"),
            (
                self.checkpoint == "redis",
                "checkpoint: redis, with which changes come again after a restart, and look like conflicts",
            ),
        ):
            if contradicts and section.has("conflict_rules"):
                section.wrong(f"contradicts {problem}", "take out one of the two", "conflict_rules")
        return self


class UnknownSlave(Terminal):
    """The replication `prefix` has no slave `name`; `known`: its slaves."""

    def __init__(self, prefix: Prefix, name: str, slaves: Iterable[str], source: Path):
        self.known = tuple(sorted(slaves))
        super().__init__(
            f"Replication {prefix} has no slave {name!r}; it has {', '.join(self.known) or 'none'}. "
            f"Use one of these, or add it under slaves in {source}."
        )


@dataclass(frozen=True)
class Replication(Options):
    """The configuration of one prefix."""

    prefix: Prefix
    master: Endpoint
    slaves: Mapping[str, SlaveConfig]
    tables: tuple[TableRule, ...]
    """In the order of the file."""
    apply: ApplyOptions = section_of(ApplyOptions)
    initial: InitialOptions = section_of(InitialOptions)
    verify: VerifyOptions = section_of(VerifyOptions)
    source: Path = Path()
    """The file it was read from."""
    notify: tuple[NotifierConfig, ...] = option((), notifiers)
    """Notifiers for notices about what needs a person."""
    items_limit: ItemsLimit = section_of(ItemsLimit)
    """How much may wait in ITEMS before a slave is dropped."""
    housekeeping: HousekeepingOptions = section_of(HousekeepingOptions)
    points_at: tuple[Path, ...] = ()
    """The files of xmlBlaster that `source` points at, read with it."""
    monitor: MonitorOptions = section_of(MonitorOptions)
    """Thresholds of the monitor's warnings."""
    ddl: DdlOptions = section_of(DdlOptions)
    """How slaves treat changes of definitions that are not in ITEMS."""
    replicate: ReplicateOptions = section_of(ReplicateOptions)
    """Objects that follow in addition to tables."""
    redo: RedoOptions | None = option(None, RedoOptions.from_node)
    """How redo logs are read; None with another capture."""
    feeds: tuple[str, ...] = option((), _feeds)
    """Named readers of the changes that are no slaves; each holds the purge from its first read on. With
    `capture: binlog` nothing is purged, and their positions are in the folder of the files."""
    broadcast: bool = option(False, flag)
    """Whether all databases may be asked queries with the rights of Sluice's accounts."""

    def checked(self, section: Section) -> Self:
        for name in dict.fromkeys(name for name in self.feeds if self.feeds.count(name) > 1):
            section.wrong(f"{name!r} is there twice", "write each name once", "feeds")
        if self.redo and self.master.capture != REDO:
            section.wrong("means nothing without capture: redo of the master", "take it out", "redo")
        if self.master.capture == REDO:
            section.need("redo", "name there program and schema, see docs/redo.md")
        if self.replicate.any and (self.master.stream or self.master.vendor != FIRST):
            problem = "views and sequences are read from the catalog of a PostgreSQL master, and this one has none"
            section.wrong(problem, "take the section out", "replicate")
        if not self.master.stream:
            return self
        # The master of a stream has no queue. It has rows to load and to compare only beside its log.
        for name in ("items_limit",) if self.master.rows_beside_log else ("initial", "items_limit"):
            if section.has(name):
                problem = f"means nothing with capture: {self.master.capture}"
                section.wrong(problem, "take it out, see docs/stream.md", name)
        if section.has("feeds") and self.master.capture != BINLOG:
            problem = f"contradicts capture: {self.master.capture}, whose files nobody purges"
            section.wrong(problem, "take it out", "feeds")
        if self.comparable:
            return self
        return replace(self, verify=replace(self.verify, schedule="never", max_age_days=0))

    def fails_over(self, slave: SlaveConfig) -> bool:
        """Whether the slave can become the master: both are databases of vendors with a failover."""
        vendors = (self.master.vendor, slave.vendor)
        return not self.master.stream and all(VENDORS[vendor].fails_over for vendor in vendors)

    @property
    def comparable(self) -> bool:
        """Whether slaves can be compared: the master's rows can be read, with the same names as in the changes."""
        exact = self.redo is None or self.redo.exact_names
        return not self.master.stream or (self.master.rows_beside_log and exact)

    def slave(self, name: str) -> SlaveConfig:
        """The slave `name`. Raises `UnknownSlave`."""
        try:
            return self.slaves[name]
        except KeyError:
            raise UnknownSlave(self.prefix, name, self.slaves, self.source) from None

    @property
    def locations(self) -> tuple[str, ...]:
        """All locations in the file: where an initial update may write files."""
        arrival = [slave.initial_files_location for slave in self.slaves.values()]
        return tuple(dict.fromkeys([*self.initial.locations, *(text for text in arrival if text)]))

    def rule(self, table: TableName) -> TableRule | None:
        """The line under `tables` for a table of the master; None if none matches."""
        return rule_for(table, self.tables)

    def transformation(self, table: TableName, slave: SlaveConfig) -> Transformation | None:
        """The transformation of a master's table for a slave; None if it has none."""
        rule = rule_for(table, slave.tables) or self.rule(table)
        return rule.transformation if rule is not None else None

    def placement(self, slave: SlaveConfig) -> Placement:
        """Names of the master's tables on a slave."""
        return Placement(slave.tables, self.tables)

    def resolve(self, existing: Iterable[TableName]) -> list[ResolvedTable]:
        """The replicated tables among the master's `existing` ones, in the order of their `sequence`.

        Raises `tables-missing` for configured tables that do not exist, `own-table` for tables of Sluice itself.
        """
        return resolve(self.prefix, self.tables, existing, str(self.source))
