"""Messages name what a person has to press, by the name that Airflow shows."""

import re
from pathlib import Path

from sluice.coordination.gate import Closure
from sluice.database.conflicts import Drift, SlaveTableMissing
from sluice.errors import RESTART_APPLY, Terminal, labeled
from sluice.model.names import TableName
from sluice.operate.remedies import at_terminal, loads_first

ROOT = Path(__file__).resolve().parents[2]


def test_a_row_that_does_not_fit_names_what_to_press_and_how_to_load_its_table() -> None:
    drift = Drift(TableName("public", "coupons"), {"id": "1"}, "UPDATE", "one", "none")
    assert RESTART_APPLY in str(drift)
    assert at_terminal(str(drift), "S_", "a").endswith("./sluice act reload S_ a --tables public.coupons")
    assert drift.finding == ("public.coupons, row id = '1': UPDATE expected one on the slave and found none."), (
        "what REJECTS keeps says nothing about an apply that stopped"
    )


def test_a_table_that_the_slave_lacks_is_loaded_not_waited_for() -> None:
    """Only a load creates it: a restart of the apply stops at the same table."""
    missing = SlaveTableMissing(TableName("Mixed Case", 'a "b"'))
    assert loads_first(labeled(missing)) == [str(missing.table)]
    assert not loads_first(str(Drift(TableName("public", "t"), {"id": "1"}, "UPDATE", "one", "none")))
    assert missing.reason_left_out == f"Table {missing.table} does not exist on the slave"


def test_what_to_do_stands_before_the_code() -> None:
    closure = Closure("error", "apply", labeled(Terminal("No. Grant it.", code="x-y")), "2026-12-01T00:00:00+00:00")
    assert closure.with_remedy == f"No. Grant it. Fix that, then {RESTART_APPLY}. [x-y]"


def test_no_message_leaves_open_how_an_apply_is_started_again() -> None:
    vague = re.compile(r"start applying again|[Ss]tart the apply again")
    found = [
        str(file.relative_to(ROOT))
        for folder in ("plugins", "spark_jobs")
        for file in (ROOT / folder).rglob("*.py")
        if vague.search(file.read_text(encoding="utf-8"))
    ]
    assert not found
