"""The section `tables`: which tables are replicated, and how."""

from collections.abc import Iterator

from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Node, Section
from sluice.configuration.placement import target
from sluice.configuration.rule import ALL_ACTIONS, ON_ERROR, TablePattern, TableRule
from sluice.configuration.transformation_section import KEYS, transformation
from sluice.model.names import LONGEST_TRIGGER, InvalidName


def tables(section: Section, mistakes: list[Mistake]) -> tuple[TableRule, ...]:
    """What is said of each table or wildcard."""
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
    triggers: dict[str, Node] = {}
    for pattern, child in _patterns(node.value, mistakes):
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


def of_slave(section: Section, mistakes: list[Mistake]) -> tuple[TableRule, ...]:
    """What one slave gets otherwise than `tables` says for all of them."""
    node = section.get("tables")
    if node is None or node.value is None:
        return ()
    if not isinstance(node.value, dict):
        mistakes.append(
            node.mistake(
                f"is {node.kind}", "write a line for each table or wildcard, with where, columns, exit or target"
            )
        )
        return ()
    rules = []
    for pattern, child in _patterns(node.value, mistakes):
        line = Section(child, mistakes)
        rules.append(TableRule(pattern, transformation=transformation(line), target=target(line, pattern)))
        line.finish()
    return tuple(rules)


def _patterns(lines: dict[str, Node], mistakes: list[Mistake]) -> Iterator[tuple[TablePattern, Node]]:
    """Each line with the tables that it means."""
    patterns: dict[TablePattern, Node] = {}
    for text, child in lines.items():
        try:
            pattern = TablePattern.parse(text)
        except InvalidName as invalid:
            problem, _, remedy = str(invalid).partition(": ")
            mistakes.append(child.mistake(problem, remedy or "write schema.table"))
            continue
        twin = patterns.setdefault(pattern, child)
        if twin is not child:
            mistakes.append(child.mistake(f"is the same table as {twin.place_seen_from(child)}", "keep one of the two"))
        yield pattern, child


def _rule(pattern: TablePattern, node: Node, mistakes: list[Mistake]) -> TableRule:
    section = Section(node, mistakes)
    actions = _actions(section, mistakes)
    sequence = section.integer("sequence", None)
    trigger = _trigger(section, pattern, mistakes)
    debug = section.flag("debug", False)
    on_error = section.choice("on_error", ON_ERROR, "", "policies") or None
    replicate = section.flag("replicate", True)
    transformed, elsewhere = transformation(section), target(section, pattern)
    known = ("actions", "sequence", "trigger", "debug", "on_error", *KEYS, "target")
    options = [name for name in known if section.has(name)]
    section.finish()
    if not replicate and options:
        mistakes.append(
            node.mistake(
                f"has {', '.join(options)} although replicate is false", "take out either replicate or the others"
            )
        )
    return TableRule(pattern, actions, sequence, trigger, debug, on_error, replicate, transformed, elsewhere)


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
