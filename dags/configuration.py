"""Says in Airflow's list of import errors what is wrong in the configuration files: file, line, key, remedy.

It defines no DAG. Files without mistakes work on, whatever this says.
"""

# Airflow looks only into files that name both airflow and dag.
from sluice.airflow.forms import survey
from sluice.config import ConfigError

_, mistakes = survey()
if mistakes:
    raise ConfigError(mistakes)
