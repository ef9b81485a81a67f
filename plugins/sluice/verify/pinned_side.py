"""The sessions of a comparison on one database."""

from dataclasses import dataclass, field
from queue import SimpleQueue

from sluice.database.session import Session
from sluice.database.vendor import Target
from sluice.model.connection import ConnectionInfo


@dataclass
class Side:
    """Sessions on one database, all of which see the same."""

    info: ConnectionInfo
    vendor: Target
    sessions: list[Session]
    control: Session
    """A session that sees the present."""
    free: "SimpleQueue[Session]" = field(default_factory=SimpleQueue)

    @property
    def first(self) -> Session:
        return self.sessions[0]
