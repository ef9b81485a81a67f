"""The report of a run as a page: its sentences about a table; values of rows are escaped."""

import html
import re
from typing import Any

import pytest

from sluice.verify.page import page

EVIL = "<script>alert(1)</script>\"'&]]>"
IDENTICAL: dict[str, Any] = {
    "table": "public.t", "outcome": "identical", "sampled": False, "examples": [], "repaired": 0, "fell_back": "",
    "place": "",
    "transformed": "",
    "waiting": None, "rows_master": 10, "rows_slave": 11, "missing": 0, "extra": 0, "different": 0, "reason": "",
    "position_time": "2026-11-21T00:41:10Z", "seconds": 1.25, "upper_bound": 0.0, "to_repair": 0, "blocks": 3,
    "blocks_different": 1, "apply_seconds": 0.05, "causes": {}, "accepted": 0, "set_aside": 0, "rule": "",
    "proposed": {}, "rejects_settled": 0,
    "after_repair": None, "not_repaired_because": "", "columns": {}, "looked_at": 0,
}  # fmt: skip
EXAMPLE: dict[str, Any] = {
    "kind": "different", "key": {"id": "7"}, "master": {"id": "7", "x": None}, "slave": {"id": "7", "x": ""},
    "copies": 2, "cause": "", "changes": "",
}  # fmt: skip


def report(**table: Any) -> str:
    whole = {"prefix": "P_", "slave": "s", "outcome": "different", "started": "2026-11-21T00:41:08", "action": "verify"}
    return page([{**whole, "tables": [{**IDENTICAL, **table}]}])


def words(text: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]*>", " ", text, flags=re.DOTALL)))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "public.t identical 10 0 0 0 0 2026-11-21 00:41:10"),
        ({"outcome": "could not compare", "rows_master": 0}, "– – – – – 2026-11-21 00:41:10"),
        ({"outcome": "could not compare", "reason": "the master is away"}, "the master is away"),
        ({"different": 2000}, "2,000"),
        (
            {"outcome": "different", "missing": 1, "causes": {"missing": "x"}},
            "1 row missing on the slave. That is no fault",
        ),
        (
            {"sampled": True, "upper_bound": 0.0123},
            "With a confidence of 95 %, at most 1.23 % of either side's rows are.",
        ),
        ({"accepted": 1}, "1 row more differs as verify.accept accepts. That is no fault."),
        ({"waiting": 4}, "4 changes of this table waited for it."),
        ({"repaired": 5, "rejects_settled": 1, "after_repair": {"found": "identical"}}, "5 rows , 1 change in REJECTS"),
        ({"outcome": "different", "examples": [EXAMPLE]}, "with other values × 2 id = 7 id 7 7 x NULL empty"),
        ({"outcome": "different", "columns": {"a": 3, "b": 1}, "looked_at": 9}, "in 9 rows looked at: a (3), b (1)."),
    ],
)
def test_the_report_of_a_table_is_in_sentences(table: dict[str, Any], said: str) -> None:
    assert said in re.sub(r" ([.)])", r"\1", words(report(**table)))


def test_a_report_leads_to_the_slave_where_one_repairs_it() -> None:
    assert 'href="../../slaves/P_/s/"' in report() and 'href="../"' in report()


def test_hostile_names_and_values_stay_text() -> None:
    example = {**EXAMPLE, "key": {EVIL: EVIL}, "master": {EVIL: EVIL}, "slave": {EVIL: EVIL}, "cause": EVIL}
    text = report(table=EVIL, outcome="different", examples=[example], columns={EVIL: 1}, not_repaired_because=EVIL)
    assert text.count("alert(1)") >= 8 and "<script" not in text


def test_nothing_to_compare_is_reported() -> None:
    assert "There was nothing to compare." in page([])
