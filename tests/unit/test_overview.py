"""What the page says of a pair, in words."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.airflow.pages.overview import Shown, messages_of, overview, state_of
from sluice.coordination.gate import ADMIN, ERROR, INITIAL_UPDATE, Closure
from sluice.counted import duration

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)


def shown(applying: bool = True, closures: tuple[Closure, ...] = (), **status: Any) -> Shown:
    return Shown("DEMO_", "dr1", status, {}, applying, closures)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-3, "0 s"),
        (0.4, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_200, "2 h"),
        (172_800, "2 days"),
        (864_000, "10 days"),
    ],
)
def test_a_duration_is_in_the_unit_that_fits(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, "nothing is known: no initial update has begun yet, or no apply has run for a day"),
        ({"state": None, "current_as_of": None}, "state not known"),
        ({"state": "NORMAL", "current_as_of": None}, "NORMAL"),
        (
            {"state": "NORMAL", "current_as_of": "2026-11-22T11:59:56.5Z"},
            "NORMAL, current as of 2026-11-22 11:59:56 UTC, 4 s behind",
        ),
        (
            {"state": "NORMAL", "catching_up": True, "current_as_of": "2026-11-22 11:30:00"},
            "NORMAL, catching up, current as of 2026-11-22 11:30:00 UTC, 30 min behind",
        ),
    ],
)
def test_the_state_never_reads_none(status: dict[str, Any], told: str) -> None:
    assert state_of(status, NOW) == told


def test_what_a_person_must_know_is_said_once() -> None:
    stopped = Closure(
        ERROR, "apply", "public.t: x. Then clear the task apply of the DAG cdc_apply.", "2026-11-22T12:00:00"
    )
    held = Closure(ADMIN, "anna", "disk", "2026-11-22T12:00:00+00:00")
    assert messages_of(shown(closures=(held, stopped), activity="waiting: the gate is closed")) == [
        ("The gate is closed: admin (anna, 12:00 UTC): disk", False),
        ("The apply has stopped: public.t: x. Then clear the task apply of the DAG cdc_apply.", True),
    ]
    assert messages_of(shown(activity="waiting: the server is down")) == [
        ("The apply is waiting: the server is down", False)
    ]
    assert messages_of(shown(applying=False, activity="waiting: the server is down")) == [], "it said so long ago"
    assert messages_of(shown(activity="applying")) == []
    ((told, grave),) = messages_of(shown(activity="applying", set_aside=['public."B ""x"""', "public.a"]))
    assert grave and told.startswith('Changes of public."B ""x""", public.a are set aside in REJECTS')
    assert "the DAG rejects with the action list" in told and "resync with the action repair" in told
    ((told, grave),) = messages_of(shown(activity="applying", configuration="DEMO.yaml:3: x: is not known"))
    assert grave and told.endswith("because of a mistake: DEMO.yaml:3: x: is not known")


def test_a_slave_that_is_being_loaded_is_not_called_normal() -> None:
    held = Closure(INITIAL_UPDATE, "initial update", "written to files", "2026-11-22T12:00:00+00:00")
    page = overview([shown(closures=(held,), state="NORMAL")], [], NOW)
    assert "an initial update is under way" in page and "NORMAL, current" not in page and "written to files" in page
