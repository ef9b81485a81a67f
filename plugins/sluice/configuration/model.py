"""The configuration of a replication, checked and frozen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sluice.configuration import option
from sluice.configuration.ddl import DdlOptions, ReplicateOptions
from sluice.configuration.monitor import MonitorOptions
from sluice.configuration.placement import Placement
from sluice.configuration.resolve import ResolvedTable, resolve, rule_for
from sluice.configuration.rule import TablePattern, TableRule
from sluice.errors import Terminal
from sluice.model.conflict_rule import ConflictRule
from sluice.model.connection import ConnectionInfo
from sluice.model.items_limit import ItemsLimit
from sluice.model.names import Prefix, TableName
from sluice.model.transformation import Transformation
from sluice.model.vendors import FIRST, REDO, REDO_VENDOR, STREAM

READS = ("committed", "snapshot", "locked")
"""Values of `initial.read`."""
DEFAULT_SCHEMA = "sluice"
"""Where Sluice's own tables live on either side when the configuration names no schema."""


@dataclass(frozen=True)
class Endpoint:
    """One side of a replication."""

    conn_id: str
    """The Airflow connection; it holds host, user and password. With `capture: redo` that of the master's database,
    from which an initial update reads rows; empty where none is named."""
    vendor: str = FIRST
    schema: str = DEFAULT_SCHEMA
    """Where Sluice's own tables live, exactly as the database stores the name."""
    cascade: tuple[Prefix, ...] = ()
    """Replications that apply to this master, and whose changes it passes on to its own slaves."""
    allow_superuser: bool = False
    """Whether the account may be a superuser."""
    capture: str = "trigger"
    """Where changes come from: `trigger`, the queue that the database's triggers fill; `stream`, recorded files;
    `redo`, the redo logs of an Oracle database, merged into such files. With `stream` there is no
    connection, with `redo` there may be one."""
    location: str = ""
    """With `stream`: the folder of the files; with `redo`: the one in which it and those of the threads are."""
    after: int | None = None
    """With `stream` and `redo`: a slave without a checkpoint begins behind this change; None: where the first file
    begins."""

    @property
    def database(self) -> str:
        """The vendor of what `conn_id` names. Beside a stream of redo, `vendor` says whose types the stream has."""
        return REDO_VENDOR if self.capture == REDO else self.vendor

    @property
    def stream(self) -> ConnectionInfo | None:
        """The folder of recorded files as a source; None where changes come from a database."""
        if self.capture not in (STREAM, REDO):
            return None
        folder = self.location if self.capture == STREAM else f"{self.location}/{STREAM}"
        return ConnectionInfo(STREAM, "", 0, folder, "", "")


@dataclass(frozen=True)
class SlaveConfig:
    name: str
    conn_id: str
    vendor: str = FIRST
    schema: str = DEFAULT_SCHEMA
    """Where CHECKPOINT, BLOCKS and REJECTS live."""
    safe_mode: bool = False
    """Apply every change idempotently, always."""
    on_conflict: str = "stop"
    """What happens to a change that does not fit the slave's rows: `stop` closes the gate,
    `reject` sets the change aside in REJECTS, `overwrite` makes the row equal to the master's."""
    compare_values: bool = True
    """In normal mode a row that changes or goes must hold the master's former values. False: it need only be
    there; for slaves on which triggers change columns, or people other columns than the master's applications."""
    existing_tables: str = "empty"
    """What an initial update does with tables that the slave has: `empty` deletes their rows,
    `keep` replaces them range by range as blocks are stored, `refuse` stops the update, `current` takes their rows for
    the master's and loads none."""
    checkpoint: str = "slave"
    """Where the position is kept: `slave`, in the transaction that carries the data, or `redis`, at an interval."""
    initial_files_location: str | None = None
    """Where this slave finds carried-over files: an absolute folder or `s3://bucket/key`."""
    new_tables: str = "load"
    """What is done about a table that joins with rows while the slave is NORMAL: `load` starts an initial update of
    it, `wait` leaves that to a person. Its changes are left out until then."""
    on_error: str = "stop"
    """What happens where changes of a table cannot be applied, and are not set aside: `stop` closes the gate, `isolate`
    leaves only that table out, inconsistent, until it is loaded again."""
    on_drop: str = "keep"
    """What becomes of the slave's table when it leaves, by a DROP on the master or taken out of the configuration:
    `keep` leaves it with its rows, `drop` drops it."""
    allow_superuser: bool = False
    """Whether the account may be a superuser."""
    trusted_ddl: bool = False
    """Whether expressions of the master's definitions run here whatever they call, with the rights of the account."""
    lossy_columns: tuple[str, ...] = ()
    """Columns that may lose something on this slave, whose vendor is another than the master's, as
    `schema.table.column` with `*` for anything."""
    tables: tuple[TableRule, ...] = ()
    """Transformations of this slave, in place of those under the replication's `tables`."""
    conflict_rules: tuple[tuple[TablePattern, ConflictRule], ...] = ()
    """Tables whose conflicts a rule decides, in place of `on_conflict`."""

    def conflict_rule(self, table: TableName) -> ConflictRule | None:
        """The rule that decides conflicts of `table`."""
        matching = [(pattern.precision, rule) for pattern, rule in self.conflict_rules if pattern.matches(table)]
        return max(matching, key=lambda found: found[0])[1] if matching else None


@dataclass(frozen=True)
class ApplyOptions:
    """How changes are applied."""

    max_batch_changes: int = option.integer(1_000_000, 1, 1_000_000_000)
    """A window with more changes is applied in slices of this size."""
    stage_above: int = option.integer(200_000, 1, 1_000_000_000)
    """A window or slice with more changes is read and staged by Spark's executors instead of the driver."""
    checkpoint_interval: float = option.seconds(30.0, 0.1, 86_400)
    """Seconds between two checkpoints in Redis (`checkpoint: redis`). Safe mode after a restart lasts two of them,
    wherever the checkpoint is kept, where no exit point is stored."""
    poll_interval: float = option.seconds(0.05, 0.001, 3_600)
    """Seconds between looks at the master when nothing came."""
    lease: float = option.seconds(10.0, 1, 3_600)
    """Seconds after which the right to apply is lost when it is not renewed."""


@dataclass(frozen=True)
class ThrottleOptions:
    """What holds the loaders of an initial update back, all of a job together; None: no limit."""

    pause: bool = option.flag(False)
    """No block is begun until this is false again."""
    active_sessions: int | None = option.integer(None, 0, 1_000_000)
    """Sessions on the master's server that execute a statement, without Sluice's own."""
    lock_waits: int | None = option.integer(None, 0, 1_000_000)
    """Sessions on the master's server that wait for a lock, without Sluice's own."""
    replica_lag: float | None = option.number(None, 0, 1e6, "seconds")
    """Seconds by which the master's own standbys are behind, the worst of them."""
    query: str | None = option.text("write SQL for the master that returns one number")
    """SQL for the master that returns one number."""
    query_limit: float = option.number(0.0, -1e15, 1e15)
    """Above this number of `query` loading pauses."""
    apply_lag: float | None = option.number(None, 0, 1e6, "seconds")
    """Seconds by which the apply of the slave is behind the master."""
    rows_per_second: int | None = option.integer(None, 1, 1_000_000_000)
    megabytes_per_second: float | None = option.number(None, 0.001, 1e6)
    """Of 1,000,000 bytes, as COPY has them."""


@dataclass(frozen=True)
class InitialOptions:
    """How an initial update reads."""

    block_target_seconds: float = option.seconds(0.5, 0.01, 3_600)
    """Time that reading one block should take; the size adapts to it."""
    block_rows: int = option.integer(50_000, 1, 1_000_000_000)
    """Rows of the first block."""
    parallel: int = option.integer(4, 1, 256)
    """Blocks read at the same time."""
    files_s3: str | None = option.text("name the Airflow connection to S3, e.g. aws_default")
    """The Airflow connection (type `aws`) that files in S3 are written and read with; None: what boto3 finds itself."""
    files_key: str | None = option.text("name the Airflow connection whose password is the key")
    """The Airflow connection whose password is the key that carried files are encrypted with; None: they are not."""
    parallel_tables: int = option.integer(256, 1, 256)
    """Tables that these blocks may belong to."""
    parallel_ranges: int = option.integer(256, 1, 256)
    """Blocks of one table among them."""
    read: str = option.choice("committed", READS, "ways to read")
    """How the master is read: `committed`, each block at a marker of its own; `snapshot`, all of them in one exported
    snapshot; `locked`, each with its rows locked."""
    lock_timeout: float = option.seconds(0.5, 0.01, 60)
    """Seconds for which `read: locked` waits for a lock, or holds the application up, before it gives way."""
    throttle: ThrottleOptions = option.section_of(ThrottleOptions)  # noqa: RUF009
    locations: tuple[str, ...] = option.places()
    """Folders and places in S3 where, or below which, the form of an initial update may have files written."""
    where: bool = option.flag(False)
    """Whether that form may choose rows by a condition in SQL, which both accounts execute."""


@dataclass(frozen=True)
class VerifyOptions:
    """How slaves are compared with the master."""

    schedule: str = option.choice("daily", ("daily", "weekly", "never"), "schedules")
    """When the DAG `resync` does it by itself: `daily`, `weekly` (on Sundays), `never`."""
    action: str = option.choice("verify", ("verify", "repair"), "actions")
    """What a scheduled run does about differences: `verify` reports them, `repair` mends them."""
    tables: tuple[str, ...] = option.patterns("*", "write schema.table, with * for anything, separated by commas")
    """Which tables, as `schema.table` with `*` for anything."""
    mask: tuple[str, ...] = option.patterns("", "write schema.table.column, with * for anything, separated by commas")
    """Columns whose values no report shows, as `schema.table.column` with `*` for anything."""
    max_repair_rows: int = option.integer(1_000, 0, 1_000_000_000)
    """A repair of more rows of a table asks a person first."""
    sample: int = option.integer(0, 0, 1_000_000)
    """About how many rows of a table a scheduled run draws at random; 0 for all."""
    parallel: int = option.integer(1, 1, 64)
    """Sessions on each side that read one table."""
    max_age_days: int = option.integer(8, 0, 3_650)
    """A table that was not found identical for so many days needs a person; 0 for never."""
    keep_reports_days: int = option.integer(90, 0, 36_500)
    """Reports are kept so long; 0 for ever."""

    def covers(self, table: TableName) -> bool:
        """Whether the table is to be compared."""
        return any(fnmatchcase(f"{table.schema}.{table.name}", pattern) for pattern in self.tables)


@dataclass(frozen=True)
class HousekeepingOptions:
    """How long is kept what nobody needs any more."""

    keep_files_days: int = option.integer(30, 0, 36_500)
    """Folders of carried files are kept so long after their initial update began; 0 for ever."""
    keep_rejects_days: int = option.integer(90, 0, 36_500)
    """Changes in REJECTS are kept so long after they were settled; 0 for ever."""


@dataclass(frozen=True)
class RedoOptions:
    """How the redo logs of an Oracle master are read (`capture: redo`)."""

    program: str | None = option.text("name the program of OpenLogReplicator 1.9.0")
    """The program of OpenLogReplicator 1.9.0, which is installed on its own."""
    schema: str | None = option.text("name a schema checkpoint, <name>-chkpt-<SCN>.json")
    """The schema checkpoint with which capture begins, at its SCN."""
    threads: tuple[str, ...] = option.patterns("1", "write numbers of redo threads, separated by commas")
    """Redo threads, `V$THREAD.THREAD#`."""
    logs: str | None = option.text("name a folder")
    """Where the archived logs are, or are brought to: a folder `<resetlogs>_<thread>`, and in it one a day.
    Default: `logs` at the location."""
    proxy: str | None = option.text("write http://host:9527 or https://host:9527")
    """A redo proxy on the master's side, from which logs are brought to `logs`; None: somebody else brings them."""
    archived: tuple[str, ...] = option.patterns("", "write folders of the proxy's machine, separated by commas")
    """With `proxy`: the folders there in which the logs of all threads are."""
    token_file: str | None = option.text("name a file with the proxy's token")
    """With `proxy`: holds its token."""
    proxy_authority: str | None = option.text("name a file with the certificate of the authority")
    """With `proxy` and https: who signed its certificate, beside those that the system trusts."""
    work: str | None = option.text("name a folder of this machine")
    """Where the programs keep their checkpoints and logs. Default: `work` at the location."""
    host_timezone: str = option.word("+00:00", "write the master's offset, e.g. +08:00")
    """The time zone of the master's machine: times in redo are those of its clock."""
    first_port: int = option.integer(27100, 1024, 64000)
    """The program of thread n listens on this port and n, of the loopback."""
    metrics_port: int | None = option.integer(None, 1024, 64000)
    """Its metrics are on this port and n, where it is built with them; None: it has none."""
    memory_mb: int = option.integer(1024, 64, 1_000_000)
    """Memory that one program may take for redo and transactions."""
    checkpoint_seconds: int = option.integer(600, 1, 86_400)
    """Seconds between two copies of its checkpoints in Redis."""
    lease: float = option.seconds(10.0, 1, 3_600)
    """Seconds after which a standby takes over from one that is gone."""
    silent_minutes: float = option.number(15.0, 0.01, 10_000, "minutes")
    """So long a thread may say nothing while transactions of others wait for it."""
    conn_id: str | None = option.text("name a connection to the master, e.g. shop_oracle")
    """A connection to the master, which is asked which archived logs it has; None: it is not asked."""
    lost_minutes: float = option.number(60.0, 0, 1_000_000, "minutes")
    """So long after a log is found lost the slaves become INCONSISTENT; until then it may be brought back."""
    exact_names: bool = option.flag(False)
    """Names in capitals stay so on the slaves; else they become small letters."""
    ends_at: tuple[str, ...] = option.patterns("", "write SCNs, separated by commas")
    """A transaction of the stream ends at each of these SCNs: for slaves that had their changes from triggers up to
    there."""


@dataclass(frozen=True)
class NotifierConfig:
    """One of Airflow's notifiers, told what needs a person."""

    path: str
    """The class, e.g. `airflow.providers.smtp.notifications.smtp.SmtpNotifier`."""
    arguments: Mapping[str, Any]
    """What it is made with: texts, lists and mappings of texts."""


class UnknownSlave(Terminal):
    """The replication `prefix` has no slave of that `name`; `known` lists those it has."""

    def __init__(self, prefix: Prefix, name: str, known: Iterable[str], source: Path):
        self.prefix = prefix
        self.name = name
        self.known = tuple(sorted(known))
        super().__init__(
            f"Replication {prefix} has no slave {name!r}; it has {', '.join(self.known) or 'none'}. "
            f"Use one of these, or add it under slaves in {source}."
        )


@dataclass(frozen=True)
class Replication:
    """Everything configured for one prefix."""

    prefix: Prefix
    master: Endpoint
    slaves: Mapping[str, SlaveConfig]
    tables: tuple[TableRule, ...]
    """In the order of the file."""
    apply: ApplyOptions = field(default_factory=ApplyOptions)
    initial: InitialOptions = field(default_factory=InitialOptions)
    verify: VerifyOptions = field(default_factory=VerifyOptions)
    source: Path = Path()
    """The file it was read from."""
    notify: tuple[NotifierConfig, ...] = ()
    """Who is told what needs a person."""
    items_limit: ItemsLimit = field(default_factory=ItemsLimit)
    """How much may wait in ITEMS before a slave is dropped."""
    housekeeping: HousekeepingOptions = field(default_factory=HousekeepingOptions)
    points_at: tuple[Path, ...] = ()
    """The files of xmlBlaster that `source` points at, read with it."""
    monitor: MonitorOptions = field(default_factory=MonitorOptions)
    """From which values on the monitor warns."""
    ddl: DdlOptions = field(default_factory=DdlOptions)
    """What slaves do about changes of definitions that are no items."""
    replicate: ReplicateOptions = field(default_factory=ReplicateOptions)
    """What follows beside tables."""
    redo: RedoOptions | None = None
    """How redo logs are read; None where changes come from elsewhere."""
    feeds: tuple[str, ...] = ()
    """Named readers of the changes that are no slaves; each holds the purge from its first read on."""
    broadcast: bool = False
    """Whether queries may be asked of the master and its slaves, with the rights of Sluice's accounts."""

    def slave(self, name: str) -> SlaveConfig:
        """Raises `UnknownSlave`."""
        try:
            return self.slaves[name]
        except KeyError:
            raise UnknownSlave(self.prefix, name, self.slaves, self.source) from None

    @property
    def locations(self) -> tuple[str, ...]:
        """Where the form of an initial update may have files written: all locations that the file names."""
        arrival = [slave.initial_files_location for slave in self.slaves.values()]
        return tuple(dict.fromkeys([*self.initial.locations, *(text for text in arrival if text)]))

    def rule(self, table: TableName) -> TableRule | None:
        """The line under `tables` that a table of the master goes by; None where none names it."""
        return rule_for(table, self.tables)

    def transformation(self, table: TableName, slave: SlaveConfig) -> Transformation | None:
        """What a slave gets of a table of the master; None where it gets it as it is."""
        rule = rule_for(table, slave.tables) or self.rule(table)
        return rule.transformation if rule is not None else None

    def placement(self, slave: SlaveConfig) -> Placement:
        """Where a slave has the master's tables."""
        return Placement(slave.tables, self.tables)

    def resolve(self, existing: Iterable[TableName]) -> list[ResolvedTable]:
        """The master's tables that are replicated, in the order of their `sequence`.

        Raises `TablesMissing` for configured tables that `existing` lacks, `OwnTable` for configured
        tables in which Sluice keeps its own data.
        """
        return resolve(self.prefix, self.tables, existing, str(self.source))
