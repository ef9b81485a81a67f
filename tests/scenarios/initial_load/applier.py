"""A small apply for tests: nothing but the decision rules of `sluice.model.blocks`, change by change.

It has none of the real apply's speed, net changes or safe mode. It is strict where that matters
here: an INSERT must be new, an UPDATE or DELETE must find exactly one row, so that any change that
is lost, or applied although the block has it, fails the test at once.
"""

import threading
from typing import Any

import psycopg

from initial_load.pair import Pair
from sluice.model import content
from sluice.model.blocks import BlockMap, Decision, Key, TableBlocks, decide
from sluice.model.names import TableName
from sluice.model.shape import TableShape
from sluice.model.slave_state import APPLYING, SlaveState
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import connect, quoted
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source import position
from sluice.vendors.postgres.target import blocks, control_tables

Row = dict[str, str | None]


class Applier(threading.Thread):
    """Applies windows until `stop` is called; `finish` applies all there is, then ends."""

    def __init__(self, pair: Pair, pause: float = 0.02):
        super().__init__(daemon=True)
        self.pair = pair
        self.pause = pause
        self.failure: BaseException | None = None
        self.windows = self.applied = self.dropped = self.waited = 0
        self._ending = threading.Event()
        self._shapes: dict[TableName, TableShape] = {}
        self.master = connect(pair.master_info, application="applier", autocommit=True)
        self.slave = connect(pair.slave_info, application="applier", autocommit=True)
        self.slave.execute("SET session_replication_role = replica")

    def run(self) -> None:
        try:
            while not self._ending.wait(self.pause):
                self.turn()
            while not self.turn():
                pass
        except BaseException as failure:
            self.failure = failure

    def finish(self) -> None:
        """Ends after a window that was empty, and after the slave is NORMAL."""
        self._ending.set()
        self.join()
        self.master.close()
        self.slave.close()
        if self.failure:
            raise self.failure

    def turn(self) -> bool:
        """One window. True when there was nothing to apply and the slave is NORMAL."""
        store = self.pair.checkpoint()
        store.connection = self.slave
        found = store.read()
        if found is None or found.state not in APPLYING or found.position is None:
            return False
        target = position.take(self.master, self.pair.replication.prefix, "public", found.position)
        items = self._window(found.position, target)
        looked = self._look()
        self.windows += 1
        decided = [self._decided(item, looked, found.position) for item in items]
        with self.slave.transaction():
            for item, old, new in decided:
                self._apply(item, old, new)
            store.start_at(target)
            if found.state is SlaveState.TRANSITION and looked.complete(target):
                store.move(SlaveState.NORMAL)
                return False
        return not items and found.state is SlaveState.NORMAL

    # -- deciding

    def _decided(
        self, item: "Item", looked: BlockMap, applied: SnapshotPosition
    ) -> "tuple[Item, Row | None, Row | None]":
        """The change with its old and new image, None where that half is not to be applied."""
        old, new = item.old, item.new
        found = looked.tables.get(item.table)
        if found is None:
            return item, old, new
        shape = self._shape(item.table)
        halves = []
        for row in (old, new):
            if row is None:
                halves.append(None)
                continue
            key: Key = tuple(str(row[column.name]) for column in shape.key)
            decision = self._decision(found.merged(applied), shape, key, item.xid)
            halves.append(row if decision is Decision.APPLY else None)
        self.dropped += halves == [None, None]
        return item, halves[0], halves[1]

    def _decision(self, table: TableBlocks, shape: TableShape, key: Key, xid: int) -> Decision:
        while True:
            (place,) = blocks.locate(self.master, shape, table.bounds, [key])
            decision = decide(table.blocks[place], xid, 0)
            if decision is not Decision.WAIT:
                return decision
            self.waited += 1
            threading.Event().wait(0.01)
            table = self._look().tables[table.table]

    def _look(self) -> BlockMap:
        return control_tables.block_map(self.slave, self.pair.replication.prefix, "public", "dr1")

    # -- applying

    def _apply(self, item: "Item", old: Row | None, new: Row | None) -> None:
        shape = self._shape(item.table)
        table = quoted(item.table.schema, item.table.name)
        if old is not None:
            condition = " AND ".join(self._is(shape, name, old[name]) for name in self._identity(shape, old))
            if shape.keyless:
                condition = f"ctid = (SELECT ctid FROM {table} WHERE {condition} LIMIT 1)"
            found = self.slave.execute(f"DELETE FROM {table} WHERE {condition}".encode()).rowcount
            assert found == 1, f"{item} finds {found} rows"
        if new is not None:
            names = ", ".join(quoted(name) for name in new)
            values = ", ".join(self._value(shape, name, value) for name, value in new.items())
            self.slave.execute(f"INSERT INTO {table} ({names}) VALUES ({values})".encode())
        self.applied += old is not None or new is not None

    def _identity(self, shape: TableShape, row: Row) -> list[str]:
        return list(row) if shape.keyless else [column.name for column in shape.key]

    def _is(self, shape: TableShape, name: str, value: str | None) -> str:
        if value is None:
            return f"{quoted(name)} IS NULL"
        return f"{quoted(name)}::text = {self._value(shape, name, value)}::text"

    def _value(self, shape: TableShape, name: str, value: str | None) -> str:
        return f"{psycopg.sql.Literal(value).as_string(None)}::{shape.column(name).type}"

    def _window(self, previous: SnapshotPosition, target: SnapshotPosition) -> "list[Item]":
        rows = self.master.execute(
            "SELECT repl_key, trans_key::text::bigint, db_schema, tablename, db_action, content, oldcontent "
            "FROM public.demo_items WHERE repl_key > %s AND repl_key <= %s "
            "AND pg_visible_in_snapshot(trans_key, %s::pg_snapshot) "
            "AND NOT pg_visible_in_snapshot(trans_key, %s::pg_snapshot) ORDER BY repl_key",
            [previous.floor(target), target.high, target.snapshot, previous.snapshot],
        ).fetchall()
        return [Item(*row) for row in rows]

    def _shape(self, table: TableName) -> TableShape:
        if table not in self._shapes:
            shape = catalog.shape(self.master, table)
            assert shape is not None
            self._shapes[table] = shape
        return self._shapes[table]


class Item:
    """One row of ITEMS with its images."""

    def __init__(self, key: int, xid: int, schema: str, table: str, action: str, new: Any, old: Any):
        self.key, self.xid, self.action = key, xid, action
        self.table = TableName(schema, table)
        assert action in ("INSERT", "UPDATE", "DELETE"), action
        self.new: Row | None = None if action == "DELETE" else dict(content.parse(new))
        self.old: Row | None = None
        if action == "UPDATE":
            self.old = dict(content.overlay(new, old))
        elif action == "DELETE":
            self.old = dict(content.parse(old))

    def __repr__(self) -> str:
        return f"{self.action} {self.key} of {self.table} by {self.xid}: {self.old} → {self.new}"
