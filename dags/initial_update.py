"""# Initial update of a slave

Starts or restarts a replication: makes the **slave** equal to the master while both are in use, and ends with the slave
in state **NORMAL** and the apply running. Other slaves are not affected.

| task | does | state |
|---|---|---|
| `check` | reads the configuration, reaches all databases, proves the privileges of both accounts | unchanged |
| `install_resources` | installs what the master lacks; existing resources stay as they are | |
| `reconcile` | registers the configured tables, with their triggers; removes others | |
| `new_tables` | starts loads of new tables for other slaves; at the end `remaining_tables` does so for this one | |
| `begin` | takes over the slave, closes its gate | INITIAL |
| `create_tables` | creates the slave's tables, or empties them | |
| `plan` | takes the start position, plans blocks, opens the gate | TRANSITION |
| `make_folder` | transfer by files: creates the folder | |
| `ensure_apply` | starts `cdc_apply` for the pair unless it runs | |
| `load` | reads and stores the blocks, in parallel, while changes are applied; or writes them to files | |
| `await_files`, `approve` | transfer by files: wait until the folder is at the slave, and for a person's approval | |
| `import_files` | transfer by files: stores the blocks | |
| `await_normal` | waits until the apply has passed every block | NORMAL |
| `finish` | creates indexes and foreign keys | |
| `share`, `each_slave` | several slaves: after `load` each continues in its own run; this run waits for them | |
| `settle` | after a failure or a cancel: stops the load, logs the reason | INCONSISTENT |

With **tables**, **where** or **keys** only that part is loaded, into a slave that stays NORMAL while its other tables
replicate; a cancel leaves only these tables inconsistent. If the part cannot be loaded alone, the run fails before it
changes anything.

To **cancel**, mark the run as failed, at any time. The run waits for the end of an outage, and then does not read
stored blocks again.

For **several slaves** (`dr1,dr2`) the master is read once; then each slave has its own run, which waits for a
slave that cannot be reached.
"""

from airflow.sdk import chain

from sluice.airflow.apply_start import EnsureApply
from sluice.airflow.approval import ARRIVAL_TASK, ApproveTransfer, AwaitFiles
from sluice.airflow.await_normal import AwaitNormal
from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.job_operator import ImportOperator, LoadOperator
from sluice.airflow.multi_slave import each_slave, share
from sluice.airflow.new_tables import load_new_tables, new_tables, remaining_tables
from sluice.airflow.steps_master import check, install_resources, reconcile
from sluice.airflow.steps_update import begin, create_tables, finish, make_folder, plan, settle

FORM = ("prefix", "slave", "transfer", "location", "read", "tables", "where", "key_from", "key_to")

with lifecycle_dag("initial_update", __doc__, *FORM) as dag:
    load, approve, over = LoadOperator(task_id="load"), ApproveTransfer(task_id="approve"), settle()
    reconciled, finished = reconcile(), finish()
    prepared = [check(), install_resources(), reconciled, begin(), create_tables(), plan(), make_folder()]
    normal = AwaitNormal(task_id="await_normal", trigger_rule="none_failed")
    loaded = [load, AwaitFiles(task_id=ARRIVAL_TASK), approve, ImportOperator(task_id="import_files")]
    chain(*prepared, EnsureApply(task_id="ensure_apply"), *loaded, normal, finished, over)
    chain(reconciled, joined := new_tables(), load_new_tables(joined), over)
    chain(finished, rest := remaining_tables(), load_new_tables(rest, "load_remaining_tables"), over)
    chain(load, shared := share(), each_slave(shared), over)
