"""Messages name what a person has to press, by the name that Airflow shows."""

import re
from pathlib import Path

from sluice.database.conflicts import Drift
from sluice.errors import RESTART_APPLY
from sluice.model.names import TableName

ROOT = Path(__file__).resolve().parents[2]


def test_a_row_that_does_not_fit_names_what_to_press_and_how_to_load_its_table() -> None:
    drift = Drift(TableName("public", "coupons"), {"id": "1"}, "UPDATE", "one", "none")
    assert RESTART_APPLY in str(drift) and 'initial_update and tables: ["public.coupons"]' in str(drift)
    assert drift.finding == ("public.coupons, row id = '1': UPDATE expected one on the slave and found none."), (
        "what REJECTS keeps says nothing about an apply that stopped"
    )


def test_no_message_leaves_open_how_an_apply_is_started_again() -> None:
    vague = re.compile(r"start applying again|[Ss]tart the apply again")
    found = [
        str(file.relative_to(ROOT))
        for folder in ("plugins", "spark_jobs")
        for file in (ROOT / folder).rglob("*.py")
        if vague.search(file.read_text(encoding="utf-8"))
    ]
    assert not found
