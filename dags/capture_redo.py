"""# Read a master's own log, for months

For replications with `capture: redo` (Oracle) or `capture: binlog` (MariaDB). Keeps **one** job running, which writes
the changes that slaves replay (`cdc_apply`): from redo logs with one OpenLogReplicator a redo thread, from a binary log
as a replica of the master. The job is detached: it keeps running while any part of Airflow is down. If another machine
captures already, the job stands by and takes over when that machine is gone.

- To **stop** it, mark the run as failed. To **restart** it, clear the task `capture`.
- It **fails** only when a person must act: the task log says why and what to do. Then start it again.
"""

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.job_operator import CaptureRedoOperator

with lifecycle_dag("capture_redo", __doc__, "prefix", max_active_runs=1000) as dag:
    CaptureRedoOperator(task_id="capture")
