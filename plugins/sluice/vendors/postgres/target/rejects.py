"""`<prefix>REJECTS` on a PostgreSQL slave: changes set aside because they did not fit its rows. The caller commits."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sluice import sql_files
from sluice.database.session import Session
from sluice.model import content
from sluice.model.change import Action, RowChange
from sluice.model.names import Prefix, TableName
from sluice.model.reject import OPEN, Reject, Rejected, RejectStatus, before
from sluice.vendors.postgres import own_schema
from sluice.vendors.postgres.connection import literal, native, quoted

_ALL = 10_000


class RejectStore:
    """Reads and writes what is set aside for one slave. Every method raises psycopg's errors as they are."""

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        self.slave = slave
        self._names = {"prefix": prefix.lower, "schema": quoted(schema)}

    def ready(self) -> bool:
        """Whether there is such a table; one of an earlier release is completed. Raises `NotOwned`."""
        name = f"{self._names['schema']}.{self._names['prefix']}rejects"
        if not own_schema.has(self.connection, name):
            return False
        relation = literal(name)
        row = self.connection.execute(sql_files.render("postgres", "rejects_complete", relation=relation)).fetchone()
        complete = row[0] if row else None
        if complete is False:
            self.connection.execute(sql_files.render("postgres", "rejects_upgrade", **self._names))
        return complete is not None

    def put(self, rejects: Sequence[Rejected]) -> None:
        """Keeps the changes with both images and the reason."""
        statement = sql_files.render("postgres", "rejects_put", **self._names)
        native(self.connection).cursor().executemany(
            statement,
            [
                {
                    "slave": self.slave,
                    "repl_key": reject.change.repl_key,
                    "table_schema": reject.change.table.schema,
                    "table": reject.change.table.name,
                    "action": str(reject.change.action),
                    "content": reject.change.content,
                    "oldcontent": reject.change.oldcontent,
                    "held": None if reject.held is None else content.format_row(reject.held.items()),
                    "reason": reject.reason,
                    "key_columns": list(reject.change.key),
                    "keys": key_texts(reject.change),
                    "newer": reject.newer,
                }
                for reject in rejects
            ],
        )

    def open(self) -> list[Reject]:
        """All that nobody has settled."""
        return self.read(OPEN)

    def differing(self) -> list[Reject]:
        """Those that say that a table differs from the master's; none where the slave has no REJECTS."""
        return [reject for reject in self.open() if reject.action == Action.DIFFER] if self.ready() else []

    def read(
        self,
        statuses: Iterable[RejectStatus],
        ids: Sequence[int] | None = None,
        *,
        number: int = 10_000,
        lock: bool = False,
    ) -> list[Reject]:
        """Oldest first."""
        text = sql_files.render("postgres", "rejects_read", **self._names, lock="FOR UPDATE" if lock else "")
        rows = self.connection.execute(
            text,
            {
                "slave": self.slave,
                "statuses": [str(status) for status in statuses],
                "ids": None if ids is None else list(ids),
                "number": number,
            },
        )
        return [_reject(row) for row in rows]

    def move(
        self,
        ids: Sequence[int],
        wanted: RejectStatus,
        person: str | None = None,
        *,
        force: bool = False,
        answer: str | None = None,
    ) -> list[int]:
        """Gives those of `ids` whose status allows it the status `wanted`; which."""
        rows = self.connection.execute(
            sql_files.render("postgres", "rejects_move", **self._names),
            {
                "slave": self.slave,
                "ids": list(ids),
                "statuses": [str(status) for status in before(wanted)],
                "status": str(wanted),
                "person": person,
                "force": force,
                "answer": answer,
            },
        )
        return sorted(row[0] for row in rows)

    def forget(self, days: int) -> int:
        """Removes those that were settled more than `days` ago; how many."""
        statement = sql_files.render("postgres", "rejects_forget", **self._names)
        statuses = [str(status) for status in RejectStatus if status not in OPEN]
        return self.connection.execute(statement, {"slave": self.slave, "statuses": statuses, "days": days}).rowcount

    def mark_outdated(self, table: TableName, newer: Mapping[str, int] | int) -> None:
        """Newer changes of rows of `table` were applied: by key text, or of all rows."""
        keys = [None] if isinstance(newer, int) else list(newer)
        repl_keys = [newer] if isinstance(newer, int) else list(newer.values())
        self.connection.execute(
            sql_files.render("postgres", "rejects_newer", **self._names),
            {
                "slave": self.slave,
                "table_schema": table.schema,
                "table": table.name,
                "keys": keys,
                "repl_keys": repl_keys,
            },
        )


def _reject(row: Sequence[Any]) -> Reject:
    number, repl_key, schema, table, *images, key, keys, newer, status = row[:14]
    values = (number, repl_key, TableName(schema, table), *images, tuple(key), tuple(keys), newer, RejectStatus(status))
    return Reject(*(*values, *row[14:]))


def key_texts(change: RowChange) -> list[str]:
    """Texts of the keys that a change touches, as in GUID; none of a keyless table."""
    if not change.key:
        return []
    rows = [row for row in (change.old, change.new) if row]
    return sorted({content.key_text(row, change.key) for row in rows})
