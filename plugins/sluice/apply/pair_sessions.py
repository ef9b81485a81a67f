"""The open sessions of an apply, with the definitions and transformations of the tables that it reads over them.

A lost connection raises `Transient`; the loop then closes all sessions and opens new ones.
"""

import logging
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from sluice.apply.window_runs import CutItem
from sluice.control.blocks import BlockStore
from sluice.control.definitions import DefinitionStore, KnownColumns
from sluice.database.apply import Alterer, Merger, Replayer
from sluice.database.changes import ChangeReader, ChangeSource
from sluice.database.digests import ComparedTable, Texts, compared
from sluice.database.errors import TableFailure
from sluice.database.placed import vendor_at
from sluice.database.registry import has_rows, master_of, recorded_source, source_of
from sluice.database.row_images import RowImageCodec
from sluice.database.session import Session
from sluice.database.translation import Translator
from sluice.errors import RESTART_APPLY, DataLost, Terminal
from sluice.model.change import DEFINITIONS, EMPTYING, Action
from sluice.model.checkpoint import Checkpoint
from sluice.model.mask import Mask
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.purging import lost
from sluice.model.shape import Column, TableShape
from sluice.model.table_definition import TableDefinition
from sluice.pair import Pair
from sluice.transform import transforms
from sluice.transform.binding import Binder
from sluice.transform.engine import TEXT, Engine
from sluice.transform.table_transform import TableTransform

log = logging.getLogger("sluice.apply")

LOCK_SECONDS = 5.0
"""How long a statement waits for a lock on the master: one lock that is never released would hold up all tables."""

# Transforms definitions, cuts and the master's rows of tables whose slave gets other rows or columns.
#
# A change is transformed by the definition under which it was captured, before anything goes to the slave: REJECTS and
# stage tables have only the slave's rows and columns. `sluice.apply.slave_changes` transforms changes of rows.

Row = Mapping[str, str | None]


class ColumnRenamed(TableFailure):
    """A column that the configuration excludes, renames or replaces has another name on the master.

    `finding`: what to do if its table alone is left out.
    """

    def __init__(self, table: TableName, line: str, renames: Sequence[str]):
        what = f"{table}: on the master {', '.join(renames)}, and a line under `columns` names it ({line})"
        super().__init__(
            table,
            f"{what}. Add the same line for the new name beside the old one, then {RESTART_APPLY}. Take the old line "
            "out when the apply is past it.",
        )
        self.finding = f"{what}: write the new name there, then load the table"


class TransformedTables:
    """The transformations of one pair's tables. Tables without one pass unchanged."""

    def __init__(self, sessions: "PairSessions"):
        self.pair = sessions.pair
        self.any = self.pair.transforms
        self._sessions = sessions
        self._bound: dict[TableShape, TableTransform] = {}

    @cached_property
    def _engine(self) -> Engine:
        return Engine()

    def of(self, shape: TableShape) -> TableTransform | None:
        """The transformation of a table of the master. Raises `TransformationInvalid`."""
        rule = self.pair.transformation(shape.table) if self.any else None
        if rule is None:
            return None
        if shape not in self._bound:
            types = source_of(self.pair.master_info.vendor).types
            binder = Binder(types, self._sessions.master, self._engine, Mask(self.pair.replication.verify.mask))
            self._bound[shape] = binder.bind(rule, shape, strict=False)
        return self._bound[shape]

    def after(self, position: Position, table: TableName) -> TableTransform | None:
        """The transformation of the changes of `table` after `position`; None for none.

        Raises `TableGone`, `TransformationInvalid`.
        """
        if self.pair.transformation(table) is None:
            return None
        definitions = self._sessions.schema_history
        definitions.load([table], position, 0)
        return self.of(definitions[table])

    def unfit(self, position: Position, table: TableName) -> list[str]:
        """Why the slave's table cannot take the transformed rows, as of `position`; empty if it can.

        Raises `TableGone`, `TransformationInvalid`.
        """
        transform = self.after(position, table)
        if transform is None:
            return []
        of_slave = vendor_at(self.pair)
        with self._sessions.slave_transaction() as slave:
            shape = of_slave.rows.shape(slave, table)
            translator = Translator(master_of(self.pair.master_info.vendor), of_slave, self._sessions.master, slave)
            return (
                [] if shape is None else translator.differences(transform.shape, shape, self.pair.slave.lossy_columns)
            )

    def of_all(self, tables: Iterable[TableName]) -> dict[TableName, TableTransform]:
        """The transformations of `tables`, whose definitions are known. Raises `TransformationInvalid`."""
        bound = {table: self.of(self._sessions.schema_history[table]) for table in tables if self.any}
        return {table: transform for table, transform in bound.items() if transform is not None}

    def cut(self, cut: CutItem) -> CutItem:
        """The cut as the slave gets it. Raises `ColumnRenamed`, `transformed-table-renamed`,
        `TransformationInvalid`.
        """
        rule = self.pair.transformation(cut.table) if self.any else None
        if cut.action is Action.DELETE_WHERE and rule is not None and (rule.columns or rule.exit is not None):
            reason = "a partition was dropped, and its rows are named by columns that the slave has otherwise"
            return replace(cut, action=Action.DIFFER, bound=None, differs=reason)
        if cut.action not in DEFINITIONS or not self.any:
            return cut
        was = cut.former
        if rule is not None and was is not None and cut.defined is not None:
            now = cut.defined.table
            # Under the new name the slave would get what the rule leaves out.
            if now != cut.table and self.pair.transformation(now) != rule:
                raise Terminal(
                    f"{cut.table}: on the master it is {now} now, and {rule.place} says how the slave gets it. Add "
                    f"the same line for {now} beside the old one, then {RESTART_APPLY}. Take the old line out when "
                    "the apply is past it.",
                    code="transformed-table-renamed",
                )
            renamed = transforms.vanished(rule, was, cut.defined)
            if renamed:  # the slave would get the values under the new name
                raise ColumnRenamed(cut.table, rule.place, renamed)
        return replace(cut, defined=self._defined(cut.defined), former=self._defined(was))

    def _defined(self, definition: transforms.Definition | None) -> transforms.Definition | None:
        transform = None if definition is None else self.of(definition.shape)
        if definition is None or transform is None:
            return definition
        return transforms.change_of_slave(definition, transform)

    def master_rows(
        self, session: Session, table: TableName, key: Sequence[str], keys: Sequence[Texts], *, alike: bool = False
    ) -> list[Row | None] | None:
        """For each of `keys` the row that the slave must have; None if the table is not transformed.

        `session`: on the master. `key`: the columns of the slave's key. `alike`: as of `RowSource.rows_under`.
        Raises as that.
        """
        if self.pair.transformation(table) is None:
            return None
        vendor = master_of(self.pair.master_info.vendor)
        shape = vendor.rows.shape(session, table)
        transform = None if shape is None else self.of(shape)
        if shape is None or transform is None:
            return [None] * len(keys)
        typed = compared(vendor.types, ((column.name, column.type) for column in shape.replicated))
        of = ComparedTable(table, typed, tuple(column.name for column in shape.key))
        named = [dict(zip(key, texts, strict=True)) for texts in keys]
        of_key = [tuple(row[name] for name in transform.master_key()) for row in named]
        asked = list(dict.fromkeys(of_key))
        found = [
            (texts, row)
            for texts, row in zip(asked, vendor.rows.rows_under(session, of, asked, alike=alike), strict=True)
            if row is not None
        ]
        columns = list(zip(*(row for _, row in found), strict=True)) or [()] * len(typed)
        rows = transform.rows([each.name for each in typed], [pa.array(column, TEXT) for column in columns])
        made: dict[Texts, Row] = {}
        for index, origin in enumerate(rows.made_of.tolist()):
            row = {name: column[index].as_py() for name, column in zip(rows.names, rows.columns, strict=True)}
            made[(*found[origin][0], *(row[name] for name in transform.extra_key))] = row
        return [
            made.get((*texts, *(row[name] for name in transform.extra_key)))
            for texts, row in zip(of_key, named, strict=True)
        ]


# The definition of each of the master's tables, at the place in the stream where the apply is.
#
# A change is read by the definition under which it was captured, above all by its key; the master's present definition
# may be a later one. The first definition of a table is the one that the slave followed last (DEFINITIONS). If it has
# followed none since its load, it is the former definition in the next change of definition in the stream; if there is
# no such change, the present one. Each change of definition that the apply passes replaces it.
#
# If two sessions of the master notice a change of a definition at once, both write its item. So an item may name a
# former definition that the slave has already left.


class TableGone(TableFailure, DataLost):
    """Changes wait for a table that the master no longer has, and its key is unknown."""

    def __init__(self, table: TableName):
        super().__init__(
            table,
            f"Table {table} is gone from the master while changes of it still wait, so their key is unknown. "
            "Start an initial update of this slave.",
        )


def key_needed(pair: Pair, tables: Iterable[TableName]) -> Terminal:
    """Without a key a change that comes twice cannot be recognized."""
    tables = tuple(tables)
    names = ", ".join(map(str, tables))
    return Terminal(
        f"{pair}: with checkpoint: redis changes may come twice, and without a key they would be applied twice: "
        f"{names}. Set checkpoint: slave for this slave and {RESTART_APPLY}; or add a primary key on the "
        f"master, or take {'it' if len(tables) == 1 else 'them'} out of the replication's tables, and start "
        "an initial update.",
        code="key-needed",
    )


class SchemaHistory:
    """The definitions as of the stream's place; void when a window is not committed (`clear`)."""

    def __init__(self, sessions: "PairSessions"):
        self.sessions = sessions
        self._shapes: dict[TableName, TableShape] = {}
        self._followed: dict[TableName, TableShape] = {}
        """What the steps of a window that is not committed yet follow."""

    def load(self, tables: Iterable[TableName], seen: Position, above: int) -> None:
        """Reads the definitions that are not known yet, as of the changes after `seen` and the REPL_KEY `above`."""
        unknown = [table for table in dict.fromkeys(tables) if table not in self._shapes]
        if unknown:
            self._shapes |= self.sessions.queue.definitions(unknown, seen, above)
            for table, stored in self._known(unknown).items():
                if stored.followed and table in self._shapes:
                    self._shapes[table] = stored.shape

    def __getitem__(self, table: TableName) -> TableShape:
        """The definition of a table that was loaded. Raises `TableGone`."""
        try:
            return self._shapes[table]
        except KeyError:
            raise TableGone(table) from None

    def key(self, table: TableName) -> tuple[str, ...]:
        """The columns of its key, as the slave has them; empty for none.

        Raises `TableGone`, `TransformationInvalid`, and `key-needed` if there must be a key.
        """
        shape = self[table]
        transform = self.sessions.transformed.of(shape)
        key = tuple(column.name for column in shape.key) if transform is None else transform.key()
        if not key and self.sessions.pair.slave.checkpoint == "redis":
            raise key_needed(self.sessions.pair, [table])
        return key

    def keyless(self) -> list[TableName]:
        """The known tables that have no key."""
        return [table for table, shape in self._shapes.items() if not shape.key]

    def known(self, left_out: Container[TableName] = ()) -> dict[TableName, tuple[str, ...]]:
        """The keys of all tables that are known, without those that are left out."""
        return {table: self.key(table) for table in self._shapes if table not in left_out}

    def follow(self, cut: CutItem) -> None:
        """Passes a change of a definition: changes after it are read by the new one."""
        if cut.action in EMPTYING or cut.action is Action.DIFFER:
            return
        self._shapes.pop(cut.table, None)
        self._followed.pop(cut.table, None)
        if cut.defined is not None:
            self._shapes[cut.defined.table] = self._followed[cut.defined.table] = cut.defined.shape

    def from_present(self, cut: CutItem) -> CutItem:
        """An ALTER whose former columns are those that the slave's table has then, not those of the item."""
        if cut.action is not Action.ALTER or cut.former is None or cut.defined is None:
            return cut
        now = cut.defined.table
        for table in dict.fromkeys((cut.table, now)):
            shape = self._followed.get(table)
            if shape is None and (stored := self._known([table])):
                shape = stored[table].shape
            if shape is not None:
                return replace(cut, former=with_columns(cut.former, shape))
        return cut

    def _known(self, tables: Collection[TableName]) -> dict[TableName, KnownColumns]:
        with self.sessions.slave_transaction() as slave:
            return DefinitionStore.of(self.sessions.pair, slave).columns(tables)

    def committed(self) -> None:
        """The window is committed, and DEFINITIONS has what it followed."""
        self._followed.clear()

    def clear(self) -> None:
        """Forgets all definitions."""
        self._shapes.clear()
        self._followed.clear()


def with_columns(former: TableDefinition, present: TableShape) -> TableDefinition:
    """The definition with the names and types of other columns, each by its number."""
    by_number = {column.position: column for column in former.shape.columns}

    def merged(column: Column) -> Column:
        was = by_number.get(column.position)
        return column if was is None else replace(was, name=column.name, type=column.type, collation=column.collation)

    shape = replace(former.shape, columns=tuple(map(merged, present.columns)))
    return replace(former, shape=shape)


class PairSessions:
    """The sessions of one pair: on the master (autocommit), on the slave, and of the reader of ITEMS."""

    def __init__(self, pair: Pair):
        self.pair = pair
        self._master: Session | None = None
        self._slave: Session | None = None
        self._reader: ChangeReader | None = None
        self._merger: Merger | None = None
        self._alterer: Alterer | None = None
        self.images: RowImageCodec = source_of(pair.master_info.vendor).images
        """Reads the row images of the source."""
        self.transformed = TransformedTables(self)
        """The tables that a transformation changes for the slave."""
        self.schema_history = SchemaHistory(self)
        self.replica_role = False
        """Whether this account may switch the slave's triggers and foreign keys off for its session."""

    @property
    def master(self) -> Session:
        assert self._master is not None, "open() first"
        return self._master

    @property
    def slave(self) -> Session:
        assert self._slave is not None, "open() first"
        return self._slave

    @property
    def opened(self) -> bool:
        """Whether there is a session on the slave, lost or not."""
        return self._slave is not None

    @property
    def reader(self) -> ChangeReader:
        """Reads windows of ITEMS as Arrow."""
        assert self._reader is not None, "open() first"
        return self._reader

    @property
    def merger(self) -> Merger:
        """Merges net changes into the slave."""
        assert self._merger is not None, "open() first"
        return self._merger

    @property
    def replayer(self) -> Replayer:
        """Applies changes one by one."""
        return self.merger.replayer()

    @property
    def alterer(self) -> Alterer:
        """Follows TRUNCATE and changes of definitions."""
        assert self._alterer is not None, "open() first"
        return self._alterer

    @property
    def queue(self) -> ChangeSource:
        """The queue of the pair's changes."""
        pair = self.pair
        return source_of(pair.master_info.vendor).queue(self.master, pair.prefix, pair.replication.master.schema)

    def open(self) -> None:
        """Opens what is not open. Raises `DatabaseUnreachable`, `DatabaseRefused`."""
        pair, application = self.pair, self.pair.application
        if self._master is None:
            connect = source_of(pair.master_info.vendor).sessions.connect
            self._master = connect(pair.master_info, application=application, autocommit=True)
            self._master.limit_lock_waits(LOCK_SECONDS)
        if self._reader is None:
            schema = pair.replication.master.schema
            largest = pair.replication.apply.max_change_bytes
            self._reader = source_of(pair.master_info.vendor).reader(
                pair.master_info, pair.prefix, schema, application=application, largest=largest
            )
        if self._slave is None:
            slave_vendor = vendor_at(pair)
            self._slave = slave_vendor.sessions.connect(pair.slave_info, application=application)
            self.replica_role = slave_vendor.sessions.begin_applying(self._slave, origin=str(pair.prefix))
            if not self.replica_role:
                log.warning(
                    "%s: this account may not switch triggers and foreign keys of %s off, so these act on every "
                    "change. As an administrator there: %s, then clear the task apply.",
                    pair,
                    pair.slave_info.server,
                    slave_vendor.sessions.allow_silence(self._slave),
                )
            mask = Mask(pair.slave_info.mask)
            self._merger = slave_vendor.applying.Merger(self._slave, cascades=not self.replica_role, mask=mask)
            self._alterer = self._merger.alterer(
                trusted=pair.slave.trusted_ddl,
                of_master=source_of(pair.master_info.vendor).types,
                lossy=pair.placement.patterns(pair.slave.lossy_columns),
            )

    def close(self) -> None:
        """Closes everything; never raises."""
        for session in (self._reader, self._master, self._slave):
            try:
                if session is not None:
                    session.close()
            except Exception as error:  # a broken connection may fail in any way when closed
                log.debug("closing a lost connection: %s", error)
        self._reader = self._master = self._slave = self._merger = self._alterer = None
        self.schema_history.clear()

    @contextmanager
    def slave_transaction(
        self, *, durable: bool | None = None, first: Callable[[], object] | None = None
    ) -> Iterator[Session]:
        """One transaction on the slave. `durable`, `first`: as of `Session.transaction`."""
        try:
            with self.slave.transaction(durable=durable, first=first):
                yield self.slave
        except BaseException:
            # Tables may have been read in the form that the transaction gave them, which is rolled back.
            if self._merger is not None:
                self._merger.targets.forget()
            raise

    def beginning(self) -> Position | None:
        """The position at which a slave without a checkpoint begins; None if an initial update must bring its rows."""
        master = self.pair.replication.master
        if self.pair.rows_info is not None and master.after is None:
            return None  # this slave and an initial update would begin at the same time
        return self.queue.beginning(master.after)

    def taken_over(self, position: Position) -> Position | None:
        """This source's position for a slave whose `position` another source gave; None if it is this source's."""
        return None if has_rows(self.pair.master_info.vendor) else recorded_source().takeover(self.master, position)

    def window_end(self, previous: Position) -> Position:
        """The end of the next window. Raises `DataLost`."""
        return self.queue.window_end(previous, self.pair.most_changes)

    def secure(self, position: Position, applied: Position | None = None) -> None:
        """Returns when a crash of the master can no longer undo what `position` saw, so that the slave may have it.

        With `applied` it also checks what `check_purged` does, in the same round trip.
        """
        purged = self.queue.secure(position)
        if applied is not None:
            self._expect_kept(applied, purged)

    def expect_continued(self, checkpoint: Checkpoint) -> None:
        """Raises `DataLost` if the master no longer has what the slave has of it: its files were restored."""
        positions = [each for each in (checkpoint.position, checkpoint.target) if each is not None]
        if checkpoint.loading:
            with self.slave_transaction() as slave:
                positions += BlockStore.of(self.pair, slave).map().markers
        self.queue.expect_continued(positions)

    def check_purged(self, applied: Position) -> None:
        """Raises `changes-purged` if the master may have deleted changes that the slave at `applied` lacks."""
        self._expect_kept(applied, self.queue.purged())

    def _expect_kept(self, applied: Position, purged: Sequence[Position]) -> None:
        if lost(applied, purged):
            raise DataLost(
                f"{self.pair}: the slave is older than it has been, as after a restore from a backup or a fail-over "
                "to a standby that lagged, or it was out of the configuration for a time, or dropped at "
                "items_limit, and the master has deleted changes it needs. Start an initial update of this slave.",
                code="changes-purged",
            )
