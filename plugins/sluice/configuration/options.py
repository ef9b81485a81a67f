"""The sections with options of the whole replication: apply, initial, verify, notify, items_limit, housekeeping."""

import re
from typing import Any

from sluice.configuration.locations import locations
from sluice.configuration.mistakes import Mistake
from sluice.configuration.model import (
    READS,
    ApplyOptions,
    HousekeepingOptions,
    InitialOptions,
    NotifierConfig,
    ThrottleOptions,
    VerifyOptions,
)
from sluice.configuration.nodes import Node, Section, parts
from sluice.model.items_limit import ItemsLimit


def apply(section: Section, mistakes: list[Mistake]) -> ApplyOptions:
    """The section `apply`; without it, what is usual."""
    node = section.get("apply")
    if node is None:
        return ApplyOptions()
    options = Section(node, mistakes)
    default = ApplyOptions()
    batch = options.integer("max_batch_changes", default.max_batch_changes, 1, 1_000_000_000)
    stage = options.integer("stage_above", default.stage_above, 1, 1_000_000_000)
    checkpoint = options.seconds("checkpoint_interval", default.checkpoint_interval, 0.1, 86_400)
    poll = options.seconds("poll_interval", default.poll_interval, 0.001, 3_600)
    lease = options.seconds("lease", default.lease, 1, 3_600)
    if poll >= lease:
        named = options.get("poll_interval") or options.get("lease") or node
        mistakes.append(
            named.mistake(
                f"poll_interval {poll:g} is not below lease {lease:g}: the right to apply would run out between looks",
                "lower poll_interval or raise lease",
            )
        )
    options.finish()
    assert batch is not None and stage is not None
    return ApplyOptions(batch, stage, checkpoint, poll, lease)


def initial(section: Section, mistakes: list[Mistake]) -> InitialOptions:
    """The section `initial`; without it, what is usual."""
    node = section.get("initial")
    if node is None:
        return InitialOptions()
    options = Section(node, mistakes)
    default = InitialOptions()
    target = options.seconds("block_target_seconds", default.block_target_seconds, 0.01, 3_600)
    rows = options.integer("block_rows", default.block_rows, 1, 1_000_000_000)
    parallel = options.integer("parallel", default.parallel, 1, 256)
    tables = options.integer("parallel_tables", default.parallel_tables, 1, 256)
    ranges = options.integer("parallel_ranges", default.parallel_ranges, 1, 256)
    read = options.choice("read", READS, default.read, "ways to read")
    lock = options.seconds("lock_timeout", default.lock_timeout, 0.01, 60)
    files_s3 = options.text("files_s3", "", "name the Airflow connection to S3, e.g. aws_default") or None
    files_key = options.text("files_key", "", "name the Airflow connection whose password is the key") or None
    throttle = _throttle(options, mistakes)
    allowed = locations(options, mistakes)
    where = options.flag("where", default.where)
    options.finish()
    assert rows is not None
    assert parallel is not None and tables is not None and ranges is not None
    return InitialOptions(
        target, rows, parallel, files_s3, files_key, tables, ranges, read, lock, throttle, allowed, where
    )


def _throttle(initial: Section, mistakes: list[Mistake]) -> ThrottleOptions:
    node = initial.get("throttle")
    if node is None:
        return ThrottleOptions()
    options = Section(node, mistakes)
    query = options.text("query", "", "write SQL for the master that returns one number") or None
    query_limit = options.number("query_limit", None, -1e15, 1e15)
    if query_limit is not None and not options.has("query"):
        limit = options.get("query_limit")
        assert limit is not None
        mistakes.append(limit.mistake("is the limit of a query that is not there", "add query, or take it out"))
    limits = ThrottleOptions(
        pause=options.flag("pause", False),
        active_sessions=options.integer("active_sessions", None, 0, 1_000_000),
        lock_waits=options.integer("lock_waits", None, 0, 1_000_000),
        replica_lag=options.number("replica_lag", None, 0, 1e6, "seconds"),
        query=query,
        query_limit=query_limit or 0.0,
        apply_lag=options.number("apply_lag", None, 0, 1e6, "seconds"),
        rows_per_second=options.integer("rows_per_second", None, 1, 1_000_000_000),
        megabytes_per_second=options.number("megabytes_per_second", None, 0.001, 1e6),
    )
    options.finish()
    return limits


def verify(section: Section, mistakes: list[Mistake]) -> VerifyOptions:
    """The section `verify`; without it, what is usual."""
    node = section.get("verify")
    if node is None:
        return VerifyOptions()
    options = Section(node, mistakes)
    default = VerifyOptions()
    schedule = options.choice("schedule", ("daily", "weekly", "never"), default.schedule, "schedules")
    action = options.choice("action", ("verify", "repair"), default.action, "actions")
    tables = parts(options.text("tables", "*", "write schema.table, with * for anything, separated by commas"))
    mask = parts(options.text("mask", "", "write schema.table.column, with * for anything, separated by commas"))
    most = options.integer("max_repair_rows", default.max_repair_rows, 0, 1_000_000_000)
    sample = options.integer("sample", default.sample, 0, 1_000_000)
    parallel = options.integer("parallel", default.parallel, 1, 64)
    # Who wants no verification is not reminded of it.
    age = options.integer("max_age_days", 0 if schedule == "never" else default.max_age_days, 0, 3_650)
    kept = options.integer("keep_reports_days", default.keep_reports_days, 0, 36_500)
    options.finish()
    assert most is not None and sample is not None and parallel is not None
    assert age is not None and kept is not None
    return VerifyOptions(schedule, action, tables, mask, most, sample, parallel, age, kept)


def housekeeping(section: Section, mistakes: list[Mistake]) -> HousekeepingOptions:
    """The section `housekeeping`; without it, what is usual."""
    default, node = HousekeepingOptions(), section.get("housekeeping")
    if node is None:
        return default
    options = Section(node, mistakes)
    files = options.integer("keep_files_days", default.keep_files_days, 0, 36_500)
    rejects = options.integer("keep_rejects_days", default.keep_rejects_days, 0, 36_500)
    options.finish()
    assert files is not None and rejects is not None
    return HousekeepingOptions(files, rejects)


def notify(section: Section, mistakes: list[Mistake]) -> tuple[NotifierConfig, ...]:
    """The section `notify`; without it, what is usual."""
    node = section.get("notify")
    right = "write a notifier's class with its arguments, e.g. my_company.notifiers.Pager: {team: databases}"
    if node is None:
        return ()
    if not isinstance(node.value, dict):
        mistakes.append(node.mistake(f"is {node.kind}", right))
        return ()
    notifiers = []
    for path, child in node.value.items():
        arguments = {} if child.value is None else _plain(child)
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", path):
            mistakes.append(child.mistake(f"{path!r} is no class of a module", right))
        elif not isinstance(arguments, dict):
            mistakes.append(child.mistake(f"is {child.kind}", right))
        else:
            notifiers.append(NotifierConfig(path, arguments))
    return tuple(notifiers)


def items_limit(section: Section, mistakes: list[Mistake]) -> ItemsLimit:
    """The section `items_limit`; without it, what is usual."""
    node = section.get("items_limit")
    if node is None:
        return ItemsLimit()
    options = Section(node, mistakes)
    limit = ItemsLimit(
        rows=options.integer("rows", None, 1, 10**15),
        bytes=options.integer("bytes", None, 1, 10**17),
        age=options.number("age", None, 1, 1e9, "seconds"),
    )
    options.finish()
    return limit


def _plain(node: Node) -> Any:
    """Texts, lists and mappings of them."""
    if isinstance(node.value, dict):
        return {name: _plain(child) for name, child in node.value.items()}
    if isinstance(node.value, list):
        return [_plain(child) for child in node.value]
    return node.value
