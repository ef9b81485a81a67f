"""The statement that reads a window finds what positions cover. It runs on SQLite: its words mean the same there."""

import json
import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from sluice import sql_files
from sluice.vendors.oracle.queue_position import Incarnation, QueuePosition, trans_key_of

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


def listed(transactions: frozenset[int]) -> str:
    return json.dumps([trans_key_of(number) for number in sorted(transactions)])


@given(positions(), positions(), st.lists(st.sampled_from(TRANSACTIONS), min_size=len(KEYS), max_size=len(KEYS)))
def test_a_window_holds_what_its_end_covers_and_its_beginning_does_not(
    former: QueuePosition, target: QueuePosition, owners: list[int]
) -> None:
    statement = sql_files.render("oracle", "queue_items", prefix="DEMO_")
    with sqlite3.connect(":memory:") as database:
        database.execute(
            "CREATE TABLE DEMO_ITEMS (REPL_KEY, TRANS_KEY, DB_SCHEMA, TABLENAME, GUID, DB_ACTION, CONTENT, OLDCONTENT)"
        )
        changes = list(zip(KEYS, owners, strict=True))
        rows = [(key, trans_key_of(number)) for key, number in changes]
        database.executemany("INSERT INTO DEMO_ITEMS (REPL_KEY, TRANS_KEY) VALUES (?, ?)", rows)
        binds = {
            "floor": 0,
            "low": target.low,
            "high": target.high,
            "open": listed(target.open),
            "seen": listed(target.seen),
            "former_low": former.low,
            "former_high": former.high,
            "former_open": listed(former.open),
            "former_seen": listed(former.seen),
        }
        found = [row[0] for row in database.execute(statement, binds)]
    database.close()
    assert found == [key for key, number in changes if target.covers(number, key) and not former.covers(number, key)]
