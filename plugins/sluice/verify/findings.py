"""The findings of a comparison, as data for the report."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sluice.errors import SluiceError
from sluice.model.conflict_rule import ConflictRule, Undecidable
from sluice.model.names import TableName
from sluice.model.reject import Reject
from sluice.model.reject import Row as Row


class CouldNotCompare(SluiceError):
    """The comparison has no result, which says nothing about the data. `again`: another try may succeed at once."""

    def __init__(self, reason: str, *, again: bool = False):
        super().__init__(reason)
        self.again = again


class Outcome(StrEnum):
    """The result of a comparison."""

    IDENTICAL = "identical"
    DIFFERENT = "different"
    COULD_NOT_COMPARE = "could not compare"

    @classmethod
    def of(cls, outcomes: "list[Outcome]") -> "Outcome":
        """The result of several together: different if one is, even if others could not be compared."""
        for outcome in (cls.DIFFERENT, cls.COULD_NOT_COMPARE):
            if outcome in outcomes:
                return outcome
        return cls.IDENTICAL


class Kind(StrEnum):
    """How a row differs."""

    MISSING = "missing"
    """Only the master has it."""
    EXTRA = "extra"
    """Only the slave has it."""
    DIFFERENT = "different"
    """Both have it, with other values."""


ACTION = {Kind.MISSING: "I", Kind.EXTRA: "D", Kind.DIFFERENT: "U"}
"""The action that causes such rows if it is not replicated."""
WORD = {"I": "inserts", "D": "deletes", "U": "updates"}


def causes(actions: frozenset[str], *, keyed: bool = True) -> dict[Kind, str]:
    """The kinds of difference that the configuration causes, and why; `actions`: those that are replicated.

    Without a key (not `keyed`), an update that is not replicated makes one row missing and one extra.
    """
    reasons = {}
    for kind, action in ACTION.items():
        left_out = [one for one in (action, *("" if keyed else "U")) if one not in actions]
        if left_out:
            reasons[kind] = f"the configuration replicates no {WORD[left_out[0]]} of this table"
    return reasons


class Changes(StrEnum):
    """Whose row a repair changes, by the table's conflict rule."""

    SLAVE = "slave"
    MASTER = "master"
    """A repair of the replication in the other direction changes it."""
    NEITHER = "neither"
    """The rule cannot decide."""

    @classmethod
    def by(
        cls, rule: ConflictRule, master: Mapping[str, str | None] | None, slave: Mapping[str, str | None] | None
    ) -> "Changes":
        """For two rows that differ."""
        try:
            return cls.SLAVE if rule.fixes(master, slave) else cls.MASTER
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
    """Without a key: how many more copies one side has."""
    cause: str = ""
    """Why it differs, if a change of it was rejected."""
    changes: "Changes | None" = None
    """Whose row a repair changes, if there is a conflict rule."""


@dataclass
class Rows:
    """The rows that differ in one way."""

    count: int = 0
    keys: list[Row] = field(default_factory=list)
    """The keys of the first `MOST_KEYS`; without a key, the whole rows."""
    cause: str = ""
    """Why the configuration makes them differ; then they are no fault."""


MOST_KEYS = 1_000_000
"""Keys of each kind that are kept for a repair."""


@dataclass
class TableFinding:
    """The result of comparing one table."""

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
    accepted: int = 0
    """Rows that differ as `verify.accept` accepts; they are in none of `found`."""
    columns: dict[str, int] = field(default_factory=dict)
    """Column → in how many of the `looked_at` rows it differs."""
    looked_at: int = 0
    examples: list[Example] = field(default_factory=list)
    rejects: dict[str, int] = field(default_factory=dict)
    """Reason → number of rejects that are the cause of differences."""
    rejected: int = 0
    """Rows that differ because of rejects."""
    settled: int = 0
    """Rejects that a repair settled."""
    key: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    """The compared columns."""
    types: tuple[str, ...] = ()
    """The slave's types in which they were compared."""
    method: str = ""
    fell_back: str = ""
    """Why the fast digests were not used."""
    rule: str = ""
    """The table's conflict rule, if both sides are written to."""
    proposed: dict[Changes, int] = field(default_factory=dict)
    """How many of the `looked_at` rows a repair changes, by whose row that is."""
    place: str = ""
    """The table's name on the slave, if it has another."""
    transformed: str = ""
    """The table's transformation, after which rows are compared."""
    seconds: float = 0.0
    paused: float = 0.0
    """Seconds of the apply's time."""
    waiting: int | None = None
    """If the apply did not run: the number of waiting changes, which were undone for the comparison."""
    sampled: int = 0
    """For a random sample: the number of rows on the side with fewer. 0 if all were compared."""
    upper_bound: float | None = None
    """For a sample: the largest share of wrong rows, with a confidence of 95 %."""
    traveled: int = 0
    """Rows, or digests of rows, that were transferred."""

    def explain(self, rejects: Iterable[Reject]) -> None:
        """Names rejects as the cause of differences in their rows."""
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
        """The example's row as in `to_repair`."""
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
        """The keys of the faulty rows; without a key, the whole rows."""
        return [key for keys in self.by_kind() for key in keys]

    def by_kind(self) -> list[list[Row]]:
        """The same in three lists: rows to delete (others may need their unique values), to update, to insert."""
        kinds = (Kind.EXTRA, Kind.DIFFERENT, Kind.MISSING)
        return [list(dict.fromkeys(self.found[kind].keys)) for kind in kinds if not self.found[kind].cause]
