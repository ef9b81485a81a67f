"""What an application relies on in a database besides rows: compared between a master and a slave, without any I/O.

A slave differs from its master by design (no triggers, foreign keys without actions), and by what nobody made there.
Each definition carries the statements that make and remove it, so that a difference knows its remedy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Definition:
    """One trigger, constraint, privilege, … of a database."""

    kind: str
    schema: str
    name: str
    """Of the table or other object it belongs to; empty where it belongs to none."""
    object: str
    """Its own name."""
    text: str
    """The same on two servers exactly where they define it alike."""
    make: tuple[str, ...]
    """Statements that make it."""
    remove: tuple[str, ...]
    """Statements that remove it; none where making it replaces what was there."""
    expressions: tuple[str, ...] | None = ()
    """Those that are evaluated for the rows that are there; None: an earlier release kept it without."""

    @property
    def place(self) -> tuple[str, str, str, str]:
        """What identifies it in a database."""
        return self.kind, self.schema, self.name, self.object

    def __str__(self) -> str:
        where = ".".join(part for part in (self.schema, self.name) if part)
        if not self.object:
            return f"{self.kind} of {where}"
        return f"{self.kind} {self.object}" + (f" of {where}" if self.name else f" in {where}" if where else "")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Definition":
        expressions = values.get("expressions")
        found = None if expressions is None else tuple(expressions)
        return cls(**{**values, "make": tuple(values["make"]), "remove": tuple(values["remove"]), "expressions": found})


@dataclass(frozen=True)
class Treatment:
    """What a failover does about differences of one kind."""

    automatic: bool
    """It makes them itself; else a person does."""
    why: str
    """Why they differ, or why a person is asked, as the end of a sentence."""
    extra_matters: bool = False
    """One that only the slave has can refuse what the application does, or cost it time, and is named."""


TREATMENTS: dict[str, Treatment] = {
    "role": Treatment(False, "passwords and memberships belong to the server"),
    "extension": Treatment(False, "the server must have it installed"),
    "function": Treatment(False, "its language and its rights are for the owner to judge"),
    "partitioning": Treatment(False, "a slave holds the rows of all partitions in one plain table"),
    "sequence": Treatment(True, "nothing on the slave needed it"),
    "default": Treatment(True, "replicated values need none"),
    "identity": Treatment(True, "the apply brings its values, so it is BY DEFAULT on a slave"),
    "index": Treatment(True, "it was made on the master after the load, or could not be made here", extra_matters=True),
    "primary key": Treatment(True, "it was made on the master after the load"),
    "unique constraint": Treatment(True, "it was made on the master after the load", extra_matters=True),
    "exclusion constraint": Treatment(True, "it is checked at the commit on a slave", extra_matters=True),
    "check": Treatment(True, "it was made on the master after the load", extra_matters=True),
    "foreign key": Treatment(
        True, "on a slave it is deferrable and takes no action, or its table was not there", extra_matters=True
    ),
    "trigger": Treatment(True, "what it does on the master arrives as changes", extra_matters=True),
    "rule": Treatment(False, "what it does on the master arrives as changes", extra_matters=True),
    "view": Treatment(False, "it may read what is not replicated"),
    "policy": Treatment(True, "nobody but Sluice wrote to the slave"),
    "row level security": Treatment(True, "nobody but Sluice wrote to the slave", extra_matters=True),
    "owner": Treatment(True, "what Sluice makes on a slave belongs to its account"),
    "schema owner": Treatment(False, "only a superuser, or who may make schemas, gives one away"),
    "privilege": Treatment(True, "they are not replicated"),
    "setting": Treatment(True, "settings of a database and its roles are not replicated", extra_matters=True),
}
"""In the order in which differences are made."""

READ_ONLY = ("setting", "", "", "default_transaction_read_only")
"""A slave may be read-only for everybody but Sluice; a master is not."""


@dataclass(frozen=True)
class Difference:
    """A definition that the slave lacks, has otherwise, or has alone."""

    wanted: Definition | None
    """The master's; None: only the slave has it."""
    present: Definition | None
    """The slave's; None: it lacks it."""

    @property
    def kind(self) -> str:
        return self.definition.kind

    @property
    def definition(self) -> Definition:
        found = self.wanted or self.present
        assert found is not None
        return found

    @property
    def automatic(self) -> bool:
        """Whether a failover makes it."""
        return TREATMENTS[self.kind].automatic and not self.stays

    @property
    def stays(self) -> bool:
        """Only the slave has it, and keeps it."""
        return self.wanted is None and self.definition.place != READ_ONLY

    @property
    def statements(self) -> tuple[str, ...]:
        """What makes the slave as the master is; none for what stays."""
        if self.stays:
            return ()
        return (*(self.present.remove if self.present else ()), *(self.wanted.make if self.wanted else ()))

    @property
    def undo(self) -> tuple[str, ...]:
        """What takes `statements` back."""
        if self.stays:
            return ()
        return (*(self.wanted.remove if self.wanted else ()), *(self.present.make if self.present else ()))

    def __str__(self) -> str:
        if self.wanted is None:
            return f"{self.definition}: only the slave has it" + (", and it stays" if self.stays else "")
        return f"{self.definition}: {'differs' if self.present else 'is missing'}"


def differences(master: Iterable[Definition], slave: Iterable[Definition]) -> list[Difference]:
    """In the order in which they are to be made."""
    wanted = {one.place: one for one in master}
    on_slave = {one.place: one for one in slave}
    found = [
        Difference(one, on_slave.get(place)) for place, one in wanted.items() if one.text != _text(on_slave.get(place))
    ]
    found += [
        Difference(None, one)
        for place, one in on_slave.items()
        if place not in wanted and TREATMENTS[one.kind].extra_matters
    ]
    order = {kind: number for number, kind in enumerate(TREATMENTS)}
    return sorted(found, key=lambda one: (order[one.kind], one.definition.place))


def _text(definition: Definition | None) -> str | None:
    return definition.text if definition else None
