"""# Housekeeping

Every ten minutes, for every replication:

- **`purge_items`** deletes changes from ITEMS on the master once every slave has applied them. A slave
  that cannot be reached holds the purge, and the task log says which one.
- **`check_structure`** finds tables with changed columns on masters without event triggers.
- **`keep_definitions`** stores the master's definitions on each slave, for a failover without the master.
- **`compare_definitions`** finds tables that are not captured, indexes, constraints and checks of domains
  that a slave lacks, and constraints that only a slave has. Its log says what to run.
- **`tell_people`** sends notices about what needs a person, through `notify` of the configuration.

- **`forget_rejects`** removes settled changes from REJECTS, **`clear_files`** removes folders of carried files
  for which no slave waits: `housekeeping` of the configuration says after how many days.

And on this Airflow: **`end_orphans`** ends jobs whose run has ended, **`forget_jobs`** removes records and
logs of jobs that ended a week ago, **`forget_reports`** removes old reports of `resync` and of rehearsals.
**`unwatched_applies`** finds applies whose run is unknown here, as after a loss of Airflow's metadata;
**`adopt_applies`** gives each a new run.
"""

from airflow.sdk import chain

from sluice.airflow.apply_start import EnsureApply
from sluice.airflow.forms import LAST, lifecycle_dag
from sluice.airflow.step import RETRY
from sluice.airflow.steps_housekeeping import (
    check_structure,
    clear_files,
    compare_definitions,
    configured,
    end_orphans,
    forget_jobs,
    forget_rejects,
    forget_reports,
    keep_definitions,
    purge_items,
    tell_people,
    unwatched_applies,
)

with lifecycle_dag("housekeeping", __doc__, priority=LAST, schedule="*/10 * * * *", max_active_runs=1) as dag:
    groups = configured()
    purge_items.expand(prefixes=groups)
    check_structure.expand(prefixes=groups)
    keep_definitions.expand(prefixes=groups)
    forget_rejects.expand(prefixes=groups)
    clear_files.expand(prefixes=groups)
    chain(compare_definitions.expand(prefixes=groups), tell_people.expand(prefixes=groups))
    chain(end_orphans(), forget_jobs())
    EnsureApply.partial(task_id="adopt_applies", **RETRY).expand_kwargs(unwatched_applies())
    forget_reports()
