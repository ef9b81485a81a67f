"""The data of the monitor in Redis: bounded, and read in one round trip however many slaves there are."""

import pytest
import redis

from sluice.airflow.pages import databases, gathering
from sluice.airflow.pages.databases import Databases, SlaveData
from sluice.configuration.model import Endpoint, Replication, SlaveConfig
from sluice.coordination import live_state, redis_store
from sluice.coordination.gate import ADMIN, Gate
from sluice.coordination.lease import Lease
from sluice.coordination.records import History, Issues, ItemsFindings, ItemsState, LoadStarted, QueueState, Status
from sluice.coordination.verification_log import VerificationLog
from sluice.model.checkpoint import Checkpoint
from sluice.model.joining import StartedLoad
from sluice.model.names import Prefix, TableName
from sluice.model.purging import Backlog
from sluice.model.sample import Sample
from sluice.model.slave_state import SlaveState
from sluice.operate.open_runs import NOT_ASKED

SHOP, STOCK = Prefix("SHOP_"), Prefix("STOCK_")


def test_all_that_is_known_is_read_as_its_owners_read_it(redis_url: str) -> None:
    client = redis_store.connect(redis_url)
    Status(client, SHOP, "a").write({"state": "NORMAL", "rate": 2.5})
    Gate(client, SHOP, "a").close(ADMIN, "anna", 'disk "1" <&>')
    VerificationLog(client, SHOP, "a").expect(["public.t"], "2026-11-20T00:00:00+00:00")
    Issues(client, SHOP, "a").write([("an index", "CREATE INDEX")], "now")
    Issues(client, SHOP).write([("a table", "")], "now")
    ItemsState(client, SHOP).write(ItemsFindings(dropped={"a": "x"}), "now")
    QueueState(client, SHOP).measure(lambda: Backlog(7, 8192, ("a",)))
    History(client, SHOP, "a").add(Sample(1, 2.5, 3))
    LoadStarted(client, SHOP, "a").note(StartedLoad("run", (TableName("public", 'T "1"'),)))
    lease = Lease(client, SHOP, "a", 10.0)
    lease.acquire()
    try:
        read = live_state.read(client, {SHOP: ["a", "b"], STOCK: []})
    finally:
        lease.release()
    slave, master = read.slave(SHOP, "a"), read.master(SHOP)
    assert slave.status == Status(client, SHOP, "a").read()
    assert slave.closures == Gate(client, SHOP, "a").closures()
    assert slave.tables == VerificationLog(client, SHOP, "a").read()
    assert slave.issues == Issues(client, SHOP, "a").read() and master.issues == Issues(client, SHOP).read()
    assert slave.started == LoadStarted(client, SHOP, "a").read() is not None
    assert list(slave.samples) == [Sample(1, 2.5, 3)] and slave.holder is not None
    assert master.items == ItemsState(client, SHOP).read() and master.queue == QueueState(client, SHOP).read()
    assert read.slave(SHOP, "b").status == {} and read.slave(STOCK, "none").closures == ()


def test_many_slaves_are_asked_for_in_one_round_trip(redis_url: str) -> None:
    """Redis counts its reads from a client: a large request takes some reads, in proportion to its length."""

    def reads(count: int) -> int:
        pairs = {SHOP: [f"slave{number}" for number in range(count)]}
        live_state.read(client, pairs)
        before = int(redis.from_url(redis_url).info("stats")["total_reads_processed"])
        live_state.read(client, pairs)
        return int(redis.from_url(redis_url).info("stats")["total_reads_processed"]) - before

    client = redis_store.connect(redis_url)
    assert reads(500) <= reads(1) + 40, "3,500 keys, not 3,500 questions"


def test_of_many_slaves_curves_and_comparisons_are_read_beside_the_page(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_REDIS_URL", redis_url)
    client, asked = redis_store.connect(redis_url), []
    monkeypatch.setattr(databases.ASKING, "submit", lambda work, pairs: asked.append((work, pairs)))
    monkeypatch.setattr(gathering, "PAST_SECONDS", 0.0)
    for names in (["a"], ["a", *(f"slave{number}" for number in range(gathering.MANY))]):
        client.flushdb()
        watch = gathering.Watch(Databases(), lambda: NOT_ASKED)
        watch._live({SHOP: names})
        Status(client, SHOP, "a").write({"state": "NORMAL"})
        History(client, SHOP, "a").add(Sample(1, 2.5, 3))
        VerificationLog(client, SHOP, "a").expect(["public.t"], "2026-11-20T00:00:00+00:00")
        found = watch._live({SHOP: names}).slave(SHOP, "a")
        assert found.status["state"] == "NORMAL"
        assert bool(found.samples) is bool(found.tables) is (len(names) == 1)
    ((work, pairs),) = asked
    work(pairs)
    found = watch._live(pairs).slave(SHOP, "a")
    assert list(found.samples) == [Sample(1, 2.5, 3)] and found.tables == VerificationLog(client, SHOP, "a").read()


def test_a_slave_that_was_switching_is_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failover was through, and for ten seconds the page advised to abort it: no run continued what the last answer
    said."""
    states = iter([SlaveState.SWITCHING, SlaveState.MASTER])
    monkeypatch.setattr(databases, "_slave", lambda *_: SlaveData(Checkpoint("a", next(states))))
    monkeypatch.setattr(databases, "FRESH_SECONDS", 0.0)
    one = Replication(SHOP, Endpoint("m"), {"a": SlaveConfig("a", "a")}, ())
    asked = Databases()
    found = [asked.answers([(one, "a")])[SHOP, "a"].seen for _ in range(2)]
    assert [seen and seen.checkpoint and seen.checkpoint.state for seen in found] == ["SWITCHING", "MASTER"]


def test_samples_that_are_as_before_stay_the_same_objects(redis_url: str) -> None:
    """Their curves are kept by them: they were drawn again each second for every open page."""
    with redis_store.connect(redis_url) as client:
        for slave in ("a", "b"):
            History(client, SHOP, slave).add(Sample(1, 2.5, 3))
        first = live_state.read(client, {SHOP: ["a", "b"]})
        History(client, SHOP, "b").add(Sample(2, 0.5, 1))
        again = live_state.read(client, {SHOP: ["a", "b"]}, former=first)
    assert again.slave(SHOP, "a").samples is first.slave(SHOP, "a").samples
    assert list(again.slave(SHOP, "b").samples) == [Sample(1, 2.5, 3), Sample(2, 0.5, 1)]


def test_a_load_is_said_to_be_started_until_that_run_is_over(redis_url: str) -> None:
    started = LoadStarted(redis_store.connect(redis_url), SHOP, "a")
    started.over("run")
    load = StartedLoad("run", (TableName("public", 'T "1"'), TableName("a.b", "u")))
    started.note(load)
    started.over("another run")
    assert started.read() == load
    started.over("run")
    assert started.read() is None


def test_the_history_of_a_slave_is_bounded(redis_url: str) -> None:
    client = redis_store.connect(redis_url)
    history = History(client, SHOP, "a")
    for minute in range(History.KEPT + 5):
        history.add(Sample(minute, None, 0))
    assert [one.minute for one in history.read(2)] == [History.KEPT + 3, History.KEPT + 4]
    assert len(history.read()) == History.KEPT and client.ttl(history.key) > 0


def test_one_of_several_applies_measures_the_queue(redis_url: str) -> None:
    client = redis_store.connect(redis_url)
    QueueState(client, SHOP).measure(lambda: Backlog(1, 1))
    QueueState(client, SHOP).measure(lambda: Backlog(2, 2))
    QueueState(client, STOCK).measure(lambda: Backlog(3, 3))
    first, other = QueueState(client, SHOP).read(), QueueState(client, STOCK).read()
    assert first is not None and other is not None and (first.changes, other.changes) == (1, 3)


def test_a_note_of_another_process_keeps_the_rest_of_the_status(redis_url: str) -> None:
    status = Status(redis_store.connect(redis_url), SHOP, "a")
    status.note("INITIAL", "being prepared")
    assert status.read() == {"state": "INITIAL", "message": "being prepared"}
    status.write({"state": "NORMAL", "changes": 7, "message": ""})
    status.note("INCONSISTENT", "canceled")
    assert status.read() == {"state": "INCONSISTENT", "changes": 7, "message": "canceled"}
