"""Airflow's bundle of Sluice's DAGs: a line of Airflow's configuration names it, wherever the package lies."""

from airflow.dag_processing.bundles.local import LocalDagBundle

from sluice.paths import DAGS


class SluiceDags(LocalDagBundle):
    """The DAGs of this installation of Sluice."""

    def __init__(self, **settings: object) -> None:
        super().__init__(path=str(DAGS), **settings)
