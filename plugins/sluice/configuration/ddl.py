"""The section `ddl`: what a slave does about a change of the master's definitions, by kind."""

from dataclasses import dataclass
from enum import StrEnum

from sluice.configuration import option
from sluice.model.defined import DefinedKind


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

    def of(self, kind: DefinedKind) -> Policy:
        """What is done about a change of that kind."""
        return Policy(getattr(self, kind))
