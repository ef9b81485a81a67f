"""The row of `<prefix>CHECKPOINT` of a slave."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sluice.control.own_tables import SlaveStore
from sluice.database import registry
from sluice.database.session import Rows
from sluice.model.checkpoint import Checkpoint, Fenced
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.model.slave_state import move as checked_move
from sluice.model.table_state import TableStates


class CheckpointStore(SlaveStore):
    """Reads and writes the checkpoint of one slave."""

    def ensure(self) -> None:
        """Creates the slave's tables and its row if they are absent, upgrades those of an earlier version.

        Raises what `OwnTables` raises.
        """
        self.upgrade()
        self._own.secure()
        self._execute("checkpoint_insert")

    def upgrade(self) -> None:
        """Creates the slave's tables if they are absent, upgrades those of an earlier version. Raises as `ensure`."""
        self._own.make()

    def exists(self) -> bool:
        """Whether the slave's tables are there. Raises as `ensure`."""
        if self._own.has("checkpoint"):
            return True
        self._own.expect_not_elsewhere()
        return False

    def read(self, *, lock: bool = False) -> Checkpoint | None:
        """The checkpoint; None if the slave was never configured. `lock`: locks the row until the commit."""
        if not lock and not self.exists():
            return None
        return self._parsed(self._read(lock=lock).fetchone())

    def _read(self, *, lock: bool) -> Rows:
        return self._execute("checkpoint_read", {"lock": "FOR UPDATE" if lock else ""})

    def _parsed(self, row: Sequence[Any] | None) -> Checkpoint | None:
        if row is None:
            return None
        state, message, position, epoch, target, slice_key, safemode_exit, changes, updated_at, closed, tables = row
        return Checkpoint(
            self.slave,
            SlaveState(state),
            message or "",  # NULL where an empty text is
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
        """The checkpoint. Raises `LookupError` if the slave was never configured."""
        checkpoint = self.read(lock=lock)
        if checkpoint is None:
            raise LookupError(f"slave {self.slave} was never configured")
        return checkpoint

    def move(self, state: SlaveState, message: str = "") -> None:
        """Changes the state as the table of moves allows. Raises `ForbiddenMove`."""
        current = self.read(lock=True)
        checked_move(self.slave, current.state if current else SlaveState.UNCONFIGURED, state)
        self._execute("checkpoint_move", state=str(state), message=message)

    def say(self, message: str) -> None:
        """Writes what a person has to know about the slave, and leaves its state. The caller has locked the row."""
        self._execute("checkpoint_move", state=str(self.configured().state), message=message)

    def put_tables(self, tables: TableStates) -> None:
        """Writes which tables are not ready. The caller has locked the row."""
        self._execute("checkpoint_tables", tables=tables.text())

    def start_at(self, position: Position) -> None:
        """Makes `position` the place where applying starts; ends what was under way."""
        self._execute("checkpoint_start", position=position.text(), time=_time(position))

    def claim(self, above: int = 0) -> Checkpoint:
        """Raises the epoch above `above`; only the caller can `advance` with it. Commit at once.

        Raises `LookupError` if the slave was never configured.
        """
        if self._execute("checkpoint_claim", above=above).rowcount != 1:
            raise LookupError(self.slave)
        checkpoint = self.read(lock=True)
        assert checkpoint is not None
        return checkpoint

    def advance(self, before: Checkpoint, after: Checkpoint) -> None:
        """Writes `after`. Raises `Fenced`."""
        self._expect_own(self._advance(before, after), before)
        if after.tables != before.tables:
            self.put_tables(after.tables)

    def exchange(self, before: Checkpoint, after: Checkpoint) -> Callable[[], Checkpoint | None]:
        """Locks the row and writes `after`. Returns what gives the row as it was before, and raises `Fenced`; to be
        called when results can be read (`Session.transaction`), and before anything else is relied on.
        """
        locked, done = self._read(lock=True), self._advance(before, after)
        if after.tables != before.tables:
            self.put_tables(after.tables)

        def former() -> Checkpoint | None:
            row = self._parsed(locked.fetchone())
            if row is not None and row.epoch == before.epoch:
                self._expect_own(done, before)
            return row

        return former

    def _expect_own(self, done: Rows, before: Checkpoint) -> None:
        if done.rowcount != 1:
            raise Fenced(self.slave, before.epoch)

    def _advance(self, before: Checkpoint, after: Checkpoint) -> Rows:
        return self._execute(
            "checkpoint_advance",
            epoch=before.epoch,
            state=str(after.state),
            message=after.message,
            position=_text(after.position),
            time=_time(after.position),
            target=_text(after.target),
            slice_key=after.slice_key,
            safemode_exit=_text(after.safemode_exit),
            changes=after.changes - before.changes,
        )

    def note(self, checkpoint: Checkpoint, message: str, safemode_exit: Position | None = None) -> None:
        """Writes why the apply has stopped. Does nothing if epoch or state are no longer those of `checkpoint`."""
        self._execute(
            "checkpoint_note",
            epoch=checkpoint.epoch,
            state=str(checkpoint.state),
            message=message,
            safemode_exit=_text(safemode_exit),
        )

    def close(self, closed: str) -> None:
        """Writes an admin's closure of the gate; empty: none. The column must exist (`ensure`)."""
        self._execute("checkpoint_close", closed=closed or None)

    def secure(self) -> None:
        """Returns when no crash of this slave can undo what was read from it. Call it outside a transaction."""
        self._own.await_durable()


def _position(text: str | None) -> Position | None:
    return registry.parse_position(text) if text is not None else None


def _text(position: Position | None) -> str | None:
    return position.text() if position is not None else None


def _time(position: Position | None) -> datetime | None:
    return datetime.fromisoformat(position.time) if position is not None and position.time else None
