"""# Initial update of a slave

Starts, or restarts, a replication: makes the **slave** equal to the master while both are in use, and
ends with the slave in state **NORMAL** and the apply running. Other slaves do not notice.

| task | does | state |
|---|---|---|
| `check` | reads the configuration, reaches all places, proves the privileges of both accounts | as it was |
| `install_resources` | installs what the master lacks; what is there is not touched | |
| `reconcile` | registers the configured tables, with their triggers; removes others | |
| `new_tables` | starts loads of tables that join, for other slaves; at the end `remaining_tables` for this one | |
| `begin` | takes the slave over, closes its gate | INITIAL |
| `create_tables` | makes the slave's tables, or empties them | |
| `plan` | takes the start position, plans blocks, opens the gate | TRANSITION |
| `make_folder` | transfer by files: makes the folder | |
| `ensure_apply` | starts `cdc_apply` for the pair unless it runs | |
| `load` | reads and stores the blocks, in parallel, while changes are applied; or writes them to files | |
| `approve` | transfer by files: waits until a person has carried the folder to the slave, then checks it | |
| `import_files` | transfer by files: stores the blocks | |
| `await_normal` | waits until the apply has passed every block | NORMAL |
| `finish` | makes indexes and foreign keys | |
| `share`, `each_slave` | several slaves: after `load` each has a run of its own, which this one waits for | |
| `settle` | after a failure or a cancel: stops the load, says why | INCONSISTENT |

With **tables**, **where** or **keys** only that part is loaded, or loaded again, into a slave that stays NORMAL, while
all else of it replicates on; a cancel leaves only these tables inconsistent. A part that cannot be loaded alone ends
the run before anything is changed.

To **cancel**, mark the run as failed, at any time. Outages are waited for. Blocks that are stored are
not read again after one.

For **several slaves** (`dr1,dr2`) the master is read once; each then has a run of its own. A slave that cannot be
reached is waited for.
"""

from airflow.sdk import chain

from sluice.airflow.apply_start import EnsureApply
from sluice.airflow.approval import ApproveTransfer
from sluice.airflow.await_normal import AwaitNormal
from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.job_operator import ImportOperator, LoadOperator
from sluice.airflow.multi_slave import each_slave, share
from sluice.airflow.new_tables import load_new_tables, new_tables, remaining_tables
from sluice.airflow.steps_master import check, install_resources, reconcile
from sluice.airflow.steps_update import begin, create_tables, finish, make_folder, plan, settle

FORM = ("prefix", "slave", "transfer", "location", "read", "tables", "where", "key_from", "key_to")

with lifecycle_dag("initial_update", __doc__, *FORM, several_slaves=True) as dag:
    load, over = LoadOperator(task_id="load"), settle()
    reconciled, finished = reconcile(), finish()
    prepared = [check(), install_resources(), reconciled, begin(), create_tables(), plan(), make_folder()]
    loaded = [load, ApproveTransfer(task_id="approve"), ImportOperator(task_id="import_files")]
    normal = AwaitNormal(task_id="await_normal", trigger_rule="none_failed")
    chain(*prepared, EnsureApply(task_id="ensure_apply"), *loaded, normal, finished, over)
    chain(reconciled, joined := new_tables(), load_new_tables(joined), over)
    chain(finished, rest := remaining_tables(), load_new_tables(rest, "load_remaining_tables"), over)
    chain(load, shared := share(), each_slave(shared), over)
