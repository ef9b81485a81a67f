"""Finds the replicated tables, from the configured lines and the master's tables."""

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
"""Tables of DbResources (`resources_v1.sql` and later files), without the prefix."""
SLAVE_TABLES = frozenset({"checkpoint", "blocks", "rejects", "throttle", "definitions", "failover"})
"""Tables of a slave (`slave_resources.sql`), without the prefix."""
_STAGE = re.compile(r"stage_\d+_\d+_\w+\Z")
"""Stage tables of the apply on a slave, without the prefix."""

MASTER_MARKS = ("items", "tables", "current_tables")
SLAVE_MARKS = ("checkpoint", "blocks", "rejects")
"""Tables that together prove a prefix, without the prefix."""


@dataclass(frozen=True)
class ResolvedTable:
    """A replicated table, with the options of its line."""

    table: TableName
    actions: frozenset[str]
    sequence: int
    """-1 if none or a negative one is configured."""
    trigger: str | None
    debug: bool


def tables_missing(
    prefix: Prefix, missing: Iterable[TableName], existing: Iterable[TableName], source: str
) -> Terminal:
    """The master lacks the configured `tables`."""
    tables = tuple(missing)
    lowered = {str(table).lower(): str(table) for table in existing}
    lines = []
    for table in tables:
        near = difflib.get_close_matches(str(table).lower(), lowered, n=1, cutoff=0.8)
        lines.append(f"{table} (there is {lowered[near[0]]})" if near else str(table))
    return Terminal(
        f"{source}: the master of {prefix} has no table {', '.join(lines)}. Correct the name (capitals count, "
        "as the database stores them), create the table, or take the line out.",
        code="tables-missing",
    )


def resolve(
    prefix: Prefix, rules: Iterable[TableRule], existing: Iterable[TableName], source: str
) -> list[ResolvedTable]:
    """The tables of `existing` that `rules` replicate, by `sequence`, then by name.

    `source`: the file of the rules, for messages. Raises `tables-missing`, `own-table`.
    """
    lines = tuple(rules)
    tables = sorted(set(existing))
    own = _own_tables(prefix, tables)
    named = [rule.pattern.table for rule in lines if not rule.pattern.wildcard and rule.replicate]
    if forbidden := [table for table in named if table in own]:
        raise Terminal(
            f"{source}: {', '.join(map(str, forbidden))} belongs to Sluice itself and cannot be replicated. Take the "
            "line out.",
            code="own-table",
        )
    if missing := sorted(set(named) - set(tables)):
        raise tables_missing(prefix, missing, tables, source)

    resolved = []
    for table in tables:
        rule = rule_for(table, lines)
        if rule is None or not rule.replicate or table in own:
            continue
        sequence = -1 if rule.sequence is None or rule.sequence < 0 else rule.sequence
        resolved.append(ResolvedTable(table, rule.actions, sequence, rule.trigger, rule.debug))
    return sorted(resolved, key=lambda entry: entry.sequence)


def rule_for(table: TableName, rules: Iterable[TableRule]) -> TableRule | None:
    """The most specific line that matches; of equally specific ones the first of the file."""
    matching = [rule for rule in rules if rule.pattern.matches(table)]
    return max(matching, key=lambda rule: rule.pattern.precision, default=None)


def own_tables(tables: Iterable[TableName]) -> set[TableName]:
    """Those of `tables` that belong to Sluice, of any prefix.

    X_ is a prefix if X_ITEMS, X_TABLES and X_CURRENT_TABLES are in one schema, or X_CHECKPOINT, X_BLOCKS and X_REJECTS.
    A user's table whose name only begins with a prefix does not belong to Sluice.
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
    """Those of `tables` that belong to Sluice: of this prefix, even if incomplete, or of another one."""
    existing = set(tables)
    return own_tables(existing) | _of_prefixes({(table.schema, prefix.lower) for table in existing}, existing)


def _of_prefixes(prefixes: set[tuple[str, str]], existing: set[TableName]) -> set[TableName]:
    """The existing tables of these prefixes, each given as schema and prefix."""
    own = {TableName(schema, start + end) for schema, start in prefixes for end in MASTER_TABLES | SLAVE_TABLES}
    for schema, start in prefixes:
        own |= {
            table
            for table in existing
            if table.schema == schema and table.name.startswith(start) and _STAGE.match(table.name[len(start) :])
        }
    return own & existing
