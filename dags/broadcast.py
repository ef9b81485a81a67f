"""# Ask all databases

Asks the master and its slaves one query, all at the same position: each slave's answer is compared with the master's
answer at that moment, row by row, while everything is in use.

`queue` has the master answer, and queues the query among the changes. `collect` waits for the slaves: each answers when
it reaches that place, and is **equal**, **different**, **failed** or **waiting**. A slave that is held back or
unreachable answers later: **waiting** is no failure.

The query can only read, but it reads everything that Sluice's accounts may read. Therefore the configuration must allow
it: `broadcast: true`.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_broadcast import collect, queue
from sluice.airflow.steps_master import check_lightly

with lifecycle_dag("broadcast", __doc__, "prefix", "statement", "slaves", "seconds") as dag:
    chain(check_lightly(), queue(), collect())
