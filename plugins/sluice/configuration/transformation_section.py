"""`where`, `columns` and `exit` of a line under `tables`: what slaves get otherwise than the master has it.

What expressions mean is not looked at here: that needs the tables, see `sluice.transform`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sluice.configuration.nodes import Node, Section, suggestion
from sluice.configuration.rule import TableRule
from sluice.model.transformation import ColumnChange, Computed, Constant, Excluded, Renamed, Transformation
from sluice.model.vendors import FIRST
from sluice.user_function import HOW_TO_NAME, NAME

if TYPE_CHECKING:
    from sluice.configuration.mistakes import Mistake
    from sluice.configuration.model import Endpoint, SlaveConfig

KEYS = ("where", "columns", "exit")
_CHANGES = ("exclude", "rename", "constant", "expression")
_ONE = "write one of exclude: true, rename: NAME, constant: TEXT, expression: EXPRESSION"
_EXPRESSION = "write an expression over the table's columns, e.g. country = 'CH'"


def transformation(section: Section) -> Transformation | None:
    """What is said of a table; None where nothing is."""
    where = None
    if section.has("where"):
        where = section.text("where", "", _EXPRESSION) or None
    node = section.get("columns")
    changes: list[tuple[str, ColumnChange]] = []
    if node is not None and not isinstance(node.value, dict):
        section.mistakes.append(node.mistake(f"is {node.kind}", f"write a line for each column, and there {_ONE}"))
    elif node is not None and isinstance(node.value, dict):
        for name, child in node.value.items():
            change = _change(child, section.mistakes)
            if change is not None:
                changes.append((name, change))
    user_exit = user_function(section) if section.has("exit") else None
    if where is None and not changes and user_exit is None:
        return None
    place = section.node
    return Transformation(where, tuple(changes), f"{place.file}:{place.line}: {place.key}", user_exit)


def user_function(section: Section) -> str | None:
    """What is said under `exit`."""
    name = section.text("exit", "", HOW_TO_NAME)
    node = section.get("exit")
    if name and node is not None and not NAME.fullmatch(name):
        section.mistakes.append(node.mistake(f"{name!r} names no function", HOW_TO_NAME))
        return None
    return name or None


def _change(node: Node, mistakes: "list[Mistake]") -> ColumnChange | None:
    """What becomes of one column."""
    if not isinstance(node.value, dict):
        mistakes.append(node.mistake(f"is {node.kind}", _ONE))
        return None
    section = Section(node, mistakes)
    given = [name for name in _CHANGES if section.has(name)]
    unknown = [name for name in node.value if name not in _CHANGES]
    if unknown:
        mistakes.append(node.value[unknown[0]].mistake("is not known", suggestion(unknown[0], _CHANGES)))
        return None
    if len(given) != 1:
        problem = f"says {' and '.join(given)}" if given else "says nothing"
        mistakes.append(node.mistake(problem, _ONE))
        return None
    if given == ["exclude"]:
        excluded = section.flag("exclude", True)
        if not excluded:
            mistakes.append(node.mistake("says exclude: false", "take the line out, or write exclude: true"))
        return Excluded() if excluded else None
    if given == ["rename"]:
        name = section.text("rename", "", "write the column's name on the slave, exactly as it stores it")
        return Renamed(name) if name else None
    if given == ["expression"]:
        text = section.text("expression", "", _EXPRESSION)
        return Computed(text) if text else None
    constant = section.get("constant")
    assert constant is not None
    if isinstance(constant.value, dict | list):
        mistakes.append(constant.mistake(f"is {constant.kind}", "write a text, a number, true, false or null"))
        return None
    return Constant(constant.value)


def check_slaves(
    master: "Endpoint",
    slaves: "Iterable[SlaveConfig]",
    rules: Iterable[TableRule],
    section: Section,
    mistakes: "list[Mistake]",
) -> None:
    """Adds the slaves that cannot have transformed tables."""
    lines = tuple(rules)
    for slave in slaves:
        if not any(rule.transformation is not None for rule in (*lines, *slave.tables)):
            continue
        node = section.inside("slaves", slave.name) or section.node
        if master.capture != "trigger":
            problem = (
                f"gets changes of a recorded stream (capture: {master.capture}), and tables have where, columns or exit"
            )
            remedy = "take where, columns and exit out: a recorded stream is applied as it is"
            mistakes.append(node.mistake(problem, remedy))
        elif master.vendor != FIRST:
            problem = f"gets tables of the vendor {master.vendor}, and tables have where, columns or exit"
            mistakes.append(node.mistake(problem, f"take where, columns and exit out: a master of {FIRST} has them"))
        elif slave.conflict_rules:
            problem = "has conflict_rules, and tables have where, columns or exit"
            mistakes.append(node.mistake(problem, "take one of the two out: conflict_rules decide between whole rows"))
