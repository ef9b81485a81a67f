"""What Sluice keeps on a slave: CHECKPOINT, BLOCKS, REJECTS, THROTTLE, DEFINITIONS, and who loads it.

A table is that of one slave, over one session. Unless a method says otherwise the caller commits, and every one raises
errors of `sluice.database.errors`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sluice.database.session import Session
from sluice.errors import Transient
from sluice.model.blocks import Block, BlockMap, Key
from sluice.model.change import RowChange
from sluice.model.checkpoint import Checkpoint
from sluice.model.defined import Defined
from sluice.model.key_ranges import Part
from sluice.model.names import Prefix, TableName
from sluice.model.position import Position
from sluice.model.reject import Reject, Rejected, RejectStatus
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableStates
from sluice.model.throttle_state import ThrottleState


class LoadRuns(Transient):
    """Another load job holds the slave; `holder` describes its session."""

    def __init__(self, slave: str, holder: str):
        super().__init__(
            f"Slave {slave} is being loaded by another job ({holder}). This one ends; the other goes on. "
            "Should that job be dead, its session ends by itself within minutes."
        )
        self.slave = slave
        self.holder = holder


@dataclass(frozen=True)
class Owner:
    """The state of a slave and the initial update that owns it."""

    state: SlaveState
    update_id: str | None
    message: str
    current_as_of: datetime | None
    """By the master's clock: what the slave has applied."""


@dataclass(frozen=True)
class Claim:
    """A planned block, locked until the transaction ends, and what the table's last block cost."""

    block: Block
    last_rows: int | None
    last_bytes: int | None
    last_seconds: float | None


@dataclass(frozen=True)
class TableProgress:
    """How far the load of one table is, from BLOCKS alone."""

    table: TableName
    planned: int
    begun: int
    stored: int
    rows: int
    bytes: int
    rows_per_second: float
    begun_at: datetime | None
    stored_at: datetime | None
    exported: int = 0


class CheckpointTable(Protocol):
    """The slave's row of CHECKPOINT."""

    def ensure(self) -> None:
        """Creates the slave's tables and its row where absent, upgrades those of an earlier version."""
        ...

    def upgrade(self) -> None:
        """Creates the slave's tables where absent, upgrades those of an earlier version."""
        ...

    def exists(self) -> bool:
        """Whether the slave's tables are there."""
        ...

    def read(self, *, lock: bool = False) -> Checkpoint | None:
        """None where the slave was never configured. `lock` holds the row till commit."""
        ...

    def configured(self, *, lock: bool = False) -> Checkpoint:
        """`read` where there must be one. Raises `LookupError` where the slave was never configured."""
        ...

    def move(self, wanted: SlaveState, message: str = "") -> None:
        """Changes the state as the table of moves allows. Raises `ForbiddenMove`."""
        ...

    def put_tables(self, tables: TableStates) -> None:
        """Notes which tables are not ready. The caller holds the row's lock."""
        ...

    def start_at(self, position: Position) -> None:
        """Applying starts at `position`; what was under way before is void."""
        ...

    def claim(self, above: int = 0) -> Checkpoint:
        """A new epoch for the caller, higher than `above`, who alone can `advance` from now on. Commit it at once.

        Raises `LookupError` where the slave was never configured.
        """
        ...

    def advance(self, before: Checkpoint, after: Checkpoint) -> None:
        """Writes `after`; the last statement of an apply transaction. Raises `Fenced`."""
        ...

    def note(self, mine: Checkpoint, message: str, safemode_exit: Position | None = None) -> None:
        """Records why the apply stands still. Silent when fenced, or when the state moved on."""
        ...

    def close(self, closed: str) -> None:
        """Keeps an admin's closure of the gate; empty: none. The column must be there (`upgrade`)."""
        ...

    def secure(self) -> None:
        """Returns when no crash of this slave can undo what was read from it. In autocommit, outside a transaction."""
        ...


class BlockTable(Protocol):
    """The slave's rows of BLOCKS."""

    def plan(
        self,
        tables: Sequence[TableName],
        *,
        made: bool = False,
        marker: Position | None = None,
        snapshot: str | None = None,
    ) -> None:
        """One open block for each table, to be loaded in this order; its first one where it has blocks.

        `made`: the update made them just now; `marker` and `snapshot`: in which all of them are read.
        """
        ...

    def choose(self, part: Part, place: int) -> None:
        """The blocks of a table of which a part is loaded; the slave has the rest as of its checkpoint."""
        ...

    def plan_again(self, marker: Position, snapshot: str) -> None:
        """The parts that are loaded are planned once more, to be read in `snapshot`."""
        ...

    def caught_up(self, block: Block) -> bool:
        """The stream has passed the stored block. False when it is not what it was when `block` was looked at."""
        ...

    def read_again(self, table: TableName) -> int:
        """The blocks of `table` that have not caught up are planned, whatever they were. Returns how many."""
        ...

    def reset(self, tables: Sequence[TableName]) -> None:
        """Forgets all blocks but the first of each of `tables`: `plan` begins that one anew."""
        ...

    def made(self) -> set[TableName]:
        """The tables that the update under way made."""
        ...

    def in_snapshot(self) -> bool:
        """Whether blocks were planned in a snapshot held for all of them."""
        ...

    def hold(self, loader: str) -> None:
        """All planned blocks are begun by `loader`, which is none of this slave's own."""
        ...

    def adopt(self, blocks: Sequence[Block]) -> None:
        """Blocks that were exported for another slave, in files that are this one's as well."""
        ...

    def claim(self, leave_alone: Iterable[TableName] = (), *, tables: int = 256, ranges: int = 256) -> Claim | None:
        """A planned block, locked; None when there is none that other loaders do not hold.

        `leave_alone`: tables to pass over. Of all that is read at the same time `ranges` blocks may be of one table,
        and they may be of that many `tables`; where these bind, call `LoadLocks.claim_in_turn` first.
        """
        ...

    def planned(self, table: TableName) -> list[Block]:
        """The blocks of one table that may be begun."""
        ...

    def begin(self, block: Block, hi: Key | None, loader: str) -> bool:
        """The claimed block is begun and ends at `hi`; what lay behind becomes a planned block.

        Must be committed before the loader takes its snapshot on the master. False when it was not planned any more.
        """
        ...

    def is_mine(self, block: Block, loader: str) -> bool:
        """Whether the block is still begun by `loader`."""
        ...

    def give_way(self, block: Block, loader: str, seconds: float) -> None:
        """The begun block rests for some seconds, because its rows are locked on the master."""
        ...

    def store(self, block: Block, loader: str, marker: Position, rows: int, size: int) -> bool:
        """The block is stored, in the transaction that carries its rows.

        False when it is no longer begun by `loader`: the caller must roll back, because another one may have read it
        at a later marker.
        """
        ...

    def export(self, block: Block, loader: str, marker: Position, rows: int, size: int, file: str, sha256: str) -> bool:
        """The block is in `file`, which is whole. False when it is no longer begun by `loader`."""
        ...

    def begin_import(self, loader: str, leave_alone: Iterable[TableName] = ()) -> Block | None:
        """An exported block, begun by `loader`; None when there is none that other importers do not hold."""
        ...

    def release(self, *, kin: str = "") -> int:
        """Puts begun blocks back to planned, or to exported when they were being imported. Returns how many.

        Those of loaders whose names begin with `kin`.
        """
        ...

    def left(self) -> tuple[int, int, int]:
        """How many blocks are planned, begun, and exported."""
        ...

    def delete(self, table: TableName | None = None) -> int:
        """Forgets the blocks of one table or of all. Returns how many."""
        ...

    def progress(self, seconds: float = 10.0) -> list[TableProgress]:
        """One entry a table, in the order of loading; the rate is that of the last `seconds`."""
        ...


class RejectTable(Protocol):
    """The slave's rows of REJECTS."""

    def ready(self) -> bool:
        """Whether there is such a table; one of an earlier release is completed."""
        ...

    def put(self, rejects: Sequence[Rejected]) -> None:
        """Keeps the changes with both images and the reason."""
        ...

    def open(self) -> list[Reject]:
        """All that nobody has settled."""
        ...

    def differing(self) -> list[Reject]:
        """Those that say that a table differs from the master's; none where the slave has no REJECTS."""
        ...

    def read(
        self,
        statuses: Iterable[RejectStatus],
        ids: Sequence[int] | None = None,
        *,
        number: int = 10_000,
        lock: bool = False,
    ) -> list[Reject]:
        """Oldest first, `number` of them at most."""
        ...

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
        ...

    def forget(self, days: int) -> int:
        """Removes those that were settled more than `days` ago. Returns how many."""
        ...

    def mark_outdated(self, table: TableName, newer: Mapping[str, int] | int) -> None:
        """Newer changes of rows of `table` were applied: by key text, or of all rows."""
        ...


class ThrottleTable(Protocol):
    """The slave's row of THROTTLE: what its load is held to."""

    def exists(self) -> bool:
        """Whether a load job has ever begun here."""
        ...

    def clear(self) -> None:
        """Nothing holds the slave's load back."""
        ...

    def read(self) -> ThrottleState:
        """What the load is held to just now; nothing where no job said so."""
        ...

    def write(self, state: ThrottleState) -> None:
        """From now on. A rate that changes counts from here."""
        ...

    def say(self, update_id: str, message: str, ours: str) -> None:
        """The slave's message while it is in TRANSITION, unless another one was written that does not begin with
        `ours`."""
        ...


class DefinitionTable(Protocol):
    """The slave's rows of DEFINITIONS: what it is known to have of the master's indexes, constraints and comments.

    Each method is one transaction of its own in an autocommit session.
    """

    def read(self) -> list[Defined] | None:
        """All of them; None before anything was followed."""
        ...

    def begin(self) -> None:
        """From now on what is not noted is new."""
        ...

    def put(self, defined: Defined, *, making: bool = False) -> None:
        """The slave has it; with `making` it may have a part of it."""
        ...

    def forget(self, defined: Defined) -> None:
        """The slave has it no more."""
        ...


class ControlTables(Protocol):
    """Makes the tables of one slave from a session on it, the replication's prefix, a schema and the slave's name."""

    def CheckpointStore(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> CheckpointTable: ...  # noqa: N802

    def BlockStore(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> BlockTable: ...  # noqa: N802

    def RejectStore(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> RejectTable: ...  # noqa: N802

    def ThrottleStore(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> ThrottleTable: ...  # noqa: N802

    def DefinitionStore(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> DefinitionTable: ...  # noqa: N802

    def block_map(
        self,
        connection: Session,
        prefix: Prefix,
        schema: str,
        slave: str,
        tables: Iterable[TableName] | None = None,
    ) -> BlockMap:
        """All blocks of the slave, or those of `tables`, in one look. Raises `BlocksDamaged`."""
        ...

    def key_texts(self, change: RowChange) -> list[str]:
        """Texts of the keys that a change touches, as REJECTS has them; none of a table without a key."""
        ...


class LoadLocks(Protocol):
    """Which initial update owns a slave, and the locks that keep two load jobs apart."""

    def read(self, connection: Session, prefix: Prefix, schema: str, slave: str) -> Owner | None:
        """None where the slave was never configured. Its tables must exist."""
        ...

    def name(self, connection: Session, prefix: Prefix, schema: str, slave: str, update_id: str) -> None:
        """From now on `update_id` owns the slave."""
        ...

    def note(self, connection: Session, prefix: Prefix, schema: str, slave: str, update_id: str, message: str) -> None:
        """Says on the slave why its load stands still; nothing when another update owns it by now."""
        ...

    def lock(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """The right to load the slave, as long as this session lives. Raises `LoadRuns`."""
        ...

    def hold(self, connection: Session, job: str) -> None:
        """The job lives, and its loaders may claim blocks, as long as this session does or until `let_go`."""
        ...

    def let_go(self, connection: Session, job: str) -> None:
        """The job's loaders may claim no more."""
        ...

    def claiming(self, connection: Session, prefix: Prefix, slave: str, job: str) -> bool:
        """In the transaction of a claim, first: False when the loader's job is over."""
        ...

    def claim_in_turn(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """In the transaction of a claim: others wait until it ends, so that limits on what is read hold."""
        ...

    def no_claims(self, connection: Session, prefix: Prefix, slave: str) -> None:
        """In a transaction: no claim is under way from here to its end."""
        ...

    def end_sessions(self, connection: Session, application: str) -> int:
        """Ends sessions of this account that a dead job's loaders left behind, by their application's name."""
        ...
