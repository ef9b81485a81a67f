"""Maps names of an Oracle master to names on a slave."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Naming:
    """The slave's name for a name of the master."""

    exact: bool = False
    """Unchanged; otherwise names without small letters are lower-cased."""

    def __call__(self, name: str) -> str:
        return name if self.exact or name != name.upper() else name.lower()
