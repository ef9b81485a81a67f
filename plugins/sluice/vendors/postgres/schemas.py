"""Definitions of tables of a PostgreSQL database (`sluice.database.schema.Schemas`)."""

# ruff: noqa: F401 (what is imported here is offered)

from sluice.vendors.postgres.catalog import locked
from sluice.vendors.postgres.comments import read as comments
from sluice.vendors.postgres.domains import checks as domain_checks
from sluice.vendors.postgres.domains import lacking as domain_checks_lacking
from sluice.vendors.postgres.sequences import free as free_sequences
from sluice.vendors.postgres.sequences import read as sequences
from sluice.vendors.postgres.target.constraints import constraints, indexes, lacking, surplus
from sluice.vendors.postgres.target.tables import define as tables
from sluice.vendors.postgres.types import collations
from sluice.vendors.postgres.types import needed as types
from sluice.vendors.postgres.views import read as views
