"""Events of a slave: derived from two statuses of its apply, kept in Redis, bounded."""

from typing import Any

import pytest

from sluice.coordination import live_state, redis_store
from sluice.coordination.gate import ADMIN, Gate
from sluice.coordination.records import Events, LastChanges
from sluice.model.event import LONGEST, Event, EventKind, between
from sluice.model.names import Prefix, TableName

SHOP = Prefix("SHOP_")
NORMAL: dict[str, Any] = {"state": "NORMAL", "activity": "applying", "safe_mode": "off", "epoch": 7}


def told(**after: Any) -> list[tuple[str, str]]:
    return [(str(kind), text) for kind, text in between(NORMAL, {**NORMAL, **after})]


def test_an_unchanged_status_is_no_event() -> None:
    assert told() == [] and told(activity="waiting for a block that is being read") == []


def test_a_start_tells_the_epoch_and_safe_mode_alone() -> None:
    after = {**NORMAL, "safe_mode": "on after the start", "not_ready": {"public.t": "absent"}, "catching_up": True}
    assert list(between({}, after)) == [
        (EventKind.START, "The apply has started, epoch 7, safe mode on after the start")
    ]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({"state": "INCONSISTENT", "message": "gone"}, ("state", "NORMAL → INCONSISTENT: gone")),
        ({"activity": "waiting: the master does not answer"}, ("outage", "Waits: the master does not answer")),
        ({"not_ready": {"public.t": "absent"}}, ("table", "public.t is absent")),
        ({"set_aside": ["public.t"]}, ("table", "Changes of public.t are set aside")),
        ({"catching_up": True}, ("apply", "A large window is applied, slice by slice")),
        ({"configuration": "line 3"}, ("configuration", "The configuration has a mistake: line 3")),
    ],
)
def test_each_change_is_one_event_and_so_is_its_end(after: dict[str, Any], expected: tuple[str, str]) -> None:
    assert told(**after) == [expected]
    back = list(between({**NORMAL, **after}, NORMAL))
    assert len(back) == 1 and str(back[0][0]) == expected[0] and back[0][1] != expected[1]


@pytest.mark.parametrize("activity", ["waiting: the gate is closed: admin", "waiting: the slave is INCONSISTENT: x"])
def test_closed_gates_and_states_are_no_outages(activity: str) -> None:
    assert told(activity=activity) == []


def test_safe_mode_that_ends_is_reported() -> None:
    before = {**NORMAL, "safe_mode": "on after the start"}
    assert list(between(before, NORMAL)) == [(EventKind.APPLY, "Safe mode is over")]


def test_events_are_bounded_in_number_and_length(redis_url: str) -> None:
    client = redis_store.connect(redis_url)
    hostile = 'a "b" \n <c> → ' + "x" * 9_000
    Events(client, SHOP, "a").add(Event(float(each), EventKind.APPLY, hostile) for each in range(Events.KEPT + 3))
    found = Events(client, SHOP, "a").read()
    assert len(found) == Events.KEPT and found[0].at == 3.0 and found[-1].text == hostile[:LONGEST]


def test_events_have_who_closed_or_opened_a_gate_and_when_a_table_changed(redis_url: str) -> None:
    client = redis_store.connect(redis_url)
    gate = Gate(client, SHOP, "a")
    gate.close(ADMIN, "anna", "disk")
    gate.open(ADMIN)
    assert not gate.open(ADMIN)
    LastChanges(client, SHOP, "a").note({TableName("public", "t"): 12.5})
    past = live_state.past(client, SHOP, "a", 60)
    texts = ["The gate was closed: admin (anna): disk", "The gate's closure 'admin' was lifted"]
    assert [event.text for event in past.events] == texts
    assert past.changed["public.t"].timestamp() == 12.5
    other = live_state.past(client, SHOP, "b", 60)
    assert not other.events and not other.samples and not other.changed
