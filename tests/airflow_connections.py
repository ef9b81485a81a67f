"""Databases of a test as Airflow's connections."""

import json

import pytest

from sluice.model.connection import ConnectionInfo


def connect_airflow(monkeypatch: pytest.MonkeyPatch, conn_id: str, info: ConnectionInfo) -> None:
    """Adds `conn_id` to Airflow's connections for this test; it leads to the database `info`."""
    values = {
        "conn_type": info.vendor, "host": info.host, "port": info.port, "schema": info.database,
        "login": info.user, "password": info.password,
    }  # fmt: skip
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(values))
