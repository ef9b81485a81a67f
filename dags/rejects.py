"""# Changes that were set aside

With `on_conflict: reject` a change that conflicts with the slave's rows goes to REJECTS on the **slave**, with both
images, the slave's row, and the reason. Here a person decides about them:

- `list` prints the open ones, oldest first.
- `apply` asks the running apply to apply those of `ids` after all. It does so only if the row is as it was on the
  master before the change, and no newer change of the row was applied; otherwise the task fails and says why. `force`
  overwrites the row with the change's new image in any case.
- `drop` settles those of `ids` without applying them.

`ids` are numbers and ranges, such as `2-5, 9`, or `all`.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_master import check_lightly
from sluice.airflow.steps_rejects import decide

with lifecycle_dag("rejects", __doc__, "prefix", "slave", "action", "ids", "force") as dag:
    chain(check_lightly(), decide())
