"""Which initial update owns a slave: columns of its row of CHECKPOINT. The caller commits."""

from sluice.control.own_tables import Statements
from sluice.database.control import Owner
from sluice.database.session import Session
from sluice.model.names import Prefix
from sluice.model.slave_state import SlaveState


class LoadOwner:
    """Over a session that the caller owns."""

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self._execute = Statements(connection, prefix, schema, slave).execute

    def read(self) -> Owner | None:
        """None where the slave was never configured. Its tables must exist."""
        row = self._execute("update_read").fetchone()
        if row is None:
            return None
        state, update_id, message, current_as_of = row
        return Owner(SlaveState(state), update_id, message or "", current_as_of)

    def name(self, update_id: str) -> None:
        """From now on `update_id` owns the slave."""
        self._execute("update_set", update_id=update_id)

    def note(self, update_id: str, message: str) -> None:
        """Says on the slave why its load stands still; nothing when another update owns it by now."""
        self._execute("update_note", update_id=update_id, message=message)
