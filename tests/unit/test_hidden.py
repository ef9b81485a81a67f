"""Readers see no value of a row: all forms in which messages quote one."""

import pytest

from sluice.airflow.pages import hidden
from sluice.coordination.gate import ERROR, Closure
from sluice.coordination.live_state import LiveSlave, LiveState, Past
from sluice.coordination.records import DefinitionGap
from sluice.database.conflicts import Drift
from sluice.model.event import Event, EventKind
from sluice.model.mask import NO_PATTERNS, without_values
from sluice.model.names import Prefix, TableName

T = TableName("public", "t")
SECRET = "it's 'top'\n\\' \"secret\" ) ("


def drift() -> Drift:
    return Drift.of_values(T, {"id": SECRET, "no": None}, "UPDATE", {"a": (SECRET, SECRET * 9)}, NO_PATTERNS)


@pytest.mark.parametrize(
    "text",
    [
        str(drift()),
        f'duplicate key value violates unique constraint "k" Key (a, b)=({SECRET}, 7) already exists.',
        f'Key (a)=({SECRET}) is not present in table "p".',
        f"Failing row contains ({SECRET}, null, secret).",
        f'invalid input syntax for type integer: "{SECRET}"',
        f"Duplicate entry '{SECRET}' for key 'PRIMARY'",
        f"Incorrect integer value: '{SECRET}' for column 'a' at row 1",
    ],
)
def test_values_are_hidden_and_the_rest_stays(text: str) -> None:
    shown = without_values(text)
    assert "secret" not in shown and "top" not in shown and "•••" in shown
    assert shown[:8] == text[:8]


def test_texts_that_are_no_values_stay() -> None:
    for text in (
        "The gate is closed: admin (anna, 12:00 UTC): disk 'A' is replaced",
        "Airflow has no connection 's'. Make it.",
        "Table public.t has no column 'x' on the slave (it has a, b).",
        "left out: CREATE INDEX open ON public.t (id) WHERE (status = 'open'::text)",
    ):
        assert without_values(text) == text


def test_all_data_of_a_slave_is_masked() -> None:
    text = str(drift())
    lacking = {"public.t": 'inconsistent: unique index "t_a_key": Key (a)=(secret) is duplicated'}
    said = {
        "state": "NORMAL", "activity": f"waiting: {text}", "message": text, "differing": [text], "rate": 2.0,
        "not_ready": lacking,
    }  # fmt: skip
    tables = {"public.t": {"outcome": "could not compare", "reason": text}}
    issues = [DefinitionGap(text, 'CREATE INDEX ON t ("a")', "x")]
    pair = (Prefix("SHOP_"), "a")
    known = LiveSlave(said, None, [Closure(ERROR, "apply", text, "x")], tables, issues)
    shown = hidden.live(LiveState({}, {pair: known}))
    assert "secret" not in str(shown) and shown.slaves[pair].status["rate"] == 2.0
    assert "t_a_key" in str(shown), "the rest stays"
    events = [Event(1.0, EventKind.OUTAGE, text)]
    assert "secret" not in str(hidden.past(Past(events=events)))


def test_a_report_keeps_its_form_and_loses_its_values() -> None:
    example = {"kind": "different", "key": {"id": "secret"}, "master": {"a": "secret", "b": None}, "slave": None}
    causes = {"rejects": {str(drift()): 3}}
    table = {"table": "public.t", "examples": [example], "reason": str(drift()), "causes": causes, "rows_master": 7}
    whole = [{"prefix": "SHOP_", "slave": "a", "tables": [table]}]
    shown = hidden.report(whole)
    assert "secret" not in str(shown)
    assert shown[0]["slave"] == "a" and shown[0]["tables"][0]["rows_master"] == 7
    assert shown[0]["tables"][0]["examples"][0]["master"] == {"a": "•••", "b": None}
