"""Exits that make several rows of one, on a MariaDB slave: loaded, applied, cut off, compared, repaired, set aside."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import yaml

from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.errors import SluiceError
from sluice.verify.compare import CompareOptions
from sluice.verify.findings import Kind, Outcome
from sluice.verify.resync import Action, resync
from tests.scenarios.mariadb.rig import Rig
from tests.scenarios.transform.several import DDL, ORDER_LINES, POST_TAGS, TABLES, TRUNCATING, WRITES
from tests.scenarios.transform.test_several_rows import ORDERS, POSTS

LINES = "".join(
    f"  {name}: {yaml.safe_dump(line, default_flow_style=True, width=10_000)}" for name, line in TABLES.items() if line
)


def assert_produced(pair: Rig) -> None:
    for expected, query in (
        (ORDER_LINES, "SELECT Shop, id, item, line FROM order_lines"),
        (POST_TAGS, "SELECT id, tag, at FROM posts"),
        ("SELECT id, v FROM public.plain", "SELECT id, v FROM plain"),
    ):
        master = pair.master.execute(expected.encode()).fetchall()
        assert sorted(repr(tuple(row)) for row in pair.slave.run(query)) == sorted(map(repr, master))


def cut_off(pair: Rig) -> None:
    """Ends the apply's sessions on the slave."""
    sessions = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    for (number,) in pair.slave.run(sessions).fetchall():
        with suppress(SluiceError):  # it has ended by itself
            pair.slave.run(f"KILL {number}")


@pytest.mark.parametrize("options", [{}, {"safe_mode": "true"}], ids=["normal", "safe mode"])
def test_they_follow_the_master_and_are_compared_and_repaired(rig: Callable[..., Rig], options: dict[str, Any]) -> None:
    pair = rig(DDL, lines=LINES, block_rows=30, **options)
    update = pair.load()
    with pair.apply() as running:
        running.await_normal_mode() if not options else pair.await_current()
        pair.finish(update)
        assert_produced(pair)
        for _ in range(3):
            for statement in (*WRITES, *TRUNCATING):
                pair.master.execute(statement.encode())
            cut_off(pair)
        pair.await_current()
        assert_produced(pair)
        pair.slave.run("UPDATE order_lines SET item = 'mine' WHERE line = 2 LIMIT 3")
        pair.slave.run("INSERT INTO order_lines VALUES ('nowhere', 1, 'mine', 1)")
        pair.slave.run("DELETE FROM posts ORDER BY id, tag LIMIT 2")
        store = redis_store.connect(pair.redis_url)
        for table, repaired, missing in ((ORDERS, 4, 0), (POSTS, 2, 2)):
            found = resync(pair.pair, store, table, CompareOptions(), Action.REPAIR, 100)
            assert (found.repaired, found.outcome) == (repaired, Outcome.IDENTICAL), found.finding
            assert found.finding.found[Kind.MISSING].count == missing
        assert_produced(pair)


def test_each_row_that_conflicts_is_set_aside(rig: Callable[..., Rig]) -> None:
    pair = rig(DDL, lines=LINES, on_conflict="reject")
    pair.load()
    with pair.apply() as running:
        running.await_normal_mode()
        pair.master.execute("INSERT INTO public.posts VALUES (900, 'a;A;a ;b')")
        pair.await_current()
        pair.slave.run("UPDATE posts SET at = '2000-01-01' WHERE id = 900 AND tag <> 'b'")
        pair.master.execute("UPDATE public.posts SET at = '2026-02-02 00:00+00' WHERE id = 900")
        pair.await_current()
        aside = RejectStore.of(pair.pair, pair.slave).open()
        assert sorted(each.keys for each in aside) == [("3:9001:A",), ("3:9001:a",), ("3:9002:a ",)]
        found = resync(pair.pair, redis_store.connect(pair.redis_url), POSTS, CompareOptions(), Action.REPAIR, 100)
        assert (found.repaired, found.outcome) == (3, Outcome.IDENTICAL)
        assert not RejectStore.of(pair.pair, pair.slave).open()
        assert_produced(pair)
