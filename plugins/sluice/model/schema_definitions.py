"""Definitions of a database on which an application relies besides rows, compared between master and slave. No I/O.

A slave differs from its master by design (no triggers, foreign keys without actions), and by what was not created
there. Each definition has the statements that create and remove it, so that each difference has a remedy.
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
    """The table or other object to which it belongs; empty without one."""
    object: str
    """Its own name."""
    text: str
    """Equal on two servers exactly if they define it alike."""
    make: tuple[str, ...]
    """The statements that create it."""
    remove: tuple[str, ...]
    """The statements that remove it; none if its creation replaces the old one."""
    expressions: tuple[str, ...] | None = ()
    """The expressions that are evaluated for existing rows; None: stored by an earlier release, without them."""

    @property
    def object_id(self) -> tuple[str, str, str, str]:
        """Its identity in a database."""
        return self.kind, self.schema, self.name, self.object

    def __str__(self) -> str:
        where = ".".join(part for part in (self.schema, self.name) if part)
        if not self.object:
            return f"{self.kind} of {where}"
        if self.kind in ("comment", "owner"):
            return f"{self.kind} of {self.object}{' of' if ' ' in self.object else ''} {where}"
        return f"{self.kind} {self.object}" + (f" of {where}" if self.name else f" in {where}" if where else "")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Definition":
        expressions = values.get("expressions")
        known = None if expressions is None else tuple(expressions)
        return cls(**{**values, "make": tuple(values["make"]), "remove": tuple(values["remove"]), "expressions": known})


@dataclass(frozen=True)
class Treatment:
    """How a failover treats differences of one kind."""

    automatic: bool
    """The failover creates them; otherwise a person does."""
    why: str
    """Why they differ, or why a person has to act, as the end of a sentence."""
    extra_matters: bool = False
    """Definitions that only the slave has are reported, since they can refuse or slow down what the application does.
    """
    early: bool = False
    """They may be created while changes are applied, before the master refuses writes."""


TREATMENTS: dict[str, Treatment] = {
    "role": Treatment(False, "passwords and memberships belong to the server"),
    "extension": Treatment(False, "the server must have it installed"),
    "function": Treatment(False, "its language and its rights are for the owner to judge"),
    "partitioning": Treatment(False, "a slave holds the rows of all partitions in one plain table"),
    "sequence": Treatment(True, "nothing on the slave needed it", early=True),
    "default": Treatment(True, "replicated values need none", early=True),
    "identity": Treatment(True, "the apply brings its values, so it is BY DEFAULT on a slave"),
    "index": Treatment(
        True, "it was made on the master after the load, or could not be made here", extra_matters=True, early=True
    ),
    "primary key": Treatment(True, "it was made on the master after the load", early=True),
    "unique constraint": Treatment(True, "it was made on the master after the load", extra_matters=True, early=True),
    "exclusion constraint": Treatment(True, "it is checked at the commit on a slave", extra_matters=True),
    "check": Treatment(True, "it was made on the master after the load", extra_matters=True, early=True),
    "foreign key": Treatment(
        True, "on a slave it is deferrable and takes no action, or its table was not there", extra_matters=True
    ),
    "trigger": Treatment(True, "what it does on the master arrives as changes", extra_matters=True),
    "rule": Treatment(False, "what it does on the master arrives as changes", extra_matters=True),
    "view": Treatment(False, "it may read what is not replicated"),
    "policy": Treatment(True, "nobody but Sluice wrote to the slave"),
    "row level security": Treatment(True, "nobody but Sluice wrote to the slave", extra_matters=True),
    "comment": Treatment(True, "they are not replicated", early=True),
    "schema owner": Treatment(True, "a schema that Sluice makes on a slave belongs to its account"),
    "owner": Treatment(True, "what Sluice makes on a slave belongs to its account"),
    "privilege": Treatment(True, "they are not replicated"),
    "default privilege": Treatment(True, "they are not replicated"),
    "setting": Treatment(True, "settings of a database and its roles are not replicated", extra_matters=True),
}
"""In the order in which differences are created."""

READ_ONLY = ("setting", "", "", "default_transaction_read_only")
"""A slave may be read-only for everybody but Sluice; a master is not."""


OF_OTHERS = ("function", "partition", "type", "view")
"""Objects that a failover does not create. Their owners, privileges and comments are compared if the slave has them."""


_LATER = ("constraint ", "index ", "policy ", "trigger ")


@dataclass(frozen=True)
class Difference:
    """A definition that the slave lacks, that differs, or that only the slave has."""

    wanted: Definition | None
    """The master's; None: only the slave has it."""
    present: Definition | None
    """The slave's; None: it lacks it."""

    @property
    def kind(self) -> str:
        return self.definition.kind

    @property
    def definition(self) -> Definition:
        definition = self.wanted or self.present
        assert definition is not None
        return definition

    @property
    def automatic(self) -> bool:
        """Whether a failover creates it."""
        return TREATMENTS[self.kind].automatic and not self.stays

    @property
    def early(self) -> bool:
        """Whether a failover may create it before the master refuses writes."""
        # On what is created later, or again.
        later = self.kind == "comment" and self.definition.object.startswith(_LATER)
        return TREATMENTS[self.kind].early and not later

    @property
    def stays(self) -> bool:
        """Whether only the slave has it, and keeps it."""
        return self.wanted is None and self.definition.object_id != READ_ONLY

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements that make the slave equal to the master; none for what stays."""
        if self.stays:
            return ()
        return (*(self.present.remove if self.present else ()), *(self.wanted.make if self.wanted else ()))

    @property
    def undo(self) -> tuple[str, ...]:
        """The statements that undo `statements`."""
        if self.stays:
            return ()
        return (*(self.wanted.remove if self.wanted else ()), *(self.present.make if self.present else ()))

    def __str__(self) -> str:
        if self.wanted is None:
            return f"{self.definition}: only the slave has it" + (", and it stays" if self.stays else "")
        return f"{self.definition}: {'differs' if self.present else 'is missing'}"


def differences(master: Iterable[Definition], slave: Iterable[Definition]) -> list[Difference]:
    """In the order in which they have to be created."""
    wanted = {one.object_id: one for one in master}
    on_slave = {one.object_id: one for one in slave}
    differences = [
        Difference(one, on_slave.get(object_id))
        for object_id, one in wanted.items()
        if one.text != _text(on_slave.get(object_id)) and _there(one, on_slave)
    ]
    differences += [
        Difference(None, one)
        for object_id, one in on_slave.items()
        if object_id not in wanted and TREATMENTS[one.kind].extra_matters
    ]
    order = {kind: number for number, kind in enumerate(TREATMENTS)}
    return sorted(differences, key=lambda one: (order[one.kind], one.definition.object_id))


def _there(wanted: Definition, on_slave: Mapping[tuple[str, str, str, str], Definition]) -> bool:
    """Whether the slave has the object that `wanted` is about; each object has an owner."""
    if wanted.kind not in ("comment", "owner", "privilege"):
        return True
    what = wanted.object.partition(" ")[0]
    return what not in OF_OTHERS or ("owner", wanted.schema, wanted.name, what) in on_slave


def _text(definition: Definition | None) -> str | None:
    return definition.text if definition else None
