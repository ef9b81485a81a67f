"""# Reconcile the replicated tables with the configuration

Compares the tables in the configuration with TABLES on the **master**. New ones are added with their
triggers, changed ones are altered, broken triggers are made again, and tables that are no longer
configured are **removed with their triggers**.

The task `show_plan` prints all of it before anything is done. Tables on the slaves stay as they are:
a table that was added reaches a slave with its next `initial_update`.
"""

from airflow.sdk import chain

from sluice.orchestration.forms import lifecycle_dag
from sluice.orchestration.steps_master import check, reconcile, show_plan

with lifecycle_dag("reconcile_tables", __doc__, "prefix") as dag:
    chain(check(), show_plan(), reconcile())
