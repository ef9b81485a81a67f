"""What a failover needs of a PostgreSQL database: definitions, sequences, and the row that a slave keeps of it."""

import json
from collections.abc import Sequence
from typing import Any

import psycopg

from sluice import sql_files
from sluice.domain.definitions import Definition
from sluice.domain.failover import Action, Made, Phase, Record, SequenceValue, Sheet
from sluice.domain.names import Prefix, TableName
from sluice.vendors.postgres import catalog, sequences
from sluice.vendors.postgres.connection import quoted


class FailoverStore:
    """The row of `<prefix>FAILOVER` of one slave. The caller commits; psycopg's errors rise as they are."""

    def __init__(self, connection: psycopg.Connection[Any], prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        self.slave = slave
        self._names = {"prefix": prefix.lower, "schema": quoted(schema)}

    def exists(self) -> bool:
        """Whether the slave keeps anything."""
        return catalog.exists(self.connection, f"{self._names['schema']}.{self._names['prefix']}failover")

    def ensure(self) -> None:
        """Makes the table where it is absent."""
        if not self.exists():
            with self.connection.transaction():
                self.connection.execute("SELECT pg_catalog.pg_advisory_xact_lock(hashtext('sluice slave resources'))")
                self.connection.execute(sql_files.render("postgres", "slave_resources_failover", **self._names))

    def keep(self, sheet: Sheet) -> None:
        """Keeps the master's definitions."""
        self._execute("failover_keep", sheet=sheet.text(), time=sheet.time)

    def sheet(self) -> Sheet | None:
        """What was kept of the master; None where nothing was."""
        if not self.exists():
            return None
        name = f"{self._names['schema']}.{self._names['prefix']}failover"
        row = self.connection.execute(
            f"SELECT sheet FROM {name} WHERE slave = %(slave)s".encode(), {"slave": self.slave}
        ).fetchone()
        return Sheet.parse(row[0]) if row and row[0] else None

    def read(self, *, lock: bool = False) -> Record | None:
        """The failover under way, or the last one; None where there never was one."""
        if not lock and not self.exists():
            return None
        row = self._execute("failover_read", {"lock": "FOR UPDATE" if lock else ""}).fetchone()
        if row is None or row[0] is None:
            return None
        made = tuple(Made(one["what"], tuple(one["undo"])) for one in row[9])
        failover_id, action, phase, reverse, by, begun_at, last, start, verified, _ = row
        return Record(failover_id, Action(action), Phase(phase), reverse, by, begun_at, last, start, verified, made)

    def begin(self, failover_id: str, action: Action, reverse: bool, by: str) -> None:
        """A failover begins."""
        self._execute("failover_begin", id=failover_id, action=str(action), reverse=reverse, by=by)

    def move(
        self, phase: Phase, *, last: str | None = None, start: str | None = None, verified: str | None = None
    ) -> None:
        """The failover has come to `phase`. Call it with the row's lock."""
        self._execute("failover_move", phase=str(phase), last=last, start=start, verified=verified)

    def note_made(self, made: Made | None) -> None:
        """In the transaction that makes it; None: the last one was taken back."""
        text = json.dumps({"what": made.what, "undo": made.undo}, ensure_ascii=False) if made else None
        self._execute("failover_made", made=text)

    def _execute(self, name: str, placeholders: dict[str, str] | None = None, **values: Any) -> psycopg.Cursor[Any]:
        statement = sql_files.render("postgres", name, **self._names, **(placeholders or {}))
        return self.connection.execute(statement, {"slave": self.slave, **values})


def definitions(
    connection: psycopg.Connection[Any], prefix: Prefix, tables: Sequence[TableName], *, all_roles: bool = False
) -> tuple[Definition, ...]:
    """What `tables` and their surroundings are defined to do beyond holding rows. Raises psycopg's errors."""
    rows = connection.execute(
        sql_files.render("postgres", "failover_definitions", prefix=prefix.lower),
        {**catalog.pairs(tables), "all_roles": all_roles},
    ).fetchall()
    return tuple(
        Definition(kind, schema, name, thing, text, tuple(make), tuple(remove))
        for kind, schema, name, thing, text, make, remove in rows
    )


def sequence_values(
    connection: psycopg.Connection[Any], prefix: Prefix, tables: Sequence[TableName]
) -> tuple[SequenceValue, ...]:
    """Where the sequences behind columns of `tables` are, and those that applications call. Raises psycopg's errors."""
    behind = [
        SequenceValue(one.table, one.column, one.schema, one.name, one.increment, one.minimum, one.maximum, one.last)
        for one in sequences.read(connection, tables)
    ]
    rows = connection.execute(
        sql_files.render("postgres", "failover_sequences", prefix=prefix.lower), catalog.pairs(tables)
    ).fetchall()
    called = [SequenceValue(None, "", *row) for row in rows]
    return tuple(behind + called)


def clock(connection: psycopg.Connection[Any]) -> str:
    """The server's clock, ISO 8601, UTC."""
    row = connection.execute(
        """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
    ).fetchone()
    assert row is not None
    return str(row[0])


def sheet(connection: psycopg.Connection[Any], prefix: Prefix, place: str, tables: Sequence[TableName]) -> Sheet:
    """All that a failover needs of a master. Raises psycopg's errors."""
    replicated = set(tables)
    others = [
        table
        for table in catalog.tables(connection)
        if table not in replicated and not table.name.startswith(prefix.lower)
    ]
    return Sheet(
        place,
        clock(connection),
        definitions(connection, prefix, tables),
        sequence_values(connection, prefix, tables),
        tuple(others),
        tuple(tables),
    )


def sessions_of(connection: psycopg.Connection[Any], application: str) -> int:
    """How many other sessions of this account call themselves so in the database."""
    row = connection.execute(
        "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid() "
        "AND datname = current_database()",
        [application[:63]],
    ).fetchone()
    return int(row[0]) if row else 0
