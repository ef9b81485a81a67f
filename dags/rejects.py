"""# Changes that were set aside

With `on_conflict: reject` a change that does not fit the slave's rows goes to REJECTS on the **slave**,
with both images, what the slave held, and the reason. Here a person decides about them:

- `list` prints those that nobody has settled, oldest first.
- `apply` asks the running apply to apply those of `ids` after all. It does so only where the row is what
  the master had before the change and no newer change of the row was applied since; else the task fails
  and says what is in the way. `force` makes the row what the change made of it, whatever it holds.
- `drop` settles those of `ids` without applying them.

`ids` are numbers and ranges, such as `2-5, 9`, or `all`.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_master import check_lightly
from sluice.airflow.steps_rejects import decide

with lifecycle_dag("rejects", __doc__, "prefix", "slave", "action", "ids", "force") as dag:
    chain(check_lightly(), decide())
