"""Names in the demo's databases. None of the roles is a superuser."""

from devstack.services import DATABASE, ROLE
from sluice.configuration.model import DEFAULT_SCHEMA

__all__ = ["ACCOUNT", "APPLICATION", "DATABASE", "OWNER", "PREFIX", "SCHEMA"]

PREFIX = "DEMO_"
SCHEMA = DEFAULT_SCHEMA
"""The schema of the replication's resources, on the master and on the slaves."""

ACCOUNT = ROLE
"""The role in Airflow's connections. It owns Sluice's resources on the master, and the replicated tables on a slave."""

OWNER = "shop"
"""The role that owns the master's tables and runs the traffic."""

APPLICATION = "sluice demo"
"""The prefix of `application_name` of the demo's own sessions."""
