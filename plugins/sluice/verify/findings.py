"""What a comparison finds, as data: the report is made of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sluice.errors import SluiceError
from sluice.model.conflict_rule import ConflictRule, Undecidable
from sluice.model.names import TableName
from sluice.model.reject import Reject
from sluice.model.reject import Row as Row


class CouldNotCompare(SluiceError):
    """The comparison came to no result; it says nothing about the data. `again`: another try may succeed at once."""

    def __init__(self, reason: str, *, again: bool = False):
        super().__init__(reason)
        self.again = again


class Outcome(StrEnum):
    """How a comparison ended."""

    IDENTICAL = "identical"
    DIFFERENT = "different"
    COULD_NOT_COMPARE = "could not compare"

    @classmethod
    def of(cls, outcomes: "list[Outcome]") -> "Outcome":
        """Of several together: a difference is a fact, whatever else could not be compared."""
        for outcome in (cls.DIFFERENT, cls.COULD_NOT_COMPARE):
            if outcome in outcomes:
                return outcome
        return cls.IDENTICAL


class Kind(StrEnum):
    """How a row differs."""

    MISSING = "missing"
    """The master has it, the slave has not."""
    EXTRA = "extra"
    """The slave has it, the master has not."""
    DIFFERENT = "different"
    """Both have it, with other values."""


ACTION = {Kind.MISSING: "I", Kind.EXTRA: "D", Kind.DIFFERENT: "U"}
"""The action of the master that, not replicated, leaves such a row behind."""
WORD = {"I": "inserts", "D": "deletes", "U": "updates"}


def causes(actions: frozenset[str], *, keyed: bool = True) -> dict[Kind, str]:
    """Which kinds of difference the configuration itself makes, and why, by the actions that are replicated.

    Without a key (`keyed`), a row that was changed on the master alone is one row too many here and one too few.
    """
    found = {}
    for kind, action in ACTION.items():
        left_out = [one for one in (action, *("" if keyed else "U")) if one not in actions]
        if left_out:
            found[kind] = f"the configuration replicates no {WORD[left_out[0]]} of this table"
    return found


class Changes(StrEnum):
    """Whose row a repair of both directions changes, by the table's rule for conflicts."""

    SLAVE = "slave"
    MASTER = "master"
    """A repair of the replication in the other direction does."""
    NEITHER = "neither"
    """The rule cannot tell."""

    @classmethod
    def by(
        cls, rule: ConflictRule, master: Mapping[str, str | None] | None, slave: Mapping[str, str | None] | None
    ) -> "Changes":
        """Of two rows that differ."""
        try:
            return cls.SLAVE if rule.mends(master, slave) else cls.MASTER
        except Undecidable:
            return cls.NEITHER


@dataclass(frozen=True)
class Example:
    """One row that differs; the values by column."""

    kind: Kind
    key: Mapping[str, str | None]
    master: Mapping[str, str | None] | None
    slave: Mapping[str, str | None] | None
    copies: int = 1
    """Of a table without a key: how many more of it one side has."""
    cause: str = ""
    """Why it differs, where a change of it was set aside."""
    changes: "Changes | None" = None
    """Whose row a repair changes, where a rule for conflicts says that."""


@dataclass
class Rows:
    """How many rows differ in which way, and which."""

    count: int = 0
    keys: list[Row] = field(default_factory=list)
    """Of all, or of the first `MOST_KEYS`; of a table without a key the whole rows."""
    cause: str = ""
    """Why they must differ, where the configuration says so: then they are no fault."""


MOST_KEYS = 1_000_000
"""Keys of rows that differ of one kind, kept to repair them."""


@dataclass
class TableFinding:
    table: TableName
    outcome: Outcome = Outcome.IDENTICAL
    reason: str = ""
    """Why it could not be compared."""
    position: str = ""
    """Text of the position."""
    time: str = ""
    """The master's clock at the position, ISO 8601, UTC."""
    rows_master: int = 0
    rows_slave: int = 0
    blocks: int = 0
    blocks_different: int = 0
    found: dict[Kind, Rows] = field(default_factory=lambda: {kind: Rows() for kind in Kind})
    columns: dict[str, int] = field(default_factory=dict)
    """Column → in how many of the `looked_at` rows that differ it does."""
    looked_at: int = 0
    examples: list[Example] = field(default_factory=list)
    rejects: dict[str, int] = field(default_factory=dict)
    """Reason → changes of rows that differ which wait in REJECTS: the cause."""
    rejected: int = 0
    """Rows that differ of which such changes wait."""
    settled: int = 0
    """Such changes that a repair settled."""
    key: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    """The compared columns."""
    types: tuple[str, ...] = ()
    """In which each was compared: the slave's."""
    method: str = ""
    fell_back: str = ""
    """Why the digests are not the fast ones."""
    rule: str = ""
    """The table's rule for conflicts, where both sides are written to."""
    proposed: dict[Changes, int] = field(default_factory=dict)
    """By the rule: of how many of the rows that differ, and were fetched, whose row a repair changes."""
    place: str = ""
    """What the table is called on the slave, where that is another name."""
    transformed: str = ""
    """What the configuration says that the slave has otherwise than the master; rows are compared after that."""
    seconds: float = 0.0
    paused: float = 0.0
    """Seconds that the apply gave to it."""
    waiting: int | None = None
    """Where the apply did not run: changes of the table that wait for it, and were taken back."""
    sampled: int = 0
    """Where rows were drawn at random: how many on each side, the fewer. 0 where all were compared."""
    upper_bound: float | None = None
    """Then: with a confidence of 95 %, no larger share of the rows is wrong."""
    travelled: int = 0
    """Rows, or digests of rows, that came over the wire."""

    def explain(self, rejects: Iterable[Reject]) -> None:
        """Names changes that were set aside as the cause of the differences in their rows."""
        differing = set(self.to_repair)
        causes: dict[Row, str] = {}
        for reject in rejects:
            if list(reject.key) != list(self.key):
                continue
            if touched := reject.touched(self.compared, differing):
                self.rejects[reject.reason] = self.rejects.get(reject.reason, 0) + 1
                causes |= dict.fromkeys(touched, f"change {reject.repl_key} was set aside")
        self.rejected = len(causes)
        self.examples = [
            replace(example, cause=causes.get(self._row(example), example.cause)) for example in self.examples
        ]

    def _row(self, example: Example) -> Row:
        """As in `to_repair`."""
        if self.key:
            return tuple(example.key[name] for name in self.key)
        values = example.master or example.slave or {}
        return tuple(values[name] for name in self.compared)

    @property
    def faults(self) -> int:
        """Rows that differ and should not."""
        return sum(rows.count for rows in self.found.values() if not rows.cause)

    @property
    def to_repair(self) -> list[Row]:
        """The keys of those rows; of a table without a key the whole rows."""
        return [key for keys in self.by_kind() for key in keys]

    def by_kind(self) -> list[list[Row]]:
        """The same: those that go, which may hold values that others need, those that change, those that come."""
        kinds = (Kind.EXTRA, Kind.DIFFERENT, Kind.MISSING)
        return [list(dict.fromkeys(self.found[kind].keys)) for kind in kinds if not self.found[kind].cause]
