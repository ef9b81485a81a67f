"""From a reader's tree to a checked `Replication`."""

import re
from pathlib import Path
from typing import Any

from sluice.configuration import monitor, stream
from sluice.configuration.mistakes import Mistake
from sluice.configuration.model import (
    DEFAULT_SCHEMA,
    READS,
    ApplyOptions,
    Endpoint,
    HousekeepingOptions,
    InitialOptions,
    NotifierConfig,
    Replication,
    SlaveConfig,
    ThrottleOptions,
    VerifyOptions,
)
from sluice.configuration.nodes import Node, Section
from sluice.configuration.rule import ALL_ACTIONS, TablePattern, TableRule
from sluice.model.items_limit import ItemsLimit
from sluice.model.joining import LOAD, WAIT
from sluice.model.location import Location, NoLocation
from sluice.model.names import LONGEST_TRIGGER, InvalidName, Prefix
from sluice.model.vendors import FIRST, STREAM, UNFINISHED, VENDORS

_SLAVE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
_A_LOCATION = "write an absolute folder without .., or s3://bucket/key with a bucket's name as S3 wants it"
_COLUMNS_RIGHT = "write schema.table.column, with * for anything, separated by commas"
_CONN_ID = "name the Airflow connection of this database, e.g. demo_master"


def build(root: Node, points_at: tuple[Path, ...], mistakes: list[Mistake]) -> Replication | None:
    """The replication; None when anything is wrong, with everything wrong added to `mistakes`."""
    before = len(mistakes)
    section = Section(root, mistakes)
    section.get("from")  # followed before: see sources
    prefix = _prefix(section, mistakes)
    master = _master(section, prefix, mistakes)
    slaves = _slaves(section, master, mistakes)
    tables = _tables(section, mistakes)
    apply, initial = _apply(section, mistakes), _initial(section, mistakes)
    verify = stream.verified(master, _verify(section, mistakes), section, mistakes)
    notify = _notify(section, mistakes)
    most = _items_limit(section, mistakes)
    kept, shown = _housekeeping(section, mistakes), monitor.monitor(section, mistakes)
    section.finish()
    if len(mistakes) > before or prefix is None:
        return None
    parts = (prefix, master, slaves, tables, apply, initial, verify, root.file, notify, most, kept, points_at, shown)
    return Replication(*parts)


def prefix_of(root: Node) -> str | None:
    """The prefix as far as it can be told, in upper case, also from a file with mistakes."""
    node = root.value.get("prefix") if isinstance(root.value, dict) else None
    return node.value.strip().upper() if node is not None and isinstance(node.value, str) else None


def _prefix(section: Section, mistakes: list[Mistake]) -> Prefix | None:
    right = "write a letter, then letters, digits or underscores, 30 characters at most, e.g. DEMO_"
    if not section.has("prefix"):
        section.get("prefix")
        section.missing("prefix", right)
        return None
    found = section.scalar("prefix", right)
    if found is None:
        return None
    node, text = found
    try:
        return Prefix(text.strip())
    except InvalidName:
        mistakes.append(node.mistake(f"{text!r} is no prefix", right))
        return None


def _master(section: Section, prefix: Prefix | None, mistakes: list[Mistake]) -> Endpoint:
    node = section.get("master")
    if node is None:
        section.missing("master", "write conn_id and vendor of the database to replicate from")
        return Endpoint("")
    endpoint = Section(node, mistakes)
    if endpoint.choice("capture", ("trigger", STREAM), "trigger", "ways to capture") == STREAM:
        return stream.endpoint(endpoint, mistakes)
    place, cascade = _endpoint(endpoint, FIRST), _cascade(endpoint, prefix, mistakes)
    master = Endpoint(*place, cascade, endpoint.flag("allow_superuser", False))
    endpoint.finish()
    return master


def _cascade(section: Section, prefix: Prefix | None, mistakes: list[Mistake]) -> tuple[Prefix, ...]:
    right = "write the prefixes whose changes this master shall pass on, separated by commas"
    text = section.text("cascade", "", right)
    passed_on = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        node = section.get("cascade")
        assert node is not None
        try:
            passed_on.append(Prefix(part))
        except InvalidName:
            mistakes.append(node.mistake(f"{part!r} is no prefix", right))
            continue
        if passed_on[-1] == prefix:
            mistakes.append(node.mistake("names this replication itself", right))
    return tuple(sorted(set(passed_on)))


def _endpoint(section: Section, vendor: str) -> tuple[str, str, str]:
    """conn_id, vendor, schema."""
    if not section.has("conn_id"):
        file = section.node.file
        xmlblaster = file.suffix in (".properties", ".xml")
        beside = f", or leave this file as it is and write a YAML with from: {file.name}" if xmlblaster else ""
        section.missing("conn_id", _CONN_ID + beside)
    conn_id = section.text("conn_id", "", _CONN_ID)
    vendor = section.choice("vendor", VENDORS, vendor, "vendors", UNFINISHED)
    schema = section.text("schema", DEFAULT_SCHEMA, "name a schema, exactly as the database stores it")
    return conn_id, vendor, schema


def _slaves(section: Section, master: Endpoint, mistakes: list[Mistake]) -> dict[str, SlaveConfig]:
    node = section.get("slaves")
    if node is None:
        section.missing("slaves", "write each slave's name with its conn_id, or slaves: {} while there is none")
        return {}
    slaves: dict[str, SlaveConfig] = {}
    if not isinstance(node.value, dict):
        mistakes.append(
            node.mistake(f"is {node.kind}", "write name: {conn_id: …} for each slave, or {} while there is none")
        )
        return {}
    folded: dict[str, Node] = {}
    connections: dict[str, Node] = {}
    for name, child in node.value.items():
        if not _SLAVE_NAME.match(name):
            mistakes.append(
                child.mistake(
                    f"{name!r} is no slave's name", "use letters, digits, - and _, 63 at most, a letter or digit first"
                )
            )
        twin = folded.setdefault(name.lower(), child)
        if twin is not child:
            mistakes.append(
                child.mistake(
                    f"differs from the slave {twin.place_seen_from(child)} only by capitals", "rename one of the two"
                )
            )
        slave = _slave(name, child, master, mistakes)
        slaves[name] = slave
        if not slave.conn_id:
            continue
        if slave.conn_id == master.conn_id:
            mistakes.append(
                child.mistake(f"has the master's own connection {master.conn_id}", "name the slave's connection")
            )
        other = connections.setdefault(slave.conn_id, child)
        if other is not child:
            mistakes.append(
                child.mistake(
                    f"has the same connection {slave.conn_id} as the slave {other.place_seen_from(child)}",
                    "name another connection, or take one of the two slaves out",
                )
            )
    return slaves


def _slave(name: str, node: Node, master: Endpoint, mistakes: list[Mistake]) -> SlaveConfig:
    section = Section(node, mistakes)
    section.get("from")
    conn_id, vendor, schema = _endpoint(section, master.vendor)
    safe_mode = section.flag("safe_mode", False)
    policy = section.get("on_conflict")
    on_conflict = section.choice("on_conflict", ("stop", "reject", "overwrite"), "stop", "policies")
    if safe_mode and policy is not None:
        mistakes.append(
            policy.mistake(
                "contradicts safe_mode: true, under which no change ever conflicts", "take out on_conflict or safe_mode"
            )
        )
    comparing = section.get("compare_values")
    compare_values = section.flag("compare_values", True)
    always = "safe_mode: true" if safe_mode else "on_conflict: overwrite" if on_conflict == "overwrite" else ""
    if comparing is not None and compare_values and always:
        mistakes.append(
            comparing.mistake(
                f"contradicts {always}, under which no row is compared before it is written",
                f"take out compare_values or {always.partition(':')[0]}",
            )
        )
    existing = section.choice("existing_tables", ("empty", "keep", "refuse"), "empty", "policies")
    checkpoint = section.choice("checkpoint", ("slave", "redis"), "slave", "places")
    location = _location(section, mistakes)
    new_tables = section.choice("new_tables", (LOAD, WAIT), LOAD, "policies")
    allow_superuser = section.flag("allow_superuser", False)
    trusted_ddl = section.flag("trusted_ddl", False)
    lossy = _patterns(section.text("lossy_columns", "", _COLUMNS_RIGHT))
    section.finish()
    # fmt: off
    return SlaveConfig(
        name, conn_id, vendor, schema, safe_mode, on_conflict, compare_values, existing, checkpoint, location,
        new_tables, allow_superuser, trusted_ddl, lossy,
    )
    # fmt: on


def _location(section: Section, mistakes: list[Mistake]) -> str | None:
    location = section.text("initial_files_location", "", _A_LOCATION)
    if not location:
        return None
    node = section.get("initial_files_location")
    assert node is not None
    _check_location(node, location, mistakes)
    return location


def _check_location(node: Node, text: str, mistakes: list[Mistake]) -> None:
    try:
        Location.parse(text)
    except NoLocation:
        mistakes.append(node.mistake(f"{text!r} is neither an absolute folder nor a place in S3", _A_LOCATION))


def _locations(section: Section, mistakes: list[Mistake]) -> tuple[str, ...]:
    """A list, or a text with commas, as property files have it."""
    right = f"write a list such as [/mnt/disk, s3://bucket/prefix]; of each, {_A_LOCATION}"
    node = section.get("locations")
    if node is None:
        return ()
    if isinstance(node.value, str):
        texts = [(node, text) for text in _patterns(node.value)]
    elif isinstance(node.value, list):
        texts = [(child, child.value.strip() if isinstance(child.value, str) else "") for child in node.value]
    else:
        mistakes.append(node.mistake(f"is {node.kind}", right))
        return ()
    for each, text in texts:
        _check_location(each, text, mistakes)
    return tuple(text for _, text in texts)


def _tables(section: Section, mistakes: list[Mistake]) -> tuple[TableRule, ...]:
    node = section.get("tables")
    right = "write a line for each table or wildcard, e.g. public.*: {}"
    if node is None:
        section.missing("tables", right)
        return ()
    if not isinstance(node.value, dict):
        mistakes.append(node.mistake(f"is {node.kind}", right))
        return ()
    if not node.value:
        # Reconciling with no table at all would remove every trigger: that is what uninstalling is for.
        mistakes.append(node.mistake("names no table", right + "; to end a replication, uninstall it"))
    rules: list[TableRule] = []
    patterns: dict[TablePattern, Node] = {}
    triggers: dict[str, Node] = {}
    for text, child in node.value.items():
        try:
            pattern = TablePattern.parse(text)
        except InvalidName as invalid:
            problem, _, remedy = str(invalid).partition(": ")
            mistakes.append(child.mistake(problem, remedy or "write schema.table"))
            continue
        twin = patterns.setdefault(pattern, child)
        if twin is not child:
            mistakes.append(child.mistake(f"is the same table as {twin.place_seen_from(child)}", "keep one of the two"))
        rule = _rule(pattern, child, mistakes)
        rules.append(rule)
        if rule.trigger is not None:
            same = triggers.setdefault(rule.trigger.lower(), child)
            if same is not child:
                mistakes.append(
                    child.mistake(
                        f"has the same trigger {rule.trigger} as the table {same.place_seen_from(child)}",
                        "rename one of the two",
                    )
                )
    return tuple(rules)


def _rule(pattern: TablePattern, node: Node, mistakes: list[Mistake]) -> TableRule:
    section = Section(node, mistakes)
    actions = _actions(section, mistakes)
    sequence = section.integer("sequence", None)
    trigger = _trigger(section, pattern, mistakes)
    debug = section.flag("debug", False)
    replicate = section.flag("replicate", True)
    options = [name for name in ("actions", "sequence", "trigger", "debug") if section.has(name)]
    section.finish()
    if not replicate and options:
        mistakes.append(
            node.mistake(
                f"has {', '.join(options)} although replicate is false", "take out either replicate or the others"
            )
        )
    return TableRule(pattern, actions, sequence, trigger, debug, replicate)


def _actions(section: Section, mistakes: list[Mistake]) -> frozenset[str]:
    right = 'write any of I, D and U, e.g. IDU, or "" to copy the content once and replicate no change'
    found = section.scalar("actions", right)
    if found is None:
        return ALL_ACTIONS
    node, text = found
    letters = text.strip().upper()
    if wrong := sorted(set(letters) - ALL_ACTIONS):
        mistakes.append(node.mistake(f"{text!r} has {', '.join(map(repr, wrong))}, which is no action", right))
        return ALL_ACTIONS
    if len(set(letters)) < len(letters):
        mistakes.append(node.mistake(f"{text!r} has an action twice", right))
    return frozenset(letters)


def _trigger(section: Section, pattern: TablePattern, mistakes: list[Mistake]) -> str | None:
    right = "write the name of the trigger, or leave it out to have one made"
    found = section.scalar("trigger", right)
    if found is None:
        return None
    node, text = found
    trigger = text.strip()
    if not trigger:
        return None
    if pattern.wildcard:
        mistakes.append(
            node.mistake(
                f"would give every table of {pattern} the same trigger",
                "leave it out, or name triggers on lines of single tables",
            )
        )
    if len(trigger.encode()) > LONGEST_TRIGGER or any(ord(character) < 32 for character in trigger):
        mistakes.append(
            node.mistake(f"{trigger!r} cannot name a trigger", f"use {LONGEST_TRIGGER} bytes at most, none of control")
        )
    return trigger


def _apply(section: Section, mistakes: list[Mistake]) -> ApplyOptions:
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


def _initial(section: Section, mistakes: list[Mistake]) -> InitialOptions:
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
    locations = _locations(options, mistakes)
    where = options.flag("where", default.where)
    options.finish()
    assert rows is not None
    assert parallel is not None and tables is not None and ranges is not None
    return InitialOptions(
        target, rows, parallel, files_s3, files_key, tables, ranges, read, lock, throttle, locations, where
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


def _verify(section: Section, mistakes: list[Mistake]) -> VerifyOptions:
    node = section.get("verify")
    if node is None:
        return VerifyOptions()
    options = Section(node, mistakes)
    default = VerifyOptions()
    schedule = options.choice("schedule", ("daily", "weekly", "never"), default.schedule, "schedules")
    action = options.choice("action", ("verify", "repair"), default.action, "actions")
    tables = _patterns(options.text("tables", "*", "write schema.table, with * for anything, separated by commas"))
    mask = _patterns(options.text("mask", "", _COLUMNS_RIGHT))
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


def _housekeeping(section: Section, mistakes: list[Mistake]) -> HousekeepingOptions:
    default, node = HousekeepingOptions(), section.get("housekeeping")
    if node is None:
        return default
    options = Section(node, mistakes)
    files = options.integer("keep_files_days", default.keep_files_days, 0, 36_500)
    rejects = options.integer("keep_rejects_days", default.keep_rejects_days, 0, 36_500)
    options.finish()
    assert files is not None and rejects is not None
    return HousekeepingOptions(files, rejects)


def _notify(section: Section, mistakes: list[Mistake]) -> tuple[NotifierConfig, ...]:
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


def _items_limit(section: Section, mistakes: list[Mistake]) -> ItemsLimit:
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


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
