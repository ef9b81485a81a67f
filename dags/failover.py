"""# Fail over to a slave

| action | does |
|---|---|
| `check` | lists whether the slave could take over now, and how its definitions differ from the master's |
| `planned` | the master refuses writes; the slave applies its last changes, is verified, and becomes the master |
| `forced` | without the master: the slave takes over with what it has; the log says what is lost |
| `abort` | undoes a failover that is not complete: the master accepts writes again |

A person approves before the application is affected. `settle` undoes a failover that fails before `switch_over`; a
killed task continues where it was. With **reverse** the former master becomes a slave. The logs of `check` and
`complete` have their reports, with the statements that a person runs.
"""

from airflow.sdk import chain

from sluice.airflow.forms import failover_fields, lifecycle_dag
from sluice.airflow.steps_failover import (
    ApproveFailover,
    abort,
    begin,
    capture,
    check,
    complete,
    end_apply,
    finish,
    follow,
    guard,
    reach,
    settle,
    switch_over,
    verify,
)

with lifecycle_dag("failover", __doc__, params=failover_fields()) as dag:
    checked = check()
    approved = ApproveFailover(task_id="approve")
    before = [begin(), guard(), reach(), verify(), end_apply(), complete(), capture()]
    chain(checked, approved, *before, switch_over(), follow(), finish(), settle())
    chain(checked, abort())
