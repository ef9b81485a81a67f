"""Which initial update owns a slave: columns of its row of CHECKPOINT."""

from sluice.control.own_tables import SlaveStore
from sluice.database.control import Owner
from sluice.model.slave_state import SlaveState


class LoadOwner(SlaveStore):
    """Reads and writes the owner of one slave."""

    def read(self) -> Owner | None:
        """None where the slave was never configured. Its tables must exist."""
        row = self._execute("update_read").fetchone()
        if row is None:
            return None
        state, update_id, message, current_as_of = row
        return Owner(SlaveState(state), update_id, message or "", current_as_of)

    def name(self, update_id: str) -> None:
        """Makes `update_id` the owner of the slave."""
        self._execute("update_set", update_id=update_id)

    def note(self, update_id: str, message: str) -> None:
        """Writes why the load has stopped; does nothing when another update owns the slave by now."""
        self._execute("update_note", update_id=update_id, message=message)
