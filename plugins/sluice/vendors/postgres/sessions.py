"""Sessions on PostgreSQL for services (`sluice.database.session.Sessions`)."""

from sluice.vendors.postgres.connection import connect, end_with_client
from sluice.vendors.postgres.pulse import begin_reading, cut, end_when_idle, interrupt, waiters
from sluice.vendors.postgres.session import (
    allow_silence,
    be_durable,
    begin_applying,
    limit_lock_waits,
    may_silence,
    named_lock,
    origin,
)

__all__ = [
    "allow_silence",
    "be_durable",
    "begin_applying",
    "begin_reading",
    "connect",
    "cut",
    "end_when_idle",
    "end_with_client",
    "interrupt",
    "limit_lock_waits",
    "may_silence",
    "named_lock",
    "origin",
    "waiters",
]
