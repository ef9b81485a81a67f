"""# Install the DbResources of a replication

Brings ITEMS, TABLES and all other resources of the prefix, on its **master**, to the version of this release. A second
run changes nothing and disturbs nobody.

`initial_update` does this too; run it alone to prepare a master, or after an upgrade of Sluice.
"""

from airflow.sdk import chain

from sluice.airflow.forms import lifecycle_dag
from sluice.airflow.steps_master import check, install_resources

with lifecycle_dag("install_resources", __doc__, "prefix") as dag:
    chain(check(), install_resources())
