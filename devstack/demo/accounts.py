"""Who is who in the demo's databases. None of them is a superuser."""

from devstack.services import DATABASE, ROLE
from sluice.configuration.model import DEFAULT_SCHEMA

__all__ = ["ACCOUNT", "APPLICATION", "DATABASE", "OWNER", "PREFIX", "SCHEMA"]

PREFIX = "DEMO_"
SCHEMA = DEFAULT_SCHEMA
"""Where the replication's resources live, on the master and on the slaves."""

ACCOUNT = ROLE
"""The role in Airflow's connections: owns Sluice's resources alone on the master, the replicated tables on a slave."""

OWNER = "shop"
"""Owns the master's tables; the traffic runs as this role."""

APPLICATION = "sluice demo"
"""`application_name` of the demo's own sessions begins with it."""
