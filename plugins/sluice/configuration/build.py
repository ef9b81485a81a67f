"""Turns a reader's tree into a checked `Replication`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from sluice.configuration.mistakes import Mistake
from sluice.configuration.model import SHORT_NAME, SHORT_NAME_SAYS, Endpoint, Replication, SlaveConfig
from sluice.configuration.nodes import Node
from sluice.configuration.placement import check
from sluice.configuration.resolve import rule_for
from sluice.configuration.rule import TablePattern, TableRule
from sluice.configuration.section import Options, Section, option
from sluice.configuration.table_lines import EACH_TABLE, tables
from sluice.configuration.values import A_FOLDER, A_PREFIX, folder, one_of, prefix, read, text, whole
from sluice.model.issue import MASTER
from sluice.model.names import Prefix
from sluice.model.vendors import BINLOG, FIRST, LOGGED_MASTERS, REDO, STREAM, VENDORS

_EACH_SLAVE = "write name: {conn_id: …} for each slave, or {} while there is none"


def build(root: Node, points_at: tuple[Path, ...], mistakes: list[Mistake]) -> Replication | None:
    """The replication; None if it has mistakes, which are added to `mistakes`."""
    before = len(mistakes)
    section = Section(root, mistakes)
    section.get("from")  # see `sources`, which has followed it
    section.need("prefix", A_PREFIX)
    section.need("master", "write conn_id and vendor of the database to replicate from")
    section.need("slaves", "write each slave's name with its conn_id, or slaves: {} while there is none")
    section.need("tables", EACH_TABLE)
    own = section.read("prefix", prefix, None)
    rules = section.read("tables", tables, ())
    master = section.read("master", partial(_master, own), Endpoint())
    slaves = section.read("slaves", partial(_slaves, master, rules), {})
    check(rules, (slave.tables for slave in slaves.values()), mistakes)
    replication = Replication.from_section(
        section, prefix=own, master=master, slaves=slaves, tables=rules, source=root.file, points_at=points_at
    )
    return replication if len(mistakes) == before else None


def prefix_of(root: Node) -> str | None:
    """The prefix in upper case, even from a file with mistakes, or None."""
    node = root.fields.get("prefix")
    return node.value.strip().upper() if node is not None and isinstance(node.value, str) else None


@dataclass(frozen=True)
class _OfStream(Options):
    """The section of a master whose changes are in files."""

    vendor: str = option(FIRST, one_of(VENDORS, "vendors"))
    location: str = option("", folder)
    after: int | None = option(None, whole(0, 10**18 - 1))


@dataclass(frozen=True)
class _OfRedo(_OfStream):
    """The section of a master whose changes are in files made from its redo logs."""

    conn_id: str = option("", text("name the connection to the master's database, e.g. shop_oracle"))


@dataclass(frozen=True)
class _OfBinlog(_OfRedo):
    """The section of a master whose changes are in files recorded from its own log."""

    vendor: str = option("", one_of(LOGGED_MASTERS, "vendors whose log is recorded"))

    def checked(self, section: Section) -> Self:
        section.need("vendor", f"write {' or '.join(LOGGED_MASTERS)}")
        section.need("conn_id", "name the connection to the master's database, e.g. shop_master")
        return self


_CAPTURED: dict[str, type[_OfStream]] = {STREAM: _OfStream, REDO: _OfRedo, BINLOG: _OfBinlog}


def _master(own: Prefix | None, node: Node, mistakes: list[Mistake]) -> Endpoint:
    section = Section(node, mistakes)
    capture = section.read("capture", one_of(("trigger", *_CAPTURED), "ways to capture"), "trigger")
    if capture != "trigger":
        section.need("location", A_FOLDER)
        captured = _CAPTURED[capture].from_section(section)
        return Endpoint(capture=capture, **vars(captured))
    master = Endpoint.from_section(section)
    if own in master.cascade:
        section.wrong("names this replication itself", "take it out", "cascade")
    return master


def _slaves(
    master: Endpoint, rules: Iterable[TableRule], node: Node, mistakes: list[Mistake]
) -> dict[str, SlaveConfig]:
    slaves: dict[str, SlaveConfig] = {}
    names: dict[str, Node] = {}
    connections: dict[str, Node] = {}
    for name, child in node.entries(_EACH_SLAVE).items():
        if not re.fullmatch(SHORT_NAME, name):
            mistakes.append(child.mistake(f"{name!r} is no slave's name", SHORT_NAME_SAYS))
        elif name.lower() == MASTER:
            mistakes.append(child.mistake(f"{name!r} means the other side in every command", "choose another name"))
        twin = names.setdefault(name.lower(), child)
        if twin is not child:
            problem = f"differs from the slave {twin.place_seen_from(child)} only by capitals"
            mistakes.append(child.mistake(problem, "rename one of the two"))
        slave = read(partial(_slave, name, master, rules), child, mistakes)
        if slave is None:
            continue
        slaves[name] = slave
        if slave.conn_id and slave.conn_id == master.conn_id:
            problem = f"has the master's own connection {master.conn_id}"
            mistakes.append(child.mistake(problem, "name the slave's connection"))
        other = connections.setdefault(slave.conn_id, child) if slave.conn_id else child
        if other is not child:
            problem = f"has the same connection {slave.conn_id} as the slave {other.place_seen_from(child)}"
            mistakes.append(child.mistake(problem, "name another connection, or take one of the two slaves out"))
    return slaves


def _slave(name: str, master: Endpoint, rules: Iterable[TableRule], node: Node, mistakes: list[Mistake]) -> SlaveConfig:
    section = Section(node, mistakes)
    section.get("from")
    slave = SlaveConfig.from_section(section, name=name, vendor=master.vendor)
    if not any(rule.transformation for rule in (*rules, *slave.tables)):
        return slave
    if master.stream:
        problem = (
            f"gets changes of a recorded stream (capture: {master.capture}), and tables have where, columns or exit"
        )
        section.wrong(problem, "take where, columns and exit out: a recorded stream is applied as it is")
    elif both := _filtered_and_ruled(slave, tuple(rules)):
        problem = f"has conflict_rules for {both}, and where or exit for the same"
        section.wrong(
            problem, "take one of the two out: a row that was left out has no value that a rule could compare"
        )
    if several := _making_several(slave, rules):
        problem = f"is {slave.vendor}, and {several} has extra_key, which was never run there"
        section.wrong(problem, f"give it its own line without extra_key under tables of {name}")
    return slave


def _making_several(slave: SlaveConfig, lines: Iterable[TableRule]) -> TablePattern | None:
    """Tables of which several rows are made of one, for a slave that cannot have such; None for none."""
    if VENDORS[slave.vendor].several_rows:
        return None
    lines = [line for line in lines if line.pattern not in {own.pattern for own in slave.tables}]
    making = (line for line in (*slave.tables, *lines) if line.transformation and line.transformation.extra_key)
    return next((line.pattern for line in making), None)


def _filtered_and_ruled(slave: SlaveConfig, lines: tuple[TableRule, ...]) -> TablePattern | None:
    """Tables that are filtered for the slave although a rule decides their conflicts, or None."""
    rules = (*slave.tables, *lines)
    exact = {rule.pattern.table for rule in rules if not rule.pattern.wildcard}
    exact |= {pattern.table for pattern, _ in slave.conflict_rules if not pattern.wildcard}
    for table in sorted(exact):
        rule = rule_for(table, slave.tables) or rule_for(table, lines)
        if rule is not None and rule.filters and slave.conflict_rule(table) is not None:
            return TablePattern(table.schema, table.name)
    for rule in rules:
        ruled = any(pattern.wildcard and pattern.schema == rule.pattern.schema for pattern, _ in slave.conflict_rules)
        if rule.pattern.wildcard and rule.filters and ruled:
            return rule.pattern
    return None
