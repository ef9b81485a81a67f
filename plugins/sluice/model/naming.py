"""What an Oracle master's names are on a slave."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Naming:
    """What a name of the master is on a slave."""

    exact: bool = False
    """As it is; else a name without small letters gets them."""

    def __call__(self, name: str) -> str:
        return name if self.exact or name != name.upper() else name.lower()
