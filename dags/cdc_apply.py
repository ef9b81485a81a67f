"""# Apply changes to a slave, for months

Keeps **one** Spark job running, which applies the master's changes to the slave. The job is detached: it goes on while
any part of Airflow is down or restarted. A dead job is started again, at once if it was healthy, otherwise with growing
pauses. A second run for the same pair ends at once.

- To **stop** it, mark the run as failed. To **restart** it, clear the task `apply`.
- It **fails** only when a person must act: the task log says why and what to do. Then start it again.
- `initial_update` starts it by itself.
"""

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.job_operator import ApplyOperator

with lifecycle_dag("cdc_apply", __doc__, "prefix", "slave", max_active_runs=1000) as dag:
    ApplyOperator(task_id="apply")
