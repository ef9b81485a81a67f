"""Messages of `resync` and `failover` about comparisons, derived from their reports."""

from typing import Any

import pytest

from sluice.airflow.steps_failover import in_words
from sluice.airflow.steps_resync import LISTED, _summary, question
from sluice.model.names import TableName
from sluice.verify import report
from sluice.verify.findings import Example, Kind, Outcome, Rows, TableFinding
from sluice.verify.resync import TableResult


def table(name: str, outcome: str, differ: int = 0, repaired: int = 0, left: int | None = None) -> dict[str, Any]:
    after = None if left is None else {"to_repair": left}
    return {"table": name, "outcome": outcome, "to_repair": differ, "repaired": repaired, "after_repair": after}


def pair(*tables: dict[str, Any], slave: str = "dr1") -> Any:
    return {"prefix": "DEMO_", "slave": slave, "tables": list(tables)}


def test_after_a_full_repair_no_row_differs() -> None:
    found = pair(
        table("a", "identical", differ=14_672, repaired=14_672, left=0),
        table("b", "identical"),
        table("c", "could not compare"),
    )
    assert _summary(found) == "2 tables identical, 1 table not compared, 14,672 rows repaired"


def test_remaining_differences_are_reported() -> None:
    found = pair(table("a", "different", differ=9, repaired=8, left=1), table("b", "different", differ=2))
    assert _summary(found) == "2 tables different, 8 rows repaired, 3 rows different"
    assert _summary(pair()) == "nothing to compare"


def test_a_repair_is_asked_for_with_pair_tables_and_rows() -> None:
    asked = question([pair(table("public.a", "different", 1), table("b", "identical")), pair(slave="dr2")])
    assert asked == {"subject": "DEMO_ → dr1: repair 1 row of 1 table?", "body": "- DEMO_ → dr1: `public.a`: 1 row"}
    both = question([pair(table("a", "different", 1)), pair(table("a", "different", 2), slave="dr2")])
    assert both["subject"] == "DEMO_ → dr1, DEMO_ → dr2: repair 3 rows of 2 tables?"


def test_a_question_about_very_many_tables_stays_short() -> None:
    asked = question([pair(*(table(f"t{number}", "different", 1) for number in range(LISTED + 5)))])
    assert len(asked["body"].splitlines()) == LISTED + 1
    assert asked["body"].endswith("- and 5 tables more") and "25 rows of 25 tables" in asked["subject"]


@pytest.mark.parametrize(("mask", "key"), [([], "a@b.c"), (["*.email"], "•••")])
def test_a_failover_says_what_keeps_it_from_going_on_without_masked_values(mask: list[str], key: str) -> None:
    people, logs = TableName("public", "people"), TableName("public", "logs")
    found = {kind: Rows() for kind in Kind} | {Kind.MISSING: Rows(2, []), Kind.DIFFERENT: Rows(1, [])}
    examples = [Example(Kind.DIFFERENT, {"email": "a@b.c"}, {"email": "a@b.c"}, {"email": "a@b.c"})]
    findings = [
        TableFinding(people, Outcome.DIFFERENT, found=found, examples=examples, key=("email",)),
        TableFinding(logs, rows_slave=1_000),
        TableFinding(logs, Outcome.COULD_NOT_COMPARE, "there is no table public.logs"),
    ]
    tables = report.as_dict("DEMO_", "dr1", "verify", "", map(TableResult, findings), mask)["tables"]
    assert [in_words(table) for table in tables] == [
        f"2 rows missing, 1 row different, as {{'email': '{key}'}}",
        "identical, 1,000 rows",
        "there is no table public.logs",
    ]
