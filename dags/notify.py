"""# Send a test notice

Sends a test notice through each notifier that `notify` of the replication's configuration names. The run fails if one
of them does not take it, and its log says why. Nothing else is changed.
"""

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.notify import send_test

with lifecycle_dag("notify", __doc__, "prefix") as dag:
    send_test()
