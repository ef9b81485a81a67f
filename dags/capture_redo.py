"""# Read the redo logs of an Oracle master, for months

For replications with `capture: redo`. Keeps **one** job running, which starts one OpenLogReplicator a redo thread and
merges their output into the changes that slaves replay (`cdc_apply`). The job is detached: it goes on while any part of
Airflow is down. If another machine captures already, the job stands by and takes over when that machine is gone.

- To **stop** it, mark the run as failed. To **restart** it, clear the task `capture`.
- It **fails** only when a person must act: the task log says why and what to do. Then start it again.
"""

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.job_operator import CaptureRedoOperator

with lifecycle_dag("capture_redo", __doc__, "prefix", max_active_runs=1000) as dag:
    CaptureRedoOperator(task_id="capture")
