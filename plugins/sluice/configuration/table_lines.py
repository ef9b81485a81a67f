"""Sections with a line for each table or wildcard: `tables`, of a replication and of a slave, and `conflict_rules`.

`sluice.transform` checks expressions, since that needs the tables.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from sluice.configuration.mistakes import Mistake, Wrong
from sluice.configuration.nodes import Node
from sluice.configuration.rule import TablePattern, TableRule, Target
from sluice.configuration.section import Section
from sluice.configuration.values import flag, function, member_of, read, text, texts
from sluice.model.conflict_rule import ConflictRule, Winner
from sluice.model.names import InvalidName
from sluice.model.transformation import ColumnChange, Computed, Constant, Excluded, Renamed, Transformation

T = TypeVar("T")

EACH_TABLE = "write a line for each table or wildcard, e.g. public.*: {}"
_A_CHANGE = "write one of exclude: true, rename: NAME, constant: TEXT, expression: EXPRESSION"
_CHANGES = ("exclude", "rename", "constant", "expression")
_EXPRESSION = "write an expression over the table's columns, e.g. country = 'CH'"
_EXTRA_KEY = "name the slave's columns that tell the rows of one master's row apart, e.g. extra_key: [line]"
_A_TARGET = "write target: {schema: NAME, name: NAME}, or one of the two, exactly as the slave stores it"
_A_RULE = (
    "write one of {newest: COLUMN}, {wins: master}, {wins: slave}, {exit: package.module:function} for each table or "
    "wildcard"
)


def tables(node: Node, mistakes: list[Mistake]) -> tuple[TableRule, ...]:
    """The lines under `tables`."""
    lines = node.entries(EACH_TABLE)
    if not lines:
        # Without any table, reconciling would remove every trigger, which is left to uninstalling.
        raise Wrong("names no table", f"{EACH_TABLE}; to end a replication, uninstall it")
    rules: list[TableRule] = []
    triggers: dict[str, Node] = {}
    for line, rule in _each(lines, _rule, mistakes):
        rules.append(rule)
        same = triggers.setdefault(rule.trigger.lower(), line) if rule.trigger else line
        if same is not line:
            problem = f"has the same trigger {rule.trigger} as the table {same.place_seen_from(line)}"
            mistakes.append(line.mistake(problem, "rename one of the two"))
    return tuple(rules)


def tables_of_slave(node: Node, mistakes: list[Mistake]) -> tuple[TableRule, ...]:
    """The lines under a slave's `tables`."""
    if node.value is None:
        return ()
    lines = node.entries("write a line for each table or wildcard, with where, columns, exit or target")
    return tuple(rule for _, rule in _each(lines, _rule_of_slave, mistakes))


def conflict_rules(node: Node, mistakes: list[Mistake]) -> tuple[tuple[TablePattern, ConflictRule], ...]:
    """The lines under `conflict_rules`."""
    lines = node.entries(_A_RULE)
    if not lines:
        raise Wrong("names no table", _A_RULE)
    return tuple(rule for _, rule in _each(lines, _conflict_rule, mistakes))


def _each(
    lines: dict[str, Node], reader: Callable[[TablePattern, Node, list[Mistake]], T | None], mistakes: list[Mistake]
) -> Iterator[tuple[Node, T]]:
    """The valid lines with their values."""
    patterns: dict[TablePattern, Node] = {}
    for name, line in lines.items():
        try:
            pattern = TablePattern.parse(name)
        except InvalidName as invalid:
            problem, _, remedy = str(invalid).partition(": ")
            mistakes.append(line.mistake(problem, remedy or "write schema.table"))
            continue
        twin = patterns.setdefault(pattern, line)
        if twin is not line:
            mistakes.append(line.mistake(f"is the same table as {twin.place_seen_from(line)}", "keep one of the two"))
        value = read(partial(reader, pattern), line, mistakes)
        if value is not None:
            yield line, value


def _rule(pattern: TablePattern, node: Node, mistakes: list[Mistake]) -> TableRule:
    section = Section(node, mistakes)
    elsewhere = _target(pattern, section)
    return TableRule.from_section(section, pattern=pattern, transformation=_transformation(section), target=elsewhere)


def _rule_of_slave(pattern: TablePattern, node: Node, mistakes: list[Mistake]) -> TableRule:
    section = Section(node, mistakes)
    rule = TableRule(pattern, transformation=_transformation(section), target=_target(pattern, section))
    section.finish()
    return rule


def _transformation(section: Section) -> Transformation | None:
    """None if the section has no transformation."""
    where = section.read("where", text(_EXPRESSION), None)
    columns = section.read("columns", _columns, ())
    user_exit = section.read("exit", function, None)
    extra_key = section.read("extra_key", texts(_EXTRA_KEY), ())
    if extra_key and "exit" not in section.names:
        section.wrong("is there without exit", "name the exit that makes several rows, or take it out", "extra_key")
    if where is None and not columns and user_exit is None:
        return None
    node = section.node
    return Transformation(where, columns, f"{node.file}:{node.line}: {node.key}", user_exit, extra_key)


def _target(pattern: TablePattern, section: Section) -> Target | None:
    """The name of the table on slaves; None if the section has no target."""
    target = section.read("target", _named, None)
    if target is not None and target.name is not None and pattern.wildcard:
        problem = f"would give every table of {pattern} the name {target.name}"
        section.wrong(problem, "write the schema alone, or name tables on their own lines", "target")
        return None
    return target


def _named(node: Node, mistakes: list[Mistake]) -> Target | None:
    if not node.entries(_A_TARGET):
        raise Wrong("says nothing", _A_TARGET)
    section = Section(node, mistakes)
    schema = section.read("schema", text(_A_TARGET), None)
    name = section.read("name", text(_A_TARGET), None)
    section.finish()
    return Target(schema, name, node.file, node.line, node.key) if schema or name else None


def _columns(node: Node, mistakes: list[Mistake]) -> tuple[tuple[str, ColumnChange], ...]:
    lines = node.entries(f"write a line for each column, and there {_A_CHANGE}")
    changes = ((name, read(_change, line, mistakes)) for name, line in lines.items())
    return tuple((name, change) for name, change in changes if change is not None)


def _change(node: Node, mistakes: list[Mistake]) -> ColumnChange | None:
    """The change of one column."""
    section = Section(node, mistakes, _A_CHANGE)
    excluded = section.read("exclude", flag, None)
    renamed = section.read("rename", text("write the column's name on the slave, exactly as it stores it"), None)
    expression = section.read("expression", text(_EXPRESSION), None)
    constant = section.get("constant")
    section.finish()
    if not set(section.names) <= set(_CHANGES):
        return None
    if len(section.names) != 1:
        raise Wrong(f"says {' and '.join(section.names)}" if section.names else "says nothing", _A_CHANGE)
    if excluded is False:
        raise Wrong("says exclude: false", "take the line out, or write exclude: true")
    if constant is not None:
        if isinstance(constant.value, dict | list):
            problem = f"is {constant.kind}"
            mistakes.append(constant.mistake(problem, "write a text, a number, true, false or null"))
            return None
        return Constant(constant.value)
    if excluded:
        return Excluded()
    if renamed:
        return Renamed(renamed)
    return Computed(expression) if expression else None


def _conflict_rule(
    pattern: TablePattern, node: Node, mistakes: list[Mistake]
) -> tuple[TablePattern, ConflictRule] | None:
    section = Section(node, mistakes, _A_RULE)
    newest = section.read("newest", text("write the name of the column that every write raises"), None)
    wins = section.read("wins", member_of(Winner, "sides"), None)
    user_exit = section.read("exit", function, None)
    section.finish()
    if len({"newest", "wins", "exit"}.intersection(section.names)) != 1:
        raise Wrong("needs one of newest, wins and exit", _A_RULE)
    if not (newest or wins or user_exit):
        return None
    return pattern, ConflictRule(wins, newest, user_exit)
