"""# Reconcile the replicated tables with the configuration

Compares the tables in the configuration with TABLES on the **master**. New ones are added with their
triggers, changed ones are altered, broken triggers are made again, and tables that are no longer
configured are **removed with their triggers**.

The task `show_plan` prints all of it before anything is done, and of a table that joins how many rows the slaves
lack. Their own tables stay as they are: changes of the new one are left out on each slave until it is loaded there.

The task `load_new_tables` starts an `initial_update` of just these tables for every slave that is NORMAL, in a run of
its own that bears the pair's name. With `new_tables: wait` in the configuration of a slave the log of `new_tables` says
what to start by hand instead. A table that has no rows when it joins needs no load.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.new_tables import load_new_tables, new_tables
from sluice.airflow.steps_master import check, reconcile, show_plan

with lifecycle_dag("reconcile_tables", __doc__, "prefix") as dag:
    joined = new_tables()
    chain(check(), show_plan(), reconcile(), joined, load_new_tables(joined))
