"""# Uninstall a prefix

Takes back what Sluice has made for a replication, in its databases and in Redis:

- on the **master** triggers, functions, ITEMS with all changes that wait there, TABLES and the rest of DbResources,
- on each **slave** CHECKPOINT, BLOCKS and REJECTS. The replicated tables and their rows stay, on all sides.

After a failover each database is cleared of what it has as a master and as a slave; one that became read-only takes
writes again.

`check` ends the run where an apply of a slave still runs, or the prefix was not typed into **confirm**. The file of
the replication stays; remove it, too, or `housekeeping` goes on telling that nothing is installed. `initial_update`
installs everything again, and loads every row again.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_removal import check_removal, forget, leave_slaves, uninstall

with lifecycle_dag("uninstall_resources", __doc__, "prefix", "confirm") as dag:
    chain(check_removal(), leave_slaves(), uninstall(), forget())
