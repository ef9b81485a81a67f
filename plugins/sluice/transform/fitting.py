"""Which indexes and constraints of the master a slave gets: transformed tables cannot have all, and `indexes` of the
slave may leave some out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sluice.database.following import Described, OfMaster
from sluice.database.schema import Comment, Constraint, Index
from sluice.model.transformation import Transformation
from sluice.model.views import View
from sluice.pair import Pair

Made = TypeVar("Made", Index, Constraint)


@dataclass
class Fitting(Generic[Made]):
    """The definitions that the slave gets, and the others, each with its description and the reason."""

    kept: list[Made] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def of_master(of_all: OfMaster, pair: Pair) -> OfMaster:
    """The master's definitions that the slave can have."""
    kept = {one: source for one, source in of_all.made_from.items() if not why_not(source, pair)}
    return OfMaster(of_all.tables, kept)


def wanted(described: Described, pair: Pair) -> bool:
    """Whether `indexes` of the slave lets it get this one.

    `keys`: what refuses rows, and no other index. `none`: only the key, by which rows are found, so no foreign keys
    either, which need indexes of the tables that they refer to.
    """
    if pair.slave.indexes == "follow":
        return True
    if isinstance(described, Index):
        return described.primary or (described.constrains and pair.slave.indexes == "keys")
    if isinstance(described, Constraint):
        return described.parent is None or pair.slave.indexes == "keys"
    return True


def why_not(described: Described, pair: Pair) -> str:
    """Why the slave cannot have it; empty if it can."""
    if isinstance(described, Constraint):
        return _of_constraint(described, pair)
    if isinstance(described, View):
        elsewhere = pair.placement.places(described.tables)
        otherwise = {table for table in described.tables if pair.transformation(table) is not None}.union(elsewhere)
        listed = ", ".join(sorted(map(str, otherwise)))
        return f"it reads {listed}, which the slave has otherwise" if otherwise else ""
    columns: Sequence[str] = ()
    if isinstance(described, Index):
        columns = () if described.primary else described.columns  # the key is made with the table
    elif isinstance(described, Comment):
        columns = [described.column]
    else:
        return ""
    rule = pair.transformation(described.table)
    if rule is not None and rule.exit is not None and isinstance(described, Index) and columns and described.constrains:
        return f"it may refuse what the exit {rule.exit} gives to rows of {described.table}"
    changed = _changed(rule, columns)
    return f"`columns` says that {changed}" if changed else ""


def possible(master: Sequence[Made], pair: Pair) -> Fitting[Made]:
    """Which indexes or constraints the slave can have: indexes over untransformed columns, and constraints that its
    rows satisfy wherever the master's do."""
    fitting: Fitting[Made] = Fitting()
    for one in master:
        if why := why_not(one, pair):
            kind = "index" if isinstance(one, Index) else "constraint"
            fitting.left_out.append((f"{one.table}: {kind} {one.name}", why))
        else:
            fitting.kept.append(one)
    return fitting


def _of_constraint(constraint: Constraint, pair: Pair) -> str:
    rule = pair.transformation(constraint.table)
    if rule is not None and rule.exit is not None:
        return f"it may refuse what the exit {rule.exit} gives to rows of {constraint.table}"
    if changed := _changed(rule, constraint.columns or ()):
        return f"`columns` says that {changed}"
    if constraint.parent is None:
        return ""
    other = pair.transformation(constraint.parent)
    if other is not None and other.where is not None:
        return f"`where` leaves out rows of {constraint.parent} that others refer to"
    if other is not None and other.exit is not None:
        return f"the exit {other.exit} may leave out rows of {constraint.parent} that others refer to"
    if changed := _changed(other, constraint.parent_columns or ()):
        return f"`columns` says of {constraint.parent} that {changed}"
    return ""


def _changed(rule: Transformation | None, columns: Iterable[str]) -> str:
    """What the rule does with those of `columns` that it transforms."""
    if rule is None:
        return ""
    return "; ".join(f"{name} {rule.by_name[name]}" for name in columns if name in rule.by_name)
