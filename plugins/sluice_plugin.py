"""What Airflow learns of Sluice besides its DAGs."""

from airflow.plugins_manager import AirflowPlugin


class SluicePlugin(AirflowPlugin):  # type: ignore[misc]
    """Nothing yet beyond the name: the monitor and its links register here."""

    name = "sluice"
