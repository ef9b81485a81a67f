"""Sluice's own tables on a slave, for the stores of `sluice.control`.

They are in the schema of the connection's account; the configured `schema` is not used.
"""

from collections.abc import Sequence

from sluice import sql_files
from sluice.database.errors import StatementFailed
from sluice.database.session import Session
from sluice.errors import Terminal
from sluice.model.names import Prefix, TableName
from sluice.vendors.oracle import catalog, names
from sluice.vendors.oracle.named_locks import named_lock
from sluice.vendors.oracle.session import OracleSession, native, quoted

TABLES = ("checkpoint", "blocks", "rejects", "throttle", "definitions", "locks")
CLOCK = "SYS_EXTRACT_UTC(SYSTIMESTAMP)"
_THERE = "ORA-955"
_END, _ESCAPE = "\x01\x03", "\x01\x02"
"""The separator of several texts in a column; 0x01 in a text is escaped."""
AMONG = 'INSTR("keys", CHR(1) || CHR(3) || REPLACE(%(key)s, CHR(1), CHR(1) || CHR(2)) || CHR(1) || CHR(3)) > 0'


class NotATable(Terminal):
    """Something else has the name of one of Sluice's tables."""

    def __init__(self, place: str, name: str, what: str):
        super().__init__(
            f"{place}: {name} is a {what.lower()}, and Sluice keeps a table of that name there. Drop it, or let the "
            "connection name another account."
        )


class OracleTables:
    """See `sluice.database.control.OwnTables`."""

    def __init__(self, connection: Session, prefix: Prefix):
        self.session: OracleSession = native(connection)
        self._prefix = prefix.lower
        self.placeholders = {
            "prefix": self._prefix,
            "schema": quoted(self.session.schema),
            "clock": CLOCK,
            "among": AMONG,
        }

    def has(self, table: str) -> bool:
        name = TableName(names.HERE, (self._prefix + table).upper())
        what = catalog.relations(self.session, [name]).get(name)
        if what not in (None, "TABLE"):
            raise NotATable(self.session.place, name.name, what)
        return what is not None

    def expect_not_elsewhere(self) -> None:
        """They are nowhere else."""

    def make(self) -> None:
        """DDL commits: called before a transaction has written anything."""
        if all(self.has(table) for table in TABLES):
            return
        text = sql_files.render("oracle", "slave_resources", prefix=self._prefix, schema=self.placeholders["schema"])
        with named_lock(self.session, "sluice slave resources"):
            for statement in text.split(";\n"):
                if statement.strip():
                    self._make(statement)

    def _make(self, statement: str) -> None:
        try:
            with self.session.transaction():
                self.session.run(statement)
        except StatementFailed as error:
            if error.code != _THERE:
                raise

    def secure(self) -> None:
        """Does nothing: nobody else can create tables in the account's schema without an administrator's privilege."""

    def complete_rejects(self) -> None:
        """There was no earlier version."""

    def await_durable(self) -> None:
        """Every commit of a session waits for the disk, and what others read of it was committed."""

    def texts(self, values: Sequence[str]) -> object:
        return _END + "".join(value.replace("\x01", _ESCAPE) + _END for value in values)

    def texts_of(self, value: object) -> tuple[str, ...]:
        parts = str(value).split(_END)[1:-1]
        return tuple(part.replace(_ESCAPE, "\x01") for part in parts)
