"""An apply reads its gate and its requests from Redis in one round trip."""

import pytest
import redis

from sluice.coordination import redis_store
from sluice.coordination.gate import ADMIN, Gate
from sluice.coordination.redis_store import StoreUnreachable
from sluice.coordination.requests import Requests, Signals, SignalsRead
from sluice.model.names import Prefix
from sluice.model.requests import SnapshotsRequest

SHOP = Prefix("SHOP_")


@pytest.fixture
def client(redis_url: str) -> "redis.Redis":
    return redis_store.connect(redis_url)


def test_they_tell_what_the_gate_and_the_requests_hold(client: "redis.Redis") -> None:
    gate, requests = Gate(client, SHOP, "a"), Requests(client, SHOP, "a")
    signals = Signals(gate, requests)
    assert signals.read() == SignalsRead([], requested=False)
    closure = gate.close(ADMIN, "anna", "a migration")
    name = requests.ask(SnapshotsRequest(), 60)
    Gate(client, SHOP, "b").close(ADMIN, "anna", "another slave")
    assert signals.read() == SignalsRead([closure], requested=True)
    gate.open(ADMIN)
    requests.withdraw(name)
    assert signals.read() == SignalsRead([], requested=False)


def test_a_redis_that_is_away_is_an_outage() -> None:
    away = redis_store.connect("redis://127.0.0.1:1/0")
    with pytest.raises(StoreUnreachable):
        Signals(Gate(away, SHOP, "a"), Requests(away, SHOP, "a")).read()
