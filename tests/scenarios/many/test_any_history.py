"""Tables join, leave, are loaded in part, altered and renamed in any order, as a model says; another slave watches."""

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import psycopg
import pytest

from sluice.coordination.gate import Gate
from sluice.load import steps
from sluice.load.read_modes import SnapshotLost
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState
from sluice.vendors.postgres.source.tables_registry import Registry
from tests.rig.loaders import Background
from tests.rig.rig import MakePair, Rig
from tests.scenarios.initial_load.killable import begun_or_ended, killable
from tests.waiting import until

READY, ABSENT, INCONSISTENT = TableState.READY, TableState.ABSENT, TableState.INCONSISTENT


@dataclass
class Watched:
    """What a slave must be like: the states of registered tables, and the rows of those that left and were kept."""

    rig: Rig
    keeps: bool
    states: dict[str, TableState] = field(default_factory=dict)
    kept: dict[str, list[str]] = field(default_factory=dict)

    def joins(self, name: str, *, complete: bool) -> None:
        self.states[name] = READY if complete else ABSENT
        if complete:
            self.kept.pop(name, None)

    def leaves(self, name: str, rows: list[str]) -> None:
        state = self.states.pop(name)
        if self.keeps and state is READY:
            self.kept[name] = rows
        elif state is READY:
            self.kept.pop(name, None)

    def renamed(self, name: str, new: str) -> None:
        self.states[new] = self.states.pop(name)
        if self.states[new] is READY:
            self.kept.pop(new, None)

    def check(self) -> None:
        """All that is committed is applied, and everything is as the model says."""
        rig = self.rig
        rig.await_current()
        found = rig.checkpoint
        assert found.state is SlaveState.NORMAL, found.message
        assert Gate(rig.store, rig.replication.prefix, rig.name).closures() == []
        assert {name: found.tables.state(TableName("public", name)) for name in self.states} == self.states
        assert not found.tables.loading
        for name, state in self.states.items():
            if state is READY:
                assert rows(rig.slave, name) == rows(rig.master, name), f"{rig.name}: {name}"
        for name, last in self.kept.items():
            assert TableName("public", name) in found.tables.former
            assert rows(rig.slave, name) == last, f"{rig.name} kept {name}"


def rows(connection: "psycopg.Connection[object]", name: str) -> list[str]:
    found = connection.execute(f"SELECT to_jsonb(t)::text FROM public.{name} t ORDER BY 1".encode()).fetchall()
    return [str(text) for (text,) in found]


class History:
    """What happens, drawn by chance."""

    def __init__(self, pair_of: MakePair, seed: int):
        self.chance = random.Random(seed)
        self.pair = pair_of(block_rows=50, seconds=0.05, slave_options={"on_drop": "keep"})
        other = pair_of(block_rows=50, seconds=0.05, master=self.pair.master_info, name="dr2")
        self.slaves = [Watched(self.pair, keeps=True), Watched(other, keeps=False)]
        self.registry = Registry(self.pair.master, self.pair.replication.prefix, "public")
        self.tables: list[str] = []
        self.made = 0

    def run(self, statement: str) -> None:
        with suppress(psycopg.errors.UniqueViolation):
            self.pair.master.execute(statement.encode())

    def begin(self) -> None:
        """Two tables, with which both slaves are NORMAL."""
        for _ in range(2):
            self.make(200)
        for slave in self.slaves:
            slave.states = dict.fromkeys(self.tables, READY)
            update = slave.rig.update("first")
            slave.rig.prepare(update)
            with slave.rig.apply():
                slave.rig.load_to_normal(update)

    def make(self, count: int) -> str:
        self.made += 1
        name = f"t{self.made}"
        self.run(f"CREATE TABLE public.{name} (id int PRIMARY KEY, v text)")
        self.run(f"INSERT INTO public.{name} SELECT g, 'old' FROM generate_series(1, {count}) g")
        self.tables.append(name)
        return name

    # What may happen

    def change(self) -> None:
        if not self.tables:
            return
        low, name = self.chance.randint(-20, 220), self.chance.choice(self.tables)
        self.run(
            self.chance.choice(
                [
                    f"UPDATE public.{name} SET v = 'at {low}' WHERE id BETWEEN {low} AND {low} + 19",
                    f"DELETE FROM public.{name} WHERE id BETWEEN {low} AND {low} + 3",
                    f"INSERT INTO public.{name} SELECT generate_series({low}, {low} + 9), 'new' ON CONFLICT DO NOTHING",
                    f"UPDATE public.{name} SET id = id + 1000 WHERE id = {low}",
                    f"TRUNCATE public.{name}" if low > 210 else f"DELETE FROM public.{name} WHERE id = {low}",
                ]
            )
        )

    def alter(self) -> None:
        if not self.tables:
            return
        name, column = self.chance.choice(self.tables), f"c{self.chance.randint(0, 2)}"
        self.run(
            self.chance.choice(
                [
                    f"ALTER TABLE public.{name} ADD COLUMN IF NOT EXISTS {column} int DEFAULT {len(name)}",
                    f"ALTER TABLE public.{name} DROP COLUMN IF EXISTS {column}",
                    f"CREATE INDEX IF NOT EXISTS {name}_v ON public.{name} (v)",
                    f"COMMENT ON TABLE public.{name} IS '{column}'",
                    f"ALTER TABLE public.{name} ALTER v TYPE varchar({self.chance.randint(50, 90)})",
                ]
            )
        )

    def join(self) -> None:
        self.make(self.chance.choice([0, 0, 1, 150]))
        self.register()

    def register(self) -> None:
        """All tables of the master; those that were not before join."""
        registered = set(self.slaves[0].states)
        joining = {name: not rows(self.pair.master, name) for name in self.tables if name not in registered}
        self.pair.capture()
        for name, complete in joining.items():
            for slave in self.slaves:
                slave.joins(name, complete=complete)

    def leave(self) -> None:
        registered = sorted(self.slaves[0].states)
        if not registered:
            return
        name = self.chance.choice(registered)
        last = rows(self.pair.master, name)
        if self.chance.random() < 0.5:
            self.run(f"DROP TABLE public.{name}")
            self.tables.remove(name)
        else:
            with self.pair.master.transaction():
                self.registry.remove(TableName("public", name))
        for slave in self.slaves:
            slave.leaves(name, last)

    def rename(self) -> None:
        registered = sorted(self.slaves[0].states)
        if not registered:
            return
        name = self.chance.choice(registered)
        # A name that one had which the slave has kept, or a new one.
        free = sorted(set(self.slaves[0].kept).difference(self.tables))
        self.made += 1
        new = self.chance.choice([*free, f"t{self.made}"])
        self.run(f"ALTER TABLE public.{name} RENAME TO {new}")
        self.tables[self.tables.index(name)] = new
        for slave in self.slaves:
            slave.renamed(name, new)

    def load(self) -> None:
        """Loads a table, or a part of one, under changes; killed now and then, or cancelled."""
        mine = self.slaves[0]
        self.pair.await_current()
        if not mine.states:
            return
        name = self.chance.choice(sorted(mine.states))
        ranged = mine.states[name] is READY and self.chance.random() < 0.5
        choice = {"key_from": "50", "key_to": "150"} if ranged else {}
        update = self.pair.update(tables=[f"public.{name}"], read=self.chance.choice(["committed", "locked"]), **choice)
        self.pair.prepare(update)
        killed = killable(update) if self.chance.random() < 0.3 else None
        for _ in range(self.chance.randint(0, 4)):
            self.change()
        if killed is not None:
            until(partial(begun_or_ended, self.pair, killed))
            killed.send_signal(signal.SIGKILL)
            killed.wait()
        if self.chance.random() < 0.2 and steps.cancel(update, self.pair.store):
            mine.states[name] = INCONSISTENT
            mine.kept.pop(name, None)
            return
        loading = Background(lambda: load(self.pair, lambda: self.pair.load(update)))
        while loading.is_alive():
            self.change()
            time.sleep(0.02)  # so that the load comes to an end
        assert loading.end() is None
        self.pair.await_that(lambda: not self.pair.checkpoint.tables.loading)
        mine.states[name] = READY
        mine.kept.pop(name, None)


def load(pair: Rig, once: Callable[[], object]) -> None:
    """As the load job does: once more where the snapshot is of no use."""
    with suppress(SnapshotLost):
        once()
        return
    load(pair, once)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_any_history_of_joins_leaves_parts_and_definitions_is_as_the_model_says(pair_of: MakePair, seed: int) -> None:
    history = History(pair_of, seed)
    history.begin()
    first, other = history.slaves
    happens = [history.change, history.alter, history.join, history.leave, history.rename, history.load, history.load]
    with other.rig.apply():
        for _ in range(3):
            with first.rig.apply():
                for _ in range(6):
                    history.register()
                    history.chance.choice(happens)()
                    history.change()
                    assert not other.rig.checkpoint.tables.loading, "nobody loads it"
                history.register()
                for slave in history.slaves:
                    slave.check()
        with first.rig.apply():
            for slave in history.slaves:
                if left := [name for name, state in slave.states.items() if state is not READY]:
                    update = slave.rig.update(tables=[f"public.{name}" for name in left])
                    slave.rig.prepare(update)
                    slave.rig.load_to_normal(update)
                    slave.states |= dict.fromkeys(left, READY)
                    for name in left:
                        slave.kept.pop(name, None)
                slave.check()
