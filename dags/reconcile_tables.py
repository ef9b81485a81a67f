"""# Reconcile the replicated tables with the configuration

Compares the tables in the configuration with TABLES on the **master**. It adds new tables with their triggers, alters
changed ones, creates broken triggers again, and **removes** tables that are no longer configured **with their
triggers**.

The task `show_plan` prints the plan before anything is done, and for a new table how many rows the slaves lack. Tables
of the slaves stay as they are: each slave leaves out changes of the new table until it is loaded there.

The task `load_new_tables` starts an `initial_update` of just these tables for every slave that is NORMAL: a run for
each slave, named after the pair. If the configuration of a slave says `new_tables: wait`, the log of `new_tables` says
what to start by hand. A table without rows needs no load.

Tables under **debug** get a line in DEBUG_TABLE for each of their statements, for an hour.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.new_tables import load_new_tables, new_tables
from sluice.airflow.steps_master import check, note_debugged, reconcile, show_plan

with lifecycle_dag("reconcile_tables", __doc__, "prefix", "debug") as dag:
    joined = new_tables()
    chain(check(), note_debugged(), show_plan(), reconcile(), joined, load_new_tables(joined))
