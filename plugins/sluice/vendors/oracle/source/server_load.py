"""The load of an Oracle master (`sluice.database.server_load.ServerLoadMeter`)."""

from decimal import Decimal

from sluice.database.server_load import NoNumber, ServerLoad, ServerLoadMeter
from sluice.database.session import Session
from sluice.vendors.oracle.not_offered import NotOffered
from sluice.vendors.oracle.session import native


class OracleServerLoad(ServerLoadMeter):
    """The load of an Oracle master, for the throttle of a load: the result of the user's query."""

    GRANT = "Sluice does not look at V$SESSION"

    def read(self, connection: Session) -> ServerLoad:
        """Raises `NotOffered`."""
        del connection
        raise NotOffered(
            "limit on sessions, lock waits or standbys of a load", "Limit it by `query` under `initial.throttle`."
        )

    def number(self, connection: Session, query: str) -> float:
        """The result of a user's query. Raises `NoNumber`, and errors of the server: it may be anything."""
        rows = native(connection).run(query.strip().rstrip(";")).fetchall()
        if len(rows) != 1 or len(rows[0]) != 1:
            raise NoNumber("it returns no row with one number alone")
        (value,) = rows[0]
        if not isinstance(value, int | float | Decimal) or value != value:  # NaN is unlike itself
            raise NoNumber(f"it returns {'NULL' if value is None else f'{value!r:.80}'} instead of a number")
        return float(value)
