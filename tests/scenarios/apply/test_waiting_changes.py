"""What waits for a slave: a person sees its beginning, and clears it."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from sluice.airflow import steps_removal
from sluice.apply import waiting_changes
from sluice.coordination.gate import ADMIN, Gate
from sluice.coordination.records import Events, Status
from sluice.model.names import TableName
from sluice.model.slave_state import SlaveState
from tests.errors import raises_code
from tests.rig.rig import Rig
from tests.scenarios.apply.test_first_transaction import task

TABLES = """
CREATE TABLE public.a (id int PRIMARY KEY, v text, w text);
CREATE TABLE public.nokey (v text);
"""
A, NOKEY = TableName("public", "a"), TableName("public", "nokey")


def write(pair: Rig) -> None:
    pair.master.execute("INSERT INTO public.a SELECT g, 'v' || g, 'w' FROM pg_catalog.generate_series(1, 30) g")
    with pair.master.transaction():
        pair.master.execute("UPDATE public.a SET v = NULL WHERE id = 7")
        pair.master.execute("INSERT INTO public.nokey VALUES ('x')")
    pair.master.execute("DELETE FROM public.a WHERE id = 8")
    pair.master.execute("TRUNCATE public.nokey")


def said_by(pair: Rig) -> dict[str, Any]:
    """The status of the apply."""
    return dict(Status(pair.store, pair.pair.prefix, "dr1").read())


def test_the_first_changes_are_shown_in_order_with_their_values(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    write(pair)
    few = waiting_changes.read(pair.pair, pair.store, "test", 3)
    assert str(few) == "34 changes" and not few.more
    assert [(one.table, one.action, one.before, one.after) for one in few.first] == [
        (A, "INSERT", {}, {"id": str(number), "v": f"v{number}", "w": "w"}) for number in (1, 2, 3)
    ]
    update, insert, delete, truncate = waiting_changes.read(pair.pair, pair.store, "test", 100).first[30:]
    assert (update.action, update.before, update.after) == (
        "UPDATE", {"id": "7", "v": "v7"}, {"id": "7", "v": None, "w": "w"},
    )  # fmt: skip
    assert (insert.table, insert.after) == (NOKEY, {"v": "x"}) and insert.transaction == update.transaction
    assert (delete.action, delete.before) == ("DELETE", {"id": "8", "v": "v8", "w": "w"})
    assert (truncate.action, truncate.before, truncate.after) == ("TRUNCATE", {}, {})
    with pair.apply():
        pair.await_current()
    assert waiting_changes.read(pair.pair, pair.store, "test", 3).first == ()


def test_cleared_changes_are_never_applied_and_a_running_apply_stops_there(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    gate = Gate(pair.store, pair.pair.prefix, "dr1")
    with pair.apply():
        pair.await_current()
        gate.close(ADMIN, "olga", "a look")
        pair.await_that(lambda: "the gate is closed" in str(said_by(pair).get("activity")))
        pair.master.execute("INSERT INTO public.a VALUES (99, 'lost', '')")
        said = str(waiting_changes.clear(pair.pair, pair.store, "olga", "test data", "test"))
        gate.open(ADMIN)
        pair.await_that(lambda: said_by(pair).get("state") == "INCONSISTENT")
    assert said.startswith("1 change cleared. dr1 is INCONSISTENT: start an initial update")
    assert pair.checkpoint.state is SlaveState.INCONSISTENT
    assert pair.checkpoint.message == "1 change that waited for it cleared by olga: test data"
    happened = [event.text for event in Events(pair.store, pair.pair.prefix, "dr1").read()]
    assert any("olga cleared what waited (test data)" in text for text in happened)
    with raises_code("no-changes-to-clear", match="the slave is INCONSISTENT"):
        waiting_changes.clear(pair.pair, pair.store, "olga", "again", "test")
    assert pair.slave.execute("SELECT count(*) FROM public.a WHERE id = 99").fetchone() == (0,)


def test_nothing_is_cleared_where_nothing_waits_or_blocks_are_loading(
    rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = rig(TABLES)
    with pair.apply():
        pair.await_current()
    with raises_code("no-changes-to-clear", match="no change waits"):
        steps_removal.remove.body(task(pair, monkeypatch, which="all", reason="why"))
    with raises_code("reason-missing"):
        steps_removal.remove.body(task(pair, monkeypatch, which="all", reason=""))
    write(pair)
    with pair.slave.transaction():
        pair.checkpoints.put_tables(pair.checkpoint.tables.load([A], "{}"))
    with raises_code("no-changes-to-clear", match="Cancel it instead"):
        steps_removal.remove.body(task(pair, monkeypatch, which="all", reason="why"))
    assert pair.checkpoint.state is SlaveState.NORMAL


def test_a_slave_may_get_fewer_changes_at_once_than_others(rig: Callable[..., Rig]) -> None:
    pair = rig(TABLES)
    assert pair.pair.most_changes == 1_000_000
    file = pair.replication.source  # which the apply reads again
    options = yaml.safe_load(file.read_text())
    options["slaves"]["dr1"]["max_batch_changes"] = 7
    file.write_text(yaml.safe_dump(options))
    few = pair.with_slave(max_batch_changes=7)
    assert few.pair.most_changes == 7
    write(pair)
    with few.apply():
        few.await_current()
    assert pair.slave.execute("SELECT count(*) FROM public.a").fetchone() == (29,)
    assert len(pair.slave.execute("SELECT DISTINCT xmin::text FROM public.a").fetchall()) >= 4, "in slices of seven"
