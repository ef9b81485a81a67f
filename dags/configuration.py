"""Lists mistakes of the configuration files in Airflow's import errors: file, line, key, remedy.

It defines no DAG. Files without mistakes work all the same.
"""

# Airflow looks only into files that name both airflow and dag.
from sluice.airflow.forms import survey
from sluice.configuration.mistakes import ConfigError

_, mistakes = survey()
if mistakes:
    raise ConfigError(mistakes)
