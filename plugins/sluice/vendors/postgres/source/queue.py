"""The queue of a PostgreSQL master: positions, ITEMS, its purge (`sluice.database.changes.ChangeQueue`)."""

import contextlib
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from psycopg.errors import UndefinedFunction

from sluice import sql_files
from sluice.database.changes import WaitingChange, WaitingTable
from sluice.database.errors import DatabaseRefused, LockNotAvailable
from sluice.errors import SluiceError
from sluice.model import table_definition
from sluice.model.blocks import Key
from sluice.model.foreign_key import ForeignKey
from sluice.model.items_limit import Room
from sluice.model.joining import Rows
from sluice.model.names import TableName
from sluice.model.position import Position, Window
from sluice.model.purging import Backlog
from sluice.model.shape import TableShape
from sluice.vendors.common.items_queue import ItemsQueue, parsed
from sluice.vendors.postgres import catalog, foreign_keys, key_order, snapshot_position
from sluice.vendors.postgres.connection import PostgresSession, literal, native
from sluice.vendors.postgres.snapshot_position import Origin, SnapshotPosition, master_replaced
from sluice.vendors.postgres.source import owner_code, snapshot
from sluice.vendors.postgres.source.bound import Bound
from sluice.vendors.postgres.source.owner_code import OwnerCode
from sluice.vendors.postgres.source.resources import PostgresCapture
from sluice.vendors.postgres.source.snapshot import Snapshot
from sluice.vendors.postgres.source.tables_registry import Registry
from sluice.vendors.postgres.source.window_condition import Condition

log = logging.getLogger("sluice.position")

COUNTED = 10_000
"""The most rows that are counted; more are estimated."""
COUNTING_LOCK = "500ms"
"""How long counting waits for a table that a session has locked."""
DEBUG_LINES = 100_000
"""The last lines of DEBUG_TABLE, which a purge keeps."""


class PostgresQueue(Bound, ItemsQueue):
    """Over a session in autocommit, unless a method says otherwise."""

    def take(self, previous: Position | None = None) -> SnapshotPosition:
        """The master's present position, with floors inherited from `previous`.

        On a connection in autocommit. As the first statement of a REPEATABLE READ transaction it returns the position
        of that transaction's snapshot. Such a position may be the marker of a block, but not the beginning of a window,
        because its sequence values were read too late. Raises `master-went-back`, `master-replaced`,
        `failover-unproven`, and psycopg's errors.
        """
        statement = self.sql("position")
        row = self.session.execute(statement).fetchone()
        assert row is not None
        low, next_xid, snapshot, high, time, lsn, system, timeline = row
        origin = Origin(system, timeline, snapshot_position.offset(lsn))
        before = None if previous is None else SnapshotPosition.of(previous)
        if before is not None:
            self._expect_history(before, origin)
        now = SnapshotPosition.of_snapshot(snapshot, low, high, time, next_xid=next_xid, lsn=lsn)
        assert isinstance(self.session, PostgresSession)
        return replace(now, origin=origin, run=self.session.run).after(before)

    def nothing_committed(self, since: Position) -> bool:
        """Whether no transaction has ended on the server since the position `since` was taken."""
        assert isinstance(self.session, PostgresSession)
        return self.session.poll(sql_files.render("postgres", "snapshot_now")) == SnapshotPosition.of(since).snapshot

    def expect_continued(self, positions: Iterable[Position]) -> None:
        """Raises `master-replaced` if the history of the master does not contain what `positions` have seen.

        The log's end alone does not tell: a master whose files were restored from a snapshot soon comes past the
        places, transactions and keys that it had before.
        """
        seen = [SnapshotPosition.of(position).restart for position in positions]
        if not seen:
            return
        now = self.take()
        recorded = self._recorded({position.run for position in seen if position.run})
        origin = now.origin
        assert origin is not None
        for position in seen:
            former = position.origin
            self._expect_history(position, origin)
            now.after(position)
            # A promoted server is proved by its timeline: it may lack the last record, and have all that was seen.
            if (
                former is None
                or not position.run
                or former.timeline != origin.timeline
                or former.system != origin.system
            ):
                continue
            high, _ = recorded.get(position.run, (0, False))
            if high < position.high:
                raise master_replaced(
                    former,
                    origin,
                    f"it has no record of its state of {position.time}, which was seen, as after a restore "
                    "of its files from a snapshot",
                )

    def _expect_history(self, before: SnapshotPosition, now: Origin) -> None:
        """Raises `master-replaced`, `failover-unproven` if the log of the server at `now` does not continue that of
        `before`."""
        former = before.origin
        if former is None or former == now:
            return
        if former.system != now.system and self._upgraded(before):
            return
        if not snapshot_position.same_server(former, now):
            self._prove(former, now)

    def _upgraded(self, former: SnapshotPosition) -> bool:
        """Whether another cluster has the files of the former one, transactions included, as after `pg_upgrade`."""
        if not former.run:
            return False
        high, same = self._recorded({former.run}).get(former.run, (0, False))
        return same and high >= former.high

    def _recorded(self, runs: Collection[str]) -> dict[str, tuple[int, bool]]:
        """By session: the highest REPL_KEY recorded, and whether its row is no copy."""
        if not runs:
            return {}
        statement = self.sql("position_recorded")
        rows = self.session.execute(statement, {"runs": list(runs)}).fetchall()
        return {run: (high, same) for run, high, same in rows}

    def _prove(self, former: Origin, now: Origin) -> None:
        row = self.session.execute(sql_files.render("postgres", "position_promoted")).fetchone()
        assert row is not None
        readable, replayed = row
        history = None
        if readable:
            statement = sql_files.render("postgres", "position_history")
            first = self.session.execute(statement, {"file": f"pg_wal/{now.timeline:08X}.history"}).fetchone()
            history = first[0] if first else None
        left = snapshot_position.switches(history) if history is not None else None
        snapshot_position.prove(former, now, left, snapshot_position.offset(replayed) if replayed else None)
        log.warning("The master failed over, from %s to %s. All that was seen is there: it continues", former, now)

    def secure(self, position: Position) -> list[Position]:
        """Waits until no crash of the master can undo what `position` covers, and a restore is noticed; called before a
        slave shows it. Returns the positions of the last purge.

        On a connection in autocommit, outside a transaction. Raises psycopg's errors.
        """
        position = SnapshotPosition.of(position)
        if not position.run or position.marked is not None:
            return self.purged()  # of an earlier release; nothing starts again from there
        assert isinstance(self.session, PostgresSession)
        values = {"run": position.run, "high": position.high}
        row = self.session.execute(self.sql("position_record"), values).fetchone()
        assert row is not None
        if not self.session.pruned:
            self.session.execute(self.sql("position_records_prune"))
            self.session.pruned = True
        return parsed(row[0])

    def registered(self) -> list[TableName]:
        """The tables whose changes are captured, or will be."""
        return Registry(self.session, self.prefix, self.schema).tables()

    def captured(self) -> dict[TableName, str | None]:
        """Each registered table, with what is plainly wrong with its capture, None when nothing is.

        One statement for any number of tables. Raises psycopg's errors.
        """
        rows = self.session.execute(self.sql("captured")).fetchall()
        return {TableName(table_schema, name): fault for table_schema, name, fault in rows}

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        """The foreign keys of `tables`. Raises psycopg's errors."""
        return foreign_keys.read(self.session, tables)

    def row_counts(self, tables: Sequence[TableName]) -> dict[TableName, Rows]:
        """How many rows each of `tables` has, counted up to `COUNTED`, otherwise estimated, as those are that are
        locked or not read. Raises psycopg's errors."""
        sizes = catalog.estimates(self.session, tables)
        counts = {table: Rows((sizes[table].rows if table in sizes else None) or 0, False) for table in tables}
        for table, shape in catalog.shapes(self.session, tables).items():
            counting = f"SELECT count(*) FROM (SELECT FROM {catalog.only(shape)} LIMIT {COUNTED + 1}) AS few"
            with contextlib.suppress(OwnerCode, DatabaseRefused, LockNotAvailable), self.session.transaction():
                # A policy would run what its owner wrote.
                self.session.execute(
                    f"SET LOCAL row_security = off; SET LOCAL lock_timeout = '{COUNTING_LOCK}'".encode()
                )
                owner_code.lock(self.session, shape)
                row = self.session.execute(counting.encode()).fetchone()
                assert row is not None
                exact, estimated = row[0] <= COUNTED, counts[table].number
                counts[table] = Rows(row[0] if exact else max(row[0], estimated), exact)
        return counts

    def joining(self, applied: Position) -> dict[TableName, bool]:
        """The tables that join after `applied` → whether all of their rows are in ITEMS. Raises psycopg's errors."""
        statement = self.sql("queue_joining")
        seen = SnapshotPosition.of(applied)
        rows = self.session.execute(statement, {"floor": seen.floor_of_all(), "snapshot": seen.snapshot}).fetchall()
        return {TableName(table_schema, name): complete for table_schema, name, complete in rows}

    def definitions(self, tables: Sequence[TableName], seen: Position, above: int) -> dict[TableName, TableShape]:
        """For each of `tables` the definition at its next change after `seen`, above the REPL_KEY `above`."""
        # The catalog is read first: the second statement finds a definition that changes in between.
        shapes = catalog.shapes(self.session, tables)
        begins = SnapshotPosition.of(seen)
        rows = self.session.execute(
            self.sql("queue_definitions"),
            {
                "schemas": [table.schema for table in tables],
                "names": [table.name for table in tables],
                "floor": max(above, begins.floor_of_all()),
                "snapshot": begins.snapshot,
            },
        ).fetchall()
        for schema, name, text in rows:
            if text is not None:
                shapes[TableName(schema, name)] = table_definition.parse(text).shape
        return shapes

    def check_definitions(self) -> list[TableName]:
        """Compares the replicated tables with their recorded definitions and queues a DDL item for each change.

        Also tells of tables whose rows may change without a trigger that sees it. Returns those that have changed. One
        transaction for each table, so that no table is locked while another one is waited for. A table that is locked,
        or that its owner keeps from being compared, is left out. Raises `ResourcesOutdated`, psycopg's errors.
        """
        changed, alone, notes, unseen = (
            self.name(name) for name in ("structure_changed", "check_alone", "forget_notes", "tell_unseen")
        )
        try:
            with self.session.transaction():
                self.session.execute(f"SELECT {notes}(), {unseen}()".encode())
        except UndefinedFunction:
            # After an upgrade of Sluice it says what to run.
            PostgresCapture(self.session, self.prefix, self.schema).require()
            raise
        with self.session.transaction():
            tables = self.session.execute(f"SELECT schemaname, tablename FROM {changed}()".encode()).fetchall()
        found = []
        for table in tables:
            with self.session.transaction():
                row = self.session.execute(f"SELECT {alone}(%s, %s)".encode(), table).fetchone()
            if row is not None and row[0]:
                found.append(TableName(*table))
        return found

    def definitions_digest(self) -> str:
        """A digest that changes when definitions should be compared; takes some 25 to 80 ms for 1,000 tables.

        Raises psycopg's errors.
        """
        text = self.sql("definitions_digest")
        row = self.session.execute(text).fetchone()
        return str(row[0]) if row else ""

    def values_follow(self, table: TableName, seen: Position) -> bool:
        """See `sluice.database.changes.ChangeSource`."""
        begins = SnapshotPosition.of(seen)
        parameters = {"schema": table.schema, "table": table.name, "snapshot": begins.snapshot}
        row = self.session.execute(self.sql("values_follow"), {**parameters, "floor": begins.floor_of_all()}).fetchone()
        return row is not None and bool(row[0])

    def reports_definitions(self) -> bool:
        """Whether event triggers report DDL, and no table waits for the comparison to renew its capture functions."""
        if not self.has_event_triggers():
            return False
        captures = self.name("captures")
        row = self.session.execute(
            f"SELECT EXISTS (SELECT FROM {captures} WHERE CASE mode WHEN 'dropped' THEN functions <> '{{}}' "
            "ELSE fingerprint = '' AND triggers <> '{}' END)".encode()
        ).fetchone()
        return row is not None and not row[0]

    def has_event_triggers(self) -> bool:
        """Whether event triggers of this installation exist and are enabled; False if nothing is installed."""
        function = f"{self.name('has_event_triggers')}()"
        row = self.session.execute("SELECT to_regprocedure(%s) IS NOT NULL", [function]).fetchone()
        if row is None or not row[0]:
            return False
        row = self.session.execute(f"SELECT {function}".encode()).fetchone()
        return row is not None and bool(row[0])

    def locate(self, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
        """For each key the place of its block: how many `bounds` are at or below it, in the server's order."""
        return key_order.locate(self.session, shape, bounds, keys)

    def changes_of(self, window: Window, table: TableName, most: int) -> list[WaitingChange]:
        """The first `most` changes of `table` in the window, in order, as the connection's transaction sees them."""
        only = _of(table)
        condition = Condition.of(window, only).sql
        statement = self.sql("queue_items", window=condition, old="true", largest=str(2**62))
        chosen = f"SELECT action, content, oldcontent FROM ({statement}) AS s ORDER BY repl_key LIMIT {most}"
        return self.session.execute(chosen.encode()).fetchall()

    def first_transaction(self, window: Window, left_out: Collection[TableName]) -> list[WaitingTable]:
        """What the first transaction changes that changes a table not `left_out`; empty if there is none."""
        applied = " AND ".join(f"NOT ({_of(table)})" for table in sorted(left_out)) or "true"
        statement = self.sql("queue_first", window=Condition.of(window).sql, applied=applied)
        rows = self.session.execute(statement.encode()).fetchall()
        return [
            WaitingTable(TableName(schema, name), changes, tuple(actions)) for schema, name, changes, actions in rows
        ]

    @contextmanager
    def reading(self, table: TableShape, lock_seconds: float | None = None) -> Iterator[Snapshot]:
        """A REPEATABLE READ transaction on an autocommit connection, with the position of its snapshot.

        `lock_seconds`: the transaction may lock rows (`SELECT … FOR SHARE`), and no statement waits for them or holds
        them longer. The table is locked before the snapshot is taken, as weakly as by any SELECT. Otherwise a TRUNCATE
        or a rewriting ALTER TABLE could be committed in between, and the older snapshot would show an empty table,
        although its marker does not cover the change. After an error the connection may be within a COPY: close it.
        Raises psycopg's errors, `TableGone`.
        """
        access = "READ ONLY" if lock_seconds is None else ""
        self.session.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ {access}".encode())
        snapshot.lock_table(self.session, table, lock_seconds)
        marker = self.take()
        shape = catalog.shape(self.session, table.table)
        assert shape is not None, "a locked table is there"
        seen = Snapshot(marker, shape, self.session, locked=lock_seconds is not None)
        yield seen
        seen.end()

    def position_of_snapshot(self, earlier: Position, previous: Position | None) -> Position:
        """The position of the snapshot of a transaction just begun on the master, as the end of a window.

        `earlier`: a position taken before the transaction began. Its sequence values are the bounds of the next window,
        because those read within the transaction were read after the snapshot. `previous`: the beginning of the window;
        None if nothing was applied before.
        """
        taken, first = self.take(), SnapshotPosition.of(earlier)
        return replace(taken, low=first.low, next=first.next).after(previous)

    def purge(self, positions: Iterable[Position], *, batch: int = 20_000) -> int:
        """Deletes the changes that all of `positions` cover, each batch in one transaction. Returns how many. The last
        `DEBUG_LINES` of DEBUG_TABLE stay.

        `positions` must have the checkpoint of every slave of the prefix; a slave without one loses changes. Raises
        `ValueError` without any.
        """
        seen = [SnapshotPosition.of(position).restart for position in positions]
        if not seen:
            raise ValueError("purge needs the checkpoint of every slave; without one nothing may be deleted")
        through = min(position.high for position in seen)
        function = self.name("purge")
        total, above = 0, 0
        while True:
            with self.session.transaction():
                row = self.session.execute(
                    f"SELECT deleted, last_key FROM {function}(%s::pg_snapshot[], %s, %s, %s)",
                    [[position.snapshot for position in seen], above, through, batch],
                ).fetchone()
                assert row is not None
                deleted, last = int(row[0]), row[1]
                if deleted:
                    self.note_purged(seen)
            total += deleted
            if deleted < batch:
                break
            above = last
        with self.session.transaction():
            self.session.execute(self.sql("debug_purge", kept=str(DEBUG_LINES)).encode())
        return total

    def backlog(self) -> Backlog:
        """The size of ITEMS, and the slaves noted as holding the purge back. Counts some 100,000 rows at most."""
        row = self.session.execute(self.sql("backlog")).fetchone()
        assert row is not None
        changes, size, noted = row
        if noted is None:
            return Backlog(changes, size)
        values = json.loads(noted)
        return Backlog(changes, size, tuple(values["slaves"]), datetime.fromisoformat(values["since"]))

    def note_holders(self, slaves: Iterable[str]) -> None:
        """Notes that `slaves` hold the purge back, since now unless one of them did before. None: deletes the note."""
        self.session.execute(self.sql("backlog_held"), {"slaves": list(slaves)})

    def waiting(self) -> tuple[int, int]:
        """The exact number of changes in ITEMS, and their approximate bytes."""
        row = self.session.execute(self.sql("items_waiting")).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])

    def room(self) -> Room:
        """The room for ITEMS. Only an account that may run programs on the server learns how much of the disk is
        free."""
        row = self.session.execute(self.sql("items_room")).fetchone()
        assert row is not None
        items, database, file = row
        return Room(int(items), int(database), self._free(file) if file else None)

    def _free(self, file: str) -> int | None:
        """Free bytes of the disk with `file` of the server, as `df` there says; None if it does not."""
        try:
            with native(self.session).transaction(force_rollback=True):
                self.session.execute("CREATE TEMPORARY TABLE sluice_free (line text) ON COMMIT DROP")
                self.session.execute(f"COPY pg_temp.sluice_free FROM PROGRAM {literal(f'df -Pk {file}')}")
                rows = self.session.execute("SELECT line FROM pg_temp.sluice_free").fetchall()
        except SluiceError as error:
            log.debug("the free space of the master's disk cannot be read: %s", error)
            return None
        words = rows[-1][0].split() if rows else []
        return int(words[3]) * 1024 if len(words) > 3 and words[3].isdigit() else None


def _of(table: TableName) -> str:
    return f"db_schema = {literal(table.schema)} AND tablename = {literal(table.name)}"
