"""Makes a PostgreSQL master refuse writes to its replicated tables during a failover."""

import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sluice import sql_files
from sluice.database import lock_waits
from sluice.database.failover import Claim, Guarded
from sluice.database.lock_waits import Thing
from sluice.database.session import Rows, Session
from sluice.errors import Terminal
from sluice.model.names import Prefix
from sluice.vendors.postgres.connection import literal, quoted
from sluice.vendors.postgres.sessions import SEE_LOCKS, limit_lock_waits

log = logging.getLogger("sluice.failover")

SHORT_SECONDS = 0.5
"""Transactions that write for longer are waited for before the master refuses anything."""
CALM_SECONDS = 60.0
"""How long that may take."""
END_SECONDS = 10.0
"""How long the last transactions may take to end, while the master refuses writes."""
LOOK_SECONDS = 0.01


@dataclass(frozen=True)
class Writer:
    """A transaction that may have written to a table."""

    pid: int
    """0: it is prepared, and has no session."""
    transaction: str
    table: str


def _tables(writers: Iterable[Writer]) -> list[str]:
    """For each transaction one of its tables, and whose it is."""
    of = {one.transaction: one for one in writers}
    return [f"{one.table} (process {one.pid})" if one.pid else f"{one.table} (prepared)" for one in of.values()]


def master_busy(tables: Sequence[str], what: str) -> Terminal:
    """Transactions of the master kept locks of tables; `tables` lists them."""
    return Terminal(
        f"{', '.join(tables)}: some transaction holds it for very long, and {what}. End it ({SEE_LOCKS}), then "
        "trigger the failover again.",
        code="master-busy",
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
        """Moves the claim from one of `phases` to `phase`; None deletes it. False if it was in no such phase."""
        return bool(self._execute("failover_claim_move", id=failover_id, phases=list(phases), phase=phase).fetchall())

    # -- the triggers that refuse writes

    def tables(self) -> list[Guarded]:
        """All tables that must refuse writes, each with whether it does."""
        statement = sql_files.render("postgres", "guard_relations", **self._names)
        return [Guarded(*row[1:]) for row in self.connection.execute(statement.encode())]

    def lay(self) -> None:
        """Creates the trigger of each table that lacks it; it refuses nothing. Waits for transactions that write,
        without blocking others for long. Raises `master-busy`."""
        without = [one for one in self.tables() if not one.laid]
        if busy := self._each(without, self._lay):
            raise master_busy([one.table for one in busy], "the master could not be made read-only")

    def close(self, message: str) -> None:
        """Makes all tables refuse writes with `message`, in one transaction that takes no lock of a table. Waits until
        transactions that write are short, and then for those that wrote before. Raises `master-busy`."""
        self.lay()
        if open_to_writes := [one for one in self.tables() if not one.refuses]:
            self._await_calm()
            with self.connection.transaction():
                limit_lock_waits(self.connection, lock_waits.LOCK_SECONDS)
                for one in open_to_writes:
                    self._function(one, message)
        # From here on every statement that locks a table finds the new function. Those that hold a lock may have
        # called the old one.
        end = time.monotonic() + END_SECONDS
        former = self._writers()
        while left := former & self._writers():
            if time.monotonic() > end:
                with self.connection.transaction():
                    self.connection.execute(sql_files.render("postgres", "guard_release", **self._names).encode())
                raise master_busy(_tables(left), f"it does not end within {END_SECONDS:.0f} s")
            time.sleep(LOOK_SECONDS)

    def _await_calm(self) -> None:
        """Returns when no transaction has been writing for longer than `SHORT_SECONDS`. Raises `master-busy`."""
        begun, seen = time.monotonic(), dict[Writer, float]()
        while True:
            now = time.monotonic()
            # Without rights to see other sessions, nobody tells how long they have been open.
            seen = {one: seen.get(one, now) for one in self._writers()}
            long = [one for one, since in seen.items() if now - since > SHORT_SECONDS]
            if not seen or (not long and now - begun > SHORT_SECONDS):
                return
            if now - begun > CALM_SECONDS:
                raise master_busy(_tables(long or seen), "the master could not be made read-only")
            time.sleep(LOOK_SECONDS)

    def _writers(self) -> set[Writer]:
        """The transactions that hold locks of the tables as writers do."""
        statement = sql_files.render("postgres", "guard_writers", **self._names)
        return {Writer(*row) for row in self.connection.execute(statement.encode())}

    def release(self) -> None:
        """Makes all tables accept writes, and removes the guard. Raises `master-busy` if triggers, which then refuse
        nothing, could not be removed."""
        statement = sql_files.render("postgres", "guard_release", **self._names)
        with self.connection.transaction():
            self.connection.execute(statement.encode())
        if busy := self._each(self._functions(), self._drop):
            raise master_busy(busy, "its trigger, which refuses nothing any more, could not be removed")

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

    def _lay(self, one: Guarded) -> None:
        names = {**self._names, "function": quoted(one.function)}
        self.connection.execute(sql_files.render("postgres", "guard_open", **names).encode())
        self.connection.execute(sql_files.render("postgres", "guard_lay", **names, table=one.table).encode())

    def _function(self, one: Guarded, message: str) -> None:
        statement = sql_files.render(
            "postgres", "guard_close", **self._names, function=quoted(one.function),
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
