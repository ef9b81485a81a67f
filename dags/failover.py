"""# Fail over to a slave

| action | does |
|---|---|
| `check` | lists whether the slave could take over now, and how its definitions differ from the master's |
| `planned` | compares and prepares the slave; the master refuses writes; the slave applies the rest and takes over |
| `forced` | without the master: the slave takes over with what it has; the log says what is lost |
| `abort` | undoes a failover that is not complete: the master accepts writes again |

A person approves before the application is affected. `settle` undoes a failover that fails before `switch_over`; a
killed task continues where it was. With **reverse** the former master becomes a slave. The logs of `check`,
`prepare` and `switch_over` have the statements that a person runs.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_failover import (
    ApproveFailover,
    abort,
    begin,
    check,
    finish,
    follow,
    prepare,
    settle,
    switch_over,
    verify,
)

FORM = ("prefix", "slave", "action", "reverse", "sample", "sequence_gap", "override")

with lifecycle_dag("failover", __doc__, *FORM) as dag:
    checked = check()
    approved = ApproveFailover(task_id="approve")
    chain(checked, approved, begin(), verify(), prepare(), switch_over(), follow(), finish(), settle())
    chain(checked, abort())
