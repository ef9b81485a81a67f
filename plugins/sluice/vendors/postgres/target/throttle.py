"""The row of `<prefix>THROTTLE` on a PostgreSQL slave: what its load is held to. The caller commits."""

from typing import Any

from sluice import sql_files
from sluice.database.session import Rows, Session
from sluice.model.names import Prefix
from sluice.model.throttle_state import ThrottleState
from sluice.vendors.postgres import own_schema
from sluice.vendors.postgres.connection import quoted


class ThrottleStore:
    """Every method raises psycopg's errors as they are; callers classify them."""

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        self.slave = slave
        self._names = {"prefix": prefix.lower, "schema": quoted(schema)}

    def exists(self) -> bool:
        """Whether a load job has ever begun here."""
        return own_schema.has(self.connection, f"{self._names['schema']}.{self._names['prefix']}throttle")

    def clear(self) -> None:
        """Nothing holds the slave's load back."""
        self._execute("throttle_clear")

    def read(self) -> ThrottleState:
        """What the load is held to just now; nothing where no job said so."""
        row = self._execute("throttle_read").fetchone()
        return ThrottleState(*row) if row else ThrottleState()

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

    def _execute(self, statement: str, **values: Any) -> Rows:
        text = sql_files.render("postgres", statement, **self._names)
        return self.connection.execute(text, {"slave": self.slave, **values})
