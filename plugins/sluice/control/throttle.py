"""The row of `<prefix>THROTTLE` of a slave: what its load is held to. The caller commits."""

from sluice.control.own_tables import Statements
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.model.throttle_state import ThrottleState


class ThrottleStore:
    """Over a session that the caller owns."""

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        self.slave = slave
        statements = Statements(connection, prefix, schema, slave)
        self._own, self._execute = statements.own, statements.execute

    def exists(self) -> bool:
        """Whether a load job has ever begun here."""
        return self._own.has("throttle")

    def clear(self) -> None:
        """Nothing holds the slave's load back."""
        self._execute("throttle_clear")

    def read(self) -> ThrottleState:
        """What the load is held to just now; nothing where no job said so."""
        row = self._execute("throttle_read").fetchone()
        return ThrottleState(bool(row[0]), row[1] or "", *row[2:]) if row else ThrottleState()

    def write(self, state: ThrottleState) -> None:
        """From now on. A rate that changes counts from here."""
        self._execute(
            "throttle_write", paused=state.paused, reason=state.reason,
            rows_per_second=state.rows_per_second, bytes_per_second=state.bytes_per_second,
            loaders=state.loaders,
        )  # fmt: skip

    def say(self, update_id: str, message: str, ours: str) -> None:
        """The slave's message while it is in TRANSITION, unless somebody else said something: not beginning with
        `ours`."""
        self._execute("throttle_say", update_id=update_id, message=message, ours=ours)
