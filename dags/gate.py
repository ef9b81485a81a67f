"""# Hold a slave back

For its maintenance, say. Changes wait in ITEMS on the master: nothing is lost, and nothing needs to be stopped.

- `show` prints who keeps the slave's gate closed, since when, and why.
- `close` closes it. When the task has succeeded nothing is being applied to the slave any more. No restart opens
  it, of Redis, Airflow or the apply.
- `open` takes that back. A gate that others keep closed, too, stays closed: an initial update opens it when it
  is through, and a failed apply when it is started again.
"""

from airflow.sdk import chain

from sluice.airflow.forms import gate_fields, lifecycle_dag
from sluice.airflow.steps_gate import decide
from sluice.airflow.steps_master import check_lightly

with lifecycle_dag("gate", __doc__, params=gate_fields()) as dag:
    chain(check_lightly(), decide())
