"""Windows between positions lose nothing, repeat nothing and keep the order of each row's changes.

Hundreds of transactions on dozens of connections, interleaved by a seeded script: commits that
come late, rollbacks, savepoints, two-phase commits that stay prepared for long. At random moments
a position is taken and the window since the last one is read. Every committed change must come in
exactly one window, and the changes of a row in the order in which they happened. A source that says
that nothing was committed must have an empty window.
"""

import random
from dataclasses import dataclass, field

import pytest

from sluice.model.position import Position, Window
from tests.vendors import contender
from tests.vendors.contender import PREFIX, Contender

ROWS = 200
CONNECTIONS = 24
STEPS = 2_500


@dataclass
class Writer:
    """One connection, and its changes since its transaction began."""

    session: contender.Writer
    tokens: list[tuple[int, str]] = field(default_factory=list)
    """(row, token) of each change still to be committed."""
    savepoints: list[int] = field(default_factory=list)
    """How many tokens there were at each savepoint."""


@dataclass
class History:
    """The expected result: committed tokens of each row in the order in which they were written."""

    committed: dict[int, list[str]] = field(default_factory=lambda: {row: [] for row in range(ROWS)})
    locked: dict[int, object] = field(default_factory=dict)
    """Which writer (or prepared transaction) holds a row."""

    def commit(self, owner: object, tokens: list[tuple[int, str]]) -> None:
        for row, token in tokens:
            self.committed[row].append(token)
        self.release(owner)

    def release(self, owner: object) -> None:
        self.locked = {row: held for row, held in self.locked.items() if held is not owner}


@pytest.mark.parametrize("seed", range(2))
def test_windows_lose_nothing_repeat_nothing_and_keep_row_order(source: Contender, seed: int) -> None:
    source.install()
    admin = source.session()
    queue = source.vendor.queue(admin, PREFIX, source.schema)
    table = source.place("t")
    admin.execute(f"CREATE TABLE {table} (id {source.whole_number} PRIMARY KEY, token {source.short_text})".encode())
    for row in range(ROWS):
        admin.execute(f"INSERT INTO {table} VALUES ({row}, '')".encode())
    source.capture("t")

    chance = random.Random(seed)
    history = History()
    writers = [Writer(source.writer()) for _ in range(CONNECTIONS)]
    prepared: dict[str, list[tuple[int, str]]] = {}
    start = queue.take()
    seen: dict[int, list[str]] = {row: [] for row in range(ROWS)}
    reader = source.vendor.reader(source.info, PREFIX, source.schema, application="reader")
    windows = 0

    def read_window(start: Position) -> Position:
        nothing = queue.nothing_committed(start)
        target = queue.take(start)
        contents = reader.items(Window(start, target))["content"].to_pylist()
        assert not (nothing and contents), "it said that nothing was committed"
        for content in contents:
            row, token = source.vendor.images.row(content).values()
            seen[int(row or 0)].append(token or "")
        return target

    for step in range(STEPS):
        writer = chance.choice(writers)
        action = chance.random()
        if action < 0.06:
            start = read_window(start)
            windows += 1
        elif action < 0.10 and prepared:
            gid = chance.choice(sorted(prepared))
            tokens = prepared.pop(gid)
            if chance.random() < 0.7:
                admin.execute(f"COMMIT PREPARED '{gid}'".encode())
                history.commit(gid, tokens)
            else:
                admin.execute(f"ROLLBACK PREPARED '{gid}'".encode())
                history.release(gid)
        elif action < 0.60 or not writer.session.open:
            free = [row for row in range(ROWS) if history.locked.get(row, writer) is writer]
            row = chance.choice(free)
            token = f"s{step}"
            if not writer.session.open:
                writer.session.begin()
            writer.session.do(f"UPDATE {table} SET token = '{token}' WHERE id = {row}")
            writer.tokens.append((row, token))
            history.locked[row] = writer
        elif action < 0.68:
            writer.session.do(f"SAVEPOINT s{len(writer.savepoints)}")
            writer.savepoints.append(len(writer.tokens))
        elif action < 0.76 and writer.savepoints:
            depth = chance.randrange(len(writer.savepoints))
            writer.session.do(f"ROLLBACK TO SAVEPOINT s{depth}")
            # Rows locked since stay locked in this model; the database lets them go, which only helps.
            del writer.tokens[writer.savepoints[depth] :]
            del writer.savepoints[depth + 1 :]
        elif action < 0.80 and source.two_phase and len(prepared) < 20:
            gid = f"g{seed}_{step}"
            writer.session.prepare(gid)
            prepared[gid] = list(writer.tokens)
            history.locked = {row: gid if held is writer else held for row, held in history.locked.items()}
            writer.tokens, writer.savepoints = [], []
        elif action < 0.86:
            writer.session.rollback()
            history.release(writer)
            writer.tokens, writer.savepoints = [], []
        else:
            writer.session.commit()
            history.commit(writer, writer.tokens)
            writer.tokens, writer.savepoints = [], []

    start = read_window(start)
    assert seen == history.committed, "changes of transactions still open must not be there, all others must"
    assert windows > 50
    for gid in prepared:
        admin.execute(f"ROLLBACK PREPARED '{gid}'".encode())
    reader.close()


def test_a_commit_is_noticed_and_an_open_transaction_is_none(source: Contender) -> None:
    source.install()
    admin = source.session()
    queue = source.vendor.queue(admin, PREFIX, source.schema)
    table = source.place("t")
    admin.execute(f"CREATE TABLE {table} (id {source.whole_number} PRIMARY KEY, token {source.short_text})".encode())
    source.capture("t")
    writer = source.writer()
    writer.begin()
    writer.do(f"INSERT INTO {table} VALUES (1, 'one')")
    start = queue.take()
    cheap = source.info.vendor == "postgres"
    assert queue.nothing_committed(start) is cheap
    assert queue.nothing_committed(start) is cheap, "the same cursor tells it again"
    writer.commit()
    assert not queue.nothing_committed(start)
