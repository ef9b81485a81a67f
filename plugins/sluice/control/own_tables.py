"""Sluice's own tables of one slave, as a vendor keeps them."""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, Protocol

from sluice import sql_files
from sluice.database.session import Rows, Session
from sluice.model.names import TableName


class OwnTables(Protocol):
    """What a vendor does for the stores of this package."""

    @property
    def placeholders(self) -> Mapping[str, str]:
        """What statements are filled in with: `prefix`, `schema` (quoted), `clock`: what time it is on the server, in
        the middle of a transaction, and `among`: the condition that the parameter `key` is one of the texts in the
        column `keys` of REJECTS."""
        ...

    def has(self, table: str) -> bool:
        """Whether there is such a table, by its name without the prefix. One that is another account's is an error."""
        ...

    def expect_here(self) -> None:
        """Called where nothing is found. Raises where it is kept elsewhere."""
        ...

    def make(self) -> None:
        """Creates what is absent, and upgrades what an earlier version made."""
        ...

    def secure(self) -> None:
        """Raises where somebody else could make or own one of them."""
        ...

    def complete_rejects(self) -> None:
        """REJECTS of an earlier version gets the columns it lacks."""
        ...

    def await_durable(self) -> None:
        """Returns when no crash of the slave can undo what was read from it."""
        ...

    def texts(self, values: Sequence[str]) -> object:
        """Texts as the parameter of a column that keeps several."""
        ...

    def texts_of(self, value: Any) -> tuple[str, ...]:
        """The texts that such a column has."""
        ...


class Statements:
    """The statements of one slave's tables: those of the session's vendor, where it has none those of all."""

    def __init__(self, connection: Session, own: OwnTables, slave: str):
        self.connection = connection
        self.slave = slave
        self._placeholders = own.placeholders

    def execute(self, name: str, placeholders: Mapping[str, str] | None = None, /, **values: Any) -> Rows:
        return self.connection.execute(self._text(name, placeholders), {"slave": self.slave, **values})

    def execute_many(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """The same statement for each of `rows`."""
        if rows:
            self.connection.execute_many(self._text(name, None), [{"slave": self.slave, **row} for row in rows])

    def _text(self, name: str, placeholders: Mapping[str, str] | None) -> LiteralString:
        return sql_files.render(self.connection.vendor, name, **self._placeholders, **(placeholders or {}))


def one_of(column: str, name: str, values: Sequence[object]) -> tuple[str, dict[str, object]]:
    """The condition that `column` is one of `values`, and its parameters, whose names begin with `name`."""
    if not values:
        return "1 = 0", {}
    parameters = {f"{name}_{place}": value for place, value in enumerate(values)}
    return f"{column} IN ({', '.join(f'%({each})s' for each in parameters)})", parameters


def tables_among(
    schema: str, table: str, wanted: Sequence[TableName], name: str = "of"
) -> tuple[str, dict[str, object]]:
    """The condition that the columns `schema` and `table` name one of `wanted`, and its parameters, as `one_of`."""
    if not wanted:
        return "1 = 0", {}
    pairs = [f"(%({name}_schema_{place})s, %({name}_table_{place})s)" for place in range(len(wanted))]
    parameters: dict[str, object] = {}
    for place, each in enumerate(wanted):
        parameters |= {f"{name}_schema_{place}": each.schema, f"{name}_table_{place}": each.name}
    return f"({schema}, {table}) IN ({', '.join(pairs)})", parameters
