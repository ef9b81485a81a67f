"""The section `conflict_rules` of a slave."""

from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Node, Section
from sluice.configuration.rule import TablePattern
from sluice.configuration.transformation_section import user_function
from sluice.model.conflict_rule import ConflictRule, Winner
from sluice.model.names import InvalidName

_RIGHT = (
    "write one of {newest: COLUMN}, {wins: master}, {wins: slave}, {exit: package.module:function} for each table or "
    "wildcard"
)


def conflict_rules(section: Section, mistakes: list[Mistake]) -> tuple[tuple[TablePattern, ConflictRule], ...]:
    """What is said of each table or wildcard."""
    node = section.get("conflict_rules")
    if node is None:
        return ()
    if not isinstance(node.value, dict) or not node.value:
        mistakes.append(node.mistake(f"is {node.kind}" if node.value else "names no table", _RIGHT))
        return ()
    found: dict[TablePattern, ConflictRule] = {}
    for text, child in node.value.items():
        try:
            pattern = TablePattern.parse(text)
        except InvalidName as invalid:
            problem, _, remedy = str(invalid).partition(": ")
            mistakes.append(child.mistake(problem, remedy or "write schema.table"))
            continue
        if pattern in found:
            mistakes.append(child.mistake(f"is the same table as {pattern} above", "keep one of the two"))
        rule = _rule(child, mistakes)
        if rule is not None:
            found[pattern] = rule
    _expect_comparing(node, section, mistakes)
    return tuple(found.items())


def _rule(node: Node, mistakes: list[Mistake]) -> ConflictRule | None:
    if not isinstance(node.value, dict):
        mistakes.append(node.mistake(f"is {node.kind}", _RIGHT))
        return None
    section = Section(node, mistakes)
    newest = section.text("newest", "", "write the name of the column that every write raises")
    wins = section.choice("wins", [str(winner) for winner in Winner], "", "sides")
    user_exit = user_function(section) if section.has("exit") else None
    said = [name for name in ("newest", "wins", "exit") if section.has(name)]
    section.finish()
    if len(said) != 1:
        mistakes.append(node.mistake("needs one of newest, wins and exit", _RIGHT))
    if not (newest or wins or user_exit):
        return None
    return ConflictRule(Winner(wins) if wins else None, newest or None, user_exit)


def _expect_comparing(node: Node, section: Section, mistakes: list[Mistake]) -> None:
    """A conflict is found by the row's former values, and each change must come once."""
    for name, value, reason in (
        ("compare_values", "false", "under which conflicts are not seen"),
        ("checkpoint", "redis", "with which changes come again after a restart, and look like conflicts"),
    ):
        other = section.inside(name)
        if other is not None and other.value == value:
            mistakes.append(node.mistake(f"contradicts {name}: {value}, {reason}", "take out one of the two"))
