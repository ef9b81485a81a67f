"""# Fail over to a slave

| action | does |
|---|---|
| `check` | lists whether the slave could take over now, and how its definitions differ from the master's |
| `planned` | the master refuses writes; the slave applies all it had, is verified and completed, and is the master |
| `forced` | without the master: the slave takes over with what it has; what is lost is said |
| `abort` | takes back what a failover has begun: the master takes writes again |

A person approves before the application notices anything. A failover that fails before `switch_over` is taken back by
`settle`; a task that was killed goes on where it was. With **reverse** the former master becomes a slave.
Airflow keeps the reports of `check` and `complete` in their logs: the statements that a person runs.
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
