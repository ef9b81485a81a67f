"""What a PostgreSQL server or an account on it lacks (`sluice.database.preflight.Preflight`)."""

# ruff: noqa: F401 (what is imported here is offered)

from sluice.vendors.postgres.lacks import of_refusal
from sluice.vendors.postgres.source.lacks_master import find as of_master
from sluice.vendors.postgres.source.lacks_master import of_sequences as sequences_of_master
from sluice.vendors.postgres.target.lacks_slave import find as of_slave
from sluice.vendors.postgres.target.lacks_slave import of_sequences as sequences_of_slave
from sluice.vendors.postgres.target.lacks_slave import wanted
