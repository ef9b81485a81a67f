"""What tables have beyond columns and rows, and how a slave follows it: pure.

Rows and columns follow item by item. Indexes, constraints and comments have no place among the rows: they follow by
comparison, as soon as the slave is where the master was when they were read. Three lists decide: what the master has,
what the slave has, and what is *known*: what the master was seen to have once the slave had it, too. So what only the
slave has, or what somebody removed there, is left alone.
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
    """Unique values and exclusion constraints, also those that are indexes alone."""
    INDEXES = "indexes"
    DOMAINS = "domains"
    """Checks of domains."""
    COMMENTS = "comments"
    SEQUENCES = "sequences"
    """Those that no column draws from by itself."""


BESIDE_TABLES = (DefinedKind.VIEWS, DefinedKind.SEQUENCES)
"""What belongs to no table: it is replaced rather than dropped and made again, and no load brings it."""


@dataclass(frozen=True)
class Defined:
    """One of them."""

    kind: DefinedKind
    table: TableName
    """Of a check of a domain: the domain; of a view or a sequence: itself."""
    name: str
    """Of a comment: the column; empty for the table's own. Of a view or a sequence: empty."""
    definition: str
    """Without its name. Equal texts of one server mean the same."""
    making: bool = field(default=False, compare=False)
    """Of what is known: it was begun on the slave, and may be there in part."""

    @property
    def place(self) -> "Place":
        return self.kind, self.table, self.name

    @property
    def of_table(self) -> bool:
        """Whether it belongs to a table. What does not has the master's name on every slave."""
        return self.kind not in (DefinedKind.DOMAINS, *BESIDE_TABLES)

    def __str__(self) -> str:
        if self.kind is DefinedKind.COMMENTS:
            return f"comment on {self.table}{f', column {self.name}' if self.name else ''}"
        if self.kind in BESIDE_TABLES:
            return f"{_WORDS[self.kind]} {self.table}"
        return f"{_WORDS[self.kind]} {self.name} of {self.table}"


Place = tuple[DefinedKind, TableName, str]

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
class Drop:
    """The slave's object goes: the master dropped it, or has another under its name."""

    object: Defined


@dataclass(frozen=True)
class Rename:
    """The slave's object gets the name that the master's got."""

    object: Defined
    name: str

    @property
    def renamed(self) -> Defined:
        return replace(self.object, name=self.name)


@dataclass(frozen=True)
class Make:
    object: Defined


@dataclass(frozen=True)
class SetAgain:
    """The slave has the sequence as the master has; only its value is to follow."""

    object: Defined


@dataclass(frozen=True)
class Know:
    """The slave has it as the master has."""

    object: Defined


@dataclass(frozen=True)
class Forget:
    """The master has it no more, and neither has the slave."""

    object: Defined


@dataclass(frozen=True)
class Taken:
    """The slave has another one of its own under the name."""

    object: Defined


Step = Drop | Rename | Make | SetAgain | Know | Forget | Taken
_ORDER = list(DefinedKind)


def steps(
    master: Collection[Defined],
    slave: Mapping[Place, str | None],
    known: Collection[Defined],
    tables: Collection[TableName],
    adopted: Collection[TableName] = (),
) -> list[Step]:
    """What brings the slave to what the master has, in an order in which each step can be done.

    `slave`: what it has, with the definition; None for an index that was not finished. `tables`: those (and domains)
    that `master` is about; what is known of others is left as it is. `adopted`: tables whose load makes what they lack,
    or of which nothing was followed before: what the master has of them counts as known. Of sequences: those whose
    values are set again.
    """
    wanted = {one.place: one for one in master}
    before = {one.place: one for one in known if one.table in tables}
    gone = [one for place, one in before.items() if place not in wanted]
    new = [one for place, one in wanted.items() if place not in before or before[place].making]
    found: list[Step] = []
    renamed: set[Place] = set()
    for one in gone:
        if one.place not in slave:
            found.append(Forget(one))
            continue
        heir = _heir(one, new, slave, renamed)
        if heir is None:
            found.append(Drop(one))
        else:
            renamed.add(heir.place)
            found.append(Rename(one, heir.name))
    # Views before those that they read.
    places = {place: number for number, place in enumerate(slave)}
    drops = sorted(
        (step for step in found if isinstance(step, Drop)),
        key=lambda step: (_ORDER.index(step.object.kind), -places[step.object.place]),
    )
    renames = [step for step in found if isinstance(step, Rename)]
    forgotten = [step for step in found if isinstance(step, Forget)]
    made: list[Step] = []
    # Indexes before the foreign keys that need them.
    for one in sorted(wanted.values(), key=lambda one: -_ORDER.index(one.kind)):
        if one.place not in renamed:
            made += _brought(one, before.get(one.place), slave, adopted)
    return [*drops, *renames, *forgotten, *made]


def outdated(
    master: Collection[Defined], slave: Mapping[Place, str | None], known: Collection[Defined]
) -> list[Defined]:
    """What refuses rows on the slave and does not on the master any more."""
    wanted = {one.place: one.definition for one in master}
    harmless = (DefinedKind.INDEXES, DefinedKind.COMMENTS, DefinedKind.SEQUENCES)
    refusing = [one for one in known if one.kind not in harmless]
    return [
        one
        for one in refusing
        if one.place in slave
        # A column that was renamed gives it another text on both sides.
        and wanted.get(one.place) not in (one.definition, slave[one.place] or one.definition)
    ]


def _brought(
    one: Defined, before: Defined | None, slave: Mapping[Place, str | None], adopted: Collection[TableName]
) -> list[Step]:
    """What gives the slave one object of the master's. `before`: what is known under its name."""
    exists = one.place in slave
    if one.kind in BESIDE_TABLES:
        return _replaced(one, before, slave, one.table in adopted)
    if before is None and one.table in adopted:
        return [Know(one)]
    if exists and slave[one.place] is None:
        return [Make(one)]
    if before is None or before.making:
        return [Know(one)] if exists else [Make(one)]
    if before.definition == one.definition:
        return []
    if slave.get(one.place) == one.definition:
        return [Know(one)]
    return [Drop(before), Make(one)] if exists else [Make(one)]


def _replaced(one: Defined, before: Defined | None, slave: Mapping[Place, str | None], set_again: bool) -> list[Step]:
    """The same of a view or a sequence."""
    settled = before is not None and not before.making
    if slave.get(one.place) == one.definition:
        return [SetAgain(one)] if set_again and settled else [] if before == one and settled else [Know(one)]
    if before is None and one.place in slave:
        return [Taken(one)]
    return [] if before == one and settled else [Make(one)]


def _heir(
    one: Defined, new: Sequence[Defined], slave: Mapping[Place, str | None], taken: Collection[Place]
) -> Defined | None:
    """What `one` is called now, if it was renamed."""
    if one.kind is DefinedKind.COMMENTS or one.kind in BESIDE_TABLES:
        return None
    alike = (
        other
        for other in new
        if (other.kind, other.table, other.definition) == (one.kind, one.table, one.definition)
        and other.place not in taken
        and other.place not in slave
    )
    return next(alike, None)
