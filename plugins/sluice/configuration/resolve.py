"""From the configured lines and the master's tables to the tables that are replicated."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from sluice.configuration.rule import TableRule
from sluice.errors import Terminal
from sluice.model.names import Prefix, TableName

MASTER_TABLES = frozenset(
    {
        "items",
        "tables",
        "current_tables",
        "longs_table",
        "debug_table",
        "cols_table",
        "captures",
        "partitions",
        "info",
        "statements",
        "answers",
    }
)
"""Tables that DbResources bring (`resources_v1.sql` and later steps), without the prefix."""
SLAVE_TABLES = frozenset({"checkpoint", "blocks", "rejects", "throttle", "definitions", "failover"})
"""Tables that a slave gets (`slave_resources.sql`), without the prefix."""
_STAGE = re.compile(r"stage_\d+_\d+_\w+\Z")
"""Tables in which the apply gathers changes on a slave, without the prefix."""

MASTER_MARKS = ("items", "tables", "current_tables")
SLAVE_MARKS = ("checkpoint", "blocks", "rejects")
"""Tables that are always together, without the prefix."""


@dataclass(frozen=True)
class ResolvedTable:
    """A table that is replicated, with the options of the line that won."""

    table: TableName
    actions: frozenset[str]
    sequence: int
    """-1 where none or a negative one is configured."""
    trigger: str | None
    debug: bool


class TablesMissing(Terminal):
    """The master lacks tables that the configuration names; `tables` lists them."""

    def __init__(self, prefix: Prefix, missing: Iterable[TableName], existing: Iterable[TableName], source: str):
        self.prefix = prefix
        self.tables = tuple(missing)
        known = {str(table).lower(): str(table) for table in existing}
        lines = []
        for table in self.tables:
            near = difflib.get_close_matches(str(table).lower(), known, n=1, cutoff=0.8)
            lines.append(f"{table} (there is {known[near[0]]})" if near else str(table))
        super().__init__(
            f"{source}: the master of {prefix} has no table {', '.join(lines)}. Correct the name (capitals count, "
            "as the database stores them), create the table, or take the line out."
        )


class OwnTable(Terminal):
    """The configuration names tables in which Sluice keeps its own data; `tables` lists them."""

    def __init__(self, prefix: Prefix, tables: Iterable[TableName], source: str):
        self.prefix = prefix
        self.tables = tuple(tables)
        super().__init__(
            f"{source}: {', '.join(str(table) for table in self.tables)} belongs to Sluice itself "
            "and cannot be replicated. Take the line out."
        )


def resolve(
    prefix: Prefix, rules: Iterable[TableRule], existing: Iterable[TableName], source: str
) -> list[ResolvedTable]:
    """The tables of `existing` that `rules` replicate, by `sequence`, then by name.

    `source` is the file of the rules, for messages. Raises `TablesMissing` and `OwnTable`.
    """
    lines = tuple(rules)
    tables = sorted(set(existing))
    own = _own_tables(prefix, tables)
    named = [rule.pattern.table for rule in lines if not rule.pattern.wildcard and rule.replicate]
    if forbidden := [table for table in named if table in own]:
        raise OwnTable(prefix, forbidden, source)
    if missing := sorted(set(named) - set(tables)):
        raise TablesMissing(prefix, missing, tables, source)

    resolved = []
    for table in tables:
        rule = rule_for(table, lines)
        if rule is None or not rule.replicate or table in own:
            continue
        sequence = -1 if rule.sequence is None or rule.sequence < 0 else rule.sequence
        resolved.append(ResolvedTable(table, rule.actions, sequence, rule.trigger, rule.debug))
    return sorted(resolved, key=lambda entry: entry.sequence)


def rule_for(table: TableName, rules: Iterable[TableRule]) -> TableRule | None:
    """The most exact line that matches; among equally exact ones the first of the file."""
    matching = [rule for rule in rules if rule.pattern.matches(table)]
    return max(matching, key=lambda rule: rule.pattern.precision, default=None)


def own_tables(tables: Iterable[TableName]) -> set[TableName]:
    """Those of `tables` that hold Sluice's own data, of any prefix.

    A prefix shows by its tables: where X_ITEMS, X_TABLES and X_CURRENT_TABLES are in one schema, X_ is a prefix; so it
    is where X_CHECKPOINT, X_BLOCKS and X_REJECTS are. A user's table whose name only begins with a prefix is no such
    table.
    """
    existing = set(tables)
    prefixes = set()
    for marks in (MASTER_MARKS, SLAVE_MARKS):
        for table in existing:
            start = table.name.removesuffix(marks[0])
            if start != table.name and all(TableName(table.schema, start + mark) in existing for mark in marks):
                prefixes.add((table.schema, start))
    return _of_prefixes(prefixes, existing)


def _own_tables(prefix: Prefix, tables: Iterable[TableName]) -> set[TableName]:
    """Those of `tables` that hold Sluice's own data, of this prefix, complete or not, or of another one."""
    existing = set(tables)
    return own_tables(existing) | _of_prefixes({(table.schema, prefix.lower) for table in existing}, existing)


def _of_prefixes(prefixes: set[tuple[str, str]], existing: set[TableName]) -> set[TableName]:
    """What is Sluice's of these, each a schema and a prefix."""
    own = {TableName(schema, start + end) for schema, start in prefixes for end in MASTER_TABLES | SLAVE_TABLES}
    for schema, start in prefixes:
        own |= {
            table
            for table in existing
            if table.schema == schema and table.name.startswith(start) and _STAGE.match(table.name[len(start) :])
        }
    return own & existing
