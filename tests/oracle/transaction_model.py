"""A model of Oracle's transactions, as far as positions depend on them; steps come in random order.

What is modelled, weaker than Oracle where its documentation promises nothing:

- Each instance has its own SCN. It rises with commits and by itself, and follows others by messages, which come
  late; a row that another instance changed brings that one's SCN with it.
- A transaction has an ID before it draws a key, writes its row any time later, and may take a statement back and do it
  again with new keys. It is in the list of running ones from its beginning until some time after its commit can be
  seen. An autonomous transaction begins and ends while the one around it waits.
- A prepared transaction may leave the list and return to it, once without an instance that ends; whenever it is not in
  the list, it is among the prepared ones.
- An instance may end; what ran there is rolled back, what was prepared stays, and until its thread is recovered nobody
  knows its SCN.
- The sequence is ORDER, or, for those that must fail, gives each instance its own range.

`Reader` is what `take` asks; other sessions continue between any two of its answers, and inside of them.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.vendors.oracle.queue_position import Incarnation
from sluice.vendors.oracle.source.position import Thread

HERE = Incarnation(1, "0A", 1, 1)
DATA_ROWS = 4
"""Rows of the application, over which transactions meet."""


@dataclass(frozen=True)
class Settings:
    """What a master and its application are like."""

    instances: int = 1
    ordered: bool = True
    """The sequence; else each instance has numbers in stock."""
    key_first: bool = False
    """Sessions draw a key before they have a transaction."""
    prepares: bool = True
    crashes: bool = True


@dataclass
class Transaction:
    """One of the application's."""

    xid: int
    instance: int
    parent: "Transaction | None" = None
    began: bool = False
    start: int = 0
    """The SCN with which it began; that of its first redo is not below."""
    listed: bool = False
    prepared: bool = False
    """In the list of prepared ones."""
    deciding: bool = False
    """Prepared: only commits or rolls back from here on."""
    moves: int = 0
    """Out of the list of running ones, and back into it."""
    drawn: tuple[int, int] | None = None
    """A key whose row is not written yet, and the data row that it is about."""
    rows: list[tuple[int, int]] = field(default_factory=list)
    """Keys and data rows of its items."""
    statement: int = 0
    """How many of them are older than the statement under way."""
    children: int = 0
    """Autonomous transactions under way."""
    commit: int | None = None
    """Its SCN; what it wrote can be seen."""
    ended: bool = False


class World:
    """A master with its sessions."""

    def __init__(self, seed: int, settings: Settings):
        self.settings = settings
        self.random = random.Random(seed)
        self.scn = [self.random.randrange(100, 130) for _ in range(settings.instances)]
        self.runs = [1] * settings.instances
        self.down: set[int] = set()
        self.transactions: list[Transaction] = []
        self.committed: list[Transaction] = []
        """In the order in which they could be seen."""
        self.purged: set[int] = set()
        """Keys."""
        self.locks: dict[int, Transaction] = {}
        self.row_scn = [0] * DATA_ROWS
        self.versions: list[list[int]] = [[] for _ in range(DATA_ROWS)]
        """Of each data row the keys of its changes, as committed."""
        self.last_key = 0
        self.stock: dict[int, list[int]] = {}
        self.accepts = True
        self.began = 0
        self.visitor: Callable[[], None] | None = None
        """Called now and then, between any two steps; steps that it causes itself do not call it."""

    def draw(self, instance: int) -> int:
        """A REPL_KEY."""
        if self.settings.ordered:
            self.last_key += 1
            return self.last_key
        stock = self.stock.setdefault(instance, [])
        if not stock:
            stock += range(self.last_key + 1, self.last_key + 6)
            self.last_key += 5
        return stock.pop(0)

    def up(self) -> list[int]:
        """The instances that are."""
        return [number for number in range(self.settings.instances) if number not in self.down]

    def run(self, steps: int) -> None:
        """Lets others do something."""
        for _ in range(steps):
            visitor = self.visitor
            if visitor is not None and self.random.random() < 0.01:
                self.visitor = None
                visitor()
                self.visitor = visitor
            self.step()

    def some(self) -> int:
        """How many steps come between: often none, now and then many, as if a session had stalled."""
        return self.random.choice((0, 0, 1, 2, 4, 12))

    def step(self) -> None:
        """One step of anybody."""
        chance = self.random.random()
        running = [each for each in self.transactions if not each.children]
        if chance < (0.04 if self.down else 0.002):
            if (self.settings.crashes and len(self.up()) > 1) or self.down:
                self._crash_or_recover()
        elif chance < 0.15:
            self._tick()
        elif chance < 0.33 and self.accepts and len(self.transactions) < 6:
            self._begin(self.random.choice(self.up()))
        elif running:
            self._advance(self.random.choice(running))

    def finish(self) -> None:
        """Everybody ends what is under way, and nobody begins."""
        self.accepts = False
        while self.transactions or self.down:
            self.step()
            if self.down:
                self.recover(next(iter(self.down)))

    def _tick(self) -> None:
        one, other = (self.random.choice(self.up()) for _ in range(2))
        if self.random.random() < 0.5:
            self.scn[one] += self.random.randrange(1, 4)
        else:
            self.scn[one] = max(self.scn[one], self.scn[other])

    def message(self) -> None:
        """Every instance hears of the highest SCN."""
        highest = max(self.scn[number] for number in self.up())
        for number in self.up():
            self.scn[number] = highest

    def _begin(self, instance: int, parent: Transaction | None = None) -> None:
        self.began += 1
        self.transactions.append(Transaction(self.began, instance, parent))

    def _advance(self, it: Transaction) -> None:
        chance = self.random.random()
        if it.commit is not None:
            # Seen, and still in the lists.
            if chance < 0.15 or not self.accepts:
                it.listed = it.prepared = False
                self._end(it)
        elif it.deciding:
            if chance < 0.4 and it.instance in self.down:
                it.instance = self.random.choice(self.up())
            elif chance < 0.4:
                it.moves = min(it.moves + 1, 2)
                it.listed, it.prepared = it.moves != 1, it.moves == 1 or self.random.random() < 0.5
            elif it.instance not in self.down and (chance < 0.5 or not self.accepts):
                self._commit(it) if chance < 0.48 else self._roll_back(it)
        elif not it.began and not (self.settings.key_first and it.drawn is None and self.accepts):
            it.began = it.listed = True
            it.start = self.scn[it.instance]
        elif it.drawn is not None:
            it.rows.append(it.drawn)
            it.drawn = None
        elif len(it.rows) < 4 and chance < 0.5:
            self._change(it)
        elif chance < 0.56:
            # The statement meets a row that changed since: it is taken back to its beginning, and runs again.
            del it.rows[it.statement :]
        elif chance < 0.62:
            it.statement = len(it.rows)
        elif chance < 0.68 and it.began and it.parent is None and self.accepts:
            it.children += 1
            self._begin(it.instance, it)
        elif chance < 0.75 and self.settings.prepares and it.began and it.parent is None:
            it.deciding = True
        elif it.began:
            self._commit(it) if chance < 0.95 else self._roll_back(it)

    def _change(self, it: Transaction) -> None:
        row = self.random.randrange(DATA_ROWS)
        if self.locks.get(row, it) is it:
            self.locks[row] = it
            self.scn[it.instance] = max(self.scn[it.instance], self.row_scn[row])
            it.drawn = (self.draw(it.instance), row)

    def _commit(self, it: Transaction) -> None:
        self.scn[it.instance] += 1
        it.commit = self.scn[it.instance]
        self.committed.append(it)
        for key, row in it.rows:
            self.versions[row].append(key)
            self.row_scn[row] = it.commit
        self._unlock(it)

    def _roll_back(self, it: Transaction) -> None:
        it.rows.clear()
        it.listed = it.prepared = False
        self._unlock(it)
        self._end(it)

    def _unlock(self, it: Transaction) -> None:
        self.locks = {row: holder for row, holder in self.locks.items() if holder is not it}

    def _end(self, it: Transaction) -> None:
        it.ended = True
        self.transactions.remove(it)
        if it.parent is not None:
            it.parent.children -= 1

    def _crash_or_recover(self) -> None:
        if self.down:
            self.recover(next(iter(self.down)))
        else:
            self._crash(self.random.randrange(self.settings.instances))

    def _crash(self, instance: int) -> None:
        self.down.add(instance)
        for it in [each for each in self.transactions if each.instance == instance]:
            if it.deciding and it.commit is None:
                it.listed, it.prepared, it.moves = False, True, 1
            elif it.commit is None:
                self._roll_back(it)
            elif not it.ended:
                it.listed = it.prepared = False
                self._end(it)

    def recover(self, instance: int) -> None:
        """Reads its log: the others learn of its SCN. It starts again."""
        self.down.discard(instance)
        self.runs[instance] += 1
        for number in self.up():
            self.scn[number] = max(self.scn[number], self.scn[instance])

    def rows(self) -> list[tuple[int, int]]:
        """Transaction and key of every item that can be seen now, by key."""
        found = [(key, it.xid) for it in self.committed for key, _ in it.rows if key not in self.purged]
        return [(xid, key) for key, xid in sorted(found)]


@dataclass
class Reader:
    """A session that takes positions and reads windows: the `Master` of `take`."""

    world: World
    instance: int = 0

    def incarnation(self) -> Incarnation:
        return HERE

    def time(self) -> str:
        return ""

    def threads(self) -> Collection[Thread]:
        self._meanwhile()
        return [
            Thread(number, "" if number in self.world.down else f"run {run}")
            for number, run in enumerate(self.world.runs)
        ]

    def draw(self) -> int:
        self._meanwhile()
        return self.world.draw(self.instance)

    def listed(self) -> Mapping[int, int]:
        found: dict[int, int] = {}
        for number in range(self.world.settings.instances):
            self._meanwhile()
            found |= {it.xid: it.start for it in self.world.transactions if it.listed and it.instance == number}
        return found

    def prepared(self) -> Collection[int]:
        self._meanwhile()
        return {it.xid for it in self.world.transactions if it.prepared}

    def scns(self) -> Sequence[int]:
        found = []
        for number in range(self.world.settings.instances):
            self._meanwhile()
            if number not in self.world.down:
                found.append(self.world.scn[number])
        return found

    def pause(self) -> None:
        self.world.message()
        self._meanwhile()

    def visible(self, scn: int, above: int, up_to: int, among: Collection[int]) -> Collection[int]:
        """Two searches, by key and by transaction, with others' steps between."""
        found: set[int] = set()
        for wanted_by_key in (True, False):
            self._meanwhile()
            for it in self.world.committed:
                assert it.commit is not None
                keys = [key for key, _ in it.rows if key not in self.world.purged]
                wanted = any(above < key <= up_to for key in keys) if wanted_by_key else it.xid in among and bool(keys)
                if it.commit <= scn and wanted:
                    found.add(it.xid)
        return found

    def _meanwhile(self) -> None:
        self.world.run(self.world.some())
        while self.instance in self.world.down:
            self.world.step()
            self.world.recover(self.instance)
