"""The queue of an Oracle master: positions, ITEMS, its purge (`sluice.database.changes.ChangeQueue`)."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from sluice import sql_files
from sluice.database.changes import WaitingChange, WaitingTable
from sluice.database.recorder import RedoStream
from sluice.database.rows import SnapshotGone, TableGone
from sluice.model import table_definition
from sluice.model.blocks import Key
from sluice.model.foreign_key import ForeignKey
from sluice.model.joining import Rows
from sluice.model.names import TableName
from sluice.model.position import Moment, Position, Window
from sluice.model.purging import Backlog
from sluice.model.shape import TableShape
from sluice.vendors.common.items_queue import ItemsQueue
from sluice.vendors.oracle import catalog, key_order, names
from sluice.vendors.oracle.queue_position import QueuePosition, number_of
from sluice.vendors.oracle.session import Value
from sluice.vendors.oracle.source import blocks, position
from sluice.vendors.oracle.source.position import observe, older_transactions, stream_behind, threads_unread
from sluice.vendors.oracle.source.reader import Condition, listed, of_table
from sluice.vendors.oracle.source.server import Bound, Server
from sluice.vendors.oracle.source.tables_registry import Registry

DEBUG_KEYS = 1_000_000
"""Lines of DEBUG_TABLE whose keys are further below the last one are purged."""
_HOLDERS = "purge_held"
"""A name in INFO."""
COUNTED = 10_000
"""The number of rows up to which a table's rows are counted."""


class _Defined(NamedTuple):
    """A change of a definition in ITEMS."""

    action: str
    table: TableName
    before: str | None


class OracleQueue(Bound, ItemsQueue):
    """Over a session in autocommit, unless a method says otherwise."""

    def take(self, previous: Position | None = None) -> Position:
        """The position of a moment that is taken now. Raises as `moment`."""
        return self.moment(previous).position

    def moment(self, previous: Position | None = None) -> Moment:
        """The position taken now, with the SCN as of which the master shows what it covers; floors follow from
        `previous`.

        With redo, this is the end of its stream: later commits are not covered. Raises `InstanceLost`,
        `master-replaced`, `sequence-went-back`, `no-primary`; with redo `threads-unread`, `older-transactions`,
        `stream-behind` and what `RedoStream.moment` raises.
        """
        session = self.native
        server = self.server
        if session.redo is not None:
            return _of_redo(server, session.redo)
        before = None if previous is None else QueuePosition.of(previous)
        taken = replace(position.take(server, before), prefix=str(self.prefix))
        return Moment(taken, taken.scn)

    def nothing_committed(self, since: Position) -> bool:
        """Always false: only a whole position could tell, which costs as much as a turn."""
        return False

    def expect_continued(self, positions: Iterable[Position]) -> None:
        """By the incarnation, and the numbers of the position."""
        for each in positions:
            self.take(each)

    def secure(self, position: Position) -> list[Position]:
        """Others see a commit before it is on disk. A later commit that waits for the disk brings it there as well."""
        session = self.native
        if session.redo is not None:
            session.redo.secure(position)
        else:
            with session.transaction():
                session.run(sql_files.render("oracle", "position_secure", prefix=QueuePosition.of(position).prefix))
                session.run("COMMIT WRITE IMMEDIATE WAIT")
        return self.purged()

    def registered(self) -> list[TableName]:
        """The tables whose changes are, or should be, captured."""
        return self._registry.tables()

    def captured(self) -> dict[TableName, str | None]:
        """The registered tables, or those whose redo is captured, each with the fault of its capture, None without
        one."""
        if (redo := self.native.redo) is not None:
            return dict.fromkeys(redo.keys())
        return {each.table: "; ".join(each.faults) or None for each in self._registry.read()}

    def foreign_keys(self, tables: Iterable[TableName]) -> list[ForeignKey]:
        """The foreign keys by which `tables` refer to others, or to themselves."""
        listed = list(tables)
        return [own.key for own in catalog.foreign_keys(self.session, listed) if own.key.child in listed]

    def row_counts(self, tables: Iterable[TableName]) -> dict[TableName, Rows]:
        """The number of rows of each of `tables`: counted for few rows, otherwise by the last statistics."""
        session, listed = self.native, list(tables)
        sizes = catalog.estimates(self.session, listed)
        counts = {}
        for table in listed:
            text = f"SELECT COUNT(*) FROM (SELECT 1 FROM {names.qualified(table)} WHERE ROWNUM <= {COUNTED + 1})"
            ((counted,),) = session.run(text)
            estimated = sizes[table].rows if table in sizes else None
            exact = int(counted) <= COUNTED
            counts[table] = Rows(int(counted) if exact else max(int(counted), estimated or 0), exact)
        return counts

    def joining(self, applied: Position) -> dict[TableName, bool]:
        """The tables that join after `applied`. A load brings their rows, which never all follow in the stream."""
        return {change.table: False for change in self._unseen(applied, 0) if change.action == "CREATE"}

    def definitions(self, tables: Sequence[TableName], seen: Position, above: int) -> dict[TableName, TableShape]:
        """The definition of each of `tables` under which its next change after `seen`, above `above`, was captured."""
        # In this order: a change of definition that commits in between is found by the second look.
        shapes = catalog.shapes(self.session, tables)
        former: dict[TableName, str | None] = {}
        for change in self._unseen(seen, above):
            former.setdefault(change.table, change.before)
        for table in tables:
            text = former.get(table)
            if text is not None:
                shapes[table] = table_definition.parse(text).shape
        return shapes

    def _unseen(self, seen: Position, above: int) -> Iterator[_Defined]:
        """The changes of definitions that `seen` does not cover, in their order."""
        begins = QueuePosition.of(seen)
        statement = self.sql("queue_definitions")
        floor = max(above, min([begins.low, *begins.floors.values()]))
        for key, transaction, action, schema, table, before in self.native.run(statement, {"floor": floor}):
            if not begins.covers(number_of(transaction), int(key)):
                yield _Defined(action, TableName(schema, table), before)

    def check_definitions(self) -> list[TableName]:
        """Compares the replicated tables with the recorded definitions, and queues an item for each change. Returns
        those that have changed."""
        session = self.native
        before = Server(session, self.prefix).draw()
        session.call(f"{self.prefix}STRUCTURE.CHECK_STRUCTURE", {})
        statement = self.sql("queue_definitions")
        rows = session.run(statement, {"floor": before}).fetchall()
        return list(dict.fromkeys(TableName(schema, table) for _, _, _, schema, table, _ in rows))

    def definitions_digest(self) -> str:
        """A text that changes when definitions have to be compared."""
        ((text,),) = self.native.run(self.sql("definitions_digest"))
        return str(text)

    def values_follow(self, table: TableName, seen: Position) -> bool:
        """Always false: CAPTURES does not record it here."""
        return False

    def reports_definitions(self) -> bool:
        """False: the trigger on the database reports only TRUNCATE at once; definitions are compared."""
        return False

    def locate(self, shape: TableShape, bounds: Sequence[Key], keys: Sequence[Key]) -> list[int]:
        """See `ChangeSource`: the order of keys is known without the server."""
        return key_order.locate(shape, bounds, keys)

    def changes_of(self, window: Window, table: TableName, most: int) -> list[WaitingChange]:
        """The changes of `table` in the window, in order, as the session sees them; at most `most`."""
        text, values = of_table(table)
        chosen = Condition(window, text, values | {"most": most})
        statement = f"SELECT s.* FROM ({chosen.statement('queue_items', self.prefix)}) s WHERE ROWNUM <= :most"
        return [(row[5], row[6], row[7]) for row in self.native.run(statement, chosen.binds)]

    def first_transaction(self, window: Window, left_out: Collection[TableName]) -> list[WaitingTable]:
        """What the first transaction changes that changes a table not in `left_out`; empty without one."""
        session = self.native
        conditions, values = ["1 = 1"], dict[str, Value]()
        for number, table in enumerate(sorted(left_out)):
            text, own = of_table(table, number)
            conditions.append(f"NOT ({text})")
            values |= own
        chosen = Condition(window, " AND ".join(conditions), values | {"most": 1})
        first = session.run(
            f"SELECT s.TRANS_KEY FROM ({chosen.statement('queue_items', self.prefix)}) s WHERE ROWNUM <= :most",
            chosen.binds,
        ).fetchone()
        if first is None:
            return []
        chosen = Condition(window, "i.TRANS_KEY = :transaction", {"transaction": first[0]})
        by_table: dict[TableName, Counter[str]] = {}
        for _, _, owner, name, _, action, *_ in session.run(chosen.statement("queue_items", self.prefix), chosen.binds):
            by_table.setdefault(TableName(owner, name), Counter())[action] += 1
        return [
            WaitingTable(table, actions.total(), tuple(sorted(actions))) for table, actions in sorted(by_table.items())
        ]

    @contextmanager
    def reading(self, table: TableShape, lock_seconds: float | None = None) -> Iterator[blocks.Block]:
        """The table as of a position that is taken now. Raises `TableGone`, `no-shared-locks`.

        The dictionary describes the present table. So it is read before and after: if the table is altered meanwhile,
        it is read again.
        """
        session = self.native
        if lock_seconds is not None:
            raise blocks.no_shared_locks(session.server)
        shape = catalog.shape(self.session, table.table)
        if shape is None:
            raise TableGone(session.server, table)
        taken = self.moment()
        with blocks.as_of(session, taken.scn):
            yield blocks.Block(taken.position, shape, session)
        if catalog.shape(self.session, table.table) != shape:
            raise SnapshotGone(f"{table.table} was altered while it was read")

    def position_of_snapshot(self, earlier: Position, previous: Position | None) -> Position:
        """A position that is taken now; from here on the session sees all tables as of it."""
        del earlier  # what a position needs is asked in its own order, see `source/position.py`
        session = self.native
        session.end_read_only()
        taken = self.moment(previous)
        session.see(taken.scn)
        return taken.position

    def purge(self, seen: Iterable[Position], *, batch: int = 20_000) -> int:
        """Deletes the changes that all of `seen` cover, up to the lowest of their `low`. Returns how many.

        `seen` has the checkpoint of every slave of the prefix: a missing one loses its changes. Each batch, of so many
        keys, is a transaction. Raises `ValueError` without any.
        """
        covered = [QueuePosition.of(position) for position in seen]
        if not covered:
            raise ValueError("purge needs the checkpoint of every slave; without one nothing may be deleted")
        session = self.native
        low = min(position.low for position in covered)
        opened = listed(frozenset[int]().union(*(position.open for position in covered)))
        ((first,),) = session.run(f"SELECT MIN(i.REPL_KEY) FROM {self.prefix}ITEMS i")
        total, above = 0, low if first is None else int(first) - 1
        while above < low:
            through = min(above + batch, low)
            values: dict[str, Value] = {"above": above, "through": through, "low": low, "open": opened}
            with session.transaction():
                gone = session.run(self.sql("purge"), values).rowcount
                if gone:
                    session.run(self.sql("purge_longs"))
                    self.note_purged(covered)
            total, above = total + gone, through
        with session.transaction():
            last = f"SELECT MAX(d.REPL_KEY) - {DEBUG_KEYS} FROM {self.prefix}DEBUG_TABLE d"
            session.run(f"DELETE FROM {self.prefix}DEBUG_TABLE WHERE REPL_KEY < ({last})")
        return total

    def backlog(self) -> Backlog:
        """The size of ITEMS, by its keys and the last statistics, and who holds the purge."""
        session = self.native
        ((changes,),) = session.run(f"SELECT NVL(MAX(i.REPL_KEY) - MIN(i.REPL_KEY) + 1, 0) FROM {self.prefix}ITEMS i")
        noted = json.loads(self.info.value(_HOLDERS) or "{}")
        size = self._bytes(int(changes))
        if not noted:
            return Backlog(int(changes), size)
        return Backlog(int(changes), size, tuple(noted["slaves"]), datetime.fromisoformat(noted["since"]))

    def note_holders(self, slaves: Iterable[str]) -> None:
        """Records that `slaves` hold the purge, since now unless one of them already did; without any, that it goes
        on."""
        info, names = self.info, list(slaves)
        with self.session.transaction():
            former = json.loads(info.value(_HOLDERS) or "{}")
            if not names:
                info.remove(_HOLDERS)
                return
            since = former["since"] if set(former.get("slaves", ())) & set(names) else datetime.now(UTC).isoformat()
            info.write(_HOLDERS, json.dumps({"slaves": names, "since": since}))

    def waiting(self) -> tuple[int, int]:
        """The counted changes in ITEMS, and their estimated size in bytes."""
        session = self.native
        ((changes,),) = session.run(f"SELECT COUNT(*) FROM {self.prefix}ITEMS i")
        return int(changes), self._bytes(int(changes))

    def room(self) -> None:
        """Unknown: a tablespace has its own limits."""

    def _bytes(self, changes: int) -> int:
        """The estimated size of so many changes in bytes, by the last statistics of ITEMS."""
        text = "SELECT t.AVG_ROW_LEN FROM USER_TABLES t WHERE t.TABLE_NAME = :name"
        row = self.native.run(text, {"name": f"{self.prefix}ITEMS"}).fetchone()
        return changes * int(row[0] or 0) if row else 0

    @property
    def _registry(self) -> Registry:
        return Registry(self.session, self.prefix, self.schema)


def _of_redo(server: Server, redo: RedoStream) -> Moment:
    """The moment at the end of the stream.

    Only while all open redo threads are in the stream, and after every transaction that it lacks has ended: the stream
    stores the SCN from which on that is so.
    """
    moment = redo.moment(server.incarnation().resetlogs)
    if unread := {thread.number for thread in server.threads()} - set(redo.threads()):
        raise threads_unread(server.session.server, unread)
    complete_from = redo.complete_from()
    if complete_from is None:
        begins = redo.begins()
        seen = observe(server, begins)
        if seen.older:
            raise older_transactions(server.session.server, begins, seen.older, server.owners())
        complete_from = seen.scn
        redo.keep_complete_from(complete_from)
    if moment.scn < complete_from:
        raise stream_behind(server.session.server, complete_from, moment.scn)
    return moment
