"""`checkpoint: redis` on real servers: whatever happens to the checkpoint in Redis, the slave ends equal.

The apply writes to Redis at its start, at its end and once a minute here. So a test can take the checkpoint from Redis
and put it back to get the state after a kill -9, a fail-over or from an old dump.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devstack.redis import RedisServer
from sluice.control.rejects import RejectStore
from sluice.coordination import redis_store
from sluice.coordination.redis_checkpoint import StoredCheckpoint
from sluice.database.conflicts import Drift
from sluice.model.checkpoint import Fenced
from sluice.model.names import TableName
from sluice.model.position import Position
from sluice.model.reject import RejectStatus
from sluice.model.table_state import TableState
from sluice.vendors.postgres import sessions
from sluice.vendors.postgres.snapshot_position import SnapshotPosition
from sluice.vendors.postgres.source.queue import PostgresQueue
from tests.errors import raises_code
from tests.rig.rig import Rig
from tests.scenarios.apply.shapes import AGAIN, SHAPES

TABLE = "CREATE TABLE public.t (id int PRIMARY KEY, v text)"
KEY = "sluice:DEMO_:dr1:checkpoint"


@pytest.fixture
def kept(rig: Callable[..., Rig]) -> Callable[..., Rig]:
    """Builds a rig whose slave keeps its checkpoint in Redis."""

    def build(tables: str, **options: Any) -> Rig:
        return rig(tables, **{"kept": "redis", "interval": 60.0, **options})

    return build


def stored(pair: Rig) -> StoredCheckpoint:
    return StoredCheckpoint(redis_store.connect(pair.redis_url), pair.pair.prefix, "dr1")


def take(pair: Rig) -> dict[str, str]:
    """What Redis has of the checkpoint."""
    return redis_store.connect(pair.redis_url).hgetall(KEY)  # type: ignore[return-value]


def put_back(pair: Rig, values: dict[str, str]) -> None:
    client = redis_store.connect(pair.redis_url)
    client.delete(KEY)
    if values:
        client.hset(KEY, mapping=values)


def position_in_redis(pair: Rig) -> Position:
    found = stored(pair).read()
    assert found is not None
    return found.position


def waiting(pair: Rig) -> int:
    """The number of row changes in ITEMS."""
    row = pair.master.execute("SELECT count(*) FROM public.demo_items WHERE tablename = 't' AND content IS NOT NULL")
    (number,) = row.fetchone()  # type: ignore[misc]
    return int(number)


def current(pair: Rig) -> None:
    """Runs an apply from its start to a normal end at the master's current position."""
    with pair.apply() as running:
        pair.await_applied(running)


def test_the_position_goes_to_redis_and_not_to_the_slave(kept: Callable[..., Rig]) -> None:
    pair = kept(TABLE)
    fallback = pair.checkpoint.position
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a'), (2, 'b')")
        pair.await_applied(running)
        assert pair.differences() == {}
        assert (pair.checkpoint.position, pair.checkpoint.changes) == (fallback, 2)
        assert position_in_redis(pair) == fallback, "the next write is due in a minute"
        assert "in Redis, every 60 s" in running.loop.checkpoints.explain()
    assert position_in_redis(pair) != fallback, "written at shutdown"
    assert pair.checkpoint.position == fallback
    current(pair)
    assert pair.checkpoint.changes == 2, "nothing comes again after a clean stop"


@pytest.mark.long
def test_a_table_that_is_left_out_stays_so_when_its_new_name_comes_again(kept: Callable[..., Rig]) -> None:
    pair = kept(TABLE)
    for name in ("late", "gone"):
        pair.master.execute(f"CREATE TABLE public.{name} (id int PRIMARY KEY); INSERT INTO public.{name} VALUES (1)")
        pair.capture_table(name)
    current(pair)
    known = take(pair)
    pair.master.execute("ALTER TABLE public.late RENAME TO later; DROP TABLE public.gone")
    current(pair)
    put_back(pair, known)
    pair.master.execute("UPDATE public.later SET id = 2; INSERT INTO public.t VALUES (1, 'a')")
    current(pair)
    found = pair.checkpoint.tables
    assert dict(found.not_ready) == {TableName("public", "later"): TableState.ABSENT} and not found.former
    assert pair.slave.execute("SELECT v FROM public.t").fetchall() == [("a",)]


@pytest.mark.long
def test_it_is_written_at_the_interval(kept: Callable[..., Rig]) -> None:
    pair = kept(TABLE, interval=0.3)
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
        pair.await_applied(running)
        applied = running.loop.seen
        assert applied is not None
        pair.await_that(lambda: position_in_redis(pair).covers_all_of(applied))
        pair.await_that(lambda: bool((now := pair.checkpoint.position) and now.covers_all_of(applied)))


@pytest.mark.long
@pytest.mark.parametrize("shape", AGAIN)
def test_killed_between_applying_and_writing(kept: Callable[..., Rig], shape: str) -> None:
    """Each time the checkpoint falls back by one transaction, by two, or to the first one."""
    pair = kept(SHAPES[shape].tables)
    pair.slave.execute(SHAPES[shape].slave or "SELECT")
    left: list[dict[str, str]] = []
    for number, transaction in enumerate(SHAPES[shape].history):
        with pair.apply() as running:
            left.append(take(pair))
            pair.await_applied(running)
            with pair.master.transaction():
                pair.master.execute(transaction)
            pair.await_applied(running)
        assert pair.differences() == {}
        put_back(pair, left[max(0, number - number % 3)])
    current(pair)
    assert pair.differences() == {}


@pytest.mark.long
def test_changes_that_follow_come_with_those_that_come_again(kept: Callable[..., Rig]) -> None:
    pair = kept(TABLE)
    with pair.apply() as running:
        before = take(pair)
        pair.master.execute("INSERT INTO public.t SELECT g, 'a' FROM generate_series(1, 9) g")
        pair.await_applied(running)
    pair.master.execute("UPDATE public.t SET id = id + 100 WHERE id > 5")
    pair.master.execute("DELETE FROM public.t WHERE id IN (1, 101, 106)")
    put_back(pair, before)
    with pair.apply() as running:
        pair.await_applied(running)
        assert pair.differences() == {}
        assert running.loop.mode.reason == "started"
    assert pair.checkpoint.changes == 9 + 9 + 4 + 2


@pytest.mark.long
def test_an_emptied_redis_costs_time_and_nothing_else(
    kept: Callable[..., Rig], caplog: pytest.LogCaptureFixture
) -> None:
    pair = kept(TABLE)
    for number in range(3):
        with pair.apply() as running:
            pair.master.execute("INSERT INTO public.t VALUES (%s, 'a')", [number])
            pair.master.execute("UPDATE public.t SET v = v || 'x'")
            pair.await_applied(running)
        redis_store.connect(pair.redis_url).flushall()
        pair.master.execute("DELETE FROM public.t WHERE id = %s", [number - 1])
    current(pair)
    assert pair.differences() == {}
    assert "Redis holds no checkpoint" in caplog.text


@pytest.mark.long
def test_an_emptied_redis_after_a_purge_has_lost_nothing(kept: Callable[..., Rig]) -> None:
    """ITEMS is purged behind the slave's own position: changes that may come again are kept."""
    pair = kept(TABLE)
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a'), (2, 'b')")
        pair.await_applied(running)
        applied = running.loop.seen
    fallback = pair.checkpoint.position
    assert fallback is not None
    assert applied is not None
    PostgresQueue(pair.master, pair.pair.prefix, "public").purge([applied, fallback])
    assert waiting(pair) == 2
    redis_store.connect(pair.redis_url).flushall()
    current(pair)
    current(pair)
    fallback = pair.checkpoint.position
    assert fallback is not None
    assert PostgresQueue(pair.master, pair.pair.prefix, "public").purge([fallback]) == 2
    assert waiting(pair) == 0
    redis_store.connect(pair.redis_url).flushall()
    pair.master.execute("DELETE FROM public.t WHERE id = 1")
    current(pair)
    assert pair.differences() == {}


@pytest.mark.long
def test_a_redis_dump_of_an_earlier_life_is_recognised_by_its_epoch(
    kept: Callable[..., Rig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A real dump file, restored into a stopped server."""
    server = RedisServer(tmp_path / "redis", settings={"appendonly": "no"})
    server.start(die_with_parent=True)
    try:
        pair = kept(TABLE)
        pair.redis_url = server.url
        with pair.apply() as running:
            pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
            pair.await_applied(running)
        client = redis_store.connect(server.url)
        client.save()
        shutil.copy(server.data / "dump.rdb", tmp_path / "old.rdb")
        with pair.apply() as running:
            pair.master.execute("UPDATE public.t SET id = 2")
            pair.master.execute("INSERT INTO public.t VALUES (1, 'b')")
            pair.await_applied(running)
        client.close()
        server.stop()
        shutil.copy(tmp_path / "old.rdb", server.data / "dump.rdb")
        server.start(die_with_parent=True)
        assert position_in_redis(pair)
        current(pair)
        assert pair.differences() == {}
        assert "is of epoch 1, the slave's is 2: an old one came back" in caplog.text
    finally:
        server.stop()


@pytest.mark.long
def test_redis_killed_under_a_running_apply(kept: Callable[..., Rig], tmp_path: Path) -> None:
    """The apply stops, and continues from the slave's own position when Redis is back, empty."""
    server = RedisServer(tmp_path / "redis", settings={"appendonly": "no"})
    server.start(die_with_parent=True)
    try:
        pair = kept(TABLE)
        pair.redis_url = server.url
        with pair.apply() as running:
            pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
            pair.await_applied(running)
            server.kill()
            pair.master.execute("UPDATE public.t SET id = 2")
            pair.await_that(lambda: running.loop.checkpoint is None)
            pair.master.execute("DELETE FROM public.t")
            pair.master.execute("INSERT INTO public.t VALUES (1, 'b')")
            server.start(die_with_parent=True)
            pair.await_applied(running)
            assert pair.differences() == {}
            assert pair.checkpoint.epoch == 2
    finally:
        server.stop()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("lost", ["-eval", "-@all", "off"])
def test_a_right_that_the_login_of_redis_loses_is_an_outage(
    lost: str, kept: Callable[..., Rig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The apply names it, waits, and continues by itself once the right is back."""
    server = RedisServer(tmp_path / "redis", settings={"appendonly": "no"})
    server.start(die_with_parent=True)
    administrator = redis_store.connect(server.url)
    administrator.execute_command("ACL", "SETUSER", "sluice", "on", ">secret", "~*", "&*", "+@all")
    try:
        pair = kept(TABLE)
        pair.redis_url = f"redis://sluice:secret@127.0.0.1:{server.port}/0"
        with pair.apply() as running:
            pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
            pair.await_applied(running)
            administrator.execute_command("ACL", "SETUSER", "sluice", lost)
            administrator.client_kill_filter(_type="normal", skipme=True)
            pair.await_that(lambda: running.loop.checkpoint is None)
            pair.await_that(lambda: "Redis refuses the user of SLUICE_REDIS_URL" in caplog.text)
            pair.master.execute("UPDATE public.t SET id = 2")
            administrator.execute_command("ACL", "SETUSER", "sluice", "on", "+@all")
            pair.await_applied(running)
            assert pair.differences() == {}
    finally:
        administrator.close()
        server.stop()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("epochs", [0, 1], ids=["within an epoch", "by an epoch"])
def test_a_slave_restored_from_a_backup_is_not_taken_for_newer(
    kept: Callable[..., Rig], epochs: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Redis has a position whose changes the slave has lost; to continue from it would lose them forever."""
    pair = kept(TABLE)
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
        pair.await_applied(running)
        pair.slave.execute("CREATE TABLE public.demo_backup AS SELECT * FROM public.t")
        backup = pair.checkpoint
        pair.master.execute("INSERT INTO public.t VALUES (2, 'b'), (3, 'c')")
        pair.await_applied(running)
    for number in range(epochs):
        pair.master.execute("INSERT INTO public.t VALUES (%s, 'more')", [number + 10])
        current(pair)
    with pair.slave.transaction():
        pair.slave.execute("TRUNCATE public.t")
        pair.slave.execute("INSERT INTO public.t SELECT * FROM public.demo_backup")
        now = pair.checkpoint
        pair.checkpoints.advance(now, replace(backup, epoch=now.epoch))
        pair.slave.execute("UPDATE public.demo_checkpoint SET epoch = %s", [backup.epoch])
    assert pair.checkpoint == replace(backup, updated_at=pair.checkpoint.updated_at)
    pair.master.execute("UPDATE public.t SET v = 'later' WHERE id = 3")
    current(pair)
    assert pair.differences() == {}
    assert "the slave is older than its checkpoint in Redis" in caplog.text
    assert pair.checkpoint.epoch > backup.epoch + epochs, "no epoch is used twice"


@pytest.mark.long
def test_a_successor_by_force_fences_the_former_apply(kept: Callable[..., Rig]) -> None:
    pair = kept(TABLE)
    with pair.apply() as running:
        pair.await_applied(running)
        with pair.slave.transaction():
            pair.checkpoints.claim()
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
        with pytest.raises(Fenced):
            pair.await_applied(running)
    current(pair)
    assert pair.differences() == {}


def test_an_overtaken_apply_does_not_overwrite_its_successors_checkpoint(kept: Callable[..., Rig]) -> None:
    pair = kept(TABLE)
    current(pair)
    mine = stored(pair)
    latest = mine.read()
    assert latest is not None
    assert not mine.write(replace(latest, epoch=latest.epoch - 1, changes=99))
    assert mine.read() == latest
    assert mine.write(replace(latest, changes=7))
    put_back(pair, {"epoch": "no number", "anchor": "{"})
    assert mine.read() is None


@pytest.mark.long
def test_definitions_never_come_again(kept: Callable[..., Rig]) -> None:
    """The slave's own position moves with them: names that are exchanged twice would end wrong."""
    pair = kept("CREATE TABLE public.t (id int PRIMARY KEY, a text, b text)")
    with pair.apply() as running:
        before = take(pair)
        pair.master.execute("INSERT INTO public.t VALUES (1, 'text', '2')")
        pair.await_applied(running)
        assert pair.checkpoint.position is not None
        fallback = pair.checkpoint.position
        pair.master.execute("ALTER TABLE public.t RENAME COLUMN a TO c; ALTER TABLE public.t RENAME COLUMN b TO a")
        pair.master.execute("UPDATE public.t SET a = 3; ALTER TABLE public.t ALTER COLUMN a TYPE int USING a::int")
        pair.await_applied(running)
        assert pair.checkpoint.position != fallback
        pair.master.execute("UPDATE public.t SET a = a + 1")
        pair.master.execute("ALTER TABLE public.t DROP COLUMN c")
        pair.await_applied(running)
    put_back(pair, before)
    pair.master.execute("INSERT INTO public.t VALUES (2, 9)")
    current(pair)
    assert pair.differences() == {}


@pytest.mark.long
def test_slices_are_on_the_slave(kept: Callable[..., Rig]) -> None:
    """A reader learns from the slave that it is between two states of the master; no slice comes again."""
    pair = kept(TABLE, batch=21_000)
    pair.master.execute("INSERT INTO public.t SELECT g, 'a' FROM generate_series(1, 90000) g")
    before = None
    with pair.apply():
        pair.await_that(lambda: pair.checkpoint.catching_up)
        before = take(pair)
    assert pair.checkpoint.catching_up
    place = pair.checkpoint.slice_key
    assert place is not None
    put_back(pair, before)
    current(pair)
    assert pair.differences() == {}
    assert pair.checkpoint.changes == 90_000
    assert not pair.checkpoint.catching_up


@pytest.mark.long
def test_a_failed_batch_leaves_an_exit_point_here_too(kept: Callable[..., Rig]) -> None:
    pair = kept(TABLE, interval=0.1)
    pair.master.execute("INSERT INTO public.t VALUES (1, 'a'), (2, 'b')")
    with pair.apply() as running:
        pair.await_applied(running)
        pair.await_that(lambda: running.in_normal_mode)
        pair.slave.execute("DELETE FROM public.t WHERE id = 2")
        pair.master.execute("UPDATE public.t SET v = 'c' WHERE id = 2")
        with pytest.raises(Drift):
            pair.await_applied(running)
    assert pair.checkpoint.safemode_exit is not None
    with pair.apply() as running:
        pair.await_applied(running)
        assert pair.differences() == {}
        pair.await_that(lambda: pair.checkpoint.safemode_exit is None)
        pair.await_that(lambda: not running.loop.mode.on)  # a moment later


@pytest.mark.long
@pytest.mark.parametrize("lost", ["an old one came back", "Redis was emptied"])
@pytest.mark.parametrize("decision", ["none", "dropped", "applied by force"])
def test_a_decision_about_a_reject_stays(kept: Callable[..., Rig], decision: str, lost: str) -> None:
    """Somebody else inserted row 2. Row 7 was refused and is deleted on the master; a person applies it anyway."""
    pair = kept("CREATE TABLE public.t (id int PRIMARY KEY, a text, b int)", policy="reject", interval=0.3)
    pair.master.execute("INSERT INTO public.t SELECT g, 'a', g FROM generate_series(1, 5) g")
    rejects = RejectStore(pair.slave, pair.pair.prefix, "public", "dr1")
    with pair.apply() as running:
        pair.await_applied(running)
        pair.await_that(lambda: running.in_normal_mode)
        pair.await_that(lambda: position_in_redis(pair) == running.loop.seen)
        before = take(pair)
        pair.slave.execute("UPDATE public.t SET a = 'mine' WHERE id = 2; INSERT INTO public.t VALUES (7, 'mine', 7)")
        pair.master.execute("UPDATE public.t SET b = 0 WHERE id = 2")
        pair.await_applied(running)
        pair.master.execute("INSERT INTO public.t VALUES (7, 'new', 1)")
        pair.await_applied(running)
        pair.master.execute("DELETE FROM public.t WHERE id = 7")
        pair.await_applied(running)
        pair.slave.execute("DELETE FROM public.t WHERE id = 7")
        pair.master.execute("INSERT INTO public.t VALUES (7, 'later', 2)")
        pair.await_applied(running)
        pair.master.execute("DELETE FROM public.t WHERE id = 7")
        pair.await_applied(running)
        updated, inserted, _ = rejects.read(RejectStatus)
        if decision == "dropped":
            rejects.move([updated.id], RejectStatus.DROPPED, "anna")
        elif decision == "applied by force":
            rejects.move([inserted.id], RejectStatus.ASKED, "anna", force=True)
            pair.await_that(lambda: rejects.read(RejectStatus, [inserted.id])[0].status is RejectStatus.APPLIED)
        rows = pair.rows(pair.slave, TableName("public", "t"))
        assert ("(7,new,1)" in rows) == (decision == "applied by force")
    put_back(pair, before if lost == "an old one came back" else {})
    statuses = [each.status for each in rejects.read(RejectStatus)]
    current(pair)
    assert pair.rows(pair.slave, TableName("public", "t")) == rows
    assert [each.status for each in rejects.read(RejectStatus)] == statuses


@pytest.mark.long
def test_the_checkpoint_may_move_to_the_slave_and_back(
    kept: Callable[..., Rig], caplog: pytest.LogCaptureFixture
) -> None:
    pair = kept(TABLE)
    in_redis, on_slave = pair.pair, replace(pair.pair, slave=replace(pair.pair.slave, checkpoint="slave"))
    for number, where in enumerate((in_redis, on_slave, on_slave, in_redis, in_redis)):
        pair.pair = where
        with pair.apply() as running:
            pair.master.execute("UPDATE public.t SET id = id + 1 WHERE id > 1")
            pair.master.execute("INSERT INTO public.t VALUES (2, %s) ON CONFLICT DO NOTHING", [f"life {number}"])
            pair.await_applied(running)
            assert pair.differences() == {}
    assert "is of epoch 1, the slave's is 3: an old one came back" in caplog.text


def test_tables_without_a_key_are_refused(kept: Callable[..., Rig]) -> None:
    pair = kept(TABLE + "; CREATE TABLE public.log (line text); CREATE TABLE public.other (line text)")
    with (
        pair.apply() as running,
        raises_code("key-needed", match=r"public\.log, public\.other\. Set checkpoint: slave"),
    ):
        pair.await_applied(running)


def test_a_table_that_loses_its_key_is_refused(kept: Callable[..., Rig]) -> None:
    pair = kept(TABLE)
    with pair.apply() as running:
        pair.await_applied(running)
        pair.master.execute("ALTER TABLE public.t DROP CONSTRAINT t_pkey")
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
        with raises_code("key-needed", match=r"public\.t"):
            pair.await_applied(running)


def test_foreign_keys_that_act_are_refused(kept: Callable[..., Rig]) -> None:
    tables = TABLE + "; CREATE TABLE public.child (id int PRIMARY KEY, t int REFERENCES public.t ON DELETE CASCADE)"
    pair = kept(tables, slave_role=True)
    allow = re.escape(sessions.allow_silence(pair.slave))
    with pair.apply() as running, raises_code("triggers-active", match=allow):
        pair.await_applied(running)


@pytest.mark.long
def test_an_initial_update_voids_the_checkpoint_in_redis(kept: Callable[..., Rig]) -> None:
    """Also if it begins exactly at the slave's former position."""
    pair = kept(TABLE)
    first = pair.checkpoint.position
    assert first is not None
    with pair.apply() as running:
        pair.master.execute("INSERT INTO public.t VALUES (1, 'a')")
        pair.await_applied(running)
    pair.slave.execute("TRUNCATE public.t")
    pair.set_back(replace(SnapshotPosition.of(first), time="2026-01-01T00:00:00Z"))
    current(pair)
    assert pair.differences() == {}, "the blocks of the update began at this position: everything after it comes"
