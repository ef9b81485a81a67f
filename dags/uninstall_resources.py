"""# Uninstall a prefix

Removes everything that Sluice has created for a replication, in its databases and in Redis:

- on the **master** triggers, functions, ITEMS with all changes that wait there, TABLES and the rest of DbResources,
- on each **slave** CHECKPOINT, BLOCKS and REJECTS. The replicated tables and their rows stay, on all sides.

After a failover each database loses what it has as a master and as a slave; a database that became read-only accepts
writes again.

`check_removal` fails if an apply of a slave is still running, or if the prefix was not typed into **confirm**. The file
of the replication stays; remove it, too, or `housekeeping` keeps logging that nothing is installed. `initial_update`
installs everything again, and loads every row again.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_removal import check_removal, forget, leave_slaves, uninstall

with lifecycle_dag("uninstall_resources", __doc__, "prefix", "confirm") as dag:
    chain(check_removal(), leave_slaves(), uninstall(), forget())
