"""# Remove what waits for a slave

**first** removes one transaction, for a slave whose apply cannot continue because of it. Its gate must be closed, by
the stopped apply or by a person (DAG `gate`). The tables that the transaction changes become **inconsistent**: their
changes are left out until they are loaded again (DAG `initial_update` with **tables**). All other tables continue as
soon as the gate is open. The log says which tables these are, and how many changes of each were left out.

**all** clears everything that waits for the slave. It becomes **INCONSISTENT**, whether its apply runs or not, and
needs a new initial update; the purge of ITEMS no longer waits for it. The log says how many changes were lost to it.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_master import check_lightly
from sluice.airflow.steps_removal import remove

with lifecycle_dag("remove_transaction", __doc__, "prefix", "slave", "which", "reason") as dag:
    chain(check_lightly(), remove())
