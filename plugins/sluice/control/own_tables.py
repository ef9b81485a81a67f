"""Statements on Sluice's own tables of one slave; of the small ones also what they hold."""

from collections.abc import Mapping, Sequence
from typing import LiteralString, Self

from sluice import sql_files
from sluice.database.control import Owner
from sluice.database.registry import vendor_of
from sluice.database.session import Rows, Session, in_lists
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import SlaveState
from sluice.model.throttle_state import ThrottleState
from sluice.pair import OfSlave


class SlaveStore:
    """The rows of one slave in one of Sluice's own tables, over a session that the caller owns. The caller commits."""

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        self.slave = slave
        self._own = vendor_of(connection.vendor).own_tables(connection, prefix, schema, slave)
        self._placeholders = self._own.placeholders

    @classmethod
    def of(cls, pair: OfSlave, connection: Session) -> Self:
        return cls(connection, pair.prefix, pair.slave.schema, pair.slave.name)

    def _execute(self, name: str, placeholders: Mapping[str, str] | None = None, /, **values: object) -> Rows:
        """Runs the statement of the session's vendor, or else the one of all vendors."""
        return self.connection.execute(self._text(name, placeholders), {"slave": self.slave, **values})

    def _execute_many(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """The same statement for each of `rows`."""
        if rows:
            self.connection.execute_many(self._text(name, None), [{"slave": self.slave, **row} for row in rows])

    def _text(self, name: str, placeholders: Mapping[str, str] | None) -> LiteralString:
        return sql_files.render(self.connection.vendor, name, **self._placeholders, **(placeholders or {}))


def one_of(column: str, name: str, values: Sequence[object]) -> tuple[str, dict[str, object]]:
    """The condition that `column` is one of `values`, and its parameters, whose names begin with `name`."""
    if not values:
        return "1 = 0", {}
    parameters = {f"{name}_{index}": value for index, value in enumerate(values)}
    return in_lists(column, [f"%({each})s" for each in parameters]), parameters


def tables_among(
    schema: str, table: str, tables: Sequence[TableName], name: str = "of"
) -> tuple[str, dict[str, object]]:
    """The condition that the columns `schema` and `table` name one of `tables`, and its parameters, as `one_of`."""
    if not tables:
        return "1 = 0", {}
    pairs = [f"(%({name}_schema_{index})s, %({name}_table_{index})s)" for index in range(len(tables))]
    parameters: dict[str, object] = {}
    for index, each in enumerate(tables):
        parameters |= {f"{name}_schema_{index}": each.schema, f"{name}_table_{index}": each.name}
    return f"({schema}, {table}) IN ({', '.join(pairs)})", parameters


# Which initial update owns a slave: columns of its row of CHECKPOINT.


class LoadOwner(SlaveStore):
    """Reads and writes the owner of one slave."""

    def read(self) -> Owner | None:
        """None if the slave was never configured. Its tables must exist."""
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


# The row of `<prefix>THROTTLE` of a slave: the limits of its load.


class ThrottleStore(SlaveStore):
    """Reads and writes the limits of one slave's load."""

    def exists(self) -> bool:
        """Whether a load job has ever begun on the slave."""
        return self._own.has("throttle")

    def clear(self) -> None:
        """Removes the limits."""
        self._execute("throttle_clear")

    def read(self) -> ThrottleState:
        """The present limits; none if no job wrote any."""
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
