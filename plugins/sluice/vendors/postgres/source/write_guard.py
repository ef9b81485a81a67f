"""Makes a PostgreSQL master refuse writes to its replicated tables during a failover."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluice import sql_files
from sluice.database import lock_waits
from sluice.database.failover import Claim, Guarded
from sluice.database.lock_waits import Thing
from sluice.database.session import Rows, Session
from sluice.errors import Terminal
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.session_settings import limit_lock_waits
from sluice.vendors.postgres.sessions import SEE_LOCKS

log = logging.getLogger("sluice.failover")


class MasterBusy(Terminal):
    """Transactions of the master kept locks of tables; `tables` lists them."""

    def __init__(self, tables: Sequence[str], what: str):
        super().__init__(
            f"{', '.join(tables)}: some transaction holds it for very long, and {what}. End it ({SEE_LOCKS}), then "
            "trigger the failover again."
        )


@dataclass(frozen=True)
class Guard:
    """The guard of one master, over a connection in autocommit. All methods raise psycopg's errors."""

    connection: Session
    prefix: Prefix
    schema: str

    # -- the claim: which failover has the master

    def claim(self, failover_id: str, slave: str) -> Claim:
        """Claims the master. Returns the claim in force: this one, or that of an earlier failover."""
        claim = json.dumps({"id": failover_id, "slave": slave, "phase": "guarded"}, ensure_ascii=False)
        self._execute("failover_claim", claim=claim)
        claimed = self.claimed()
        assert claimed is not None
        return claimed

    def claimed(self) -> Claim | None:
        """The failover that has the master."""
        row = self._execute("failover_claimed").fetchone()
        if row is None:
            return None
        values = json.loads(row[0])
        return Claim(values["id"], values["slave"], values["phase"])

    def move_claim(self, failover_id: str, phases: Sequence[str], phase: str | None) -> bool:
        """Moves the claim from one of `phases` to `phase`; None deletes it. False where it was in no such phase."""
        return bool(self._execute("failover_claim_move", id=failover_id, phases=list(phases), phase=phase).fetchall())

    # -- the triggers that refuse writes

    def tables(self) -> list[Guarded]:
        """All tables that must refuse writes, each with whether it does."""
        statement = sql_files.render("postgres", "guard_relations", **self._names)
        return [Guarded(*row[1:]) for row in self.connection.execute(statement.encode())]

    def make(self, message: str) -> None:
        """Makes each table refuse writes with `message`. Waits for transactions that write, without blocking others for
        long. Raises `MasterBusy`."""
        open_to_writes = [one for one in self.tables() if not one.refuses]
        if busy := self._each(open_to_writes, lambda one: self._make(one, message)):
            raise MasterBusy([one.table for one in busy], "the master could not be made read-only")

    def release(self) -> None:
        """Makes all tables accept writes, and removes the guard. Raises `MasterBusy` where triggers, which then refuse
        nothing, could not be removed."""
        statement = sql_files.render("postgres", "guard_release", **self._names)
        with self.connection.transaction():
            self.connection.execute(statement.encode())
        if busy := self._each(self._functions(), self._drop):
            raise MasterBusy(busy, "its trigger, which refuses nothing any more, could not be removed")

    def _each(self, things: Sequence[Thing], do: Callable[[Thing], None]) -> Sequence[Thing]:
        """Calls `do` for each in a separate transaction, again where locks are held. Returns those still locked."""

        def change(one: Thing) -> None:
            with self.connection.transaction():
                limit_lock_waits(self.connection, lock_waits.LOCK_SECONDS)
                do(one)

        return lock_waits.with_each(things, change)

    def _functions(self) -> list[str]:
        statement = sql_files.render("postgres", "guard_functions", **self._names)
        with self.connection.transaction():
            return [name for (name,) in self.connection.execute(statement.encode())]

    def _make(self, one: Guarded, message: str) -> None:
        statement = sql_files.render(
            "postgres", "guard_make", **self._names, function=quoted(one.function), table=one.table,
            message=literal(f"{one.table} is read-only: {message}"),
        )  # fmt: skip
        self.connection.execute(statement.encode())

    def _drop(self, function: str) -> None:
        self.connection.execute(f"DROP FUNCTION IF EXISTS {quoted(self.schema, function)}() CASCADE".encode())

    @property
    def _names(self) -> dict[str, str]:
        return {"prefix": self.prefix.lower, "schema": quoted(self.schema)}

    def _execute(self, name: str, **values: object) -> Rows:
        return self.connection.execute(sql_files.render("postgres", name, **self._names), values or None)
