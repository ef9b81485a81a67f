"""Definitions of tables other than columns, and how a slave follows them. No I/O.

Rows and columns follow by items. Indexes, constraints and comments have no place among the rows: they follow by
comparison, as soon as the slave has the position at which the master's were read. Three lists decide: what the master
has, what the slave has, and what is *known*: what the slave has from the master. So what only the slave has, or what
somebody removed there, is not touched.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sluice.model.names import TableName


class DefinedKind(StrEnum):
    """The kinds of `ddl` in the configuration that follow by comparison."""

    VIEWS = "views"
    FOREIGN_KEYS = "foreign_keys"
    CHECKS = "checks"
    UNIQUE = "unique"
    """Unique and exclusion constraints, and unique indexes."""
    INDEXES = "indexes"
    DOMAINS = "domains"
    """Checks of domains."""
    COMMENTS = "comments"
    SEQUENCES = "sequences"
    """Sequences that no column uses."""


BESIDE_TABLES = (DefinedKind.VIEWS, DefinedKind.SEQUENCES)
"""Kinds that belong to no table: they are replaced, not dropped and created, and no load brings them."""


@dataclass(frozen=True)
class Defined:
    """One definition."""

    kind: DefinedKind
    table: TableName
    """For a check of a domain: the domain. For a view or sequence: itself."""
    name: str
    """For a comment: the column; empty for the table's own comment. Empty for a view or a sequence."""
    definition: str
    """The definition without its name. Equal texts of one server have the same meaning."""
    making: bool = field(default=False, compare=False)
    """For a known definition: its creation on the slave was begun, and may be incomplete."""

    @property
    def id(self) -> "ObjectId":
        return self.kind, self.table, self.name

    @property
    def of_table(self) -> bool:
        """Whether it belongs to a table. Others have the master's name on every slave."""
        return self.kind not in (DefinedKind.DOMAINS, *BESIDE_TABLES)

    def __str__(self) -> str:
        if self.kind is DefinedKind.COMMENTS:
            return f"comment on {self.table}{f', column {self.name}' if self.name else ''}"
        if self.kind in BESIDE_TABLES:
            return f"{_WORDS[self.kind]} {self.table}"
        return f"{_WORDS[self.kind]} {self.name} of {self.table}"


ObjectId = tuple[DefinedKind, TableName, str]

_WORDS = {
    DefinedKind.FOREIGN_KEYS: "foreign key",
    DefinedKind.CHECKS: "check",
    DefinedKind.UNIQUE: "unique",
    DefinedKind.INDEXES: "index",
    DefinedKind.DOMAINS: "check of a domain,",
    DefinedKind.VIEWS: "view",
    DefinedKind.SEQUENCES: "sequence",
}


@dataclass(frozen=True)
class _OfObject:
    object: Defined


class Drop(_OfObject):
    """Drop the slave's object: the master dropped it, or has another one with its name."""


@dataclass(frozen=True)
class Rename(_OfObject):
    """Rename the slave's object to the master's new name."""

    name: str

    @property
    def renamed(self) -> Defined:
        return replace(self.object, name=self.name)


class Make(_OfObject):
    """Create the master's object."""


class SetAgain(_OfObject):
    """The slave's sequence equals the master's; only its value is set."""


class Know(_OfObject):
    """Record that the slave has the master's definition."""


class Forget(_OfObject):
    """Forget a definition that neither master nor slave has any more."""


class Taken(_OfObject):
    """The slave has another one of its own with this name."""


Step = Drop | Rename | Make | SetAgain | Know | Forget | Taken
_ORDER = list(DefinedKind)


def steps(
    master: Collection[Defined],
    slave: Mapping[ObjectId, str | None],
    known: Collection[Defined],
    tables: Collection[TableName],
    set_again: Collection[TableName] = (),
) -> list[Step]:
    """The steps that give the slave the master's definitions, in an order in which each step is possible.

    `slave`: its definitions; None for an index that is not finished. `tables`: the tables (and domains) of `master`;
    known definitions of others are not changed. `set_again`: the sequences whose values are set again.
    """
    on_master = {one.id: one for one in master}
    before = {one.id: one for one in known if one.table in tables}
    gone = [one for id_, one in before.items() if id_ not in on_master]
    new = [one for id_, one in on_master.items() if id_ not in before or before[id_].making]
    steps: list[Step] = []
    renamed: set[ObjectId] = set()
    for one in gone:
        if one.id not in slave:
            steps.append(Forget(one))
            continue
        heir = _heir(one, new, slave, renamed)
        if heir is None:
            steps.append(Drop(one))
        else:
            renamed.add(heir.id)
            steps.append(Rename(one, heir.name))
    # Views before those that they read.
    order_on_slave = {id_: number for number, id_ in enumerate(slave)}
    drops = sorted(
        (step for step in steps if isinstance(step, Drop)),
        key=lambda step: (_ORDER.index(step.object.kind), -order_on_slave[step.object.id]),
    )
    renames = [step for step in steps if isinstance(step, Rename)]
    forgotten = [step for step in steps if isinstance(step, Forget)]
    ordered: list[Step] = []
    # Indexes before the foreign keys that need them.
    for one in sorted(on_master.values(), key=lambda one: -_ORDER.index(one.kind)):
        if one.id not in renamed:
            ordered += _brought(one, before.get(one.id), slave, set_again)
    return [*drops, *renames, *forgotten, *ordered]


def outdated(
    master: Collection[Defined],
    slave: Mapping[ObjectId, str | None],
    known: Collection[Defined],
    *,
    altering: bool = False,
) -> list[Defined]:
    """Definitions of the slave that refuse rows, or other types (`altering`), and that the master no longer has."""
    on_master = {one.id: one.definition for one in master}
    harmless = {DefinedKind.INDEXES, DefinedKind.COMMENTS, DefinedKind.SEQUENCES}
    if altering:
        # A condition or an expression may not fit the new type of a column.
        harmless.remove(DefinedKind.INDEXES)
    refusing = [one for one in known if one.kind not in harmless]
    return [
        one
        for one in refusing
        if one.id in slave
        # A column that was renamed gives it another text on both sides.
        and on_master.get(one.id) not in (one.definition, slave[one.id] or one.definition)
    ]


def _brought(
    one: Defined, before: Defined | None, slave: Mapping[ObjectId, str | None], set_again: Collection[TableName]
) -> list[Step]:
    """The steps that give the slave one object of the master. `before`: the known object with its name."""
    exists = one.id in slave
    if one.kind in BESIDE_TABLES:
        return _replaced(one, before, slave, one.table in set_again)
    if exists and slave[one.id] is None:
        return [Make(one)]
    if before is None or before.making:
        return [Know(one)] if exists else [Make(one)]
    if before.definition == one.definition:
        return []
    if slave.get(one.id) == one.definition:
        return [Know(one)]
    return [Drop(before), Make(one)] if exists else [Make(one)]


def _replaced(
    one: Defined, before: Defined | None, slave: Mapping[ObjectId, str | None], set_again: bool
) -> list[Step]:
    """The same for a view or a sequence."""
    settled = before is not None and not before.making
    if slave.get(one.id) == one.definition:
        return [SetAgain(one)] if set_again and settled else [] if before == one and settled else [Know(one)]
    if before is None and one.id in slave:
        return [Taken(one)]
    return [] if before == one and settled else [Make(one)]


def _heir(
    one: Defined, new: Sequence[Defined], slave: Mapping[ObjectId, str | None], taken: Collection[ObjectId]
) -> Defined | None:
    """The present name of `one`, if it was renamed."""
    if one.kind is DefinedKind.COMMENTS or one.kind in BESIDE_TABLES:
        return None
    alike = (
        other
        for other in new
        if (other.kind, other.table, other.definition) == (one.kind, one.table, one.definition)
        and other.id not in taken
        and other.id not in slave
    )
    return next(alike, None)
