"""`<prefix>REJECTS` of a slave: changes rejected because they did not fit its rows."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sluice.control.own_tables import SlaveStore, one_of
from sluice.model import content, guid
from sluice.model.change import Action, RowChange
from sluice.model.names import TableName
from sluice.model.reject import OPEN, Reject, Rejected, RejectStatus, before

_ALL = "1 = 1"


class RejectStore(SlaveStore):
    """Reads and writes the rejects of one slave."""

    def ready(self) -> bool:
        """Whether there is such a table; one of an earlier release is completed. Raises what `OwnTables` raises."""
        if not self._own.has("rejects"):
            return False
        self._own.complete_rejects()
        return True

    def put(self, rejects: Sequence[Rejected]) -> None:
        """Writes the changes with both images and the reason."""
        self._execute_many(
            "rejects_put",
            [
                {
                    "repl_key": reject.change.repl_key,
                    "table_schema": reject.change.table.schema,
                    "table": reject.change.table.name,
                    "action": str(reject.change.action),
                    "content": reject.change.content,
                    "oldcontent": reject.change.oldcontent,
                    "held": None if reject.slave_row is None else content.format_row(reject.slave_row.items()),
                    "reason": reject.reason,
                    "key_columns": self._own.texts(reject.change.key),
                    "keys": self._own.texts(key_texts(reject.change)),
                    "newer": reject.newer,
                    "status": str(reject.status),
                    "settled_by": "conflict_rules" if reject.decision else None,
                    "answer": reject.decision.reason if reject.decision else None,
                }
                for reject in rejects
            ],
        )

    def open(self) -> list[Reject]:
        """All that are not settled."""
        return self.read(OPEN)

    def differing(self) -> list[Reject]:
        """The rejects of DIFFER: each says that a table differs from the master's. None if REJECTS is absent."""
        return [reject for reject in self.open() if reject.action == Action.DIFFER] if self.ready() else []

    def read(
        self,
        statuses: Iterable[RejectStatus],
        ids: Sequence[int] | None = None,
        *,
        number: int = 10_000,
        lock: bool = False,
    ) -> list[Reject]:
        """The rejects with these statuses, oldest first."""
        condition, parameters = _of_status(statuses)
        chosen, more = (_ALL, {}) if ids is None else one_of("id", "id", ids)
        rows = self._execute(
            "rejects_read",
            {"statuses": condition, "ids": chosen, "lock": "FOR UPDATE" if lock else ""},
            number=number,
            **parameters,
            **more,
        )
        return [self._reject(row) for row in rows]

    def move(
        self,
        ids: Sequence[int],
        status: RejectStatus,
        person: str | None = None,
        *,
        force: bool = False,
        answer: str | None = None,
    ) -> list[int]:
        """Gives the rejects `ids` the status `status` if their present one allows it. Returns the ids of those."""
        statuses, parameters = _of_status(before(status))
        chosen, more = one_of("id", "id", ids)
        movable = self._execute("rejects_movable", {"ids": chosen, "statuses": statuses}, **parameters, **more)
        moved = sorted(number for (number,) in movable)
        if moved:
            chosen, more = one_of("id", "id", moved)
            self._execute(
                "rejects_move", {"ids": chosen}, status=str(status), person=person, force=force, answer=answer, **more
            )
        return moved

    def rename(self, number: int, table: TableName, reason: str) -> None:
        """Gives a reject the new name of its table, and the reason that names it."""
        self._execute("rejects_rename", table_schema=table.schema, table=table.name, number=number, reason=reason)

    def forget(self, days: int) -> int:
        """Deletes rejects that were settled more than `days` ago. Returns how many."""
        settled, parameters = _of_status(status for status in RejectStatus if status not in OPEN)
        earlier = self.connection.clock() - timedelta(days=days)
        return self._execute("rejects_forget", {"settled": settled}, before=earlier, **parameters).rowcount

    def mark_outdated(self, table: TableName, newer: Mapping[str, int] | int) -> None:
        """Notes that newer changes of `table` were applied: REPL_KEY by key text, or one REPL_KEY for all rows."""
        columns: dict[str, object] = {"table_schema": table.schema, "table": table.name}
        if isinstance(newer, int):
            self._execute("rejects_emptied", **columns, repl_key=newer)
        else:
            changes = [{**columns, "key": key, "repl_key": repl_key} for key, repl_key in newer.items()]
            self._execute_many("rejects_newer", changes)

    def _reject(self, row: Sequence[Any]) -> Reject:
        number, repl_key, schema, table, *images, key, keys, newer, status, force = row[:15]
        texts = self._own.texts_of(key), self._own.texts_of(keys)
        values = (number, repl_key, TableName(schema, table), *images, *texts, newer, RejectStatus(status), bool(force))
        return Reject(*(*values, *row[15:]))


def key_texts(change: RowChange) -> list[str]:
    """The key texts that a change touches, as in GUID; none of a keyless table."""
    if not change.key:
        return []
    rows = [row for row in (change.old, change.new) if row]
    return sorted({guid.key_text(row, change.key) for row in rows})


def _of_status(statuses: Iterable[RejectStatus]) -> tuple[str, Mapping[str, object]]:
    return one_of("status", "status", [str(status) for status in statuses])
