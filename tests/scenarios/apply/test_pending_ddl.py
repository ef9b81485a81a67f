"""A slave whose DDL commits by itself, like Oracle and MySQL: the apply ends at each step; no change is lost or
doubled.

PostgreSQL plays that slave: the vendor says that its DDL is not transactional, and the apply runs it in a transaction
of its own.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from sluice.apply.pair_sessions import PairSessions
from sluice.database.session import Session
from sluice.errors import Transient
from sluice.model.vendors import VENDORS
from tests.rig.rig import Rig
from tests.scenarios.apply.test_definitions import CASES, KEYED

STEPS = ("_change_definition", "_own_ddl", "_try")
"""Functions of `WindowTransaction` with transactions of the slave: the innermost names what a strike hit."""

LAYERED = (
    f"{KEYED}; CREATE TABLE public.old (id int PRIMARY KEY, note text)",
    [
        "INSERT INTO public.t VALUES (-1, 7, 'before')",
        "ALTER TABLE public.t ADD COLUMN w int NOT NULL DEFAULT 3",
        "UPDATE public.t SET w = id WHERE id > 15",
        "INSERT INTO public.old SELECT g, 'g' FROM generate_series(1, 5) g",
        "ALTER TABLE public.old RENAME TO between",
        "ALTER TABLE public.t RENAME TO old",
        "ALTER TABLE public.between RENAME TO t",
        "UPDATE public.t SET note = 'of the former old' WHERE id = 2",
        "UPDATE public.old SET v = 'of the former t' WHERE id = 2",
        "ALTER TABLE public.old ALTER COLUMN v TYPE varchar(30), DROP COLUMN n",
        "DELETE FROM public.old WHERE id = 3",
        "DROP TABLE public.t",
    ],
)
"""Names that change places, a column with values for old rows, a table that goes."""


COLUMNS = """SELECT attname FROM pg_attribute
WHERE attrelid = 'public.t'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""


class Killed(Transient):
    """The apply's connections are lost, and a new apply takes over."""


class Strikes:
    """Kills the apply at the first transaction of the slave after a start, then at the second one after the next start,
    and so on."""

    def __init__(self, after_commit: bool) -> None:
        self.after_commit = after_commit
        self.hit: Counter[str] = Counter()
        self._place = 1
        self._seen = 0

    def strike(self, *, committed: bool) -> None:
        self._seen += not committed
        if committed is self.after_commit and self._seen == self._place:
            names = [frame.name for frame in traceback.extract_stack()]
            self.hit[next((name for name in STEPS if name in names), "other")] += 1
            self._place, self._seen = self._place + 1, 0
            raise Killed("struck")


@pytest.fixture
def strikes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Strikes:
    found = Strikes(request.param == "after each commit")
    transaction = PairSessions.slave_transaction

    @contextmanager
    def struck(links: PairSessions, **options: Any) -> Iterator[Session]:
        with transaction(links, **options) as slave:
            yield slave
            found.strike(committed=False)
        found.strike(committed=True)

    monkeypatch.setattr(PairSessions, "slave_transaction", struck)
    monkeypatch.setattr("sluice.apply.escalation.LONGEST_BACKOFF_SECONDS", 0.01)
    return found


@pytest.fixture(autouse=True)
def ddl_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VENDORS, "postgres", replace(VENDORS["postgres"], transactional_ddl=False))


def waiting(rig: Callable[..., Rig], tables: str, statements: list[str], rows: int = 20, **options: object) -> Rig:
    """A pair with waiting changes, the statements in one transaction."""
    pair = rig(tables, **options)
    pair.master.execute(
        f"INSERT INTO public.t SELECT g, {rows + 1} - g, 'a' FROM generate_series(1, {rows}) g".encode()
    )
    with pair.master.transaction():
        for statement in statements:
            pair.master.execute(statement.encode())
    return pair


@pytest.mark.long
@pytest.mark.parametrize("strikes", ["before each commit", "after each commit"], indirect=True)
@pytest.mark.parametrize("case", [*CASES, "in layers"])
def test_the_slave_ends_equal_wherever_the_apply_ends(rig: Callable[..., Rig], strikes: Strikes, case: str) -> None:
    tables, statements = LAYERED if case == "in layers" else CASES[case]
    pair = waiting(rig, tables, statements)
    with pair.apply():
        pair.await_current()
        assert pair.differences() == {}
        assert pair.tables(pair.master) == pair.tables(pair.slave)
    assert strikes.hit["_try"] and (case == "a table is truncated" or strikes.hit["_change_definition"])


@pytest.mark.long
@pytest.mark.parametrize("strikes", ["after each commit"], indirect=True)
def test_a_large_window_before_a_change_of_definition_is_staged(rig: Callable[..., Rig], strikes: Strikes) -> None:
    pair = waiting(rig, *LAYERED, rows=200, stage=50, batch=100)
    with pair.apply():
        pair.await_current()
        assert pair.differences() == {}
    assert strikes.hit["_change_definition"] and strikes.hit["_try"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kept", ["slave", "redis"])
def test_until_a_change_of_definition_is_done_the_slave_is_catching_up(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    pair = waiting(rig, *CASES["a column is added and used"], kept=kept)
    seen: list[tuple[bool, list[str]]] = []
    transaction = PairSessions.slave_transaction

    @contextmanager
    def watched(links: PairSessions, **options: Any) -> Iterator[Session]:
        with transaction(links, **options) as slave:
            yield slave
        columns = pair.slave.execute(COLUMNS).fetchall()
        seen.append((pair.checkpoint.catching_up, [name for (name,) in columns]))

    monkeypatch.setattr(PairSessions, "slave_transaction", watched)
    with pair.apply() as running:
        pair.await_applied(running)
    definitions = [columns for _, columns in seen]
    assert definitions[0] == ["id", "n", "v"] and definitions[-1] == ["id", "n", "w"]
    between = [caught for caught, columns in seen if columns == ["id", "n", "v", "w"]]
    changed = [now for before, now in pairwise(seen) if before[1] != now[1]]
    assert all(between) and all(caught for caught, _ in changed) and len(changed) == 2
    assert not seen[-1][0] and pair.differences() == {}
