"""# Apply changes to a slave, for months

Keeps **one** streaming query of Spark running, whose only task applies the master's changes to the slave. Spark holds
it, so it keeps running while any part of Airflow is down or restarts. A query that died is started again: at once if it
was healthy, otherwise with growing pauses. Without an endpoint of Spark Connect, or while it does not answer, the apply
is a process on this machine. A second run for the same pair ends at once.

- To **stop** it, mark the run as failed. To **restart** it, clear the task `apply`.
- It **fails** only when a person must act: the task log says why and what to do. Then start it again.
- `initial_update` starts it automatically.
"""

from sluice.airflow.apply_operator import ApplyOperator
from sluice.airflow.forms import FIRST, lifecycle_dag

with lifecycle_dag("cdc_apply", __doc__, "prefix", "slave", priority=FIRST, max_active_runs=1000) as dag:
    ApplyOperator(task_id="apply")
