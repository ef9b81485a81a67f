"""# Hold a slave back

For maintenance, for example. Changes wait in ITEMS on the master: nothing is lost, and nothing needs to be stopped.

- `show` prints who keeps the slave's gate closed, since when, and why.
- `close` closes it. Once the task has succeeded, nothing is applied to the slave. No restart of Redis, Airflow or the
  apply opens it.
- `open` removes that closure. Other closures stay: an initial update removes its own when it is done, a failed apply
  when it starts again.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_gate import decide
from sluice.airflow.steps_master import check_lightly

with lifecycle_dag("gate", __doc__, "prefix", "slave", "action", "reason") as dag:
    chain(check_lightly(), decide())
