"""What a failover needs of a PostgreSQL database (`sluice.database.failover.FailoverSupport`)."""

# ruff: noqa: F401 (what is imported here is offered)

from sluice.vendors.postgres.failover import (
    FailoverStore,
    changed_since,
    clock,
    definitions,
    follow,
    make,
    rights_lacking,
    sequence_values,
    sessions_of,
    set_sequence,
    sheet,
    take_back,
    validate,
)
from sluice.vendors.postgres.source.write_guard import Guard

PAST_TRIGGERS = "as a session with session_replication_role = replica does"
