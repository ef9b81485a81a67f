"""# Remove the first transaction of a slave's queue

For a slave whose apply cannot go on because of one transaction. Its gate must be closed, by the stopped apply or by a
person (DAG `gate`).

The tables that the transaction changes become **inconsistent**: their changes are left out until they are loaded again
(DAG `initial_update` with **tables**). All other tables go on as soon as the gate is open. The log says which tables
these are, and how many changes of each were left out.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_master import check_lightly
from sluice.airflow.steps_removal import remove_first

with lifecycle_dag("remove_transaction", __doc__, "prefix", "slave", "reason") as dag:
    chain(check_lightly(), remove_first())
