"""# Ask all databases

Asks one query of the master and of its slaves, all at the same position: what a slave answers is compared with what the
master had at that moment, row by row, while everything is in use.

`queue` lets the master answer, and places the query among the changes. `collect` waits for the slaves, each of which
answers when it has come to that place, and says of each: **equal**, **different**, **failed** or **waiting**. A
slave that is held back or out of reach answers later: **waiting** is no failure.

The query can only read. It reads what Sluice's accounts may read, so the configuration must allow it:
`broadcast: true`.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_broadcast import collect, queue
from sluice.airflow.steps_master import check_lightly

with lifecycle_dag("broadcast", __doc__, "prefix", "statement", "slaves", "seconds") as dag:
    chain(check_lightly(), queue(), collect())
