"""# Read the redo logs of an Oracle master, for months

For replications with `capture: redo`. Keeps **one** job running that runs one OpenLogReplicator a redo thread and
merges what they send into the changes that slaves replay (`cdc_apply`). The job is detached: it goes on while any part
of Airflow is down. Where another machine captures already, it stands by and takes over when that one is gone.

- To **stop** it, mark the run as failed. To **restart** it, clear the task `capture`.
- It **fails** only when a person must act: the task log says why and what to do. Then start it again.
"""

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.job_operator import CaptureRedoOperator

with lifecycle_dag("capture_redo", __doc__, "prefix", max_active_runs=1000) as dag:
    CaptureRedoOperator(task_id="capture")
