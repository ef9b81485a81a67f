"""The conditions of reads and purges of ITEMS agree with positions. They run on SQLite, where they mean the same."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from hypothesis import given
from hypothesis import strategies as st

from sluice import sql_files
from sluice.model.names import Prefix
from sluice.model.position import Window
from sluice.vendors.oracle.queue_position import Incarnation, QueuePosition, trans_key_of
from sluice.vendors.oracle.source.reader import Condition, listed

TRANSACTIONS = [1, 2, 12, 1 << 48, (1 << 48) + 1]
KEYS = range(1, 13)


@st.composite
def positions(draw: st.DrawFn) -> QueuePosition:
    low = draw(st.integers(0, 9))
    high = low + draw(st.integers(1, 4))
    kinds = draw(st.lists(st.sampled_from(["open", "seen", "other"]), min_size=5, max_size=5))
    named = {kind: frozenset(x for x, is_ in zip(TRANSACTIONS, kinds, strict=True) if is_ == kind) for kind in kinds}
    return QueuePosition(
        low, high, named.get("open", frozenset()), named.get("seen", frozenset()), Incarnation(1, "", 1, 0)
    )


@contextmanager
def items(owners: list[int]) -> Iterator[sqlite3.Connection]:
    """A database with ITEMS: one change for each key, by these transactions, and a row in LONGS_TABLE for each."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE TABLE DEMO_ITEMS "
            "(REPL_KEY, TRANS_KEY, DB_SCHEMA, TABLENAME, GUID, DB_ACTION, CONTENT, OLDCONTENT, VERSION)"
        )
        rows = [(key, trans_key_of(number)) for key, number in zip(KEYS, owners, strict=True)]
        database.executemany("INSERT INTO DEMO_ITEMS (REPL_KEY, TRANS_KEY) VALUES (?, ?)", rows)
        database.execute("CREATE TABLE DEMO_LONGS_TABLE AS SELECT REPL_KEY, CONTENT FROM DEMO_ITEMS")
        yield database


OWNERS = st.lists(st.sampled_from(TRANSACTIONS), min_size=len(KEYS), max_size=len(KEYS))


@given(positions(), positions(), OWNERS)
def test_a_window_holds_what_its_end_covers_and_its_beginning_does_not(
    former: QueuePosition, target: QueuePosition, owners: list[int]
) -> None:
    chosen = Condition(Window(former, target))
    statement, binds = chosen.statement("queue_items", Prefix("DEMO_")), chosen.binds | {"floor": 0}
    with items(owners) as database:
        found = [row[0] for row in database.execute(statement, binds)]
    changes = zip(KEYS, owners, strict=True)
    assert found == [key for key, number in changes if target.covers(number, key) and not former.covers(number, key)]


@given(st.lists(positions(), min_size=1, max_size=3), OWNERS, st.integers(0, 12))
def test_a_purge_deletes_nothing_that_a_slave_lacks_and_all_that_they_have_up_to_the_lowest_low(
    slaves: list[QueuePosition], owners: list[int], through: int
) -> None:
    low = min(slave.low for slave in slaves)
    opened = frozenset[int]().union(*(slave.open for slave in slaves))
    binds = {"above": 2, "through": through, "low": low, "open": listed(opened)}
    with items(owners) as database:
        database.execute(sql_files.render("oracle", "purge", prefix="DEMO_"), binds)
        database.execute(sql_files.render("oracle", "purge_longs", prefix="DEMO_"))
        left = {row[0] for row in database.execute("SELECT REPL_KEY FROM DEMO_ITEMS")}
        assert left == {row[0] for row in database.execute("SELECT REPL_KEY FROM DEMO_LONGS_TABLE")}
    for key, number in zip(KEYS, owners, strict=True):
        covered = all(slave.covers(number, key) for slave in slaves)
        assert (key not in left) == (covered and 2 < key <= min(low, through))
