"""Sections of the whole replication."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Self

from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Node
from sluice.configuration.section import Options, Section, option, section_of
from sluice.configuration.values import (
    as_it_is,
    flag,
    function,
    matching,
    member_of,
    number,
    one_of,
    places,
    seconds,
    text,
    texts,
    time_zone,
    whole,
)
from sluice.model.defined import DefinedKind
from sluice.model.names import TableName

READS = ("committed", "snapshot", "locked")
"""Values of `initial.read`."""
RUNS_ON = ("spark", "process")
"""Values of `apply.runs_on`."""
_TIME = 'write a time of day in quotes, e.g. "03:00"'
_time_of_day = matching(r"([01]\d|2[0-3]):[0-5]\d", "is no time of day", _TIME)
COLUMNS = texts("write schema.table.column, with * for anything, separated by commas")


@dataclass(frozen=True)
class ApplyOptions(Options):
    """How changes are applied."""

    max_batch_changes: int = option(1_000_000, whole(1, 1_000_000_000))
    """A window with more changes is applied in slices of this size."""
    stage_above: int = option(200_000, whole(1, 1_000_000_000))
    """A window or slice with more changes is read and staged by Spark's executors instead of the driver."""
    checkpoint_interval: float = option(30.0, seconds(0.1, 86_400))
    """Seconds between two checkpoints in Redis (`checkpoint: redis`). Without a stored exit point, safe mode after a
    restart lasts twice as long, also with `checkpoint: slave`."""
    poll_interval: float = option(0.05, seconds(0.001, 3_600))
    """Seconds between two polls of the master while nothing changes."""
    lease: float = option(10.0, seconds(1, 3_600))
    """Seconds after which the lease expires unless it is renewed."""
    runs_on: str = option("spark", one_of(RUNS_ON, "places"))
    """`spark`: the apply is a query of Spark wherever there is an endpoint of Spark Connect. `process`: it is a process
    of Airflow's machine."""
    max_change_bytes: int = option(256 << 20, whole(1 << 20, 1 << 31))
    """Bytes of the contents of one change, old and new, above which its table is left out instead of applied."""

    def checked(self, section: Section) -> Self:
        if self.poll_interval >= self.lease:
            section.wrong(
                f"poll_interval {self.poll_interval:g} is not below lease {self.lease:g}: the right to apply would run "
                "out between looks",
                "lower poll_interval or raise lease",
                *("poll_interval", "lease"),
            )
        return self


@dataclass(frozen=True)
class ThrottleOptions(Options):
    """Limits for all loaders of an initial update together; None: no limit."""

    pause: bool = option(False, flag)
    """No block begins until this is false again."""
    active_sessions: int | None = option(None, whole(0, 1_000_000))
    """Sessions on the master's server that are executing a statement, without Sluice's own."""
    lock_waits: int | None = option(None, whole(0, 1_000_000))
    """Sessions on the master's server that wait for a lock, without Sluice's own."""
    replica_lag: float | None = option(None, seconds(0, 1e6))
    """Lag of the slowest of the master's own standbys, in seconds."""
    query: str | None = option(None, text("write SQL for the master that returns one number"))
    """SQL for the master that returns one number."""
    query_limit: float = option(0.0, number(-1e15, 1e15))
    """The load pauses above this result of `query`."""
    apply_lag: float | None = option(None, seconds(0, 1e6))
    """Lag of the slave's apply, in seconds."""
    rows_per_second: int | None = option(None, whole(1, 1_000_000_000))
    megabytes_per_second: float | None = option(None, number(0.001, 1e6))
    """In 1,000,000 bytes of COPY data."""

    def checked(self, section: Section) -> Self:
        if section.has("query_limit") and not section.has("query"):
            section.wrong("is the limit of a query that is not there", "add query, or take it out", "query_limit")
        return self


@dataclass(frozen=True)
class InitialOptions(Options):
    """How an initial update reads."""

    block_target_seconds: float = option(0.5, seconds(0.01, 3_600))
    """Time that reading a block should take; the size of blocks adapts to it."""
    block_rows: int = option(50_000, whole(1, 1_000_000_000))
    """Rows of the first block."""
    parallel: int = option(4, whole(1, 256))
    """Blocks read at the same time."""
    files_s3: str | None = option(None, text("name the Airflow connection to S3, e.g. aws_default"))
    """The Airflow connection (type `aws`) for files in S3; None: boto3 finds its own credentials."""
    files_key: str | None = option(None, text("name the Airflow connection whose password is the key"))
    """The Airflow connection whose password encrypts carried files; None: they are not encrypted."""
    parallel_tables: int = option(256, whole(1, 256))
    """Tables that the blocks read at the same time may belong to."""
    parallel_ranges: int = option(256, whole(1, 256))
    """Blocks of one table read at the same time."""
    read: str = option("committed", one_of(READS, "ways to read"))
    """How the master is read: `committed`, each block at its own marker; `snapshot`, all blocks in one exported
    snapshot; `locked`, each with its rows locked."""
    lock_timeout: float = option(0.5, seconds(0.01, 60))
    """For `read: locked`: after waiting for a lock, or holding rows, for this time, a block is released and read again
    later, half as large."""
    throttle: ThrottleOptions = section_of(ThrottleOptions)
    locations: tuple[str, ...] = option((), places)
    """Folders and places in S3 where, or below which, an initial update may write files."""
    where: bool = option(False, flag)
    """Whether the form may choose rows by a condition in SQL, which both accounts execute."""
    approve_transfer: str = option("person", one_of(("person", "arrival"), "ways to approve"))
    """Who lets files be imported that have arrived at the slave and were verified: a `person`, or `arrival`, nobody."""


@dataclass(frozen=True)
class VerifyOptions(Options):
    """How slaves are compared with the master."""

    schedule: str = option("daily", one_of(("daily", "weekly", "never"), "schedules"))
    """When the DAG `resync` compares: `daily`, `weekly` (on Sundays), `never`."""
    at: str = option("03:00", _time_of_day)
    """At which time of day it does."""
    zone: str = option("UTC", time_zone)
    """The time zone of `at`, and of Sunday."""
    action: str = option("verify", one_of(("verify", "repair"), "actions"))
    """How a scheduled run treats differences: `verify` reports them, `repair` repairs them."""
    tables: tuple[str, ...] = option(("*",), texts("write schema.table, with * for anything, separated by commas"))
    """Tables to compare, as `schema.table` with `*` for anything."""
    accept: str | None = option(None, function)
    """`package.module:function`, which says of two rows that differ whether that is no fault; None: each is one."""
    mask: tuple[str, ...] = option((), COLUMNS)
    """Columns whose values no report shows, as `schema.table.column` with `*` for anything."""
    max_repair_rows: int = option(1_000, whole(0, 1_000_000_000))
    """A person must approve the repair of more rows of a table."""
    sample: int = option(0, whole(0, 1_000_000))
    """About how many random rows of a table a scheduled run compares; 0 for all."""
    daily_sample: int = option(1_000, whole(0, 1_000_000))
    """About how many random rows are compared every day of each table that no scheduled run compares on that day; 0 for
    none."""
    parallel: int = option(1, whole(1, 64))
    """Sessions on each side that read one table."""
    max_age_days: int = option(8, whole(0, 3_650))
    """After so many days without being found identical a table needs a person; 0 for never."""
    keep_reports_days: int = option(90, whole(0, 36_500))
    """How long reports are kept; 0 forever."""
    spark_above: int = option(5_000_000, whole(0, 10**15))
    """A table with more rows is read by several tasks of Spark."""

    def checked(self, section: Section) -> Self:
        # No reminders without a schedule.
        unwanted = self.schedule == "never" and not section.has("max_age_days")
        return replace(self, max_age_days=0) if unwanted else self

    def covers(self, table: TableName) -> bool:
        """Whether the table is to be compared."""
        return any(fnmatchcase(f"{table.schema}.{table.name}", pattern) for pattern in self.tables)


@dataclass(frozen=True)
class HousekeepingOptions(Options):
    """How long housekeeping keeps files and rejects."""

    keep_files_days: int = option(30, whole(0, 36_500))
    """Days that folders of carried files are kept after their initial update began; 0 forever."""
    keep_rejects_days: int = option(90, whole(0, 36_500))
    """Days that changes are kept in REJECTS after they were settled; 0 forever."""


@dataclass(frozen=True)
class ItemsLimit(Options):
    """Limits of what waits in ITEMS; past any of them the slave furthest behind is dropped. None: no limit.

    Without any of them, the size of the master's disk or database gives one (`sluice.model.items_limit.default`).
    """

    rows: int | None = option(None, whole(1, 10**15))
    bytes: int | None = option(None, whole(1, 10**17))
    age: float | None = option(None, seconds(1, 1e9))
    """Seconds that a slave may be behind."""
    unlimited: bool = option(False, flag)
    """No limit at all: ITEMS may fill the master's disk."""

    @property
    def any(self) -> bool:
        return (self.rows, self.bytes, self.age) != (None, None, None)

    def checked(self, section: Section) -> Self:
        if self.unlimited and self.any:
            section.wrong("contradicts the limits beside it", "take unlimited out, or the limits", "unlimited")
        return self


@dataclass(frozen=True)
class MonitorOptions(Options):
    """Thresholds of the monitor for warnings and critical messages."""

    lag_warning: float = option(60.0, seconds(0, 1e9))
    """Lag of a slave in seconds."""
    lag_critical: float = option(600.0, seconds(0, 1e9))
    queue_warning: int = option(10_000_000, whole(1, 10**15))
    """Changes in ITEMS; housekeeping deletes what all slaves have every ten minutes."""
    queue_critical: int = option(100_000_000, whole(1, 10**15))

    def checked(self, section: Section) -> Self:
        for name, low, high in (
            ("lag", self.lag_warning, self.lag_critical),
            ("queue", self.queue_warning, self.queue_critical),
        ):
            if low > high:
                problem = f"{name}_warning {low:g} is above {name}_critical {high:g}"
                remedy = f"write a {name}_critical of {low:g} or more, or a lower warning"
                section.wrong(problem, remedy, f"{name}_critical", f"{name}_warning")
        return self


class Policy(StrEnum):
    """What happens with one kind of changed definition."""

    FOLLOW = "follow"
    """The slave gets the same change."""
    WARN = "warn"
    """The slave stays as it is; the log and the comparison of definitions say what a person may run."""
    STOP = "stop"
    """The apply stops until a person has run it, or lets it follow."""


_policy = member_of(Policy, "policies")


@dataclass(frozen=True)
class DdlOptions(Options):
    """How a slave treats changes of the master's definitions, by kind."""

    indexes: Policy = option(Policy.FOLLOW, _policy)
    unique: Policy = option(Policy.FOLLOW, _policy)
    """Unique and exclusion constraints."""
    checks: Policy = option(Policy.FOLLOW, _policy)
    foreign_keys: Policy = option(Policy.FOLLOW, _policy)
    domains: Policy = option(Policy.FOLLOW, _policy)
    """Checks of domains."""
    comments: Policy = option(Policy.FOLLOW, _policy)
    views: Policy = option(Policy.FOLLOW, _policy)
    """With `replicate: {views: true}`."""
    sequences: Policy = option(Policy.FOLLOW, _policy)
    """With `replicate: {sequences: true}`."""

    def of(self, kind: DefinedKind) -> Policy:
        """The policy for changes of that kind."""
        policy: Policy = getattr(self, kind)
        return policy


@dataclass(frozen=True)
class ReplicateOptions(Options):
    """Objects of the master's database that follow in addition to its tables."""

    views: bool = option(False, flag)
    """Views that read only replicated tables."""
    sequences: bool = option(False, flag)
    """Sequences that no column owns, in the schemas of replicated tables."""

    @property
    def any(self) -> bool:
        return self.views or self.sequences


@dataclass(frozen=True)
class NotifierConfig:
    """One of Airflow's notifiers, for notices."""

    path: str
    """The class, e.g. `airflow.providers.smtp.notifications.smtp.SmtpNotifier`."""
    arguments: Mapping[str, Any]
    """Its arguments: texts, lists and mappings of texts."""


def notifiers(node: Node, mistakes: list[Mistake]) -> tuple[NotifierConfig, ...]:
    right = "write a notifier's class with its arguments, e.g. my_company.notifiers.Pager: {team: databases}"
    configured = []
    for path, child in node.entries(right).items():
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", path):
            mistakes.append(child.mistake(f"{path!r} is no class of a module", right))
        elif child.value is not None and not isinstance(child.value, dict):
            mistakes.append(child.mistake(f"is {child.kind}", right))
        else:
            configured.append(NotifierConfig(path, as_it_is(child) or {}))
    return tuple(configured)
