"""From a reader's tree to a checked `Replication`."""

import re
from collections.abc import Collection
from pathlib import Path

from sluice.configuration import option, options, placement, redo, stream
from sluice.configuration.conflict_rules import conflict_rules
from sluice.configuration.ddl import DdlOptions, replicate
from sluice.configuration.locations import location
from sluice.configuration.mistakes import Mistake
from sluice.configuration.model import (
    DEFAULT_SCHEMA,
    Endpoint,
    HousekeepingOptions,
    Replication,
    SlaveConfig,
)
from sluice.configuration.monitor import monitor
from sluice.configuration.nodes import Node, Section, parts
from sluice.configuration.rule import ON_ERROR
from sluice.configuration.table_section import of_slave, tables
from sluice.configuration.transformation_section import check_slaves
from sluice.model.joining import LOAD, WAIT
from sluice.model.names import InvalidName, Prefix
from sluice.model.vendors import FIRST, MASTERS, REDO, STREAM, VENDORS

_SLAVE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
_CONN_ID = "name the Airflow connection of this database, e.g. demo_master"


def build(root: Node, points_at: tuple[Path, ...], mistakes: list[Mistake]) -> Replication | None:
    """The replication; None when anything is wrong, with everything wrong added to `mistakes`."""
    before = len(mistakes)
    section = Section(root, mistakes)
    section.get("from")  # followed before: see sources
    prefix = _prefix(section, mistakes)
    master = _master(section, prefix, mistakes)
    slaves = _slaves(section, master, mistakes)
    rules = tables(section, mistakes)
    check_slaves(master, slaves.values(), rules, section, mistakes)
    placement.check(rules, (slave.tables for slave in slaves.values()), mistakes)
    apply = options.apply(section)
    initial = options.initial(section)
    verify = stream.verified(master, options.verify(section), section, mistakes)
    notify = options.notify(section, mistakes)
    most = options.items_limit(section, mistakes)
    kept = option.read(section, "housekeeping", HousekeepingOptions)
    shown = monitor(section)
    ddl = option.read(section, "ddl", DdlOptions)
    beside = replicate(section, master, mistakes)
    redo_logs = redo.options(section, master, mistakes)
    readers = _feeds(section, master, mistakes)
    broadcast = section.flag("broadcast", False)
    section.finish()
    if len(mistakes) > before or prefix is None:
        return None
    return Replication(
        prefix,
        master,
        slaves,
        rules,
        apply,
        initial,
        verify,
        root.file,
        notify,
        most,
        kept,
        points_at,
        shown,
        ddl,
        beside,
        redo_logs,
        readers,
        broadcast,
    )


def _feeds(section: Section, master: Endpoint, mistakes: list[Mistake]) -> tuple[str, ...]:
    right = "write the feeds' names with commas between them, e.g. feeds: lake, search"
    names = parts(section.text("feeds", "", right))
    node = section.get("feeds")
    if node is None:
        return ()
    for name in dict.fromkeys(names):
        if not _SLAVE_NAME.match(name) or names.count(name) > 1:
            problem = f"{name!r} is there twice" if names.count(name) > 1 else f"{name!r} is no feed's name"
            mistakes.append(node.mistake(problem, "use letters, digits, - and _, 63 at most, each name once"))
    if names and master.stream:
        mistakes.append(node.mistake("contradicts capture: stream, whose files nobody purges", "take it out"))
    return names


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
    match endpoint.choice("capture", ("trigger", STREAM, REDO), "trigger", "ways to capture"):
        case "stream":
            return stream.endpoint(endpoint, mistakes)
        case "redo":
            return redo.endpoint(endpoint, mistakes)
    place, cascade = _endpoint(endpoint, FIRST, MASTERS), _cascade(endpoint, prefix, mistakes)
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


def _endpoint(section: Section, vendor: str, vendors: Collection[str] = VENDORS) -> tuple[str, str, str]:
    """conn_id, vendor, schema."""
    if not section.has("conn_id"):
        file = section.node.file
        xmlblaster = file.suffix in (".properties", ".xml")
        beside = f", or leave this file as it is and write a YAML with from: {file.name}" if xmlblaster else ""
        section.missing("conn_id", _CONN_ID + beside)
    conn_id = section.text("conn_id", "", _CONN_ID)
    what = "vendors of a master" if vendors is MASTERS else "vendors"
    vendor = section.choice("vendor", vendors, vendor, what)
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
    existing = section.choice("existing_tables", ("empty", "keep", "refuse", "current"), "empty", "policies")
    places = ("slave", "redis") if VENDORS[vendor].redis_checkpoint else ("slave",)
    checkpoint = section.choice("checkpoint", places, "slave", "places")
    files = location(section)
    new_tables = section.choice("new_tables", (LOAD, WAIT), LOAD, "policies")
    on_error = section.choice("on_error", ON_ERROR, "stop", "policies")
    on_drop = section.choice("on_drop", ("keep", "drop"), "keep", "policies")
    allow_superuser = section.flag("allow_superuser", False)
    trusted_ddl = section.flag("trusted_ddl", False)
    lossy = parts(
        section.text("lossy_columns", "", "write schema.table.column, with * for anything, separated by commas")
    )
    own_tables = of_slave(section, mistakes)
    rules = conflict_rules(section, mistakes)
    section.finish()
    return SlaveConfig(
        name,
        conn_id,
        vendor,
        schema,
        safe_mode,
        on_conflict,
        compare_values,
        existing,
        checkpoint,
        files,
        new_tables,
        on_error,
        on_drop,
        allow_superuser,
        trusted_ddl,
        lossy,
        own_tables,
        rules,
    )
