"""The row of `<prefix>THROTTLE` of a slave: the limits of its load."""

from sluice.control.own_tables import SlaveStore
from sluice.model.throttle_state import ThrottleState


class ThrottleStore(SlaveStore):
    """Reads and writes the limits of one slave's load."""

    def exists(self) -> bool:
        """Whether a load job has ever begun on the slave."""
        return self._own.has("throttle")

    def clear(self) -> None:
        """Removes the limits."""
        self._execute("throttle_clear")

    def read(self) -> ThrottleState:
        """The present limits; none where no job wrote any."""
        row = self._execute("throttle_read").fetchone()
        return ThrottleState(bool(row[0]), row[1] or "", *row[2:]) if row else ThrottleState()

    def write(self, state: ThrottleState) -> None:
        """Writes the limits. A changed rate counts from now on."""
        self._execute(
            "throttle_write", paused=state.paused, reason=state.reason,
            rows_per_second=state.rows_per_second, bytes_per_second=state.bytes_per_second,
            loaders=state.loaders,
        )  # fmt: skip

    def put_message(self, update_id: str, message: str, own: str) -> None:
        """Writes the slave's message while it is in TRANSITION, unless its present one does not begin with `own`."""
        self._execute("throttle_say", update_id=update_id, message=message, ours=own)
