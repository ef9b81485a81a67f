"""# Fail over to a slave

`check` lists whether the slave could take over now: its state, how far it is behind, when it was last verified, and how
its definitions differ from the master's, each with what a failover does about it or the statement that a person runs.
Nothing is changed, but that the master's definitions are kept on the slave, outside of Airflow.
"""

from sluice.orchestration.forms import failover_fields, lifecycle_dag
from sluice.orchestration.steps_failover import check

with lifecycle_dag("failover", __doc__, params=failover_fields()) as dag:
    check()
