"""What a failover needs from a PostgreSQL database (`sluice.database.failover.FailoverSupport`)."""

# ruff: noqa: F401 (what is imported here is offered)

from sluice.vendors.postgres.failover import (
    FailoverStore,
    changed_since,
    definitions,
    follow,
    make,
    rights_lacking,
    sequence_values,
    server_time,
    sessions_of,
    set_sequence,
    sheet,
    undo,
    validate_constraints,
)
from sluice.vendors.postgres.source.write_guard import Guard

PAST_TRIGGERS = "as a session with session_replication_role = replica does"
