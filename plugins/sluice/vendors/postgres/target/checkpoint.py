"""The rows of `<prefix>CHECKPOINT` on a PostgreSQL slave. The caller commits."""

from typing import Any

from sluice import sql_files
from sluice.database import positions
from sluice.database.session import Rows, Session
from sluice.model.checkpoint import Checkpoint, Fenced
from sluice.model.names import Prefix
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.model.slave_state import move as checked_move
from sluice.model.table_state import TableStates
from sluice.vendors.postgres import own_schema
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.own_schema import OwnSchema


class CheckpointStore:
    """Reads and writes the checkpoint of one slave over a connection that the caller owns.

    Every method raises psycopg's errors as they are; callers classify them.
    """

    def __init__(self, connection: Session, prefix: Prefix, schema: str, slave: str):
        self.connection = connection
        self.slave = slave
        self._names = {"prefix": prefix.lower, "schema": quoted(schema)}
        self._own = OwnSchema.of_slave(prefix, schema, slave)

    def ensure(self) -> None:
        """Creates the slave's tables and its row where absent, upgrades those of an earlier version.

        Raises `SchemaUnsafe`, `InstalledElsewhere`.
        """
        self.upgrade()
        own_schema.secure(self.connection, self._own)
        self._execute("checkpoint_insert")

    def upgrade(self) -> None:
        """Creates the slave's tables where absent, upgrades those of an earlier version.

        Raises `SchemaUnsafe`, `InstalledElsewhere`.
        """
        own_schema.expect_owned(self.connection, self._own)
        if self.exists() and self._is_current():
            return
        # IF NOT EXISTS still races with another session that creates the same table.
        self.connection.execute("SELECT pg_catalog.pg_advisory_xact_lock(hashtext('sluice slave resources'))")
        own_schema.secure(self.connection, self._own)
        self.connection.execute(sql_files.render("postgres", "slave_resources", **self._names))

    def exists(self) -> bool:
        """Whether the slave's tables are there. Raises `NotOwned`, `InstalledElsewhere`."""
        if own_schema.has(self.connection, self._own.table("checkpoint")):
            return True
        own_schema.expect_here(self.connection, self._own)
        return False

    def read(self, *, lock: bool = False) -> Checkpoint | None:
        """The checkpoint; None where the slave was never configured. `lock` holds the row till commit.

        Raises `NotOwned`, `InstalledElsewhere`.
        """
        if not lock and not self.exists():
            return None
        row = self._execute("checkpoint_read", {"lock": "FOR UPDATE" if lock else ""}).fetchone()
        if row is None:
            return None
        state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at, closed, tables = row
        return Checkpoint(
            self.slave,
            SlaveState(state),
            message,
            _position(position),
            epoch,
            _position(target),
            slice_key,
            _position(safemode_exit),
            changes,
            updated_at,
            closed or "",
            TableStates.parse(tables),
        )

    def configured(self, *, lock: bool = False) -> Checkpoint:
        """`read` where there must be one. Raises `LookupError` where the slave was never configured."""
        found = self.read(lock=lock)
        if found is None:
            raise LookupError(f"slave {self.slave} was never configured")
        return found

    def move(self, wanted: SlaveState, message: str = "") -> None:
        """Changes the state as the table of moves allows. Raises `ForbiddenMove`."""
        current = self.read(lock=True)
        checked_move(self.slave, current.state if current else SlaveState.UNCONFIGURED, wanted)
        self._execute("checkpoint_move", state=str(wanted), message=message)

    def put_tables(self, tables: TableStates) -> None:
        """Notes which tables are not ready. The caller holds the row's lock."""
        self._execute("checkpoint_tables", tables=tables.text())

    def start_at(self, position: Position) -> None:
        """Applying starts at `position`; what was under way before is void."""
        self._execute("checkpoint_start", position=position.text(), time=position.time or None)

    def claim(self, above: int = 0) -> Checkpoint:
        """A new epoch for the caller, higher than `above`, who alone can `advance` from now on. Commit it at once.

        Raises `LookupError` where the slave was never configured.
        """
        if self._execute("checkpoint_claim", above=above).fetchone() is None:
            raise LookupError(self.slave)
        checkpoint = self.read(lock=True)
        assert checkpoint is not None
        return checkpoint

    def advance(self, before: Checkpoint, after: Checkpoint) -> None:
        """Writes `after`; the last statement of an apply transaction. Raises `Fenced`."""
        cursor = self._execute(
            "checkpoint_advance",
            epoch=before.epoch,
            state=str(after.state),
            message=after.message,
            position=_text(after.position),
            time=after.position.time if after.position and after.position.time else None,
            target=_text(after.target),
            slice_key=after.slice_key,
            safemode_exit=_text(after.safemode_exit),
            changes=after.changes - before.changes,
        )
        if cursor.rowcount != 1:
            raise Fenced(self.slave, before.epoch)
        if after.tables != before.tables:
            self.put_tables(after.tables)

    def note(self, mine: Checkpoint, message: str, safemode_exit: Position | None = None) -> None:
        """Records why the apply stands still. Silent when fenced, or when the state moved on: others wrote theirs."""
        self._execute(
            "checkpoint_note",
            epoch=mine.epoch,
            state=str(mine.state),
            message=message,
            safemode_exit=_text(safemode_exit),
        )

    def close(self, closed: str) -> None:
        """Keeps an admin's closure of the gate; empty: none. The column must be there (`ensure`)."""
        self._execute("checkpoint_close", closed=closed or None)

    def secure(self) -> None:
        """Returns when no crash of this slave can undo what was read from it: before others rely on it.

        Commits of the apply are seen before they are on the disk where its role's `synchronous_commit` is off. On a
        connection in autocommit, outside a transaction.
        """
        row = self.connection.execute("SELECT pg_catalog.pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        self.connection.execute(sql_files.render("postgres", "position_secure"), {"lsn": row[0]})

    def _is_current(self) -> bool:
        row = self._execute(
            "slave_resources_current",
            checkpoint=self._own.table("checkpoint"),
            blocks=self._own.table("blocks"),
            throttle=self._own.table("throttle"),
        ).fetchone()
        return bool(row and row[0])

    def _execute(self, name: str, placeholders: dict[str, str] | None = None, **values: Any) -> Rows:
        statement = sql_files.render("postgres", name, **self._names, **(placeholders or {}))
        return self.connection.execute(statement, {"slave": self.slave, **values})


def _position(text: str | None) -> Position | None:
    return positions.parse(text) if text is not None else None


def _text(position: Position | None) -> str | None:
    return position.text() if position is not None else None
