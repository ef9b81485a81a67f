"""The sections `ddl`, what a slave does about a change of the master's definitions, by kind, and `replicate`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sluice.configuration import option
from sluice.configuration.mistakes import Mistake
from sluice.configuration.nodes import Section
from sluice.model.defined import DefinedKind
from sluice.model.vendors import FIRST

if TYPE_CHECKING:
    from sluice.configuration.model import Endpoint


class Policy(StrEnum):
    FOLLOW = "follow"
    """The slave is altered as the master was."""
    WARN = "warn"
    """The slave stays as it is; the log and the comparison of definitions say what a person may run."""
    STOP = "stop"
    """The apply stops until a person has run it, or lets it follow."""


_POLICIES = tuple(Policy)
_WHAT = "policies"


@dataclass(frozen=True)
class DdlOptions:
    """Each kind follows where nothing else is said."""

    indexes: str = option.choice(Policy.FOLLOW, _POLICIES, _WHAT)
    unique: str = option.choice(Policy.FOLLOW, _POLICIES, _WHAT)
    """Unique values and exclusion constraints."""
    checks: str = option.choice(Policy.FOLLOW, _POLICIES, _WHAT)
    foreign_keys: str = option.choice(Policy.FOLLOW, _POLICIES, _WHAT)
    domains: str = option.choice(Policy.FOLLOW, _POLICIES, _WHAT)
    """Checks of domains."""
    comments: str = option.choice(Policy.FOLLOW, _POLICIES, _WHAT)
    views: str = option.choice(Policy.FOLLOW, _POLICIES, _WHAT)
    """Where `replicate` has them."""
    sequences: str = option.choice(Policy.FOLLOW, _POLICIES, _WHAT)
    """The same."""

    def of(self, kind: DefinedKind) -> Policy:
        """What is done about a change of that kind."""
        return Policy(getattr(self, kind))


@dataclass(frozen=True)
class ReplicateOptions:
    """The section `replicate`: what of the master's database follows beside its tables."""

    views: bool = option.flag(False)
    """Those that read replicated tables alone."""
    sequences: bool = option.flag(False)
    """Those that no column draws from by itself, in the schemas of replicated tables."""

    @property
    def any(self) -> bool:
        return self.views or self.sequences


def replicate(section: Section, master: "Endpoint", mistakes: list[Mistake]) -> ReplicateOptions:
    found = option.read(section, "replicate", ReplicateOptions)
    if found.any and (master.stream or master.vendor != FIRST):
        node = section.inside("replicate") or section.node
        problem = "views and sequences are read from the catalogue of a PostgreSQL master, and this one has none"
        mistakes.append(node.mistake(problem, "take the section out"))
    return found
