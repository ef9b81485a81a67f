"""A window: the changes between two positions."""

from dataclasses import dataclass, replace

from sluice.model.position import Position


@dataclass(frozen=True)
class Window:
    """The changes that `target` covers and `previous` does not, or a part of them between two REPL_KEYs."""

    previous: Position
    target: Position
    above: int = 0
    """Exclusive."""
    up_to: int | None = None
    """Inclusive; None: to the end."""

    def between(self, above: int, up_to: int | None = None) -> "Window":
        """The part of it between these REPL_KEYs."""
        return replace(self, above=above, up_to=up_to)
