"""Notices for a person: decisions and texts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sluice.airflow.notices import Notice, of_age, of_comparisons, of_messages, of_tables
from sluice.airflow.pages.message import Level, Message
from sluice.model.checkpoint import Checkpoint
from sluice.model.joining import StartedLoad
from sluice.model.names import Prefix, TableName
from sluice.model.slave_state import SlaveState
from sluice.model.table_state import TableState, TableStates

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def through(days: float) -> dict[str, str]:
    at = (NOW - timedelta(days=days)).isoformat()
    return {"outcome": "identical", "since": "2020-01-01T00:00:00+00:00", "time": at}


@given(st.floats(0, 100), st.integers(1, 30))
def test_a_table_is_reported_at_its_age_and_again_after_each_further_one(age: float, days: int) -> None:
    found = list(of_age("P → s", {"t": through(age), "young": through(0)}, days, NOW))
    whole = timedelta(days=age) // timedelta(days=days)
    assert bool(found) == (timedelta(days=age) > timedelta(days=days))
    for notice in found:
        assert notice.key.endswith(f": {whole}") and "young" not in notice.text


def test_with_no_age_nothing_is_too_old() -> None:
    assert list(of_age("P → s", {"t": through(10_000)}, 0, NOW)) == []


def test_a_verification_after_a_lapse_makes_the_next_lapse_a_new_occasion() -> None:
    (one,) = list(of_age("P → s", {"t": through(9)}, 8, NOW))
    (other,) = list(of_age("P → s", {"t": through(8.5)}, 8, NOW))
    assert one.key != other.key


def test_findings_are_reported_by_run_and_outcome() -> None:
    seen = {
        "a": {"outcome": "different", "run": "r1", "differ": 3},
        "b": {"outcome": "different", "run": "r2", "differ": 1},
        "c": {"outcome": "could not compare", "run": "r2", "reason": "no apply"},
        "d": {"outcome": "identical", "run": "r2"},
        "e": {"since": "2026-01-01T00:00:00+00:00"},
    }
    found = list(of_comparisons("P → s", seen, lambda run: f"/{run}"))
    assert [(notice.link, notice.text.splitlines()[0]) for notice in found] == [
        ("/r1", "a: 3 rows differ"),
        ("/r2", "b: 1 row differs"),
        ("/r2", "c: no apply"),
    ]
    assert len({notice.key for notice in found}) == 3


def test_tables_that_are_not_loaded_are_reported_with_what_loads_them_and_again_when_others_join() -> None:
    prefix, table = Prefix("P_"), TableName("public", "Coupons")
    absent = Checkpoint("s", SlaveState.NORMAL, tables=TableStates({table: TableState.ABSENT}))
    (notice,) = list(of_tables("P → s", prefix, "s", absent))
    assert notice.subject == "P → s has not loaded 1 table"
    remedy = 'Start the DAG initial_update with prefix P_, slave s and tables ["public.\\"Coupons\\""].'
    assert notice.text.splitlines() == ['public."Coupons": absent', f"Its changes are left out. {remedy}"]
    more = Checkpoint("s", SlaveState.NORMAL, tables=absent.tables.put(TableName("a", "b"), TableState.ABSENT))
    assert next(iter(of_tables("P → s", prefix, "s", more))).key != notice.key
    assert list(of_tables("P → s", prefix, "s", more, StartedLoad("run", (TableName("a", "b"),)))) == [notice]
    assert list(of_tables("P → s", prefix, "s", absent, StartedLoad("run", (table,)))) == [], "nobody need do anything"
    for other in (None, Checkpoint("s", SlaveState.NORMAL), Checkpoint("s", SlaveState.INITIAL, tables=absent.tables)):
        assert list(of_tables("P → s", prefix, "s", other)) == []


def test_a_notice_names_some_tables_and_counts_the_others() -> None:
    seen = {f"t{number:03}": {"outcome": "different", "run": "r", "differ": 1} for number in range(150)}
    (notice,) = list(of_comparisons("P → s", seen, str))
    assert "150 tables" in notice.subject
    assert "and 130 tables more" in notice.text and len(notice.text.splitlines()) == 22


def test_html_in_texts_is_escaped() -> None:
    notice = Notice("k", "<subject>", "a < b & c\n<script>", 'http://x/"><script>')
    assert "<script>" not in notice.html and "<p>a &lt; b &amp; c<br>\n" in notice.html
    assert 'href="http://x/&#34;&gt;&lt;script&gt;"' in notice.html
    assert "href" not in Notice("k", "s", "t").html


def test_other_red_states_are_reported_until_they_are_fixed() -> None:
    lag = Message("The slave is 20 min behind its master.", Level.CRITICAL, lasting="lag")
    yellow = Message("The slave is 2 min behind its master.", Level.WARNING, lasting="lag")
    gate = Message("The apply has stopped: x", Level.CRITICAL, "restart")
    (notice,) = list(of_messages("P_ → a", [lag, yellow, gate]))
    assert (notice.subject, notice.text) == ("P_ → a: the slave is far behind", lag.text)
    later = replace(lag, text="The slave is 40 min behind its master.")
    assert next(iter(of_messages("P_ → a", [later]))).key == notice.key, "one occasion, however long it lasts"


def test_an_apply_that_is_on_its_way_up_is_no_notice() -> None:
    gone = Message("No apply runs: start it.", Level.CRITICAL, "restart", lasting="apply")
    assert not list(of_messages("P_ → a", [gone], silent=5.0)) and not list(of_messages("P_ → a", [gone]))
    assert list(of_messages("P_ → a", [gone], silent=300.0))
