"""# Verify slaves, and repair them

Proves that a slave equals its master **at one position**, while both are in use, and repairs differences. It runs every
day for the pairs of each replication, at the time and in the time zone of its `verify` (three in the morning, UTC, by
default), and on demand.

| task | does |
|---|---|
| `due` | lists the tables: of the chosen pair, or of every pair |
| `compare` | compares one table; with the action `repair` it repairs up to `max_repair_rows` rows |
| `write_report` | writes `report.html` and `report.json`; its log says where |
| `anything_to_repair` | ends here unless a table differs |
| `approve_repair` | asks a person: read the report, approve the repair or reject it (after 20 hours it is rejected) |
| `approved`, `repair` | repair the tables that differ, through the apply, and compare them again |
| `verdict` | writes the report again, and **fails** the run unless every table is identical |

A table that could not be compared, because the apply was not running or a database was down, fails the run, too.
"""

from airflow.sdk import chain

from sluice.airflow.forms import SCHEDULED, lifecycle_dag, verification_times
from sluice.airflow.steps_resync import (
    anything_to_repair,
    approval,
    approved,
    compare,
    due,
    repair,
    verdict,
    write_report,
)

with lifecycle_dag(
    "resync",
    __doc__,
    *("prefix", "slave", "action", "tables", "sample"),
    priority=SCHEDULED,
    schedule=verification_times(),
    max_active_runs=4,
) as dag:
    entries = due()
    compared = compare.expand(entry=entries)
    wanted = approved(entries)
    chain(compared, write_report(entries), anything_to_repair(entries), approval(), wanted)
    chain(repair.expand(entry=wanted), verdict(entries))
