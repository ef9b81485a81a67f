"""Random histories of tables and slaves, and a model of each slave."""

import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from sluice.coordination.gate import Gate
from sluice.load import steps
from sluice.load.read_modes import SnapshotLost
from sluice.load.transfer import transfer_steps
from sluice.load.transfer.importer import import_in_threads
from sluice.load.transfer.transfer_folder import TransferFolder
from sluice.load.update import Update
from sluice.model.location import S3Access
from sluice.model.manifest import Manifest
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from sluice.vendors.postgres import catalog
from sluice.vendors.postgres.connection import quoted
from sluice.vendors.postgres.source.tables_registry import Registry
from tests.rig.apply_process import ApplyProcess
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_files import carrying
from tests.scenarios.initial_load import load_process
from tests.scenarios.initial_load.killable import begun_or_ended, process_of
from tests.scenarios.many.schemas import BY_SCHEMA, EXIT, PLAIN, Otherwise
from tests.waiting import until

READY, ABSENT, INCONSISTENT = TableState.READY, TableState.ABSENT, TableState.INCONSISTENT


@dataclass
class Watched:
    """The expected state of a slave: the states of registered tables, and the rows of removed tables that were kept."""

    rig: Rig
    by_schema: Mapping[str, Otherwise]
    keeps: bool
    states: dict[TableName, TableState] = field(default_factory=dict)
    kept: dict[TableName, list[str]] = field(default_factory=dict)

    def there(self, table: TableName) -> TableName:
        return TableName(self.by_schema[table.schema].schema or table.schema, table.name)

    def expected(self, table: TableName) -> list[str]:
        rule = self.by_schema[table.schema]
        return rows(self.rig.master, table, rule.row, rule.where)

    def joins(self, table: TableName, *, complete: bool) -> None:
        self.states[table] = READY if complete else ABSENT
        if complete:
            self.kept.pop(table, None)

    def leaves(self, table: TableName, last: list[str]) -> None:
        state = self.states.pop(table)
        if self.keeps and state is READY:
            self.kept[table] = last
        elif state is READY:
            self.kept.pop(table, None)

    def renamed(self, table: TableName, new: TableName) -> None:
        self.states[new] = self.states.pop(table)
        if self.states[new] is READY:
            self.kept.pop(new, None)

    def loaded(self, table: TableName, state: TableState = READY) -> None:
        self.states[table] = state
        self.kept.pop(table, None)

    @property
    def ready(self) -> list[TableName]:
        return sorted(table for table, state in self.states.items() if state is READY)

    def undisturbed(self) -> None:
        found = self.rig.checkpoint
        assert found.state is SlaveState.NORMAL, found.message
        assert Gate(self.rig.store, self.rig.replication.prefix, self.rig.name).closures() == []

    def check(self) -> None:
        """Waits until everything committed is applied, and compares with the model."""
        rig = self.rig
        rig.await_current()
        self.undisturbed()
        found = rig.checkpoint
        assert {table: found.tables.state(table) for table in self.states} == self.states
        assert not found.tables.loading
        for table in self.ready:
            assert rows(rig.slave, self.there(table)) == self.expected(table), f"{rig.name}: {table}"
        for table, last in self.kept.items():
            assert table in found.tables.former
            assert rows(rig.slave, self.there(table)) == last, f"{rig.name} kept {table}"


def rows(
    connection: "psycopg.Connection[Any]", table: TableName, row: str = "to_jsonb(t)", where: str = "true"
) -> list[str]:
    query = f"SELECT ({row})::text FROM {quoted(table.schema, table.name)} t WHERE {where}"
    return sorted(text for (text,) in connection.execute(query.encode()).fetchall())


class History:
    """The first slave gets tables otherwise, loads parts, and is struck; the other one must never notice.

    `done`: how often each thing has happened that can fail to.
    """

    def __init__(self, pair_of: MakePair, seed: int, folder: Path):
        """Of odd seeds the first slave keeps its checkpoint in Redis, with which all tables need a key."""
        self.chance = random.Random(seed)
        self.folder = folder
        self.in_redis = bool(seed % 2)
        (folder / "history_exit.py").write_text(EXIT)
        lines = {f"{schema}.*": dict(rule.line) for schema, rule in BY_SCHEMA.items() if rule.line}
        tables: dict[str, Any] = {f"{schema}.*": {} for schema in BY_SCHEMA}
        options = {"tables": tables, "block_rows": 50, "interval": 0.1}
        kept = {"checkpoint": "redis" if self.in_redis else "slave"}
        self.pair = pair_of(**options, slave_options={"on_drop": "keep", "tables": lines, **kept})
        other = pair_of(**options, master=self.pair.master_info, name="dr2")
        plain = dict.fromkeys(BY_SCHEMA, PLAIN)
        self.mine = Watched(self.pair, BY_SCHEMA, keeps=True)
        self.other = Watched(other, plain, keeps=False)
        self.slaves = [self.mine, self.other]
        self.registry = Registry(self.pair.master, self.pair.replication.prefix, "public")
        self.tables: list[TableName] = []
        self.made = 0
        self.carrying: TableName | None = None
        """Its rows are on their way: what empties it now makes them useless."""
        self.done: Counter[str] = Counter()
        self.other_epoch: int | None = None

    def run(self, statement: str) -> None:
        with suppress(psycopg.errors.UniqueViolation):
            self.pair.master.execute(statement.encode())

    def begin(self) -> None:
        """Starts with one table of each schema; both slaves are NORMAL."""
        self.run("CREATE TYPE public.feeling AS ENUM ('first')")
        for schema in BY_SCHEMA:
            self.run(f"CREATE SCHEMA {quoted(schema)}")
            self.make(schema, 200)
        if not self.in_redis:
            self.make(self.chance.choice(list(BY_SCHEMA)), 200, keyless=True)
        for slave in self.slaves:
            slave.states = dict.fromkeys(self.tables, READY)
            update = slave.rig.update("first")
            slave.rig.prepare(update)
            with slave.rig.apply():
                slave.rig.load_to_normal(update)

    def make(self, schema: str, count: int, *, keyless: bool = False) -> TableName:
        self.made += 1
        table = TableName(schema, f"t{self.made}")
        key = "" if keyless else "PRIMARY KEY"
        self.run(f"CREATE TABLE {sql(table)} (id int {key}, v text, secret text DEFAULT 'hidden')")
        self.run(f"INSERT INTO {sql(table)} SELECT g, 'old' FROM generate_series(1, {count}) g")
        self.tables.append(table)
        return table

    def apply(self) -> ApplyProcess:
        return ApplyProcess(self.pair, self.folder)

    # What may happen

    def change(self) -> None:
        if self.tables:
            self.change_of(self.chance.choice(self.tables))

    def change_of(self, table: TableName) -> None:
        low, name = self.chance.randint(-20, 220), sql(table)
        among = f"id BETWEEN {low} AND {low} + 19"
        self.run(
            self.chance.choice(
                [
                    f"UPDATE {name} SET v = 'at {low}', secret = 'x' WHERE {among}",
                    f"UPDATE {name} SET v = {self.chance.choice(['NULL', quoted_text('out'), 'v'])} WHERE {among}",
                    f"UPDATE {name} SET v = E'new\\n\"]]>' WHERE {among}",
                    f"DELETE FROM {name} WHERE id BETWEEN {low} AND {low} + 3",
                    f"INSERT INTO {name} SELECT generate_series({low}, {low} + 9), 'new' ON CONFLICT DO NOTHING",
                    f"UPDATE {name} SET id = id + 1000 WHERE id = {low}",
                    f"TRUNCATE {name}"
                    if low > 210 and table != self.carrying
                    else f"DELETE FROM {name} WHERE id = {low}",
                ]
            )
        )

    def alter(self, _: ApplyProcess) -> None:
        table = self.chance.choice(self.mine.ready)
        column = f"c{self.chance.randint(0, 2)}"
        self.run(f"ALTER TABLE {sql(table)} ADD COLUMN IF NOT EXISTS {column} int DEFAULT {self.made}")
        self.run(
            self.chance.choice(
                [
                    f"UPDATE {sql(table)} SET {column} = id WHERE id % 2 = 0",
                    f"ALTER TABLE {sql(table)} DROP COLUMN {column}",
                    f"ALTER TABLE {sql(table)} RENAME COLUMN {column} TO d{self.made}{len(self.done)}",
                    f"CREATE INDEX ON {sql(table)} (v, {column})",
                    f"COMMENT ON COLUMN {sql(table)}.v IS '{column}'",
                    f"ALTER TABLE {sql(table)} ALTER v TYPE varchar({self.chance.randint(50, 90)})",
                ]
            )
        )
        self.done["alter"] += 1

    def define(self, _: ApplyProcess) -> None:
        """Tables get a label and a check, or lose the check and get rows that it refuses, also those left out."""
        for table in self.chance.sample(sorted(self.mine.states), min(3, len(self.mine.states))):
            name, label = sql(table), f"l{self.made}.{len(self.done)}.{table.name}"
            place = self.chance.choice(["BEFORE 'first'", "AFTER 'first'", ""])
            self.run(f"ALTER TYPE public.feeling ADD VALUE '{label}' {place}")
            self.run(f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS feels public.feeling DEFAULT 'first'")
            self.run(f"UPDATE {name} SET feels = '{label}' WHERE id % 3 = 0")
            if not self.mine.kept:  # their rows would be others than when they left
                self.run(f"ALTER TYPE public.feeling RENAME VALUE '{label}' TO '{label} by now'")
            self.run(f"ALTER TABLE {name} DROP CONSTRAINT IF EXISTS allowed")
            if self.chance.random() < 0.5:
                self.run(f"UPDATE {name} SET v = 'forbidden' WHERE id % 5 = 0")
            else:
                self.run(f"UPDATE {name} SET v = 'new' WHERE v = 'forbidden'")
                self.run(f"ALTER TABLE {name} ADD CONSTRAINT allowed CHECK (v <> 'forbidden')")
        self.done["define"] += 1

    def join(self, _: ApplyProcess) -> None:
        keyless = not self.in_redis and self.chance.random() < 0.3
        self.make(self.chance.choice(list(BY_SCHEMA)), self.chance.choice([0, 1, 150]), keyless=keyless)
        self.register()
        self.done["join"] += 1

    def register(self) -> None:
        """Registers all tables of the master; new ones join."""
        registered = set(self.mine.states)
        joining = {table: not rows(self.pair.master, table) for table in self.tables if table not in registered}
        self.pair.capture()
        for table, complete in joining.items():
            for slave in self.slaves:
                slave.joins(table, complete=complete)

    def leave(self, _: ApplyProcess) -> None:
        table = self.chance.choice(sorted(self.mine.states))
        last = {slave.rig.name: slave.expected(table) for slave in self.slaves}
        if self.chance.random() < 0.5:
            self.run(f"DROP TABLE {sql(table)}")
            self.tables.remove(table)
        else:
            with self.pair.master.transaction():
                self.registry.remove(table)
        for slave in self.slaves:
            slave.leaves(table, last[slave.rig.name])
        self.done["leave"] += 1

    def rename(self, _: ApplyProcess) -> None:
        table = self.chance.choice(sorted(self.mine.states))
        # A name that one had which the slave has kept, or a new one.
        free = sorted({each.name for each in self.mine.kept if each.schema == table.schema and each not in self.tables})
        self.made += 1
        new = TableName(table.schema, self.chance.choice([*free, f"t{self.made}"]))
        self.run(f"ALTER TABLE {sql(table)} RENAME TO {quoted(new.name)}")
        self.tables[self.tables.index(table)] = new
        for slave in self.slaves:
            slave.renamed(table, new)
        self.done["rename"] += 1

    def load(self, _: ApplyProcess) -> None:
        """Loads a table under changes, or a part of one by its key or by a condition."""
        self._load(*self._part())
        self.done["load"] += 1

    def load_killed(self, _: ApplyProcess) -> None:
        """Loads a table, with the process killed while it stores rows."""
        table, update = self._part()
        self._killed(table, partial(load_process.load, update))
        self._load(table, update)
        self.done["load killed"] += 1

    def load_cancelled(self, _: ApplyProcess) -> None:
        table, update = self._part()
        self.change_of(table)
        assert steps.cancel(update, self.pair.store)
        self.mine.loaded(table, INCONSISTENT)
        self.done["load canceled"] += 1

    def carried(self, _: ApplyProcess) -> None:
        """Loads a table by files under changes; the importing process is killed."""
        table, update = self._part(by_files=True)
        files, self.carrying = self._exported(update), table
        for change in (self.change, partial(self.change_of, table)):
            change()
        self._killed(table, partial(import_in_threads, update, *files, 2))
        self.change()
        import_in_threads(update, *files, 2)
        self.pair.await_that(lambda: not self.pair.checkpoint.tables.loading)
        self.carrying = None
        self.mine.loaded(table)
        self.done["carried"] += 1

    def carried_in_vain(self, _: ApplyProcess) -> None:
        """Empties or alters a table while its files travel, or cancels its update."""
        table, update = self._part(by_files=True)
        files = self._exported(update)
        spoilt = self.chance.choice([f"TRUNCATE {sql(table)}", f"ALTER TABLE {sql(table)} ADD e{self.made} int", ""])
        if spoilt:
            self.run(spoilt)
            self._fill(table)
            self.pair.await_current()
            import_in_threads(update, *files, 2)
        else:
            assert steps.cancel(update, self.pair.store)
        self.mine.loaded(table, INCONSISTENT)
        self.done["carried in vain"] += 1

    def checkpoint_lost(self, apply: ApplyProcess) -> None:
        """Deletes the checkpoint in Redis: changes after the slave's own position come again."""
        table = self.chance.choice(self.mine.ready)
        while not self.done["checkpoint lost"]:
            self._fill(table)
            self.change_of(table)
            self.pair.await_current()
            apply.restart(partial(self._lose, self.pair.applied))

    def _lose(self, applied: Position | None) -> None:
        self.pair.stored_checkpoint.forget()
        left = self.pair.applied
        assert applied is not None and left is not None
        self.done["checkpoint lost"] += not left.covers_all_of(applied)

    def apply_killed(self, apply: ApplyProcess) -> None:
        """Kills the apply in the middle of the transaction of a change."""
        table = self.chance.choice(self.mine.ready)
        self._fill(table)
        self.pair.await_current()
        apply.kill_in_the_middle(self.mine.there(table), f"UPDATE {sql(table)} SET v = 'new' || id::text")
        self.done["apply killed"] += 1

    def sessions_cut(self, _: ApplyProcess) -> None:
        self.change()
        cut = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND "
            "application_name = %s"
        )
        # Until there is one: the apply may have just begun.
        self.pair.await_that(lambda: self.pair.slave.execute(cut, [self.pair.pair.application]).fetchall())
        self.done["sessions cut"] += 1

    def _part(self, *, by_files: bool = False) -> tuple[TableName, Update]:
        """A started load of a table with rows."""
        self.pair.await_current()
        table = self.chance.choice(sorted(self.mine.states))
        self._fill(table)
        choices: list[dict[str, str]] = [{}]
        if self.mine.states[table] is READY and not by_files and has_key(self.pair.master, table):
            choices += [{"key_from": "50", "key_to": "150"}, {"where": "id BETWEEN 40 AND 120 OR id = 3 OR id > 190"}]
        read = self.chance.choice(["committed", "locked"] if by_files else ["committed", "locked", "snapshot"])
        update = self.pair.update(tables=[str(table)], read=read, **self.chance.choice(choices))
        (carrying.prepare if by_files else type(self.pair).prepare)(self.pair, update)
        return table, update

    def _exported(self, update: Update) -> tuple[TransferFolder, Manifest]:
        """The files of a load, where the slave finds them."""
        folder = transfer_steps.folder_of(update, carrying.location(self.folder / "out"), S3Access(), None)
        carrying.export(update, folder)
        manifest = transfer_steps.seal(update, folder)
        return carrying.moved(folder, self.folder / "in"), manifest

    def _killed(self, table: TableName, function: "partial[object]") -> None:
        """Kills the process of `function` while it stores rows of the table, which change meanwhile."""
        place = self.mine.there(table)
        held = self.pair.hold(sql(place))
        process = process_of(function)
        try:
            until(partial(begun_or_ended, self.pair, process))
            self.change_of(table)
            assert process.poll() is None, "it ended before it was killed"
            process.send_signal(signal.SIGKILL)
            process.wait()
        finally:
            held.close()
        self.pair.slave.execute(f"DROP TRIGGER slow ON {sql(place)}".encode())

    def _fill(self, table: TableName) -> None:
        self.run(f"INSERT INTO {sql(table)} SELECT generate_series(1, 200), 'new' ON CONFLICT DO NOTHING")

    def _load(self, table: TableName, update: Update) -> None:
        loading = Background(lambda: load(self.pair, update))
        for _ in range(30):
            if not loading.is_alive():
                break
            self.change()
            loading.join(0.02)  # it takes turns with this thread
        assert loading.end(120) is None
        self.pair.await_that(lambda: not self.pair.checkpoint.tables.loading)
        self.mine.loaded(table)

    def load_what_is_left(self) -> None:
        """Loads until all tables are ready on both slaves."""
        for slave in self.slaves:
            left = [table for table in slave.states if table not in slave.ready]
            if left:
                update = slave.rig.update(tables=[str(table) for table in left])
                slave.rig.prepare(update)
                slave.rig.load_to_normal(update)
                for table in left:
                    slave.loaded(table)

    # What must hold

    def unnoticed(self) -> None:
        """Checks that the other slave's apply is still the first one, and has applied everything."""
        other = self.other.rig
        other.await_current()
        self.other.undisturbed()
        assert not other.checkpoint.tables.loading, "nobody loads it"
        assert other.checkpoint.epoch == (self.other_epoch or other.checkpoint.epoch)
        self.other_epoch = other.checkpoint.epoch

    def check(self) -> None:
        for slave in self.slaves:
            slave.check()

    @property
    def all(self) -> list[Callable[[ApplyProcess], None]]:
        """All events that may happen between two changes."""
        return [
            self.alter,
            self.define,
            self.join,
            self.leave,
            self.rename,
            self.load,
            self.load_killed,
            self.load_cancelled,
            self.carried,
            self.carried_in_vain,
            self.apply_killed,
            self.sessions_cut,
            *([self.checkpoint_lost] if self.in_redis else []),
        ]


def load(pair: Rig, update: Update) -> None:
    """As the load job does: once more where the snapshot is of no use."""
    with suppress(SnapshotLost):
        pair.load(update)
        return
    load(pair, update)


def has_key(connection: "psycopg.Connection[Any]", table: TableName) -> bool:
    shape = catalog.shape(connection, table)
    return shape is not None and not shape.keyless


def sql(table: TableName) -> str:
    return quoted(table.schema, table.name)


def quoted_text(text: str) -> str:
    return f"'{text}'"
