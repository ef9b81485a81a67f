"""Lease and gate on a real Redis."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from redis.client import PubSub

from devstack.redis import RedisServer
from sluice.coordination import redis_store
from sluice.coordination.gate import ADMIN, ERROR, Gate
from sluice.coordination.lease import Lease, LeaseHeld, LeaseLost
from sluice.model.names import Prefix
from tests.rig.loaders import Background
from tests.waiting import until

PREFIX = Prefix("DEMO_")
CONNECTIONS = Path(__file__).parents[2] / "docs" / "connections.md"


@pytest.fixture(params=["default user", "user of docs/connections.md"])
def redis_url(request: pytest.FixtureRequest, redis_server: RedisServer) -> Iterator[str]:
    with redis.from_url(redis_server.url) as administrator:
        administrator.flushall()
        if request.param == "default user":
            yield redis_server.url
            return
        rules = re.findall(r"^user sluice (.*)$", CONNECTIONS.read_text(), re.MULTILINE)
        assert len(rules) == 1
        administrator.execute_command("ACL", "SETUSER", "sluice", *rules[0].split())
        yield f"redis://sluice:long-password@127.0.0.1:{redis_server.port}/0"
        administrator.execute_command("ACL", "DELUSER", "sluice")


def lease(redis_url: str, duration: float = 5.0) -> Lease:
    return Lease(redis_store.connect(redis_url), PREFIX, "dr1", duration)


def refused(act: Callable[[], None]) -> str:
    """The reason of a refusal, empty if it was done."""
    try:
        act()
    except (LeaseHeld, LeaseLost) as error:
        return str(error)
    return ""


def test_only_one_holds_a_lease(redis_url: str) -> None:
    first, second = lease(redis_url), lease(redis_url)
    first.acquire()
    with pytest.raises(LeaseHeld, match=r"process \d+ on "):
        second.acquire()
    first.keep()
    first.release()
    second.acquire()
    second.keep()
    second.release()


def test_a_lease_is_renewed_past_its_duration(redis_url: str) -> None:
    held, other = lease(redis_url, duration=0.8), lease(redis_url, duration=0.8)
    held.acquire()
    first = held._renewed
    until(lambda: held._renewed > first + held.duration)
    held.keep()
    with pytest.raises(LeaseHeld):
        other.acquire()
    held.release()


def test_a_dead_holder_blocks_no_longer_than_the_duration(redis_url: str) -> None:
    dead = lease(redis_url, duration=0.4)
    dead._renew()  # acquired by a process that is killed before it renews
    successor = lease(redis_url, duration=0.4)
    until(lambda: not refused(successor.acquire))
    with pytest.raises(LeaseLost):
        dead.keep()
    successor.release()


def test_a_flushed_redis_is_no_reason_to_stop(redis_url: str) -> None:
    held = lease(redis_url, duration=0.8)
    held.acquire()
    client = redis_store.connect(redis_url)
    client.flushall()
    until(lambda: client.get(held.key) is not None)
    held.keep()
    with pytest.raises(LeaseHeld):
        lease(redis_url).acquire()
    held.release()


def test_a_lease_taken_by_another_is_noticed(redis_url: str) -> None:
    held = lease(redis_url, duration=0.4)
    held.acquire()
    client = redis_store.connect(redis_url)
    client.set(held.key, '{"host": "elsewhere", "pid": 1, "token": "x"}')
    until(lambda: "process 1 on elsewhere" in refused(held.keep))
    held.release()
    assert client.get(held.key) is not None  # what is another's is not released


def test_the_gate_is_open_only_without_any_closure(redis_url: str) -> None:
    gate = Gate(redis_store.connect(redis_url), PREFIX, "dr1")
    assert gate.closures() == []
    gate.close(ADMIN, "anna", "maintenance")
    gate.close(ERROR, "apply", 'a row\'s "drift" & more')
    assert [closure.name for closure in gate.closures()] == ["admin", "error"]
    assert gate.open(ERROR)
    assert not gate.open(ERROR)
    assert "admin (anna, " in str(gate.closures()[0])


def test_a_change_of_the_gate_wakes_its_waiters_at_once(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = redis_store.connect(redis_url)
    gate, elsewhere = Gate(redis_store.connect(redis_url), PREFIX, "dr1"), Gate(client, PREFIX, "dr1")
    for change in (lambda: elsewhere.close(ADMIN, "anna", "maintenance"), lambda: elsewhere.open(ADMIN)):
        gate.await_change(0.01)  # listens from here on
        change()
        assert Background(lambda: gate.await_change(3600)).end() is None
    heard: list[tuple[float, object]] = []
    get_message = PubSub.get_message

    def recorded(subscription: PubSub, timeout: float = 0.0) -> object:
        heard.append((timeout, message := get_message(subscription, timeout=timeout)))  # type: ignore[no-untyped-call]
        return message

    monkeypatch.setattr(PubSub, "get_message", recorded)
    gate.await_change(0.2)
    assert heard == [(0.2, None)], "without a change it waits for its time"
    monkeypatch.undo()
    for _ in range(2):  # Redis ends what listens: the first wait says so, a later one listens again
        client.client_kill_filter(_type="pubsub")
        with pytest.raises(redis_store.StoreUnreachable):
            gate.await_change(60)
        gate.await_change(0.01)
    elsewhere.close(ADMIN, "anna", "maintenance")
    gate.await_change(60)
    gate.forget()
    gate.forget()


def test_another_pair_has_its_own_gate(redis_url: str) -> None:
    client = redis_store.connect(redis_url)
    Gate(client, PREFIX, "dr1").close(ADMIN, "anna", "x")
    assert Gate(client, PREFIX, "dr2").closures() == []
    assert Gate(client, Prefix("OTHER_"), "dr1").closures() == []


def test_an_unreachable_redis_is_an_outage() -> None:
    gate = Gate(redis_store.connect("redis://127.0.0.1:1/0"), PREFIX, "dr1")
    with pytest.raises(redis_store.StoreUnreachable):
        gate.closures()
