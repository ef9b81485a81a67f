"""The load of a master's server, of which the result of the user's query is all that is known."""

from collections.abc import Callable
from decimal import Decimal

from sluice.database.load import NoNumber, ServerLoad, ServerLoadMeter
from sluice.database.session import Session
from sluice.vendors.common.not_offered import NotOffered


class QueryLoad(ServerLoadMeter):
    """See the protocol. `not_offered`: the vendor's error for a function and its remedy."""

    GRANT = "Sluice does not look at the server's sessions"

    def __init__(self, not_offered: Callable[[str, str], NotOffered]):
        self._not_offered = not_offered

    def read(self, connection: Session) -> ServerLoad:
        """Raises `NotOffered`."""
        raise self._not_offered(
            "limit on sessions, lock waits or standbys of a load", "Limit it by `query` under `initial.throttle`."
        )

    def number(self, connection: Session, query: str) -> float:
        """Raises `NoNumber`, and errors of the server: the query may be anything."""
        rows = connection.execute(query.strip().rstrip(";").encode()).fetchall()
        if len(rows) != 1 or len(rows[0]) != 1:
            raise NoNumber("it returns no row with one number alone")
        (value,) = rows[0]
        if not isinstance(value, int | float | Decimal) or value != value:  # NaN is unlike itself
            raise NoNumber(f"it returns {'NULL' if value is None else f'{value!r:.80}'} instead of a number")
        return float(value)
